"""The tether of a worker: tells it that its run is over, was stopped, or was taken over by another process.

::

    caller                                             worker, several times a second
    ──────                                             ──────────────────────────────
    publishes or discards the folder              →    the folder is gone: whatever is done now is in vain
    removes its fence (a successor does, too)     →    the fence is gone: it ends the boxes in flight
    notifies its crew (`halt`, or an event)       →    the same, also where there is no fence

A caller that is stopped waits for its workers before it releases its lock, so none of them writes later. If it is
killed, the fence is found and removed by the next process that takes the lock, and that one waits as well.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from enum import Enum
from threading import Event, Timer, current_thread, main_thread
from time import monotonic
from types import FrameType

from reblock.errors import DiskError
from reblock.model import Medium

#: How often a worker checks that the folder it writes in, and the fence, still exist.
TETHER_SECONDS = 0.2
#: How long a worker process lives after SIGTERM, to return what it has finished.
_END_SECONDS = 3.0

#: Runs whose workers were told to stop, in this process.
_halted: set[str] = set()
#: Functions that say whether all workers of this process were told to stop.
_signals: list[Callable[[], bool]] = []


def halt(run: str) -> None:
    """Stop the shares of a run in this process."""
    _halted.add(run)


def listen_to(told: Callable[[], bool]) -> None:
    """From now on, stop all shares in this process once a function returns true."""
    _signals.append(told)


def shield() -> None:
    """Let a worker process end its boxes if a terminal or a batch system signals all processes of a run.

    The process that began the run stops the others. One that gets SIGTERM ends soon after that in any case.
    """
    if current_thread() is not main_thread():
        return
    terminated = Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        terminated.set()
        timer = Timer(_END_SECONDS, os._exit, (1,))
        timer.daemon = True
        timer.start()

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, end)
    listen_to(terminated.is_set)


class End(Enum):
    """Why a worker stops."""

    GONE = "gone"
    """The folder was published or discarded, or was never seen from here."""
    HALTED = "halted"
    """The run was stopped, or another process has taken over."""


class Tether:
    """Says whether a worker is to stop."""

    def __init__(self, medium: Medium, root: str, identity: int | None, fence: str | None, run: str) -> None:
        """`identity` is that of the folder `root`; None = unknown."""
        self._medium, self._root, self._identity, self._fence, self._run = medium, root, identity, fence, run
        self._next = 0.0
        self.end: End | None = None
        """Why it is to stop; None = it is not."""

    def __call__(self) -> bool:
        if self.end is None and (self._run in _halted or any(told() for told in _signals)):
            self.end = End.HALTED
        if self.end is None and (now := monotonic()) >= self._next:
            self._next = now + TETHER_SECONDS
            self.end = self._look()
        return self.end is not None

    def _look(self) -> End | None:
        if self._identity is not None:
            try:
                if self._medium.status(self._root).identity != self._identity:
                    return End.GONE
            except (FileNotFoundError, DiskError):
                return End.GONE
        if self._fence is not None:
            try:
                # A network file system asks its server when a file is opened; a status may be an old one.
                self._medium.reader(self._fence).close()
            except FileNotFoundError:
                return End.HALTED
            except DiskError as error:
                return End.HALTED if error.errno == errno.ESTALE else None
        return None
