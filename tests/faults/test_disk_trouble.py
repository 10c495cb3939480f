"""Calls that fail: every run ends right, or with an error that names path and errno, and the same command goes on."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import reblock
from faults.jobs import JOBS, Task, is_right
from faults.rig import Outcome, Rig
from reblock.errors import DiskError, SpaceError

KINDS = ("open", "read", "write", "sync", "rename")
ERRORS = (errno.EIO, errno.ENOSPC, errno.EACCES)


@contextmanager
def copy(here: Path, number: int) -> Iterator[Path]:
    """A fresh folder with the same source."""
    folder = here / str(number)
    folder.mkdir()
    shutil.copy(here / "x.npy", folder)
    yield folder
    shutil.rmtree(folder)


def check(rig: Rig, folder: Path, task: Task, failed: Outcome, number: int) -> None:
    """All that is promised of a run in which a call has failed."""
    name = task.target.rstrip("/")
    if failed.code == 0:
        assert is_right(folder, task), failed
    else:
        assert failed.code == 1, failed
        error = json.loads(failed.out)["error"]
        assert error["type"] in ("DiskError", "SpaceError"), failed
        assert f"errno {number}, {errno.errorcode[number]}" in error["message"], failed
        assert any(word in error["message"] for word in (name, "x.npy", str(folder))), failed
        assert "Traceback" not in failed.err, failed
    again = rig.run(folder, task.words)
    if again.code:
        assert json.loads(again.out)["error"]["type"] == "TargetExistsError", (failed, again)
    assert is_right(folder, task), (failed, again)
    assert {entry.name for entry in folder.iterdir()} - {f".{name}.reblock"} == {"x.npy", name}, (failed, again)


def moments(calls: int) -> Iterator[int]:
    """Which call fails: each of them, but of thousands those at the ends, and between them every ninth."""
    few, ends = 500, 20
    yield from (n for n in range(1, calls + 1) if calls <= few or n <= ends or n > calls - ends or n % 9 == 0)


def sweep(rig: Rig, here: Path, task: Task, kind: str, errors: Sequence[int], chosen: Sequence[float] | None) -> None:
    """Let calls of a kind fail, one per run, the last one included; `chosen` = parts of the way instead of all."""
    with copy(here, 0) as folder:
        calls = rig.run(folder, task.words, kinds=(kind,)).calls
    assert calls
    seen = 0
    for number in errors:
        ways = moments(calls) if chosen is None else (int(1 + part * (calls - 1)) for part in chosen)
        for when in ways:
            with copy(here, 1 + when) as folder:
                failed = rig.run(folder, task.words, kinds=(kind,), when=when, action=number)
                if failed.fired:
                    seen += 1
                    check(rig, folder, task, failed, number)
    assert seen > (len(errors) if chosen is None else 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["blocks", "zarr", "hdf5-gzip"])
def test_some_calls_fail(rig: Rig, here: Path, name: str, kind: str) -> None:
    sweep(rig, here, JOBS[name], kind, [ERRORS[(len(name) + len(kind)) % len(ERRORS)]], (0, 0.5, 1))


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", ERRORS, ids=[errno.errorcode[number] for number in ERRORS])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", JOBS)
def test_every_call_fails_once(rig: Rig, here: Path, name: str, kind: str, number: int) -> None:
    sweep(rig, here, JOBS[name], kind, [number], None)


@pytest.mark.parametrize("name", ["blocks", "hdf5-raw", "hdf5-gzip", "two-passes"])
def test_a_disk_that_stays_full(rig: Rig, here: Path, name: str) -> None:
    """From some call on all fail, also those with which a run tidies up."""
    task = JOBS[name]
    with copy(here, 0) as folder:
        calls = rig.run(folder, task.words, kinds=("write",)).calls
    for part in (0.1, 0.6):
        with copy(here, 1) as folder:
            failed = rig.run(
                folder, task.words, kinds=("write",), when=int(calls * part), action=errno.ENOSPC, onwards=True
            )
            assert failed.code == 1, failed
            check(rig, folder, task, failed, errno.ENOSPC)


# ---------------------------------------------------------------- file systems that are really full
@contextmanager
def small_disk(folder: Path, options: str) -> Iterator[Path]:
    """A file system in memory with limits of its own."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", options, "reblock-test", str(folder)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command, so no small disk")
    if done.returncode:
        pytest.skip(f"no small disk can be mounted: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_too_small_a_disk_is_found_out_before_the_first_write(here: Path) -> None:
    size = (here / "x.npy").stat().st_size
    with small_disk(here / "disk", f"size={size // 2}") as disk:
        for target in ("y.npy", "y/", "y.h5", "y.zarr"):
            options = {"codec": "none", **({} if target == "y.npy" else {"chunks": "12,10,11"})}
            with pytest.raises(SpaceError, match="are free: free some space") as caught:
                reblock.repartition(here / "x.npy", f"{disk}/{target}", **options)
            assert caught.value.errno == errno.ENOSPC
            assert caught.value.free < caught.value.needed
            assert list(disk.iterdir()) == []


def test_too_few_inodes_are_found_out_before_the_first_write(here: Path) -> None:
    with small_disk(here / "disk", "size=100m,nr_inodes=20") as disk:
        for target in ("y/", "y.zarr"):
            with pytest.raises(SpaceError, match="inodes are free: choose larger chunks"):
                reblock.repartition(here / "x.npy", f"{disk}/{target}", chunks="12,10,11")
            assert list(disk.iterdir()) == []
        assert reblock.repartition(here / "x.npy", disk / "y.npy").digest


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("y.zarr", {"codec": "zstd:1"}),
        ("s.zarr", {"codec": "zstd:1", "shards": "24,10,11"}),
        ("y.h5", {"codec": "gzip:1"}),
        ("l.h5", {"codec": "lzf"}),
    ],
)
def test_a_disk_fills_up_during_a_run(here: Path, target: str, options: dict[str, str]) -> None:
    """Of an encoded target nobody knows the size before; once there is room, the run goes on."""
    elements = np.load(here / "x.npy")
    with small_disk(here / "disk", f"size={elements.nbytes // 2}") as disk:
        job = reblock.plan(here / "x.npy", disk / target, chunks="12,10,11", memory="64KiB", strategy="keep", **options)
        with pytest.raises(DiskError, match=r"ENOSPC.*the same command resumes") as caught:
            reblock.run(job)
        assert caught.value.errno == errno.ENOSPC
        assert str(disk) in caught.value.path
        found = reblock.status(disk / target)
        assert found is not None
        assert found.finished_boxes > 0
        subprocess.run(["mount", "-o", f"remount,size={4 * elements.nbytes}", str(disk)], check=True)
        report = reblock.run(job)
        assert report.resumed_boxes >= found.finished_boxes
        made = reblock.open(disk / target)[...]
        assert np.array_equal(made.view("u4"), elements.view("u4"))
        assert os.listdir(disk) == [target]
