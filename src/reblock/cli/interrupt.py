"""Signals that end the command cleanly: Ctrl-C, SIGTERM (`timeout`, SLURM) and SIGHUP (logout).

Most of a command's work can stop at any point, so signals raise KeyboardInterrupt. But an exception inside one of
Python's own locks leaves it locked, and the program hangs. So while threads work, signals only set a flag that the
threads check, and boxes in flight are finished.

A second Ctrl-C ends the process at once, which costs no more than a power loss. The other signals often come twice
(`timeout` sends its signal to the process and to its group), so only the first of them counts. A signal that was
ignored when the process began (`nohup`, a background job) stays ignored. A signal with a foreign handler keeps it.

Python handles a signal only between two steps of the program. A request to a server that does not answer is one long
step, so a thread of its own learns of each signal, too, and ends the process if such a request holds it up.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread, current_thread, main_thread
from types import FrameType

_FIRST = "reblock: finishing what is in flight ({})\n"
_CTRL_C = "Ctrl-C once more stops at once"
_SECOND = b"reblock: stopped at once\n"
_STUCK = b"reblock: error: interrupted; the server does not answer; the same command resumes a run\n"
#: How long a request may hold up the end of a process.
_GRACE_SECONDS, _LOOK_SECONDS = 5.0, 0.2
#: The module that knows of requests; without it, there are none.
_REQUESTS = "reblock.storage.media.patience"
#: Clears the progress line, which is redrawn below the message.
_CLEAR_LINE = b"\r\x1b[K"
#: Exit code of a command that was interrupted.
INTERRUPTED = 130
_NUMBERS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class _Listener:
    """A signal handler: the first signal raises an exception, or sets a flag."""

    def __init__(self, *, flag: bool, quiet: bool = False) -> None:
        self.heard = False
        self._flag, self._quiet = flag, quiet
        self._pressed = 0

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        self._pressed += number == signal.SIGINT
        if self._pressed > 1:
            _write(_SECOND)
            os._exit(INTERRUPTED)
        if self.heard:
            return
        self.heard = True
        if not self._flag:
            raise KeyboardInterrupt
        if not self._quiet:
            _write(_FIRST.format(_CTRL_C if self._pressed else signal.Signals(number).name).encode())

    def learn(self, other: _Listener) -> None:
        """Take over the signals that another listener has received, so that the next one is not the first."""
        self.heard |= other.heard
        self._pressed = max(self._pressed, other._pressed)


def _write(message: bytes) -> None:
    # After SIGHUP the terminal may be gone.
    with suppress(OSError):
        os.write(2, (_CLEAR_LINE if os.isatty(2) else b"") + message)


def _listen(listener: _Listener) -> dict[int, object]:
    """Install a listener, except for signals that are ignored or have a foreign handler; returns the old handlers."""
    before: dict[int, object] = {}
    if current_thread() is main_thread():
        for number in _NUMBERS:
            found = signal.getsignal(number)
            if found in (signal.SIG_DFL, signal.default_int_handler) or isinstance(found, _Listener):
                before[number] = found
                signal.signal(number, listener)
    return before


def listen() -> None:
    """From now on, the first signal raises KeyboardInterrupt."""
    if _listen(_Listener(flag=False)):
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        Thread(target=_watch, args=(reading,), name="reblock-signals", daemon=True).start()


def _watch(descriptor: int) -> None:
    """After a signal, end the process if it waits for a request."""
    while not any(number in _NUMBERS for number in os.read(descriptor, 64)):
        pass
    began = time.monotonic()
    while True:
        time.sleep(_LOOK_SECONDS)
        requests = sys.modules.get(_REQUESTS)
        if requests is not None and requests.is_stuck(began, _GRACE_SECONDS):
            _write(_STUCK)
            os._exit(INTERRUPTED)


def ignore() -> None:
    """From now on, ignore these signals."""
    for number in _NUMBERS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def stoppable(*, quiet: bool = False) -> Iterator[Callable[[], bool]]:
    """Inside, signals only set a flag; yields a function that tells whether one has come."""
    listener = _Listener(flag=True, quiet=quiet)
    before = _listen(listener)
    try:
        yield lambda: listener.heard
    finally:
        for number, handler in before.items():
            if isinstance(handler, _Listener):
                handler.learn(listener)
            signal.signal(number, handler)  # type: ignore[arg-type]  # as `getsignal` gave it
