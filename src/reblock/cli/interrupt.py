"""Interrupts: Ctrl-C as a question that work asks when it can stop, not as an exception out of nowhere.

An exception in the middle of one of Python's own locks leaves it locked, and the program hangs. So while work with
threads goes on, the first Ctrl-C only sets a flag; the second says so; the third ends the process as it is.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Something to ask whether Ctrl-C was pressed, while it does nothing else."""
    pressed = 0

    def press(_number: int, _frame: FrameType | None) -> None:
        nonlocal pressed
        pressed += 1
        if pressed == 2:
            os.write(2, b"reblock: finishing what is in flight; once more leaves the unfinished target behind\n")
            signal.signal(signal.SIGINT, signal.SIG_DFL)

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
