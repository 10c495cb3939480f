"""A NetCDF file of forty variables with tables, killed at random moments: the same digest in the end."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest

import reblock
from faults.rig import ALL, Rig

netcdf4 = pytest.importorskip("netCDF4")

OPTIONS = ["--chunks", "time=-1,lat=4", "--memory", "256MiB", "--device", "nvme", "--json"]
TARGETS = ["y.zarr", "y.h5"]
VARIABLES = 36


def make(path: Path, *, start: int = 0, tables: bool = True) -> None:
    """Forty variables: numbers, packed numbers, coordinates, text of any length, records; one in a group."""
    chance = np.random.default_rng(start)
    with netcdf4.Dataset(path, "w") as file:
        for axis, length in (("time", None), ("lat", 8), ("lon", 6)):
            file.createDimension(axis, length)
        for number in range(VARIABLES):
            kind = ("f4", "f8", "i2", "u1")[number % 4]
            place = file.createGroup("ocean") if number % 9 == 8 else file
            packing = {"zlib": True, "shuffle": True} if number % 3 else {}
            made = place.createVariable(f"v{number}", kind, ("time", "lat", "lon"), chunksizes=(2, 8, 3), **packing)
            made.units = "K"
            made[:] = chance.integers(0, 200, (12, 8, 6))
        file.createVariable("time", "f8", ("time",))[:] = np.arange(start, start + 12.0)
        file.createVariable("lat", "f4", ("lat",))[:] = np.linspace(-90, 90, 8)
        if tables:
            file.createVariable("names", str, ("lat",))[:] = np.array([f"Zone {n} °" * n for n in range(8)], object)
            pair = file.createCompoundType(np.dtype([("when", "f8"), ("count", "i4")]), "pair")
            file.createVariable("pairs", pair, ("lon",))[:] = np.array([(n / 3, n) for n in range(6)], pair.dtype)


def kill_at(rig: Rig, folder: Path, words: list[str], when: int, want: str, kinds: tuple[str, ...] = ALL) -> bool:
    """Kill the run at its n-th call and repeat the command; whether it was killed at all."""
    killed = rig.run(folder, words, kinds=kinds, when=when, source="x.nc")
    assert killed.code == (-9 if killed.fired else 0), killed
    if killed.fired:
        again = rig.run(folder, [*words, *(["--exist-ok"] if "--append-along" not in words else [])], source="x.nc")
        assert again.code == 0, again
        assert again.document["digest"] == want
    return killed.fired


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("target", TARGETS)
def test_killed_at_random_moments(rig: Rig, here: Path, target: str) -> None:
    make(here / "x.nc")
    words = ["run", "x.nc", target, *OPTIONS]
    first = fresh(here, "first")
    once = rig.run(first, words, source="x.nc")
    assert once.code == 0, once
    assert len(once.document["arrays"]) + len(once.document["tables"]) == VARIABLES + 4
    chance, fired = random.Random(24), 0
    for number in range(20):
        folder = fresh(here, str(number))
        fired += kill_at(rig, folder, words, chance.randrange(1, once.calls + 1), once.document["digest"])
        assert {path.name for path in folder.iterdir()} == {"x.nc", target}
        assert reblock.verify(folder / "x.nc", folder / target)
        shutil.rmtree(folder)
    assert fired > 15


@pytest.mark.faults
@pytest.mark.timeout(3600)
def test_appends_killed_at_random_moments(rig: Rig, here: Path) -> None:
    make(here / "x.nc", start=12, tables=False)
    make(here / "april.nc", tables=False)
    reblock.repartition(here / "april.nc", here / "old.zarr", chunks="time=4")
    words = ["run", "x.nc", "y.zarr", "--append-along", "time", *OPTIONS[2:]]
    once = rig.run(fresh(here, "first", "old.zarr"), words, source="x.nc")
    assert once.code == 0, once
    chance, fired = random.Random(42), 0
    for number in range(20):
        folder = fresh(here, str(number), "old.zarr")
        fired += kill_at(rig, folder, words, chance.randrange(1, once.calls + 1), once.document["digest"])
        assert {path.name for path in folder.iterdir()} == {"x.nc", "y.zarr"}
        assert reblock.verify(folder / "x.nc", folder / "y.zarr", append_along="time")
        assert reblock.verify(here / "april.nc::v3", folder / "y.zarr::v3", into_region="0:12,:,:")
        shutil.rmtree(folder)
    assert fired > 15


def fresh(here: Path, name: str, old: str = "") -> Path:
    """A folder with the source, and the target that is there before."""
    folder = here / name
    folder.mkdir()
    shutil.copy(here / "x.nc", folder / "x.nc")
    if old:
        shutil.copytree(here / old, folder / "y.zarr")
    return folder
