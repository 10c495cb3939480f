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
            "u10": (("lon",), random.random(6), {"valid_range": np.array([0, 1])}),
            "v10": (("lon",), random.random(6), {"valid_range": np.array([0, 1])}),
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
        lambda ds: ds.transpose("lon", "time", "lat"),
        lambda ds: ds.isel(time=slice(3, 11)).transpose("lat", ...).isel(lon=slice(1, 3)),
        lambda ds: ds.isel(lat=[3], lon=[2]).transpose("lon", "lat", "time"),
        lambda ds: ds.isel(lat=ds.lat.values > 0).load(),
    ],
    ids=[
        *("all", "part", "a day", "by values", "part of a part", "by consecutive numbers"),
        *("transposed", "a part, transposed, and of that a part", "axes of length 1, transposed", "in memory"),
    ],
)
def test_what_is_shown_is_written(dataset: Any, tmp_path: Path, select: Any) -> None:
    shown = select(dataset)
    shown = shown if "time" in shown.dims else dataset.isel(time=slice(4, 5))
    shown.reblock.to_zarr(tmp_path / "ours.zarr", chunks={"time": -1})
    shown.to_zarr(tmp_path / "theirs.zarr", consolidated=False)
    both = [xr.open_zarr(tmp_path / name, consolidated=False) for name in ("ours.zarr", "theirs.zarr")]
    with both[0] as ours, both[1] as theirs:
        assert ours.identical(theirs)
        assert ours.t2m.encoding["chunks"][shown.t2m.dims.index("time")] == shown.sizes["time"]


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
        (lambda ds: ds.isel(time=[3, 7, 5]), "in another order, or at single places"),
        (lambda ds: ds.isel(lat=slice(None, None, -1)), "steps of -1"),
        (lambda ds: ds.drop_encoding(), "was not opened|were dropped"),
        (lambda ds: ds.drop_attrs(), "were dropped"),
        (lambda ds: ds.isel(time=3), r"such as isel\(time=slice\(3, 4\)\)"),
        (lambda ds: ds.transpose().isel(lat=3), "single place"),
        (lambda ds: ds.isel(lat=xr.DataArray([1, 2], dims="p"), lon=xr.DataArray([1, 2], dims="p")), "dimension 'p'"),
        (lambda ds: ds.isel(lat=slice(3, 3)), "the selection is empty: it takes nothing of the dimension 'lat'"),
        (lambda ds: ds.rename(lon="x"), "dimension 'x'"),
        (lambda ds: ds.rename(u10="v10", v10="u10"), "'v10' is 'u10' in .*renamed"),
        (
            lambda ds: ds.assign(u10=ds.u10.assign_attrs(valid_range=[0, 2])),
            "'u10' were changed in memory .valid_range",
        ),
        (lambda ds: ds.assign(area=ds.area.transpose("lon", "lat")), "different orders"),
    ],
)
def test_what_was_computed_is_refused(dataset: Any, tmp_path: Path, change: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        change(dataset).reblock.to_zarr(tmp_path / "x.zarr")
    assert not (tmp_path / "x.zarr").exists()


OPTIONS: list[dict[str, Any]] = [{}, {"decode_cf": False}, {"mask_and_scale": False}, {"decode_times": False}]


@pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")
@pytest.mark.parametrize("group", [None, "ocean/deep"])
@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf", "zarr 2", "zarr 3", "reblock"])
def test_every_engine(path: Path, tmp_path: Path, engine: str, group: str | None) -> None:
    engine, _, version = engine.partition(" ")
    source = tmp_path / "source"
    with xr.open_dataset(path) as made:
        name = made.assign(name=("lat", np.array(list("abcdefgh"), "S1")))
        if engine == "zarr":
            name.to_zarr(source, group=group, zarr_format=int(version), consolidated=False)
        else:
            name.to_netcdf(source, group=group)
    more: dict[str, Any] = {"engine": engine, **({"consolidated": False} if engine == "zarr" else {})}
    for number, options in enumerate(OPTIONS):
        with xr.open_dataset(source, group=group, **options, **more) as opened:
            shown = opened.isel(time=slice(2, 9)).transpose("lat", ...)
            shown.reblock.to_zarr(tmp_path / f"{number}.zarr")
            with xr.open_dataset(tmp_path / f"{number}.zarr", engine="zarr", consolidated=False, **options) as ours:
                xr.testing.assert_identical(ours, shown)


def test_a_tree(path: Path, tmp_path: Path) -> None:
    with xr.open_dataset(path) as made:
        top = made[["area", "lat"]].assign_attrs(title="top")
        xr.DataTree.from_dict({"/": top, "/a/b": made[["t2m"]].drop_vars("lat")}).to_netcdf(tmp_path / "tree.nc")
    with xr.open_datatree(tmp_path / "tree.nc") as tree:
        assert "lat" in tree["a/b"].coords
        for number, one in enumerate((tree, tree.isel(time=slice(2, 5)), tree["a"])):
            one.reblock.to_zarr(tmp_path / f"{number}.zarr", memory="64MiB", exist_ok=True)
            with xr.open_datatree(tmp_path / f"{number}.zarr", engine="zarr", consolidated=False) as ours:
                nodes = {node.path.removeprefix(one.path): node.to_dataset(inherit=False) for node in one.subtree}
                for name, node in nodes.items():
                    assert ours[name or "/"].to_dataset(inherit=False).identical(node)
        with pytest.raises(UsageError, match="names that they have there"):
            xr.DataTree.from_dict({"/c": tree["a/b"].to_dataset(inherit=False)}).reblock.plan(tmp_path / "x.zarr")


def test_variables_of_two_groups(path: Path, tmp_path: Path) -> None:
    with xr.open_dataset(path) as made:
        for group in "ab":
            made[["t2m", "area"]].to_netcdf(tmp_path / "two.nc", group=group, mode="a")
    a, b = (xr.open_dataset(tmp_path / "two.nc", group=group) for group in "ab")
    with a, b, pytest.raises(UsageError, match="from one group of one file"):
        a.assign(area=b.area).reblock.to_zarr(tmp_path / "x.zarr")


def test_a_file_that_was_replaced(path: Path, tmp_path: Path) -> None:
    with xr.open_dataset(path) as made:
        made.drop_vars(["t2m", "time"]).to_netcdf(tmp_path / "source.nc")
        with xr.open_dataset(tmp_path / "source.nc") as opened:
            made.drop_vars(["t2m", "time"]).isel(lon=slice(1, 4)).to_netcdf(tmp_path / "new.nc")
            (tmp_path / "new.nc").replace(tmp_path / "source.nc")
            with pytest.raises(UsageError, match="has changed since it was opened"):
                opened.reblock.plan()


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        ("x.zarr", {"mode": "w"}, "overwrite=True"),
        ("x.zarr", {"encoding": {}}, "options of their own"),
        ("x.zarr", {"region": {"time": slice(3)}}, "region comes from the dataset"),
        ("x.zarr", {"transpose": "lat,lon"}, "transpose comes from the dataset"),
        (None, {}, "a target is needed"),
        (3, {}, "a path or a URL, not int"),
    ],
)
def test_options_of_others(dataset: Any, target: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        dataset.reblock.to_zarr(target, **options)


def test_a_file_object_has_no_path(path: Path) -> None:
    with path.open("rb") as file:
        opened = xr.open_dataset(file, engine="h5netcdf")
        with opened, pytest.raises(UsageError, match="not opened by the path of a local file"):
            opened.reblock.plan()


def test_chunks_of_any_form(dataset: Any, tmp_path: Path) -> None:
    dataset.reblock.to_zarr(tmp_path / "a.zarr", chunks={"time": np.int64(7), "lat": -1, "lon": "full"})
    assert reblock.open(tmp_path / "a.zarr::t2m").chunks == (7, 8, 6)
    assert dataset.reblock.plan(chunks={"lat": (3, 3, 2)}, to_format="zarr").jobs["lat"].schema.chunks == (3,)


def test_without_xarray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    import reblock.xarray as module

    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ModuleNotFoundError, match=r"reblock\[xarray\]"):
        importlib.reload(module)
    assert reblock.__version__
