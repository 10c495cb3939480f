"""`engine="reblock"`: the same as xarray's own engines, for every selection."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

import reblock
from reblock.api.array import Array
from reblock.errors import FormatError, UsageError

xr = pytest.importorskip("xarray")
pytest.importorskip("reblock.xarray")


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


@pytest.mark.parametrize("version", [2, 3])
def test_options_that_decode(path: Path, tmp_path: Path, version: int) -> None:
    with xr.open_dataset(path, engine="h5netcdf") as made:
        made.where(made.lat > 0).to_zarr(tmp_path / "x.zarr", zarr_format=version, consolidated=False)
    for options in ({}, {"decode_cf": False}, {"mask_and_scale": False}, {"decode_times": False}):
        expected = xr.open_dataset(tmp_path / "x.zarr", engine="zarr", consolidated=False, **options)
        xr.testing.assert_identical(xr.open_dataset(tmp_path / "x.zarr", engine="reblock", **options), expected)


def test_points_and_places(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the chunks that are wanted are read, once each, and no more elements than there are."""
    with xr.open_dataset(path, engine="h5netcdf") as expected:
        whole = expected.t2m.load()
    lazy, random = xr.open_dataset(path, engine="reblock").t2m, np.random.default_rng(4)
    monkeypatch.setattr("reblock.xarray.reading._MANY_ELEMENTS", 4)
    for dims in ("p", ("p", "q"), ()):
        for _ in range(12):
            shape = tuple(random.integers(0, 6, len(dims)))
            taken = random.permutation(lazy.dims)[: random.integers(2, 4)]
            key = {dim: xr.DataArray(random.integers(-9, 9, shape), dims=dims) for dim in taken}
            xr.testing.assert_identical(lazy.isel(key), whole.isel(key))
    turned = lazy.transpose("lon", "time", "lat"), whole.transpose("lon", "time", "lat")
    for key in ({}, {"time": slice(2, 9), "lat": [3, 1]}, {"lon": 4}):
        xr.testing.assert_identical(turned[0].isel(key), turned[1].isel(key))
    twice = {name: xr.DataArray([3, 3], dims=f"{name}s") for name in ("lat", "lon")}
    xr.testing.assert_identical(lazy.isel(twice), whole.isel(twice))
    monkeypatch.undo()
    loads: list[int] = []
    load = Array.load_box

    def counted(self: Array, box: Any, steps: Any = None) -> Any:
        found = load(self, box, steps)
        loads.append(found.size)
        return found

    monkeypatch.setattr(Array, "load_box", counted)
    lazy.isel(time=[19, 0, 0], lat=[0, 17]).load()
    assert loads == [2 * 2 * 36]
    loads.clear()
    # Two of the points are in the same chunks.
    lazy.isel(lat=xr.DataArray([0, 17, 1], dims="p"), lon=xr.DataArray([0, 35, 1], dims="p")).load()
    assert sorted(loads) == [20, 80]


def test_a_working_directory_that_changes(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    lazy = xr.open_dataset(path.name, engine="reblock")
    monkeypatch.chdir(tmp_path)
    assert lazy.identical(xr.open_dataset(path, engine="h5netcdf"))


def test_trees_and_unlimited_dimensions(path: Path, tmp_path: Path) -> None:
    with xr.open_dataset(path, engine="h5netcdf") as made:
        tree = xr.DataTree.from_dict({"/": made[["mask"]], "/a/b": made[["t2m"]]})
        tree.to_netcdf(tmp_path / "tree.nc", unlimited_dims={"/a/b": ["time"]})
    for group in (None, "a"):
        with xr.open_datatree(tmp_path / "tree.nc", engine="h5netcdf", group=group) as expected:
            xr.testing.assert_identical(xr.open_datatree(tmp_path / "tree.nc", engine="reblock", group=group), expected)
    lazy = xr.open_dataset(tmp_path / "tree.nc", engine="reblock", group="a/b")
    assert lazy.encoding["unlimited_dims"] == {"time"}


def test_an_array_that_is_alone(tmp_path: Path) -> None:
    np.save(tmp_path / "scan.npy", np.arange(6.0).reshape(2, 3))
    lazy = xr.open_dataset(tmp_path / "scan.npy", engine="reblock")
    assert lazy.scan.dims == ("axis_0", "axis_1")
    assert lazy.scan[1, ::-1].values.tolist() == [5, 4, 3]
    with pytest.raises(UsageError, match="holds one array"):
        lazy.reblock.to_zarr(tmp_path / "x.zarr")
    with pytest.raises(FormatError, match="unknown format"):
        xr.open_dataset(__file__, engine="reblock")
