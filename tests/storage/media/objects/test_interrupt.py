"""Ctrl-C while a server is gone: the run ends soon, says so as always, and can be resumed."""

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
from reblock.storage.media import patience
from s3_proxy import Proxy
from s3_server import S3Server, options_for

#: Failing requests are repeated for a minute each, and a silent server is waited for ten minutes.
ENOUGH_SECONDS = 30


def begin(words: list[str], endpoint: str) -> subprocess.Popen[str]:
    environment = os.environ | {name.upper(): value for name, value in options_for(endpoint).items()}
    return subprocess.Popen(
        [sys.executable, "-m", "reblock", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def interrupted(process: subprocess.Popen[str]) -> str:
    """Send Ctrl-C, and return what the process says until it ends."""
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=ENOUGH_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    assert process.returncode == 130, (out, err)
    return err


def wait_for(proxy: Proxy, kind: str, count: int) -> None:
    end = time.monotonic() + 60
    while proxy.counts[kind] < count:
        assert time.monotonic() < end, proxy.counts
        time.sleep(0.01)


@pytest.mark.parametrize("gone", ["refuses", pytest.param("is silent", marks=pytest.mark.faults)])
def test_ctrl_c_while_the_server_is_gone(s3: S3Server, bucket: str, tmp_path: Path, gone: str) -> None:
    data = np.random.default_rng(0).integers(0, 60000, (32, 64, 32), "u2")
    source, target = f"{bucket}/a.zarr", f"{bucket}/b.zarr"
    digest = reblock.repartition(data, source, chunks=(8, 8, 8), codec="none").digest
    words = ["run", source, target, "--chunks", "16,16,4", "--codec", "none", "--memory", "64KiB"]
    with Proxy(s3.port, delay=0.1) as proxy:
        process = begin(words, proxy.endpoint)
        wait_for(proxy, "PUT chunk", 8)
        # Let some of them be recorded.
        time.sleep(1.2)
        if gone == "refuses":
            proxy.refuse()
        else:
            proxy.silent = True
        time.sleep(1)
        assert process.poll() is None
        said = interrupted(process)
    assert "interrupted; " in said
    assert "the same command resumes" in said
    assert "Traceback" not in said
    with begin([*words, "--json"], s3.endpoint) as again:
        out, err = again.communicate(timeout=120)
    assert again.returncode == 0, err
    assert digest in out
    assert '"resumed_boxes": 0' not in out


@pytest.mark.parametrize(
    ("crew", "gone"),
    [
        ("--workers=2", "refuses"),
        pytest.param("--workers=2", "is silent", marks=pytest.mark.faults),
        pytest.param("--cluster=local:2", "refuses", marks=pytest.mark.faults),
        pytest.param("--cluster=local:2", "is silent", marks=pytest.mark.faults),
    ],
)
def test_ctrl_c_to_the_parent_of_workers(s3: S3Server, bucket: str, tmp_path: Path, crew: str, gone: str) -> None:
    """Only workers send requests, and only their parent gets the signal."""
    data = np.random.default_rng(0).integers(0, 60000, (32, 64, 32), "u2")
    source, target = f"{bucket}/a.zarr", str(tmp_path / "b.zarr")
    digest = reblock.repartition(data, source, chunks=(8, 8, 8), codec="none").digest
    words = ["run", source, target, "--chunks", "8,8,4", "--codec", "none", "--memory", "64KiB"]
    with Proxy(s3.port, delay=0.1) as proxy:
        process = begin([*words, crew], proxy.endpoint)
        wait_for(proxy, "GET chunk", 8)
        if gone == "refuses":
            proxy.refuse()
        else:
            proxy.silent = True
        time.sleep(1)
        assert process.poll() is None
        said = interrupted(process)
    assert "error: interrupted" in said
    assert "Traceback" not in said
    with begin([*words, "--json"], s3.endpoint) as again:
        out, err = again.communicate(timeout=120)
    assert again.returncode == 0, err
    assert digest in out


@pytest.mark.faults
def test_ctrl_c_before_the_run(s3: S3Server, bucket: str) -> None:
    """While the source is opened, by a request that nobody answers."""
    with Proxy(s3.port) as proxy:
        proxy.silent = True
        process = begin(["info", f"{bucket}/a.zarr"], proxy.endpoint)
        wait_for(proxy, "HEAD other", 1)
        assert "interrupted" in interrupted(process)


def test_runs_that_are_wanted_are_waited_for() -> None:
    """One of two runs in a process is enough to go on."""
    stopped: list[bool] = [False, False]
    tests: list[Any] = [lambda: stopped[0], lambda: stopped[1]]
    assert not patience.is_over()
    with patience.waiting(tests[0]), patience.waiting(tests[1]):
        assert patience.pause(0.01)
        stopped[0] = True
        assert patience.pause(0.01)
        stopped[1] = True
        began = time.monotonic()
        assert not patience.pause(60)
        assert time.monotonic() - began < 30
    assert not patience.is_over()
