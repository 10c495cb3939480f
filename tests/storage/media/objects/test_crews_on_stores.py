"""Workers, clusters and members of a job array between two arrays on a store: the same digest as threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from s3_server import BUCKET, SECRET, S3Server

DATA = np.random.default_rng(0).integers(0, 60000, (24, 32, 40), "u2")


def run(options: dict[str, str], folder: Path, *words: str) -> Any:
    """A command in a process of its own, in which only storage options lead to the server."""
    given = [f"--storage-option={name}={value}" for name, value in options.items()]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run(
        [sys.executable, "-m", "reblock", "run", *words, "--json", *given],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=folder,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    assert SECRET not in done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "how",
    [
        ["--workers", "2"],
        pytest.param(["--cluster", "local:2"], marks=pytest.mark.faults),
        pytest.param(["--array-task", "{}/2"], marks=pytest.mark.faults),
    ],
    ids=["workers", "cluster", "array-task"],
)
def test_they_make_what_threads_make(s3: S3Server, bucket: str, tmp_path: Path, how: list[str]) -> None:
    source, target = f"{bucket}/a.zarr", f"{bucket}/b.zarr"
    digest = reblock.repartition(DATA, source, chunks=(12, 16, 20), codec="zstd:1").digest
    words = [source, target, "--chunks", "24,8,10", "--codec", "zstd:1", "--memory", "1MiB"]
    members = 2 if "--array-task" in how else 1
    for member in range(members):
        made = run(s3.options, tmp_path, *words, *(one.format(member) for one in how))
    assert made["digest"] == digest
    assert members == 2 or made["tasks"] > 1
    assert reblock.verify(source, target).equal
    below = f"{target.removeprefix(f's3://{BUCKET}/')}/"
    assert not any(".reblock" in key for key in s3.keys(below.rstrip("/")))
