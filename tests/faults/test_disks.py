"""Blocks on several disks: killed at any moment, they are hidden or complete, and the next command ends the run."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import reblock
from faults.rig import ALL, Outcome, Rig

DISKS = ("d0", "d1", "d2")
WORDS = ("run", "x.npy", "vol/", "--chunks", "12,10,11", "--disks", "d0,d1,d2", "--placement", "four-way", "--json")
#: Calls that change names, at which a kill leaves something half done.
NAMES = ("rename", "mkdir", "unlink")


def places(here: Path, *, old: bool) -> Iterator[Path]:
    """Fresh folders with the same source and three disks, and with an array to be replaced if asked for."""
    for number in range(10**9):
        folder = here / str(number)
        folder.mkdir()
        shutil.copy(here / "x.npy", folder)
        for disk in DISKS:
            (folder / disk).mkdir()
        if old:
            np.save(folder / "old.npy", np.zeros((48, 40, 44), "f4"))
            reblock.repartition(folder / "old.npy", f"{folder}/vol/", chunks=(24, 20, 44), disks=disks(folder))
        yield folder
        shutil.rmtree(folder)


def disks(folder: Path) -> list[Path]:
    return [folder / disk for disk in DISKS]


def holds(folder: Path, source: str) -> bool:
    found = reblock.open(f"{folder}/vol/", disks=disks(folder))[...]
    return bool(np.array_equal(found.view("u4"), np.load(folder / source).view("u4")))


def check_after_kill(folder: Path, *, old: bool) -> None:
    """A reader finds the whole array, or the old one, or none; what is not published is hidden."""
    if (folder / "vol").exists():
        assert holds(folder, "x.npy") or (old and holds(folder, "old.npy"))
    else:
        assert not old
        assert [name for disk in disks(folder) for name in os.listdir(disk) if not name.startswith(".")] == []


def check_end(folder: Path) -> None:
    """Only the array is left, with one folder on each disk."""
    assert holds(folder, "x.npy")
    assert {name for name in os.listdir(folder) if name.startswith(".")} == set()
    for disk in disks(folder):
        (name,) = os.listdir(disk)
        assert name.startswith("vol.reblock-")


def kill(rig: Rig, folder: Path, kinds: tuple[str, ...], when: int, *, old: bool, clean: bool) -> bool:
    """Kill a run, check all that is promised, and end it with the same command, or discard it."""
    words = (*WORDS, "--overwrite") if old else WORDS
    killed = rig.run(folder, words, kinds=kinds, when=when)
    assert killed.code == (-9 if killed.fired else 0), killed
    if not killed.fired:
        return False
    check_after_kill(folder, old=old)
    if clean and not ((folder / "vol").exists() and holds(folder, "x.npy")):
        if any(name.startswith(".") for name in os.listdir(folder)):
            assert rig.run(folder, ("clean", "vol", "--json")).code == 0
        assert [name for name in os.listdir(folder) if name.startswith(".")] == []
        left = [name for disk in disks(folder) for name in os.listdir(disk)]
        assert len(left) == (len(DISKS) if old else 0), left
        assert not old or holds(folder, "old.npy")
        return True
    again = rig.run(folder, words)
    _expect_end(again)
    check_end(folder)
    return True


def _expect_end(again: Outcome) -> None:
    done = again.code == 1 and again.document["error"]["type"] == "TargetExistsError"
    assert again.code == 0 or done, again


@pytest.mark.parametrize("old", [False, True], ids=["new", "overwrite"])
def test_killed_at_some_moments(rig: Rig, here: Path, old: bool) -> None:
    folders = places(here, old=old)
    words = (*WORDS, "--overwrite") if old else WORDS
    calls = rig.run(next(folders), words).calls
    for part in (0.2, 0.6, 0.95):
        assert kill(rig, next(folders), ALL, int(calls * part), old=old, clean=part == 0.6)
    names = rig.run(next(folders), words, kinds=NAMES).calls
    for back in range(1, 12, 3):
        assert kill(rig, next(folders), NAMES, names - back, old=old, clean=False)


def fail(rig: Rig, folder: Path, kinds: tuple[str, ...], when: int, number: int, *, old: bool) -> bool:
    """Let a call fail, check that nothing half done is seen, and end the run with the same command."""
    words = (*WORDS, "--overwrite") if old else WORDS
    failed = rig.run(folder, words, kinds=kinds, when=when, action=number)
    assert failed.code in (0, 1), failed
    check_after_kill(folder, old=old)
    if failed.code:
        assert failed.document["error"]["message"]
        again = rig.run(folder, words)
        _expect_end(again)
    check_end(folder)
    return failed.fired


@pytest.mark.parametrize("old", [False, True], ids=["new", "overwrite"])
def test_calls_that_fail_at_some_moments(rig: Rig, here: Path, old: bool) -> None:
    folders = places(here, old=old)
    kinds = ("write", "sync", "rename", "mkdir")
    calls = rig.run(next(folders), (*WORDS, "--overwrite") if old else WORDS, kinds=kinds).calls
    for part, number in ((0.1, errno.EACCES), (0.5, errno.ENOSPC), (0.9, errno.EIO), (0.97, errno.EIO)):
        assert fail(rig, next(folders), kinds, int(calls * part), number, old=old)


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("old", [False, True], ids=["new", "overwrite"])
def test_every_change_of_names_fails_once(rig: Rig, here: Path, old: bool) -> None:
    folders, when = places(here, old=old), 1
    while fail(rig, next(folders), ("rename", "mkdir"), when, errno.EIO, old=old):
        when += 1
    assert when > 8


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("clean", [False, True], ids=["resume", "clean"])
@pytest.mark.parametrize("old", [False, True], ids=["new", "overwrite"])
def test_killed_at_every_change_of_names(rig: Rig, here: Path, old: bool, clean: bool) -> None:
    folders, when = places(here, old=old), 1
    while kill(rig, next(folders), NAMES, when, old=old, clean=clean):
        when += 1
    assert when > 30


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("old", [False, True], ids=["new", "overwrite"])
def test_killed_at_random_moments(rig: Rig, here: Path, old: bool) -> None:
    folders, chance = places(here, old=old), random.Random(7)
    calls = rig.run(next(folders), (*WORDS, "--overwrite") if old else WORDS).calls
    for number in range(100):
        when = chance.randrange(1, calls + 1)
        kill(rig, next(folders), ALL, when, old=old, clean=number % 3 == 0)
