"""Stop: whether the threads of a pass may begin something new, and why not.

In flight is what is being encoded or written at this moment. A run that is cancelled finishes that and begins nothing
else: boxes that are queued, or filled in part, are dropped, and the next attempt reads them again. A run that has
failed finishes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Lock

from reblock.engine.watch import Cancelled


class Stop:
    """One for all threads of a pass."""

    def __init__(self, cancelled: Cancelled, wake: Callable[[], None]) -> None:
        """`wake` is called once, to wake who waits for something that will not come any more."""
        self.error: BaseException | None = None
        """The reason; KeyboardInterrupt where the run is cancelled."""
        self.cancelled = False
        """Whether that is because somebody said so, and not an exception out of nowhere."""
        self._cancelled, self._wake = cancelled, wake
        self._event, self._lock = Event(), Lock()

    def __call__(self) -> bool:
        """Whether nothing new is begun. Every thread asks for itself, or it would begin what was queued before."""
        if not self._event.is_set() and self._cancelled():
            self.cancelled = True
            self.fail(KeyboardInterrupt())
        return self._event.is_set()

    def fail(self, error: BaseException) -> None:
        """Stop because of an error; the first one counts."""
        with self._lock:
            if self.error is None:
                self.error = error
        self._event.set()
        self._wake()

    @property
    def failed(self) -> bool:
        """Whether what is in flight is of no use either."""
        return self.error is not None and not isinstance(self.error, KeyboardInterrupt)
