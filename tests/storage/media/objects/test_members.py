"""Members of a job array that make one target on a store: their locks are leases, and the last one publishes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.errors import LockedError, UsageError
from reblock.storage.media.registry import medium_of
from s3_server import S3Server

DATA = np.random.default_rng(1).integers(0, 60000, (24, 40, 36), "u2")
OPTIONS: dict[str, Any] = {"chunks": (6, 10, 12), "codec": "zstd:1", "strategy": "clustered", "memory": "64KiB"}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", DATA)
    return tmp_path / "x.npy"


def member(source: Path, target: str, task: str) -> Any:
    return reblock.run(reblock.plan(source, target, **OPTIONS), array_task=task)


def test_one_after_the_other(source: Path, bucket: str, tmp_path: Path) -> None:
    target = f"{bucket}/y.zarr"
    plain = reblock.repartition(source, tmp_path / "p.zarr", **OPTIONS).digest
    for number in (2, 0):
        assert not member(source, target, f"{number}/3").array_task["published"]
    with medium_of(target).workspace(target).segment(1):
        with pytest.raises(LockedError, match="member 1"):
            reblock.clean(target)
        found = reblock.status(target)
        assert found is not None
        assert [one.state for one in found.members] == ["done", "running", "done"]
    report = member(source, target, "1/3")
    assert report.array_task["published"]
    assert report.digest == plain
    assert reblock.verify(source, target).equal
    assert sorted(name for name, _ in medium_of(target).entries(target)) == ["c", "zarr.json"]
    assert member(source, target, "1/3").write_boxes == 0


def test_a_file_is_built_by_one_machine(source: Path, bucket: str) -> None:
    with pytest.raises(UsageError, match="leave out array_task"):
        reblock.run(reblock.plan(source, f"{bucket}/y.h5"), array_task="0/2")


@pytest.mark.slow
def test_at_once_and_one_killed(source: Path, bucket: str, s3: S3Server) -> None:
    target = f"{bucket}/y.zarr"
    environment = os.environ | {name.upper(): value for name, value in s3.options.items()}
    words = ["--chunks", "6,10,12", "--codec", "zstd:1", "--strategy", "clustered", "--memory", "64KiB", "--json"]

    def start(number: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "reblock", "run", str(source), target, *words, "--array-task", f"{number}/3"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    started = [start(number) for number in range(3)]
    end = time.monotonic() + 60
    while not medium_of(target).workspace(target).segments() and time.monotonic() < end:
        time.sleep(0.01)
    started[1].send_signal(signal.SIGKILL)
    results = [process.communicate(timeout=120) for process in started]
    assert [process.returncode for process in started] == [0, -9, 0], results
    again = start(1)
    out, err = again.communicate(timeout=120)
    assert again.returncode == 0, (out, err)
    assert '"published": true' in out
    assert reblock.verify(source, target).equal
    assert reblock.status(target) is None
