"""Signals that end the command in good order: Ctrl-C, SIGTERM (`timeout`, SLURM) and SIGHUP (logout).

Most of a command's work can be left at any point, so they raise KeyboardInterrupt. But an exception in the middle of
one of Python's own locks leaves it locked, and the program hangs. So while work with threads goes on, they only set a
flag that the work asks for, and what is in flight is finished.

A second Ctrl-C ends the process as it is, which costs no more than a power loss would. The others often come twice
(`timeout` sends its signal to the process and to its group), so only the first one of them counts. A signal that was
ignored when the process began (`nohup`, a job in the background) stays ignored, and so does one that somebody else
handles.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import current_thread, main_thread
from types import FrameType

_FIRST = "reblock: finishing what is in flight ({})\n"
_CTRL_C = "Ctrl-C once more stops at once"
_SECOND = b"reblock: stopped at once\n"
#: Where a line of progress may be, which is written again below the message.
_CLEAR_LINE = b"\r\x1b[K"
#: Exit code of a command that was interrupted.
INTERRUPTED = 130
_NUMBERS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class _Listener:
    """What is done about signals: the first is an exception, or sets a flag."""

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
        """What another one was told meanwhile counts here too: the same signal once more is not a first one."""
        self.heard |= other.heard
        self._pressed = max(self._pressed, other._pressed)


def _write(message: bytes) -> None:
    # A terminal that is gone is why SIGHUP comes.
    with suppress(OSError):
        os.write(2, (_CLEAR_LINE if os.isatty(2) else b"") + message)


def _listen(listener: _Listener) -> dict[int, object]:
    """Have a listener told of signals, but for those that are ignored or somebody else's; who was told before."""
    before: dict[int, object] = {}
    if current_thread() is main_thread():
        for number in _NUMBERS:
            found = signal.getsignal(number)
            if found in (signal.SIG_DFL, signal.default_int_handler) or isinstance(found, _Listener):
                before[number] = found
                signal.signal(number, listener)
    return before


def listen() -> None:
    """From now on, signals that end this process raise KeyboardInterrupt first."""
    _listen(_Listener(flag=False))


def ignore() -> None:
    """From now on no such signal matters."""
    for number in _NUMBERS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def stoppable(*, quiet: bool = False) -> Iterator[Callable[[], bool]]:
    """Something to ask whether such a signal has come, while it does nothing else."""
    listener = _Listener(flag=True, quiet=quiet)
    before = _listen(listener)
    try:
        yield lambda: listener.heard
    finally:
        for number, handler in before.items():
            if isinstance(handler, _Listener):
                handler.learn(listener)
            signal.signal(number, handler)  # type: ignore[arg-type]  # as `getsignal` gave it
