"""Killed at any moment, a run that adds to a file leaves it whole, and the same command ends with the same result."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest

import reblock
from faults.rig import ALL, Rig

JOBS = {
    "hdf5-raw": ("y.h5", ["--chunks", "12,10,11"]),
    "hdf5-gzip": ("y.h5", ["--chunks", "12,10,11", "--codec", "gzip:1"]),
    "netcdf-gzip": ("y.nc", ["--chunks", "12,10,11", "--codec", "gzip:1"]),
}


def prepare(here: Path, name: str) -> tuple[list[str], str, str]:
    """The command; the name of the file to which it adds, and the digest of that file."""
    file, options = JOBS[name]
    path = here / file
    path.unlink(missing_ok=True)
    if file.endswith(".nc"):
        with netCDF4.Dataset(path, "w") as made:
            made.createDimension("n", 5000)
            made.createVariable("old", "i4", ("n",), zlib=True)[:] = np.arange(5000)
    else:
        with h5py.File(path, "w") as made:
            made.create_dataset("old", data=np.arange(5000), chunks=(100,), compression="gzip")
    words = ["run", "x.npy", f"{file}::deep/new", *options, "--strategy", "keep", "--memory", "65536", "--json"]
    return words, file, digest_of(path)


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def is_right(here: Path, file: str) -> bool:
    old, new = (reblock.open(f"{here / file}::{name}")[...] for name in ("old", "deep/new"))
    expected = np.load(here / "x.npy").view("u4")
    return bool((old == np.arange(5000)).all()) and np.array_equal(np.ascontiguousarray(new).view("u4"), expected)


def kill(rig: Rig, here: Path, name: str, when: int, made: str, kinds: Sequence[str] = ALL) -> tuple[bool, bool]:
    """Kill a run at a call and repeat it; returns whether it was killed, and before the old file was replaced."""
    words, file, before = prepare(here, name)
    killed = rig.run(here, words, kinds=kinds, when=when)
    assert killed.code == (-9 if killed.fired else 0), killed
    whole = digest_of(here / file) == before
    if not whole:
        assert is_right(here, file)
    again = rig.run(here, words)
    if again.code and not whole:
        assert again.document["error"]["type"] == "TargetExistsError", again
    else:
        assert again.code == 0, again
        assert again.document["digest"] == made
    assert is_right(here, file)
    assert {entry.name for entry in here.iterdir()} == {"x.npy", file}
    return killed.fired, whole


def test_killed_at_some_moments(rig: Rig, here: Path) -> None:
    words, _, _ = prepare(here, "hdf5-gzip")
    once = rig.run(here, words)
    assert once.code == 0, once
    moments = [int(once.calls * part) for part in (0.05, 0.5, 0.95)]
    assert (True, True) in [kill(rig, here, "hdf5-gzip", when, once.document["digest"]) for when in moments]


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", JOBS)
def test_killed_at_random_moments(rig: Rig, here: Path, name: str) -> None:
    words, _, _ = prepare(here, name)
    once = rig.run(here, words)
    assert once.code == 0, once
    chance = random.Random(name)
    moments = [chance.randrange(1, once.calls + 1) for _ in range(20)]
    assert (True, True) in [kill(rig, here, name, when, once.document["digest"]) for when in moments]
    seen, when = [], 1
    while not seen or seen[-1][0]:
        seen.append(kill(rig, here, name, when, once.document["digest"], ("rename", "unlink")))
        when += 1
    assert {(True, True), (True, False)} <= set(seen)
