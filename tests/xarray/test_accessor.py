"""`ds.reblock`: what a dataset shows is what is written; what was computed is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.errors import UsageError

xr = pytest.importorskip("xarray")
pytest.importorskip("reblock.xarray")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(0)
    made = xr.Dataset(
        {
            "t2m": (("time", "lat", "lon"), random.normal(280, 10, (20, 8, 6)).astype("f4"), {"units": "K"}),
            "area": (("lat", "lon"), random.random((8, 6))),
            "crs": ((), np.int32(4326), {"name": "WGS 84"}),
        },
        coords={
            "time": np.arange("2020-01-01", "2020-01-21", dtype="M8[D]").astype("M8[ns]"),
            "lat": np.linspace(-80, 80, 8),
        },
        attrs={"title": "made up", "version": np.int32(3)},
    )
    where = tmp_path_factory.mktemp("accessor") / "source.nc"
    made.to_netcdf(where, engine="h5netcdf", encoding={"t2m": {"chunksizes": (5, 4, 3)}})
    return where


@pytest.fixture
def dataset(path: Path) -> Iterator[Any]:
    with xr.open_dataset(path, engine="h5netcdf") as opened:
        yield opened


def test_a_dataset_of_our_own_engine(path: Path, tmp_path: Path) -> None:
    lazy = xr.open_dataset(path, engine="reblock").isel(time=slice(3, 11))
    lazy.reblock.to_zarr(tmp_path / "ours.zarr")
    with xr.open_zarr(tmp_path / "ours.zarr", consolidated=False) as ours:
        assert ours.identical(lazy)


@pytest.mark.parametrize(
    "select",
    [
        lambda ds: ds,
        lambda ds: ds.isel(time=slice(3, 11)),
        lambda ds: ds.sel(time="2020-01-05"),
        lambda ds: ds.sel(time=slice("2020-01-05", "2020-01-09"), lat=slice(-50, 50))[["t2m"]],
        lambda ds: ds.isel(time=slice(3, 11)).isel(time=slice(2, 4), lon=slice(1, 5)),
        lambda ds: ds.isel(lat=np.arange(2, 6)),
    ],
    ids=["all", "part", "a day", "by values", "part of a part", "by consecutive numbers"],
)
def test_what_is_shown_is_written(dataset: Any, tmp_path: Path, select: Any) -> None:
    shown = select(dataset)
    shown = shown if "time" in shown.dims else dataset.isel(time=slice(4, 5))
    shown.reblock.to_zarr(tmp_path / "ours.zarr", chunks={"time": -1})
    shown.to_zarr(tmp_path / "theirs.zarr", consolidated=False)
    both = [xr.open_zarr(tmp_path / name, consolidated=False) for name in ("ours.zarr", "theirs.zarr")]
    with both[0] as ours, both[1] as theirs:
        assert ours.identical(theirs)
        assert ours.t2m.encoding["chunks"][0] == shown.sizes["time"]


def test_back_to_netcdf(dataset: Any, tmp_path: Path) -> None:
    dataset.reblock.to_netcdf(tmp_path / "copy.nc", chunks={"time": 10})
    with xr.open_dataset(tmp_path / "copy.nc", engine="h5netcdf") as copy:
        assert copy.identical(dataset)
        assert copy.attrs["version"].dtype == np.int32


def test_a_plan_and_advice(dataset: Any) -> None:
    assert "arrays" in dataset.reblock.plan(chunks={"time": -1}, memory="4MiB").to_json()
    advice = dataset.reblock.advise("t2m", access="time-series")
    assert advice.to_json()["best"]["chunks"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda ds: ds.isel(time=slice(None, None, 2)), "steps of 2"),
        (lambda ds: ds.assign(t2m=ds.t2m * 2), "computed"),
        (lambda ds: ds.rename(t2m="temperature"), "renamed"),
        (lambda ds: ds.assign_attrs(title="another"), "attributes"),
        (lambda ds: ds.assign_coords(lat=ds.lat + 1), "computed|not in the file"),
        (lambda ds: ds.chunk(), "dask"),
        (lambda ds: ds.isel(time=[3, 7, 5]), "single places"),
    ],
)
def test_what_was_computed_is_refused(dataset: Any, tmp_path: Path, change: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        change(dataset).reblock.to_zarr(tmp_path / "x.zarr")
    assert not (tmp_path / "x.zarr").exists()


def test_without_xarray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    import reblock.xarray as module

    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ModuleNotFoundError, match=r"reblock\[xarray\]"):
        importlib.reload(module)
    assert reblock.__version__
