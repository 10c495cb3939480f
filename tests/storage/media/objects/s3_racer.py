"""One of two processes that write the same target on a store at the same moment."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection
from typing import Any

import reblock
from reblock.errors import ReblockError
from reblock.storage.media.registry import connect
from s3_server import BUCKET


def race_on_store(connection: Connection, barrier: Any, over: Any, options: dict[str, str]) -> None:
    """Run what is asked for until nothing is asked, and tell outcome, message and seconds."""
    connect(f"s3://{BUCKET}", options)
    while asked := connection.recv():
        source, target, hold = asked
        job = reblock.plan(source, target, memory="64KiB", chunks="8,8,8")
        barrier.wait(60)
        began, outcome, message = time.monotonic(), "done", ""
        try:
            # The run that proceeds holds the target until the other one has given up.
            report = reblock.run(job, progress=(lambda *_: over.wait(20)) if hold else None)
            message = "; ".join(report.notes)
        except ReblockError as error:
            outcome, message = type(error).__name__, str(error)
        over.set()
        connection.send((outcome, message, time.monotonic() - began))
