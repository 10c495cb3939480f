"""A run on a store that is killed at any moment is resumed from any folder, and leaves nothing but its target."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.storage.media.registry import connect
from s3_proxy import Proxy
from s3_server import BUCKET, S3Server, options_for

DATA = np.random.default_rng(1).integers(0, 60000, (24, 40, 36), "u2")
#: Every request takes this long, so that a run consists of many moments.
DELAY_SECONDS = 0.004


class Commands:
    """Runs command lines in processes of their own, in working folders of their own."""

    def __init__(self, options: dict[str, str], folder: Path) -> None:
        self._folder, self._count = folder, 0
        self._environment = os.environ | {name.upper(): value for name, value in options.items()}

    def start(self, words: Sequence[str]) -> subprocess.Popen[str]:
        self._count += 1
        here = self._folder / str(self._count)
        here.mkdir()
        return subprocess.Popen(
            [sys.executable, "-m", "reblock", *words, "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=here,
            env=self._environment,
        )

    def finish(self, words: Sequence[str]) -> Any:
        with self.start(words) as process:
            out, err = process.communicate(timeout=240)
        assert process.returncode == 0, (words, out, err)
        return json.loads(out)


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[Proxy]:
    with Proxy(s3.port, delay=DELAY_SECONDS) as found:
        yield found
    connect(f"s3://{BUCKET}", s3.options)


def kill_and_resume(s3: S3Server, proxy: Proxy, bucket: str, folder: Path, kills: int, seed: int) -> int:
    """Kill that many runs, each once or twice, and resume them; returns how many were killed before their end."""
    random_ = random.Random(seed)
    source = f"{bucket}/source.zarr"
    np.save(folder / "x.npy", DATA)
    digest = reblock.repartition(folder / "x.npy", source, chunks=(4, 8, 6), codec="none").digest
    commands = Commands(options_for(proxy.endpoint), folder)
    plain = s3.keys(bucket.removeprefix(f"s3://{BUCKET}/"))
    killed = 0
    words = ["run", source, "", "--chunks", "12,10,9", "--codec", "zstd:1", "--memory", "200KB"]
    words[2] = f"{bucket}/once.zarr"
    began = time.monotonic()
    once = commands.finish(words)
    whole = time.monotonic() - began
    assert once["digest"] == digest
    made = {key.partition("once.zarr")[2] for key in s3.keys(f"{bucket.removeprefix(f's3://{BUCKET}/')}/once.zarr")}
    for number in range(kills):
        target = words[2] = f"{bucket}/killed-{number}.zarr"
        before = s3.keys()
        for _ in range(1 + number % 2):
            with commands.start(words) as process:
                time.sleep(random_.uniform(0.3, 1.0) * whole)
                process.send_signal(signal.SIGKILL)
                killed += process.wait() == -signal.SIGKILL
        below = f"{target.removeprefix(f's3://{BUCKET}/')}/"
        assert all(key.startswith(below) for key in s3.keys() - before), "nothing outside the target's prefix"
        published = f"{below}zarr.json" in s3.keys(below.rstrip("/"))
        if number % 5 == 4 and s3.keys(below.rstrip("/")):
            commands.finish(["clean", target])
            left = s3.keys(below.rstrip("/"))
            assert published or not left, left
        # Without a journal there is nothing to resume: the same command begins.
        begun = f"{below}.reblock/journal/00000000" in s3.keys(below.rstrip("/"))
        if number % 5 == 3 and begun:
            assert commands.finish(["status", target])["unfinished"] is not None
            report = commands.finish(["resume", target])
        else:
            report = commands.finish([*words, "--exist-ok"])
        assert report["digest"] == digest, number
        assert {key.removeprefix(below.rstrip("/")) for key in s3.keys() - before} == made
        assert reblock.verify(source, target).equal
    assert s3.uploads() == []
    assert s3.keys(bucket.removeprefix(f"s3://{BUCKET}/")) >= plain
    return killed


def test_killed_runs_are_resumed(s3: S3Server, proxy: Proxy, bucket: str, tmp_path: Path) -> None:
    kill_and_resume(s3, proxy, bucket, tmp_path, 1, seed=7)


@pytest.mark.faults
@pytest.mark.timeout(3600)
def test_fifty_killed_runs_are_resumed(s3: S3Server, proxy: Proxy, bucket: str, tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    assert kill_and_resume(s3, proxy, bucket, tmp_path, 50, seed) >= 40
