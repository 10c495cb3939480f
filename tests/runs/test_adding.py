"""New arrays in existing HDF5 and NetCDF files: on a copy that replaces the file, or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr

import reblock
from reblock.errors import ChangedError, DiskError, LockedError, SpaceError, TargetExistsError, UsageError
from reblock.model.medium import Room
from reblock.storage.media.copying import copy_file
from reblock.storage.media.local import LocalMedium

DATA = np.random.default_rng(3).normal(size=(20, 15, 8)).astype("f4")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    np.save(tmp_path / "a.npy", DATA)
    return tmp_path / "a.npy"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.h5"
    with h5py.File(path, "w", userblock_size=512, track_order=True) as file:
        file.attrs["title"] = "mine"
        file.create_dataset("z/deep", data=np.arange(1000), chunks=(100,), compression="gzip", fletcher32=True)
        file["names"] = np.array([b"a", b"bc"], object)
        file["link"] = h5py.SoftLink("/z/deep")
    os.chmod(path, 0o640)
    return path


def _old_is_whole(path: Path) -> None:
    with h5py.File(path) as file:
        assert list(file)[:3] == ["z", "names", "link"]
        assert file.attrs["title"] == "mine"
        assert file["link"][...].tolist() == list(range(1000))
        assert file["names"][...].tolist() == [b"a", b"bc"]


@pytest.mark.parametrize(
    "more", [{}, {"chunks": (7, 7, 7), "codec": "none"}, {"chunks": (7, 7, 7), "codec": "shuffle+gzip:1"}]
)
@pytest.mark.parametrize("inner", ["new", "z/new", "a/b/new"])
def test_into_hdf5(source: Path, old: Path, inner: str, more: dict[str, Any]) -> None:
    report = reblock.repartition(source, f"{old}::{inner}", **more)
    _old_is_whole(old)
    with h5py.File(old) as file:
        np.testing.assert_array_equal(file[inner][...], DATA)
    assert reblock.verify(source, f"{old}::{inner}").target_digest == report.digest
    assert old.stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(old.parent)) == ["a.npy", "old.h5"]
    if shutil.which("h5dump"):
        assert subprocess.run(["h5dump", "-H", str(old)], capture_output=True, check=False).returncode == 0
    with pytest.raises(TargetExistsError):
        reblock.repartition(source, f"{old}::{inner}", **more)
    with pytest.raises(UsageError, match="holds more than"):
        reblock.repartition(source, f"{old}::{inner}", overwrite=True, **more)
    assert reblock.repartition(source, f"{old}::{inner}", exist_ok=True, **more).digest == report.digest


def test_names_that_have_no_place(source: Path, old: Path) -> None:
    for inner, why in (("z/deep/x", "is an array"), ("z", "holds more than|exists"), ("names", "holds more|exists")):
        with pytest.raises(UsageError, match=why):
            reblock.repartition(source, f"{old}::{inner}")
    link = old.parent / "link.h5"
    link.symlink_to(old)
    with pytest.raises(UsageError, match="symbolic link"):
        reblock.repartition(source, f"{link}::new")
    (old.parent / "text.h5").write_text("no HDF5")
    with pytest.raises(TargetExistsError):
        reblock.repartition(source, f"{old.parent / 'text.h5'}::new")
    with pytest.raises(UsageError, match="overlap"):
        reblock.repartition(f"{old}::z/deep", f"{old}::new")
    _old_is_whole(old)


def test_a_file_that_changes_meanwhile(source: Path, old: Path) -> None:
    job = reblock.plan(source, f"{old}::new", chunks=(5, 5, 4), memory="32KiB")
    changed: list[int] = []

    def change(done: int, total: int) -> None:
        if done > total / 2 and not changed:
            changed.append(1)
            with h5py.File(old, "r+") as file:
                file.attrs["title"] = "another"

    with pytest.raises(ChangedError, match="changed since the run that adds to it began"):
        reblock.run(job, progress=change)
    with pytest.raises(ChangedError, match="changed since the run that adds to it began"):
        reblock.repartition(source, f"{old}::new", chunks=(5, 5, 4), memory="32KiB")
    reblock.clean(old)
    with h5py.File(old) as file:
        assert file.attrs["title"] == "another"
        assert "new" not in file
    assert sorted(os.listdir(old.parent)) == ["a.npy", "old.h5"]


def test_a_file_that_another_program_writes(source: Path, old: Path) -> None:
    with h5py.File(old, "r+", locking=True), pytest.raises(DiskError, match="EAGAIN"):
        reblock.repartition(source, f"{old}::new")
    with open(old, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(LockedError, match="another program is writing it"):
            copy_file(str(old), str(old.parent / "copy"))
    assert not (old.parent / "copy").exists()
    _old_is_whole(old)


def test_no_room_for_a_copy(source: Path, old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = LocalMedium.room
    free = DATA.nbytes + old.stat().st_size - 1

    def little(self: LocalMedium, folder: str) -> Room:
        return room(self, folder)._replace(free_bytes=free)

    monkeypatch.setattr(LocalMedium, "room", little)
    with pytest.raises(
        SpaceError, match=rf"\({free + 1} bytes\) are to be written .* \({free} bytes\) are free"
    ) as one:
        reblock.repartition(source, f"{old}::new")
    assert (one.value.needed, one.value.free) == (free + 1, free)
    _old_is_whole(old)
    assert sorted(os.listdir(old.parent)) == ["a.npy", "old.h5"]


@pytest.fixture
def ocean(tmp_path: Path) -> Path:
    path = tmp_path / "ocean.nc"
    with netCDF4.Dataset(path, "w") as file:
        for name, length in (("time", None), ("y", 15), ("x", 8)):
            file.createDimension(name, length)
        file.createVariable("x", "f8", ("x",))[:] = np.arange(8)
        file.createVariable("t", "i2", ("time", "y", "x"), zlib=True, fill_value=-5)[:] = np.ones((20, 15, 8))
        file.title = "mine"
        file.createGroup("deep").createDimension("x", 3)
    return path


def _as_zarr(folder: Path, axes: tuple[str, ...]) -> Path:
    made = xr.Dataset({"v": (axes, DATA, {"units": "K"})})
    made.to_zarr(folder / "v.zarr", zarr_format=3, consolidated=False)
    return folder / "v.zarr"


@pytest.mark.parametrize("codec", ["none", "gzip:1"])
@pytest.mark.parametrize("inner", ["v", "new/v"])
def test_into_netcdf(ocean: Path, inner: str, codec: str) -> None:
    with xr.open_dataset(ocean) as before:
        before.load()
    source = _as_zarr(ocean.parent, ("time", "y", "x"))
    reblock.repartition(f"{source}::v", f"{ocean}::{inner}", chunks=(7, 7, 7), codec=codec)
    with xr.open_dataset(ocean, engine="netcdf4") as after:
        kept = after.drop_vars("v") if inner == "v" else after
        assert kept.load().identical(before)
    with netCDF4.Dataset(ocean) as file:
        found = file[inner]
        np.testing.assert_array_equal(found[...], DATA)
        assert found.dimensions == ("time", "y", "x")
        assert found.units == "K"
        names = list(file.dimensions)
        assert names == ["time", "y", "x"]
        assert [file.dimensions[name].isunlimited() for name in names] == [True, False, False]
        # What was added has its own axis only where the length differs.
        assert list(file["deep"].dimensions) == ["x"]
        assert len(file["deep"].dimensions["x"]) == 3
    if shutil.which("ncdump"):
        ran = subprocess.run(["ncdump", str(ocean)], capture_output=True, check=False)
        assert ran.returncode == 0, ran.stderr


def test_netcdf_dimensions_of_another_length(ocean: Path) -> None:
    source = _as_zarr(ocean.parent, ("x", "q", "r"))
    with pytest.raises(UsageError, match="dimension x has 8 elements there, and axis x of v has 20: add it to a group"):
        reblock.repartition(f"{source}::v", f"{ocean}::v")
    reblock.repartition(f"{source}::v", f"{ocean}::own/v")
    with pytest.raises(UsageError, match="y is already a dimension without a variable"):
        reblock.repartition(f"{source}::v", f"{ocean}::y")
    with netCDF4.Dataset(ocean) as file:
        assert {name: len(one) for name, one in file["own"].dimensions.items()} == {"x": 20, "q": 15, "r": 8}
        numbers = [one._dimid for one in (*file.dimensions.values(), *file["own"].dimensions.values())]
        assert len(set(numbers)) == len(numbers)


def test_a_coordinate_into_netcdf(ocean: Path) -> None:
    np.save(ocean.parent / "d.npy", np.arange(4.0))
    xr.Dataset(coords={"depth": np.arange(4.0)}).to_zarr(ocean.parent / "d.zarr", zarr_format=3, consolidated=False)
    reblock.repartition(f"{ocean.parent}/d.zarr::depth", f"{ocean}::depth")
    with xr.open_dataset(ocean, engine="netcdf4") as found:
        assert found.coords["depth"].values.tolist() == [0, 1, 2, 3]


def test_netcdf3_is_not_added_to(source: Path) -> None:
    with netCDF4.Dataset(source.parent / "c.nc", "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("x", 3)
        file.createVariable("v", "f4", ("x",))[:] = 1
    with pytest.raises(TargetExistsError):
        reblock.repartition(source, f"{source.parent}/c.nc::new")
