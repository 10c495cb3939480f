"""Datasets that are appended to groups, judged by xarray."""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import reblock
from reblock.errors import UsageError

UNITS = "hours since 2020-01-01"


def dataset(start: int, length: int, **attributes: str) -> xr.Dataset:
    chance = np.random.default_rng(start + 100)
    time = xr.Variable("time", np.arange(start, start + length), {"units": UNITS, **attributes})
    return xr.Dataset(
        {
            "t2m": (("time", "lat", "lon"), chance.normal(size=(length, 3, 4)).astype("f4"), {"units": "K"}),
            "sst": (("lat", "time"), chance.normal(size=(3, length))),
            "mask": (("lat", "lon"), np.arange(12, dtype="u1").reshape(3, 4)),
        },
        {"time": time, "lat": np.arange(3.0), "lon": np.arange(4.0)},
    )


@pytest.fixture
def here(tmp_path: Path) -> Path:
    dataset(0, 8).to_netcdf(tmp_path / "a.nc", unlimited_dims=["time"])
    dataset(8, 6).to_netcdf(tmp_path / "b.nc")
    reblock.repartition(tmp_path / "a.nc", tmp_path / "all.zarr", chunks={"time": 4})
    return tmp_path


def opened(path: Path) -> xr.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = xr.open_zarr(path) if path.suffix == ".zarr" else xr.open_dataset(path)
        return found.load()


def test_append_to_a_group_that_xarray_made(here: Path) -> None:
    # Zarr of version 3 has `_FillValue` as text.
    opened(here / "a.nc").to_zarr(here / "theirs.zarr", consolidated=False, zarr_format=3)
    reblock.repartition(here / "b.nc", here / "theirs.zarr", append_along="time")
    reblock.repartition(here / "b.nc", here / "all.zarr", append_along="time")
    xr.testing.assert_identical(opened(here / "theirs.zarr"), opened(here / "all.zarr"))


def test_an_appended_dataset_in_another_order(here: Path) -> None:
    order, after = ["lat", "lon", "time"], opened(here / "b.nc").transpose("lon", "time", "lat")
    after.to_netcdf(here / "turned.nc")
    with pytest.raises(UsageError, match="transpose='time,lat,lon' brings them into that order"):
        reblock.repartition(here / "turned.nc", here / "all.zarr", append_along="time", exclude="mask")
    reblock.repartition(here / "a.nc", here / "turned.zarr", transpose=order)
    reblock.repartition(here / "turned.nc", here / "turned.zarr", append_along="time", transpose=order)
    assert reblock.verify(here / "turned.nc", here / "turned.zarr", append_along="time", transpose=order)
    reblock.repartition(here / "b.nc", here / "all.zarr", append_along="time")
    xr.testing.assert_identical(opened(here / "turned.zarr"), opened(here / "all.zarr").transpose(*order))


def test_an_appended_dataset_is_what_xarray_concatenates(here: Path) -> None:
    report: Any = reblock.repartition(here / "b.nc", here / "all.zarr", append_along="time")
    assert sorted(report.arrays) == ["sst", "t2m", "time"]
    assert any(note.endswith("the same in both") and "mask" in note for note in report.notes)
    options: dict[str, Any] = {"data_vars": "minimal", "coords": "minimal", "compat": "override", "join": "exact"}
    want = xr.concat([opened(here / "a.nc"), opened(here / "b.nc")], "time", **options)
    xr.testing.assert_identical(opened(here / "all.zarr"), want)
    assert sorted(os.listdir(here)) == ["a.nc", "all.zarr", "b.nc"]
    assert reblock.open_dataset(here / "all.zarr").store.tree.groups[""].dimensions["time"].unlimited
    again: Any = reblock.repartition(here / "b.nc", here / "all.zarr", append_along="time")
    assert again.digest == report.digest
    assert opened(here / "all.zarr").sizes["time"] == 14


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda ds: ds.assign_coords(lat=ds.lat + 1), "lat of .* differs from that of"),
        (lambda ds: ds.drop_vars("sst"), "has no sst, which"),
        (lambda ds: ds.assign(more=ds.t2m), "has no more with the axis time"),
        (
            lambda ds: ds.assign(t2m=ds.t2m.astype("f8").assign_attrs(units="K")),
            "t2m: the source has elements of float64",
        ),
        (lambda ds: ds.rename(time="day"), "no array of .* has the axis 'time'"),
        (lambda ds: ds.assign(t2m=ds.t2m.assign_attrs(units="C")), "attribute units of the source is 'C'"),
    ],
)
def test_another_dataset_is_refused(here: Path, change: Any, words: str) -> None:
    before = {path: path.read_bytes() for path in (here / "all.zarr").rglob("*") if path.is_file()}
    change(dataset(8, 6)).to_netcdf(here / "c.nc")
    with pytest.raises(reblock.UsageError, match=words):
        reblock.repartition(here / "c.nc", here / "all.zarr", append_along="time")
    assert {path: path.read_bytes() for path in (here / "all.zarr").rglob("*") if path.is_file()} == before


