"""Members of a job array, all at once, killed at random moments and started again: the same target, published once."""

from __future__ import annotations

import multiprocessing
import os
import random
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

import reblock
from faults.member_process import work

MEMBERS = 4
ROUNDS = 20
DATA = np.random.default_rng(0).normal(size=(64, 96, 100)).astype("f4")
TARGETS: dict[str, dict[str, Any]] = {
    "y.zarr": {"chunks": (8, 16, 10), "codec": "zstd:9", "memory": "512KiB", "strategy": "clustered"},
    "y.npy": {"transpose": (2, 1, 0), "memory": "512KiB", "strategy": "keep"},
    "y.h5": {"chunks": (8, 16, 10), "codec": "none", "memory": "512KiB", "strategy": "clustered"},
}


def run_and_kill(start: Callable[[int], Any], chance: random.Random, kills: int) -> int:
    """Run all members until each has ended well; returns how many were killed."""
    context = {number: start(number) for number in range(MEMBERS)}
    killed, end = 0, monotonic() + 300
    moment = monotonic() + chance.uniform(0.0, 0.4)
    while context and monotonic() < end:
        for number, process in list(context.items()):
            if process.exitcode is None:
                continue
            process.join()
            if process.exitcode == 0:
                del context[number]
            else:
                assert process.exitcode == -9, f"member {number} failed"
                context[number] = start(number)
        if context and killed < kills and monotonic() > moment:
            victim = chance.choice(list(context.values()))
            if victim.exitcode is None:
                victim.kill()
                killed += 1
            moment = monotonic() + chance.uniform(0.0, 0.3)
        sleep(0.002)
    assert not context, "members have not ended"
    return killed


@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", TARGETS)
def test_members_killed_at_random_moments(tmp_path: Path, name: str) -> None:
    np.save(tmp_path / "x.npy", DATA)
    plain = reblock.repartition(tmp_path / "x.npy", tmp_path / f"plain-{name}", **TARGETS[name]).digest
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(
        ["reblock.api.array_tasks", "reblock.storage.zarr.format", "faults.member_process"]
    )
    chance, killed = random.Random(7), 0
    for turn in range(ROUNDS):
        folder = tmp_path / str(turn)
        folder.mkdir()
        target = str(folder / name)

        def start(number: int, target: str = target) -> Any:
            arguments = (str(tmp_path / "x.npy"), target, f"{number}/{MEMBERS}", TARGETS[name])
            process = processes.Process(target=work, args=arguments)
            process.start()
            return process

        killed += run_and_kill(start, chance, kills=6)
        if reblock.status(target) is not None:
            # The last one was killed after it had published, and before it had cleaned up; or all were, before that.
            reblock.resume(target)
        assert os.listdir(folder) == [name]
        assert reblock.verify(tmp_path / f"plain-{name}", target).equal
        assert reblock.verify(tmp_path / f"plain-{name}", target).source_digest == plain
        if name == "y.zarr":
            assert reblock.open(target).store.schema.record.digest == plain
    assert killed > ROUNDS
