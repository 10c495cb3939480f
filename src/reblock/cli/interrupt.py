"""Interrupts: Ctrl-C as a question that work asks when it can stop, not as an exception out of nowhere.

An exception in the middle of one of Python's own locks leaves it locked, and the program hangs. So while work with
threads goes on, the first Ctrl-C only sets a flag, and what is in flight is finished; the second ends the process as
it is, which costs no more than a power loss would.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import current_thread, main_thread
from types import FrameType

_FIRST = b"reblock: finishing what is in flight; Ctrl-C once more stops at once\n"
_SECOND = b"reblock: stopped at once\n"
#: What a progress bar may have hidden.
_SHOW_CURSOR = b"\x1b[?25h"


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Something to ask whether Ctrl-C was pressed, while it does nothing else."""
    pressed = 0

    def press(_number: int, _frame: FrameType | None) -> None:
        nonlocal pressed
        pressed += 1
        with suppress(OSError):
            if pressed == 1:
                os.write(2, _FIRST)
                return
            os.write(2, (_SHOW_CURSOR if os.isatty(2) else b"") + _SECOND)
        if pressed > 1:
            os._exit(130)

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or current_thread() is not main_thread():
        # Ignored (a job in the background), or somebody else's.
        yield lambda: False
        return
    signal.signal(signal.SIGINT, press)
    try:
        yield lambda: pressed > 0
    finally:
        signal.signal(signal.SIGINT, before)
