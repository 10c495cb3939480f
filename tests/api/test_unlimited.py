"""Unlimited axes of single arrays, from HDF5 and NetCDF to HDF5 and NetCDF; judged by h5py, netCDF4 and ncdump."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import reblock

DATA = np.arange(5 * 6 * 7, dtype="f4").reshape(5, 6, 7)


def source(folder: Path, maxshape: tuple[int | None, ...] | None = (None, 6, None), **options: Any) -> str:
    options = {"chunks": (2, 6, 3), "compression": "gzip", **options}
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("x", data=DATA, maxshape=maxshape, **options)
    return f"{folder / 'x.h5'}::x"


@pytest.mark.parametrize(
    ("options", "shape", "limits"),
    [
        ({"chunks": "5,3,7"}, (5, 6, 7), (None, 6, None)),
        ({"chunks": "-1,-1,-1", "codec": "none"}, (5, 6, 7), (None, 6, None)),
        ({"transpose": "1,2,0"}, (6, 7, 5), (6, None, None)),
        ({"region": "1:3,:,2:6"}, (2, 6, 4), (None, 6, None)),
    ],
)
def test_hdf5_to_hdf5(tmp_path: Path, options: dict[str, Any], shape: tuple[int, ...], limits: Any) -> None:
    reblock.repartition(source(tmp_path), tmp_path / "y.h5::x", **options)
    taken = {key: value for key, value in options.items() if key in ("transpose", "region")}
    assert reblock.verify(source(tmp_path), tmp_path / "y.h5", **taken)
    with h5py.File(tmp_path / "y.h5", "r+") as file:
        assert (file["x"].shape, file["x"].maxshape) == (shape, limits)
        before = file["x"][...]
        file["x"].resize(tuple(2 * n if free is None else n for n, free in zip(shape, limits, strict=True)))
        np.testing.assert_array_equal(file["x"][tuple(slice(n) for n in shape)], before)


def test_arrays_of_a_fixed_size_stay_so(tmp_path: Path) -> None:
    where = source(tmp_path, None, chunks=None, compression=None)
    reblock.repartition(where, tmp_path / "y.h5::x", chunks="-1,-1,-1")
    with h5py.File(tmp_path / "y.h5") as file:
        assert (file["x"].maxshape, file["x"].chunks) == (DATA.shape, None)


def test_datasets_without_names_of_axes(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("a", data=DATA, chunks=(2, 6, 3), maxshape=(None, 6, None))
        file.create_dataset("b", data=DATA, chunks=(2, 6, 3))
        file.create_dataset("empty", shape=(0, 3), dtype="f4", chunks=(4, 3), maxshape=(None, 3))
    reblock.repartition(tmp_path / "x.h5", tmp_path / "y.h5")
    with h5py.File(tmp_path / "y.h5") as file:
        assert (file["a"].maxshape, file["b"].maxshape) == ((None, 6, None), DATA.shape)
        assert file["empty"].maxshape == (None, 3)


def test_to_netcdf_and_back(tmp_path: Path) -> None:
    netcdf4 = pytest.importorskip("netCDF4")
    reblock.repartition(source(tmp_path), tmp_path / "y.nc::t", chunks="5,3,7")
    with netcdf4.Dataset(tmp_path / "y.nc") as file:
        assert [one.isunlimited() for one in file.dimensions.values()] == [True, False, True]
        np.testing.assert_array_equal(file["t"][...], DATA)
    reblock.repartition(tmp_path / "y.nc", tmp_path / "z.nc")
    with netcdf4.Dataset(tmp_path / "z.nc") as file:
        assert [one.isunlimited() for one in file.dimensions.values()] == [True, False, True]
    reblock.repartition(tmp_path / "y.nc", tmp_path / "z.h5")
    with h5py.File(tmp_path / "z.h5") as file:
        assert next(iter(file.values())).maxshape == (None, 6, None)


def test_netcdf_3_has_one(tmp_path: Path) -> None:
    report = reblock.repartition(source(tmp_path), tmp_path / "y.nc::t", to_format="netcdf3")
    assert any("first axis is unlimited" in note for note in report.notes)
    if ncdump := shutil.which("ncdump"):
        text = subprocess.run([ncdump, "-h", tmp_path / "y.nc"], capture_output=True, text=True, check=True).stdout
        assert "dim_0 = UNLIMITED ; // (5 currently)" in text
    netcdf4 = pytest.importorskip("netCDF4")
    with netcdf4.Dataset(tmp_path / "y.nc") as file:
        np.testing.assert_array_equal(file["t"][...], DATA)
    reblock.repartition(tmp_path / "y.nc", tmp_path / "z.nc")
    with netcdf4.Dataset(tmp_path / "z.nc") as file:
        assert [one.isunlimited() for one in file.dimensions.values()] == [True, False, False]


def test_added_variables_bring_theirs(tmp_path: Path) -> None:
    netcdf4 = pytest.importorskip("netCDF4")
    reblock.repartition(source(tmp_path, None), tmp_path / "y.nc::a")
    reblock.repartition(source(tmp_path), tmp_path / "y.nc::sub/b")
    with netcdf4.Dataset(tmp_path / "y.nc") as file:
        assert not any(one.isunlimited() for one in file.dimensions.values())
        np.testing.assert_array_equal(file["sub/b"][...], DATA)
    reblock.repartition(source(tmp_path, None), tmp_path / "y.h5::a")
    reblock.repartition(source(tmp_path), tmp_path / "y.h5::sub/b")
    with h5py.File(tmp_path / "y.h5") as file:
        assert file["sub/b"].maxshape == (None, 6, None)