def test_times_of_another_epoch_are_refused(here: Path) -> None:
    other = dataset(0, 4)
    other.time.attrs["units"] = "hours since 2021-01-01"
    other.to_netcdf(here / "c.nc")
    with pytest.raises(reblock.UsageError, match="time: the attribute units of the source is 'hours since 2021"):
        reblock.plan(here / "c.nc", here / "all.zarr", append_along="time")


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (4, "its time begins at 4, before .*all.zarr ends, at 7: they overlap"),
        (12, "its time begins at 12, a step of 5 behind .*all.zarr, other steps are 1"),
        (-4, "by time, it comes before .*all.zarr"),
        (8, None),
    ],
)
def test_a_note_says_if_times_do_not_follow(here: Path, start: int, words: str | None) -> None:
    dataset(start, 4).to_netcdf(here / "c.nc")
    notes = [
        note for note in reblock.plan(here / "c.nc", here / "all.zarr", append_along="time").notes if "c.nc: " in note
    ]
    assert bool(notes) == (words is not None)
    assert words is None or re.search(words, notes[0])


def stop(here: Path, path: str = "b.nc") -> None:
    """Begin to append a dataset, and stop after the first array."""
    done = [0]
    job = reblock.plan(here / path, here / "all.zarr", append_along="time")
    with pytest.raises(KeyboardInterrupt):
        reblock.run(job, progress=lambda now, _: done.append(now), cancelled=lambda: done[-1] > 300)


def test_a_stopped_append_is_resumed_or_discarded(here: Path) -> None:
    before = {path: path.read_bytes() for path in (here / "all.zarr").rglob("*") if path.is_file()}
    stop(here)
    found = reblock.status(here / "all.zarr")
    assert found is not None
    assert found.options["append_along"] == "time"
    assert set(found.arrays) == {"t2m", "sst", "time"}
    assert {path: path.read_bytes() for path in (here / "all.zarr").rglob("*") if path.is_file()} == before
    with pytest.raises(reblock.UnfinishedError):
        reblock.repartition(here / "a.nc", here / "all.zarr", append_along="time")
    assert reblock.resume(here / "all.zarr") is not None
    assert opened(here / "all.zarr").sizes["time"] == 14
    assert reblock.verify(f"{here}/b.nc::sst", f"{here}/all.zarr::sst", append_along="time")


def test_a_discarded_append_leaves_nothing(here: Path) -> None:
    before = {path: path.read_bytes() for path in (here / "all.zarr").rglob("*") if path.is_file()}
    stop(here)
    assert reblock.clean(here / "all.zarr")
    assert {path: path.read_bytes() for path in (here / "all.zarr").rglob("*") if path.is_file()} == before
    assert sorted(os.listdir(here)) == ["a.nc", "all.zarr", "b.nc"]


def test_verify_an_append(here: Path) -> None:
    reblock.repartition(here / "b.nc", here / "all.zarr", append_along="time")
    assert reblock.verify(here / "b.nc", here / "all.zarr", append_along="time")
    assert reblock.verify(here / "b.nc", here / "all.zarr", append_along="time", reader="library")
    verdict = reblock.verify(here / "a.nc", here / "all.zarr", append_along="time")
    assert not verdict
    assert {name for name, one in verdict.arrays.items() if not one.equal} == {"t2m", "sst", "time"}
    part = reblock.verify(here / "b.nc", here / "all.zarr", append_along="time", region="time=0:4", include="t2m")
    assert not part
    with pytest.raises(reblock.UsageError, match=r"no array of .* has the axis 'height'"):
        reblock.verify(here / "b.nc", here / "all.zarr", append_along="height")
    with pytest.raises(reblock.UsageError, match="into_region is for one array"):
        reblock.verify(here / "b.nc", here / "all.zarr", into_region="time=0:4")


def test_verify_an_append_that_leaves_arrays_out(here: Path) -> None:
    """What has no such axis, and is in one of the datasets only, is not part of an append."""
    dataset(8, 6).assign(more=("lat", np.arange(3.0))).drop_vars("lon").to_netcdf(here / "c.nc")
    reblock.repartition(here / "c.nc", here / "all.zarr", append_along="time")
    assert reblock.verify(here / "c.nc", here / "all.zarr", append_along="time")


def test_a_ragged_dataset_names_where_an_append_may_begin(here: Path) -> None:
    reblock.repartition(here / "b.nc", here / "all.zarr", append_along="time")
    dataset(14, 2).to_netcdf(here / "c.nc")
    words = r"(t2m|sst|time) has length 14 along axis \d \(time\), inside a chunk of 4: .* begin at 12 or 16"
    with pytest.raises(reblock.UsageError, match=words):
        reblock.repartition(here / "c.nc", here / "all.zarr", append_along="time")
