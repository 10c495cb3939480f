"""Leases: who cannot renew one stops writing, also in worker processes, and takers wait for all of it."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import reblock
from reblock.errors import LockedError, StorageError
from reblock.storage.media.object_workspace import ObjectWorkspace
from reblock.storage.media.registry import connect, medium_of
from s3_proxy import Proxy
from s3_server import BUCKET, S3Server, options_for
from storage.media.objects.lease_worker import write_for_owner, write_pickled

LEASE_SECONDS = 3.0


@pytest.fixture(name="short")
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ObjectWorkspace, "lease_seconds", LEASE_SECONDS)


@pytest.fixture
def worker() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield pool


@pytest.mark.faults  # a busy machine is too late by itself
@pytest.mark.usefixtures("short")
def test_an_owner_that_cannot_renew_stops_at_half_the_lease(bucket: str, s3: S3Server) -> None:
    with Proxy(s3.port) as proxy:
        connect(f"s3://{BUCKET}", options_for(proxy.endpoint))
        medium, target = medium_of(bucket), f"{bucket}/a"
        with medium.workspace(target):
            medium.write(f"{target}/before", [b"x"])
            time.sleep(LEASE_SECONDS)
            medium.write(f"{target}/renewed", [b"x"])
            proxy.busy, began = 1.0, time.monotonic()
            # The request itself is tried again for a minute, but not without the lease.
            with pytest.raises(StorageError, match=r"could not be renewed for \d+ seconds"):
                medium.write(f"{target}/late", [b"x"])
            assert time.monotonic() - began < LEASE_SECONDS
            proxy.busy = 0.0
            with pytest.raises(StorageError, match="could not be renewed"):
                medium.write(f"{target}/later", [b"x"])
    names = {key.rpartition("/")[2] for key in s3.keys(target.removeprefix(f"s3://{BUCKET}/"))}
    assert names == {"before", "renewed", "lock"}, "a lost lock is left to its taker"


@pytest.mark.faults  # a busy machine is too late by itself
@pytest.mark.usefixtures("short")
def test_workers_stop_with_their_owner(bucket: str, worker: ProcessPoolExecutor) -> None:
    medium, target = medium_of(bucket), f"{bucket}/a"
    workspace = medium.workspace(target)
    with workspace:
        for number in range(3):
            assert worker.submit(write_for_owner, medium, f"{target}/{number}").result(60) == ""
            time.sleep(LEASE_SECONDS / 3)
        lease = workspace._lease
        lease._stop.set()  # the owner hangs
        lease._thread.join()
        time.sleep(LEASE_SECONDS / 2 + 1)
        assert "has not renewed its lock" in worker.submit(write_for_owner, medium, f"{target}/late").result(60)
    assert not medium.survey([f"{target}/late"])[0]


@pytest.mark.faults  # a busy machine is too late by itself
@pytest.mark.usefixtures("short")
def test_workers_stop_when_another_run_has_the_lock(bucket: str, worker: ProcessPoolExecutor) -> None:
    medium, target = medium_of(bucket), f"{bucket}/a"
    with medium.workspace(target):
        first = pickle.dumps(medium)
        assert worker.submit(write_pickled, first, f"{target}/0").result(60) == ""
    with medium.workspace(target):
        second = pickle.dumps(medium)
        assert worker.submit(write_pickled, second, f"{target}/1").result(60) == ""
        assert "given back its lock" in worker.submit(write_pickled, first, f"{target}/late").result(60)
        assert worker.submit(write_pickled, second, f"{target}/2").result(60) == ""


def test_workers_write_under_the_lease(bucket: str, tmp_path: Path) -> None:
    data = np.arange(16 * 16 * 16, dtype="u2").reshape(16, 16, 16)
    np.save(tmp_path / "x.npy", data)
    job = reblock.plan(tmp_path / "x.npy", f"{bucket}/a.zarr", chunks=(8, 8, 8), codec="none")
    assert reblock.run(job, workers=2).digest is not None
    assert np.array_equal(reblock.open(f"{bucket}/a.zarr")[...], data)


def command(words: list[str], options: dict[str, str], **more: object) -> subprocess.Popen[str]:
    environment = os.environ | {name.upper(): value for name, value in options.items()}
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **more)  # type: ignore[call-overload]


@pytest.mark.faults
@pytest.mark.timeout(300)
def test_workers_of_a_stopped_run_stop_and_another_machine_goes_on(bucket: str, s3: S3Server, tmp_path: Path) -> None:
    """A run hangs, as if its machine slept; its workers stop; a run elsewhere waits for the lease and completes."""
    data = np.random.default_rng(0).integers(0, 60000, (64, 64, 64), "u2")
    np.save(tmp_path / "x.npy", data)
    target = f"{bucket}/a.zarr"
    words = [sys.executable, "-m", "reblock", "run", "x.npy", target, "--chunks", "4,8,8", "--codec", "none"]
    with Proxy(s3.port, delay=1.0) as proxy:
        options = options_for(proxy.endpoint)
        with command([*words, "--workers", "2"], options, cwd=tmp_path) as first:
            end = time.monotonic() + 90
            while proxy.counts["PUT chunk"] < 3 and time.monotonic() < end:
                time.sleep(0.2)
            first.send_signal(signal.SIGSTOP)
            begun = proxy.counts["PUT chunk"]
            assert 3 <= begun < 400, (begun, first.poll())
            time.sleep(17)
            stopped = proxy.counts["PUT chunk"]
            time.sleep(5)
            assert proxy.counts["PUT chunk"] == stopped, "workers have stopped writing"
            # Another space of process numbers is another machine.
            elsewhere = ["unshare", "--pid", "--fork", "--mount-proc"] if os.geteuid() == 0 else []
            done = None
            if elsewhere and shutil.which("unshare"):
                messages = []
                for _ in range(30):
                    with command([*elsewhere, *words], s3.options, cwd=tmp_path) as second:
                        messages.append(second.communicate(timeout=200)[1])
                    if (done := second.returncode) == 0:
                        break
                    assert "is being written by another run" in messages[-1]
                    time.sleep(1)
                assert messages, "the first tries must wait for the lease"
            first.send_signal(signal.SIGCONT)
            out, err = first.communicate(timeout=200)
            assert first.returncode == 1, (out, err)
            assert "another run" in err
    if done is not None:
        assert done == 0
        assert np.array_equal(reblock.open(target)[...], data)


@pytest.mark.skipif(shutil.which("faketime") is None, reason="needs faketime")
@pytest.mark.parametrize(
    "skew", [pytest.param("-4m", marks=pytest.mark.faults), "+4m", pytest.param("+3h", marks=pytest.mark.faults)]
)
def test_clocks_that_are_wrong(bucket: str, s3: S3Server, tmp_path: Path, skew: str) -> None:
    """A client whose clock is wrong neither takes a valid lock nor loses its own; the server may refuse it."""
    np.save(tmp_path / "x.npy", np.arange(64, dtype="u2"))
    target = f"{bucket}/a.zarr"
    words = ["faketime", "-f", skew, sys.executable, "-m", "reblock", "run", "x.npy", target, "--chunks", "8"]
    with medium_of(bucket).workspace(target), command(words, s3.options, cwd=tmp_path) as other:
        _, err = other.communicate(timeout=100)
    assert other.returncode == 1
    if skew == "+3h":
        assert "RequestTimeTooSkewed" in err
        assert len(err.strip().splitlines()) == 1
        return
    assert "is being written by another run" in err
    with command(words, s3.options, cwd=tmp_path) as other:
        _, err = other.communicate(timeout=100)
    assert other.returncode == 0, err
    with pytest.raises(LockedError), medium_of(bucket).workspace(target), medium_of(bucket).workspace(target):
        raise AssertionError("two runs have the lock")
