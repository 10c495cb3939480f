"""Jobs and results that the tests of `reblock bench peers` share."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import import_module
from typing import Any

from reblock.bench.peers import run as peers_run
from reblock.bench.peers.contenders import CONTENDERS
from reblock.bench.peers.results import Entry
from reblock.bench.peers.run import RaceRun
from reblock.bench.peers.scripts.job import PeerJob
from reblock.bench.peers.workloads import WORKLOADS, Workload

BY_NAME = {workload.name: workload for workload in WORKLOADS}
#: Contenders that run in our own environment.
HERE = {contender.name: contender for contender in CONTENDERS if not contender.packages}


def job_of(workload: Workload, **changes: Any) -> PeerJob:
    return replace(peers_run._job(workload, "test", "", "", ""), **changes)


def small(**changes: Any) -> PeerJob:
    workload = replace(
        BY_NAME["W2"], shape=(6, 10, 8), source_chunks=(2, 10, 8), chunks=(6, 3, 4), memory_bytes=1 << 20
    )
    return job_of(workload, **changes)


def entry(name: str, *seconds: float, size: int = 100, correct: bool = True) -> Entry:
    """A contender with a warm-up run of 99 seconds and these timed runs."""
    reason = None if correct else "wrong"
    runs = [RaceRun(second, 7, 1.0, 0.5, size, correct, reason, "v1") for second in (99.0, *seconds)]
    return Entry(name, tuple(runs))


def no_sync() -> None:
    """Stands in for os.sync, which waits for all that anybody else writes; without it only times are wrong."""


def run_script_here(order_path: str, result_path: str, messages_path: str) -> None:
    """Run one script of a race in this process, without syncs, with its messages in a file."""
    os.sync = no_sync
    descriptor = os.open(messages_path, os.O_WRONLY)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    import_module("reblock.bench.peers.scripts.__main__").main(order_path, result_path)
