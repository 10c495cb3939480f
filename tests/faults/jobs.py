"""Jobs that faults are tried on: every format, one task and many."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import reblock
from reblock.runs.staging import Staging

#: Small enough for some twenty group commits.
MEMORY = 64 << 10


@dataclass(frozen=True)
class Task:
    """One command line."""

    target: str
    options: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        return ["run", "x.npy", self.target, *self.options, "--memory", str(MEMORY), "--json"]


CHUNKS = ("--chunks", "12,10,11")
#: A strategy is named so that no time goes into the search for the best.
ONE_TASK = ("--strategy", "keep")
JOBS = {
    "npy": Task("y.npy", ("--transpose", "0,2,1", *ONE_TASK)),
    "blocks": Task("y/", (*CHUNKS, *ONE_TASK)),
    "zarr": Task("y.zarr", (*CHUNKS, *ONE_TASK, "--codec", "zstd:1")),
    "zarr-sharded": Task("y.zarr", ("--chunks", "6,10,11", "--shards", "12,10,11", "--codec", "zstd:1", *ONE_TASK)),
    "hdf5-raw": Task("y.h5", (*CHUNKS, *ONE_TASK)),
    "hdf5-gzip": Task("y.h5", (*CHUNKS, *ONE_TASK, "--codec", "gzip:1")),
    "many-tasks": Task("y.zarr", (*CHUNKS, "--strategy", "naive")),
    "two-passes": Task("y.npy", ("--transpose", "2,1,0", "--strategy", "multipass")),
    "scratch-that-goes": Task("y/", ("--chunks", "48,8,44", "--strategy", "multipass")),
    "taking-turns": Task("y/", ("--chunks", "44,2,2", "--transpose", "2,1,0", "--strategy", "multipass")),
}
#: A job whose elements become others.
CONVERTING = Task("y.zarr", (*CHUNKS, *ONE_TASK, "--codec", "zstd:1", "--dtype", ">f8"))


def expected(folder: Path, task: Task) -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    """The elements that a job is to make, as bits."""
    elements = np.load(folder / "x.npy")
    if "--dtype" in task.options:
        with np.errstate(all="ignore"):
            elements = elements.astype(task.options[task.options.index("--dtype") + 1])
    bits = elements.view("u4")
    if "--transpose" not in task.options:
        return bits
    order = task.options[task.options.index("--transpose") + 1]
    return bits.transpose([int(axis) for axis in order.split(",")])


def is_right(folder: Path, task: Task) -> bool:
    """Whether the target holds exactly what it is to hold."""
    made = reblock.open(folder / task.target)[...]
    return np.array_equal(np.ascontiguousarray(made).view("u4"), expected(folder, task))


def remove(path: str) -> None:
    """Remove an array, be it a file or a folder."""
    if os.path.isdir(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def clean(target: str | Path) -> None:
    """Remove what a run has left, if it has left anything."""
    if Staging(str(target)).is_there:
        reblock.clean(target)
