"""Types and fill values of whole datasets: for all arrays but coordinates, or by name; judged by numpy and xarray."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
import zarr

import reblock
from reblock.api.dataset_types import by_name
from reblock.errors import MisfitError, UsageError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    chance = np.random.default_rng(5)
    axes = ("time", "lat", "lon")
    made = xarray.Dataset(
        {
            "t2m": (axes, chance.normal(size=(6, 4, 3)), {"units": "K", "grid_mapping": "crs"}),
            "u10": (axes, chance.normal(size=(6, 4, 3)), {"_FillValue": -99.0, "missing_value": -99.0}),
            "count": (axes, chance.integers(0, 99, (6, 4, 3), "i4")),
            "height": (("lat", "lon"), chance.normal(size=(4, 3))),
            "crs": ((), np.int32(7)),
            "flag": (("lat",), np.array([b"a", b"b", b"c", b"d"])),
        },
        coords={"time": np.arange(6.0), "lat": np.linspace(-90, 90, 4), "lon": np.arange(3.0)},
    )
    made["t2m"].attrs["coordinates"] = "height"
    made.to_netcdf(tmp_path / "x.nc", engine="netcdf4", encoding={name: {} for name in made.variables})
    return tmp_path / "x.nc"


def types(path: Path) -> dict[str, str]:
    with xarray.open_dataset(path, decode_cf=False, engine="zarr", consolidated=False) as found:
        return {str(name): str(one.dtype) for name, one in found.variables.items()}


def test_all_but_coordinates(source: Path, tmp_path: Path) -> None:
    report = reblock.repartition(source, tmp_path / "y.zarr", dtype="f4")
    found = types(tmp_path / "y.zarr")
    assert {name for name, kind in found.items() if kind == "float32"} == {"t2m", "u10", "count"}
    assert (found["time"], found["lat"], found["height"], found["crs"]) == ("float64", "float64", "float64", "int32")
    assert any("flag" in note and "keep" in note for note in report.notes)
    before = xarray.open_dataset(source, decode_cf=False).load()
    after = xarray.open_dataset(tmp_path / "y.zarr", decode_cf=False, engine="zarr", consolidated=False).load()
    for name in ("t2m", "u10", "count"):
        np.testing.assert_array_equal(after[name].values, before[name].values.astype("f4"))
    assert after["u10"].attrs["_FillValue"] == np.float32(-99)
    assert reblock.verify(source, tmp_path / "y.zarr", dtype="f4")
    assert not reblock.verify(source, tmp_path / "y.zarr")


@pytest.mark.parametrize("given", ["t2m=f4,lat=f4", {"t2m": np.float32, "lat": "f4"}, "*=f8,t2m=f4,lat=f4"])
def test_by_name(source: Path, tmp_path: Path, given: Any) -> None:
    reblock.repartition(source, tmp_path / "y.zarr", dtype=given, exclude="flag")
    found = types(tmp_path / "y.zarr")
    assert (found["t2m"], found["lat"], found["u10"]) == ("float32", "float32", "float64")
    assert found["count"] == ("int32" if "*" not in str(given) else "float64")
    assert reblock.verify(source, tmp_path / "y.zarr", dtype=given, exclude="flag")


def test_a_value_that_does_not_fit_stops_the_run(source: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^t2m: int8 cannot hold the fill value nan: give another with fill_value"):
        reblock.repartition(source, tmp_path / "y.zarr", dtype="t2m=i1")
    with pytest.raises(MisfitError, match=r"x\.nc::t2m: element \[\d, \d, \d\] is .*, which int8 .* cannot hold"):
        reblock.repartition(source, tmp_path / "y.zarr", dtype="t2m=i1", fill_value="t2m=-1")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.nc"]
    reblock.repartition(source, tmp_path / "y.zarr", dtype="t2m=i1", unsafe_cast=True)
    assert reblock.verify(source, tmp_path / "y.zarr", dtype="t2m=i1", unsafe_cast=True)
    assert not reblock.verify(source, tmp_path / "y.zarr", dtype="t2m=i1")


def test_fill_values(source: Path, tmp_path: Path) -> None:
    reblock.repartition(source, tmp_path / "y.zarr", fill_value="t2m=-1,count=7")
    group = zarr.open_group(tmp_path / "y.zarr", mode="r")
    assert (group["t2m"].fill_value, group["count"].fill_value) == (-1, 7)
    reblock.repartition(source, tmp_path / "z.zarr", fill_value=5, exclude="flag")
    group = zarr.open_group(tmp_path / "z.zarr", mode="r")
    assert {name: group[name].fill_value for name in ("t2m", "u10", "count")} == dict.fromkeys(
        ("t2m", "u10", "count"), 5
    )
    assert group["lat"].fill_value != 5
    with xarray.open_dataset(tmp_path / "z.zarr", decode_cf=False, engine="zarr", consolidated=False) as found:
        assert found["u10"].attrs["_FillValue"] == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "t3m=f4"}, "t3m=f4: .* has no such array: there are"),
        ({"dtype": "t2m=f4,u10"}, "'u10' in 't2m=f4,u10' is not NAME=VALUE"),
        ({"dtype": "t2m=f4,t2m=f8"}, "'t2m' is given twice"),
        ({"dtype": "flag=f4"}, "flag: elements of type .* cannot be converted to float32"),
        ({"dtype": "S3", "exclude": "flag"}, "no array of .* becomes"),
        ({"dtype": "f5"}, "unknown dtype 'f5'"),
        ({"fill_value": "count=1.5"}, "count: fill_value: int32 cannot hold 1.5"),
        ({"unsafe_cast": True}, "give dtype"),
    ],
)
def test_what_is_refused(source: Path, tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        reblock.plan(source, tmp_path / "y.zarr", **options)


def test_one_array_has_no_names(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(reblock.ReblockError, match="one array"):
        reblock.plan(tmp_path / "x.npy", tmp_path / "y.zarr", dtype="x=f4")


def test_a_killed_run_is_resumed_with_its_types(source: Path, tmp_path: Path) -> None:
    job = reblock.plan(source, tmp_path / "y.zarr", dtype={"t2m": np.dtype("f4")}, fill_value={"count": 3})
    assert job.request is not None
    assert (job.request["dtype"], job.request["fill_value"]) == ("t2m=<f4", "count=3")
    json.dumps(job.request)

    def stop(done: int, whole: int) -> None:
        if done > whole // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reblock.run(job, progress=stop)
    reblock.resume(tmp_path / "y.zarr")
    assert types(tmp_path / "y.zarr")["t2m"] == "float32"


def test_notation() -> None:
    assert by_name("=f4") is by_name("<f4") is by_name("f4") is by_name(None) is by_name(np.float32) is None
    assert by_name(" a = f4 , b/c==f8") == {"a": "f4", "b/c": "=f8"}


def test_appends_convert_too(source: Path, tmp_path: Path) -> None:
    reblock.repartition(source, tmp_path / "y.zarr", dtype="f4", chunks="time=3", exclude="flag")
    reblock.repartition(source, tmp_path / "y.zarr", dtype="f4", append_along="time", exclude=["flag", "height"])
    group = zarr.open_group(tmp_path / "y.zarr", mode="r")
    assert group["t2m"].shape == (12, 4, 3)
    assert reblock.verify(
        source, tmp_path / "y.zarr", dtype="f4", append_along="time", exclude=["flag", "height", "crs"]
    )
