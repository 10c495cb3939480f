"""A run on a dataset, killed at any moment: the same command ends with the same digest, and nothing is left behind."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr

import reblock
from faults.rig import ALL, Rig

OPTIONS = ["--chunks", "time=-1,lat=4", "--memory", "64MiB", "--device", "nvme", "--json"]
VARIABLES = 8
TARGETS = ["y.zarr", "y.h5", "y.nc"]


@pytest.fixture
def source(here: Path) -> Path:
    """A dataset with groups, shared axes, small and larger arrays."""
    top = zarr.create_group(here / "x.zarr", attributes={"title": "a world"})
    chance = np.random.default_rng(3)
    for number in range(VARIABLES):
        name = f"{'ocean/' if number % 2 else ''}v{number}"
        made = top.create_array(
            name, shape=(12, 16, 10), chunks=(3, 16, 5), dtype="f4", dimension_names=["time", "lat", "lon"]
        )
        made[...] = chance.normal(size=(12, 16, 10))
    top.create_array("time", data=np.arange(12), dimension_names=["time"])
    top.create_array("area", data=np.array(510.1))
    # A table, which is copied after the arrays.
    names = top.create_array("names", shape=(12,), chunks=(5,), dtype=str, dimension_names=["time"])
    names[...] = np.array([f"month {number}" for number in range(12)], object)
    return here / "x.zarr"


def copies(source: Path) -> Iterator[Path]:
    for number in range(10**9):
        folder = source.parent / str(number)
        folder.mkdir()
        shutil.copytree(source, folder / "x.zarr")
        yield folder
        shutil.rmtree(folder)


def words(target: str) -> list[str]:
    return ["run", "x.zarr", target, *OPTIONS]


def kill_at(rig: Rig, folder: Path, target: str, when: int, want: str, kinds: tuple[str, ...] = ALL) -> bool:
    """Kill the run at its n-th call and repeat the command; whether it was killed at all."""
    killed = rig.run(folder, words(target), kinds=kinds, when=when, source="x.zarr")
    assert killed.code == (-9 if killed.fired else 0), killed
    if killed.fired:
        published = (folder / target).exists()
        again = rig.run(folder, [*words(target), "--exist-ok"], source="x.zarr")
        assert again.code == 0, again
        assert again.document["digest"] == want
        assert not published or again.document["write_boxes"] == 0
    assert {path.name for path in folder.iterdir()} == {"x.zarr", target}
    assert reblock.verify(folder / "x.zarr", folder / target, reader="library")
    return killed.fired


@pytest.mark.parametrize("target", TARGETS)
def test_killed_at_some_moments(rig: Rig, source: Path, target: str) -> None:
    places = copies(source)
    once = rig.run(next(places), words(target), source="x.zarr")
    assert once.code == 0, once
    for part in (0.35, 0.7, 0.97):
        assert kill_at(rig, next(places), target, int(once.calls * part), once.document["digest"])


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("target", TARGETS)
def test_killed_at_random_moments(rig: Rig, source: Path, target: str) -> None:
    places = copies(source)
    once = rig.run(next(places), words(target), source="x.zarr")
    chance = random.Random(11)
    moments = [chance.randrange(1, once.calls + 1) for _ in range(20)]
    assert sum(kill_at(rig, next(places), target, when, once.document["digest"]) for when in moments) > 15


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["rename", "sync"])
def test_killed_at_every(rig: Rig, source: Path, kind: str, target: str) -> None:
    places = copies(source)
    want = rig.run(next(places), words(target), source="x.zarr").document["digest"]
    when = 1
    while kill_at(rig, next(places), target, when, want, (kind,)):
        when += 1
    # A Zarr group has a rename for the description of each node; a file has one at its end.
    assert when > (2 if target != "y.zarr" else VARIABLES if kind == "rename" else 20)
