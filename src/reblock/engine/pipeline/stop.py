"""Stop: tells the threads of a pass whether they may begin anything new, and if not, why.

A box is in flight while it is encoded or written. A cancelled run finishes the boxes in flight and begins nothing else:
boxes that are queued, or filled in part, are dropped, and the next attempt reads them again. A failed run finishes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Lock

from reblock.engine.memory.budget import Stopped
from reblock.engine.watch import Cancelled


class Stop:
    """The stop signal that all threads of a pass share."""

    def __init__(self, cancelled: Cancelled, wake: Callable[[], None]) -> None:
        """`wake` wakes threads that wait for memory, because none will be freed any more."""
        self.error: BaseException | None = None
        """The reason; KeyboardInterrupt where the run is cancelled."""
        self.cancelled = False
        """Whether the run was cancelled by its caller, and not by an exception."""
        self._cancelled, self._wake = cancelled, wake
        self._event, self._lock = Event(), Lock()

    def __call__(self) -> bool:
        """Whether nothing new may begin. Every thread checks before each job: more jobs may be queued."""
        if not self._event.is_set() and self._cancelled():
            self.cancelled = True
            self.fail(KeyboardInterrupt())
        return self._event.is_set()

    def check(self) -> None:
        """Raise Stopped if nothing new may begin."""
        if self():
            raise Stopped

    def fail(self, error: BaseException) -> None:
        """Stop because of an error; the first one counts. One that comes after the run was cancelled does not.

        Storage that fails is given up sooner then, which must not look like the reason.
        """
        if self.error is None and not isinstance(error, KeyboardInterrupt) and self._cancelled():
            self.cancelled, error = True, KeyboardInterrupt()
        with self._lock:
            if self.error is None:
                self.error = error
        self._event.set()
        self._wake()

    @property
    def failed(self) -> bool:
        """Whether even the boxes in flight are dropped."""
        return self.error is not None and not isinstance(self.error, KeyboardInterrupt)
