"""`engine="reblock"`: the same as xarray's own engines, for every selection."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

import reblock

xr = pytest.importorskip("xarray")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A NetCDF file with packed data, times, text and coordinates, in chunks."""
    where = tmp_path_factory.mktemp("xarray") / "climate.nc"
    random = np.random.default_rng(0)
    dataset = xr.Dataset(
        {
            "t2m": (("time", "lat", "lon"), random.normal(280, 10, (20, 18, 36)), {"units": "K"}),
            "mask": (("lat", "lon"), random.integers(0, 2, (18, 36)).astype("i1"), {"flag_values": np.int8([0, 1])}),
        },
        coords={
            "time": np.arange("2020-01-01", "2020-01-21", dtype="M8[D]").astype("M8[ns]"),
            "lat": np.linspace(-85, 85, 18),
        },
        attrs={"title": "made up", "version": np.int32(3)},
    )
    packed = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 280.0, "_FillValue": -32768}
    dataset.t2m.encoding = {**packed, "chunksizes": (5, 9, 12), "zlib": True}
    dataset.to_netcdf(where, engine="h5netcdf")
    return where


def test_the_same_dataset(path: Path) -> None:
    with xr.open_dataset(path, engine="h5netcdf") as expected:
        assert xr.open_dataset(path, engine="reblock").identical(expected)
        assert xr.open_dataset(path, engine="reblock", mask_and_scale=False).t2m.dtype == np.dtype("i2")


def test_random_selections(path: Path) -> None:
    random = np.random.default_rng(1)
    with xr.open_dataset(path, engine="h5netcdf") as expected:
        whole, lazy = expected.t2m.values, xr.open_dataset(path, engine="reblock").t2m
    # At least 100; more under `make fuzz`.
    for _ in range(max(100, settings.default.max_examples)):
        key = []
        for length in lazy.shape:
            kind = random.integers(4)
            start, stop = sorted(random.integers(0, length + 1, 2).tolist())
            step = int(random.integers(1, 4)) * (-1 if random.random() < 0.3 else 1)
            some = random.integers(0, length, 3)
            options = [slice(start, stop), slice(None, None, step), int(random.integers(length)), some]
            key.append(options[kind])
        found = lazy.isel(dict(zip(lazy.dims, key, strict=True))).values
        wanted = whole
        for axis in reversed(range(3)):
            wanted = wanted[(*[slice(None)] * axis, key[axis])]
        np.testing.assert_array_equal(found, wanted)


def test_it_travels(path: Path) -> None:
    lazy = xr.open_dataset(path, engine="reblock")
    assert pickle.loads(pickle.dumps(lazy)).identical(lazy)


def test_no_default_changes(path: Path) -> None:
    from reblock.xarray.backend import ReblockBackend

    assert not ReblockBackend().guess_can_open(str(path))
    assert xr.backends.plugins.guess_engine(str(path)) != "reblock"


def test_zarr_too(path: Path, tmp_path: Path) -> None:
    reblock.repartition(path, tmp_path / "a.zarr", chunks="time=-1,lat=6,lon=6")
    with xr.open_dataset(path, engine="h5netcdf") as expected:
        assert xr.open_dataset(tmp_path / "a.zarr", engine="reblock").identical(expected)
