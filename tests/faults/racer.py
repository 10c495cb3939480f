"""One of two processes that run the same command at the same moment."""

from __future__ import annotations

import os
import time
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import reblock
from reblock.errors import ReblockError


class Told(NamedTuple):
    """What became of one of two runs."""

    outcome: str
    seconds: float
    message: str


def racer(connection: Connection, barrier: Any, over: Any) -> None:
    """Run what is asked for, at the same moment as the other, until nothing is asked."""
    while asked := connection.recv():
        folder, target, hold = asked
        os.chdir(folder)
        job = reblock.plan("x.npy", target, memory="64KiB", chunks=None if target == "y.npy" else "8,8,8")
        barrier.wait(60)
        began, outcome, message = time.monotonic(), "done", ""
        try:
            # Whoever proceeds holds the target until the other has given up.
            report = reblock.run(job, progress=(lambda *_: over.wait(20)) if hold else None)
            message = "; ".join(report.notes)
        except ReblockError as error:
            outcome, message = type(error).__name__, str(error)
        seconds = time.monotonic() - began
        over.set()
        connection.send(Told(outcome, seconds, message))
