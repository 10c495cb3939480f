"""Stopped by a signal at any moment, a run ends soon, and the same command makes the same array of what is left."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from faults.jobs import clean

#: SIGINT may be ignored where tests run in the background.
COMMAND = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from reblock.cli import main; main()",
]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: How soon a process ends whose boxes take no time; and how much of that is granted on a machine that is busy.
SECONDS, BUSY = 2.0, 3
JOBS = {
    "encoded": ("x.npy", "y.zarr", "--chunks", "32,32,32", "--codec", "gzip:9"),
    "shards": ("x.npy", "y.zarr", "--chunks", "16,16,16", "--shards", "32,32,64", "--codec", "zstd:9"),
    "many files": ("x.npy", "y/", "--chunks", "4,16,64"),
    "hdf5": ("x.h5", "y.h5", "--chunks", "64,8,32", "--codec", "gzip:6"),
    "two passes": ("x.npy", "y.npy", "--transpose", "2,1,0", "--strategy", "multipass", "--memory", "1MiB"),
    "little memory": ("x.h5", "y.zarr", "--chunks", "32,32,32", "--codec", "zstd:3", "--memory", "2MiB"),
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    values = np.random.default_rng(0).normal(size=(192, 128, 128)).round(2).astype("f4")
    np.save(folder / "x.npy", values)
    reblock.repartition(folder / "x.npy", folder / "x.h5", chunks=(16, 16, 128), codec="gzip:1")
    return folder


@dataclass
class Ended:
    """What became of a process."""

    code: int
    seconds: float
    """From the signal on."""
    document: Any


def is_listening(process: subprocess.Popen[str]) -> bool:
    """Whether a process handles SIGTERM by now: before that it is Python that starts."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


def stop(folder: Path, words: tuple[str, ...], number: int = 0, after: float = 0.0) -> Ended:
    """Run a command line in a folder, and send it a signal some time after it listens; 0 = none."""
    with subprocess.Popen(
        [*COMMAND, "run", *words, "--json"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while not is_listening(process):
            time.sleep(0.005)
        began = time.monotonic()
        if number:
            time.sleep(after)
            began = time.monotonic()
            process.send_signal(number)
        out, err = process.communicate(timeout=120)
        assert "Traceback" not in err
        return Ended(process.returncode, time.monotonic() - began, json.loads(out) if out else None)


def sweep(sources: Path, folder: Path, name: str, moments: int, seed: int) -> list[float]:
    """Stop a job at random moments; how long it took each time."""
    words, rng, took = JOBS[name], random.Random(f"{name} {seed}"), []
    for source in ("x.npy", "x.h5"):
        shutil.copy(sources / source, folder)
    once = stop(folder, words)
    assert once.code == 0
    for _ in range(moments):
        clean(folder / words[1])
        made = folder / words[1]
        if made.exists():
            shutil.rmtree(made) if made.is_dir() else made.unlink()
        ended = stop(folder, words, rng.choice(SIGNALS), rng.uniform(0, 1.1 * once.seconds))
        assert ended.code in (0, 130)
        took.append(ended.seconds)
        done = ended.document if ended.code == 0 else stop(folder, words).document
        assert done["digest"] == once.document["digest"]
        assert {path.name for path in folder.iterdir()} == {"x.npy", "x.h5", words[1].rstrip("/")}
    return took


def test_stopped_now_and_then(sources: Path, tmp_path: Path) -> None:
    took = sweep(sources, tmp_path, "encoded", moments=2, seed=1)
    assert max(took) < BUSY * SECONDS


@pytest.mark.faults
@pytest.mark.parametrize("name", JOBS)
def test_stopped_at_any_moment(sources: Path, tmp_path: Path, name: str) -> None:
    took = sorted(sweep(sources, tmp_path, name, moments=9, seed=2))
    print(name, [round(one, 2) for one in took])
    assert took[-1] < BUSY * SECONDS
    # One that had to wait for a core may take longer.
    assert took[-2] < SECONDS
