"""Whole datasets: planned, run, chosen, skipped, replaced, compared; judged by xarray and zarr-python."""

from __future__ import annotations

import hashlib
import json
import struct
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray
import zarr

import reblock
from reblock.errors import InfeasibleError, TargetExistsError, UsageError

CHUNKS = "time=-1,lat=4,lon=3"


def dataset() -> xarray.Dataset:
    chance = np.random.default_rng(7)
    axes = ("time", "lat", "lon")
    return xarray.Dataset(
        {
            "t2m": (axes, chance.normal(size=(10, 8, 6)).astype("f4"), {"units": "K", "level": np.int16(2)}),
            "wind": (axes, chance.normal(size=(10, 8, 6)).astype("f4")),
            "packed": (axes, chance.integers(0, 99, (10, 8, 6)).astype("i2"), {"scale_factor": 0.5}),
            "mask": (("lat", "lon"), chance.integers(0, 2, (8, 6)).astype("i1")),
            "area": ((), np.float64(510.1)),
            "none": (("lat", "empty"), np.zeros((8, 0), "f4")),
        },
        coords={
            "time": np.arange(10, dtype="i4"),
            "lat": np.linspace(-90, 90, 8),
            "lon": np.arange(6, dtype=">f4"),
        },
        attrs={"title": "a small world"},
    )


def save(path: Path, made: xarray.Dataset | None = None, **options: Any) -> xarray.Dataset:
    made = dataset() if made is None else made
    chunks = {str(name): {"chunks": (5, 8, 2)} for name, one in made.items() if one.ndim == 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about consolidated metadata of zarr v3
        made.to_zarr(path, encoding=chunks, **options)
    return made


def load(path: Path) -> xarray.Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return xarray.open_dataset(path, engine="zarr", decode_cf=False, chunks=None).load()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    save(tmp_path / "world.zarr")
    return tmp_path / "world.zarr"


@pytest.mark.parametrize("version", ["zarr", "zarr2"])
def test_a_dataset_is_the_same_afterwards(tmp_path: Path, version: str) -> None:
    source, target = tmp_path / "world.zarr", tmp_path / "out.zarr"
    save(source, zarr_format=2 if version == "zarr2" else 3)
    report = reblock.repartition(source, target, chunks=CHUNKS, memory="64MiB", to_format=version)
    # zarr v2 has no fill value or 0 for the same array, which xarray tells apart.
    assert load(source).identical(load(target)) if version == "zarr" else load(source).equals(load(target))
    group = zarr.open_group(target, mode="r")
    assert {name: group[name].chunks for name in ("t2m", "mask", "time", "lat", "area")} == {
        "t2m": (10, 4, 3),
        "mask": (4, 3),
        "time": (10,),
        "lat": (4,),
        "area": (),
    }
    assert isinstance(report, reblock.api.DatasetReport)
    assert set(report.arrays) == set(dataset().variables)
    assert report.measured.seeks == sum(one.measured.seeks for one in report.arrays.values()) == report.predicted.seeks
    assert reblock.verify(source, target)
    document = report.to_json()
    assert document["digest"].startswith("rbd1-")
    assert document["arrays"]["t2m"]["digest"] == reblock.info(f"{target}::t2m")["digest"]


def test_arrays_without_the_axis_keep_their_chunks(source: Path, tmp_path: Path) -> None:
    reblock.repartition(source, tmp_path / "out.zarr", chunks={"time": 2})
    group = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert (group["t2m"].chunks, group["mask"].chunks, group["time"].chunks) == ((2, 8, 2), (8, 6), (2,))


def test_digests_do_not_depend_on_chunks(source: Path, tmp_path: Path) -> None:
    one = reblock.repartition(source, tmp_path / "a.zarr", chunks=CHUNKS)
    two = reblock.repartition(source, tmp_path / "b.zarr", chunks="auto", codec="zstd:1", to_format="zarr2")
    assert one.digest == two.digest is not None
    verdict = reblock.verify(tmp_path / "a.zarr", tmp_path / "b.zarr")
    assert verdict.source_digest == verdict.target_digest == one.digest


def test_shards_and_codec_by_name(source: Path, tmp_path: Path) -> None:
    reblock.repartition(
        source, tmp_path / "out.zarr", chunks="time=5,lat=4,lon=3", shards="time=10,lat=8,lon=6", codec="none"
    )
    group = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert (group["t2m"].shards, group["t2m"].chunks, group["area"].shards) == ((10, 8, 6), (5, 4, 3), None)
    assert load(source).identical(load(tmp_path / "out.zarr"))


def test_a_region_by_name(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.zarr"
    reblock.repartition(source, target, chunks=CHUNKS, region="time=2:7,lat=0:3")
    assert load(source).isel(time=slice(2, 7), lat=slice(0, 3)).identical(load(target))
    assert reblock.verify(source, target, region={"time": slice(2, 7), "lat": slice(0, 3)})
    assert not reblock.verify(source, target)


def test_groups(tmp_path: Path) -> None:
    source, target = tmp_path / "a.zarr", tmp_path / "b.zarr"
    top = zarr.create_group(source, attributes={"title": "x"})
    ocean = top.create_group("ocean", attributes={"depth": [1, 2]})
    ocean.create_group("empty")
    for name in ("ocean/salt", "ocean/deep/salt", "air"):
        made = top.create_array(name, shape=(6, 4), chunks=(3, 4), dtype="f4", dimension_names=["y", "x"])
        made[...] = np.arange(24).reshape(6, 4) + len(name)
    reblock.repartition(source, target, chunks="y=2")
    found = zarr.open_group(target, mode="r")
    assert dict(found["ocean"].attrs) == {"depth": [1, 2]}
    assert isinstance(found["ocean/empty"], zarr.Group)
    for name in ("ocean/salt", "ocean/deep/salt", "air"):
        np.testing.assert_array_equal(found[name][...], top[name][...])
        assert found[name].chunks == (2, 4)
    # A group inside the source, into a group inside the target.
    reblock.repartition(f"{source}::ocean", f"{tmp_path / 'c.zarr'}::inside", chunks="y=2")
    again = zarr.open_group(tmp_path / "c.zarr", mode="r")
    np.testing.assert_array_equal(again["inside/deep/salt"][...], top["ocean/deep/salt"][...])


def test_one_array_stays_a_root_array(tmp_path: Path) -> None:
    top = zarr.create_group(tmp_path / "a.zarr")
    top.create_array("only", data=np.arange(12).reshape(3, 4), chunks=(2, 2))
    reblock.repartition(tmp_path / "a.zarr", tmp_path / "b.zarr", chunks="3,1")
    assert zarr.open_array(tmp_path / "b.zarr", mode="r").chunks == (3, 1)


def test_attributes_around_the_only_array_are_named(tmp_path: Path) -> None:
    top = zarr.create_group(tmp_path / "a.zarr", attributes={"title": "world"})
    top.create_array("only", data=np.arange(12).reshape(3, 4), chunks=(2, 2))
    report = reblock.repartition(tmp_path / "a.zarr", tmp_path / "b.zarr")
    assert [note for note in report.notes if "attributes title" in note and "only" in note]
    assert not reblock.repartition(tmp_path / "a.zarr::only", tmp_path / "c.zarr").notes
    reblock.repartition(tmp_path / "a.zarr", tmp_path / "d.zarr", include="*")
    assert dict(zarr.open_group(tmp_path / "d.zarr", mode="r").attrs) == {"title": "world"}


# ---------------------------------------------------------------- which arrays
@pytest.mark.parametrize("to_format", ["zarr", "netcdf", "hdf5"])
@pytest.mark.parametrize("order", ["lon,lat,time", ("lat", "time")])
def test_a_transposed_dataset(source: Path, tmp_path: Path, to_format: str, order: Any) -> None:
    target, names = tmp_path / "out", order.split(",") if isinstance(order, str) else order
    reblock.repartition(source, target, transpose=order, region={"time": slice(2, 9)}, to_format=to_format)
    want = load(source).isel(time=slice(2, 9))
    for name, one in reblock.open_dataset(target).arrays.items():
        free = iter([dim for dim in names if dim in want[name].dims])
        moved = want[name].transpose(*[next(free) if dim in names else dim for dim in want[name].dims])
        assert (one.axes or ()) == moved.dims
        np.testing.assert_array_equal(one[...], moved.values)
    assert reblock.verify(source, target, transpose=order, region="time=2:9", memory="8MiB")
    assert not reblock.verify(source, target, region="time=2:9")
    # The same command finds everything done; another order is another job.
    made: dict[str, Any] = {"region": "time=2:9", "to_format": to_format, "exist_ok": True}
    again: Any = reblock.repartition(source, target, transpose=",".join(names), **made)
    assert "already complete" in " ".join(again.notes)
    with pytest.raises(TargetExistsError):
        reblock.repartition(source, target, **made)


def test_a_transposed_dataset_resumes(source: Path, tmp_path: Path) -> None:
    view: dict[str, Any] = {"transpose": ("lon", "lat", "time"), "region": {"time": slice(2, 9)}}
    asked = iter(range(10_000))
    job = reblock.plan(source, tmp_path / "out.zarr", chunks={"time": 1, "lat": 1}, **view)
    with pytest.raises(KeyboardInterrupt):
        reblock.run(job, cancelled=lambda: next(asked) > 60)
    stopped: Any = reblock.status(tmp_path / "out.zarr")
    assert stopped.options["transpose"] == "lon,lat,time"
    reblock.resume(tmp_path / "out.zarr")
    assert reblock.verify(source, tmp_path / "out.zarr", **view)


@pytest.mark.parametrize("to_format", ["zarr", "zarr2", "netcdf", "hdf5"])
def test_a_codec_for_all_arrays_but_single_elements(source: Path, tmp_path: Path, to_format: str) -> None:
    reblock.repartition(source, tmp_path / "out", codec="gzip:4", to_format=to_format)
    codecs = {name: str(one.store.schema.codec) for name, one in reblock.open_dataset(tmp_path / "out").arrays.items()}
    assert (codecs["t2m"], codecs["area"]) == ("gzip:4", "none")


def test_text_is_not_transposed(tmp_path: Path) -> None:
    names = xarray.Dataset({"names": (("a", "b"), np.array([["x", "yy"]] * 2, dtype=object)), "n": (("a",), [1, 2])})
    names.to_netcdf(tmp_path / "names.nc", engine="h5netcdf")
    for call in (reblock.plan, reblock.verify):
        with pytest.raises(UsageError, match="names cannot be transposed"):
            call(tmp_path / "names.nc", tmp_path / "names.nc", transpose="b,a")


@pytest.mark.parametrize(
    ("include", "exclude", "kept"),
    [
        (["t2m", "w*"], [], {"t2m", "wind"}),
        ([], ["*a*"], {"t2m", "wind", "time", "lon", "none"}),
        ("*t*", "t2m", {"lat", "time"}),
    ],
)
def test_include_and_exclude(source: Path, tmp_path: Path, include: Any, exclude: Any, kept: set[str]) -> None:
    kept = kept - ({"lat"} if exclude == ["*a*"] else set())
    reblock.repartition(source, tmp_path / "out.zarr", include=include, exclude=exclude)
    assert set(zarr.open_group(tmp_path / "out.zarr", mode="r").array_keys()) == kept
    assert reblock.verify(source, tmp_path / "out.zarr", include=include, exclude=exclude)
    verdict = reblock.verify(source, tmp_path / "out.zarr")
    assert not verdict
    assert "mask is missing in the target" in verdict.differences


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunks": "10,4,3"}, "name axes: empty=…,lat=…"),
        ({"chunks": "height=3"}, "no array has the axis 'height': the axes are"),
        ({"region": "0:3"}, "name axes"),
        (
            {"transpose": (2, 1, 0)},
            "names '2': arrays differ, so an axis is given by its name; the axes are empty, lat",
        ),
        ({"transpose": "lat,height"}, "names 'height': no array has such an axis"),
        ({"transpose": "lat,time,lat"}, "'lat' is given twice"),
        ({"transpose": {"lat": 0}}, "a transpose is a list of axes"),
        ({"chunk_order": "morton"}, "chunk_order is for one array"),
        ({"include": "x*"}, "'x\\*' matches none of the arrays"),
        ({"exclude": "*"}, "leave no array"),
        ({"to_format": "npy"}, "npy holds one array.*choose one of zarr"),
        ({"shape": "3,3"}, "describe a source that is not given"),
    ],
)
def test_what_makes_no_sense_for_several_arrays(
    source: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match=message):
        reblock.plan(source, tmp_path / "out.zarr", **options)
    assert sorted(tmp_path.rglob("*")) == before


def test_options_for_datasets_on_an_array(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, 3)))
    with pytest.raises(UsageError, match="holds one array"):
        reblock.plan(tmp_path / "x.npy", tmp_path / "y.zarr", include="x")
    # There is nothing to skip, as in a loop over many files.
    reblock.plan(tmp_path / "x.npy", tmp_path / "y.zarr", skip_unsupported=True)


def test_too_little_memory_names_the_array(source: Path, tmp_path: Path) -> None:
    with pytest.raises(InfeasibleError, match=r"^(t2m|wind|packed): "):
        reblock.plan(source, tmp_path / "out.zarr", chunks=CHUNKS, memory=2000)


# ---------------------------------------------------------------- what is there
def test_exist_ok_and_overwrite(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.zarr"
    once = reblock.repartition(source, target, chunks=CHUNKS)
    with pytest.raises(TargetExistsError):
        reblock.repartition(source, target, chunks=CHUNKS)
    again = reblock.repartition(source, target, chunks=CHUNKS, exist_ok=True)
    assert again.write_boxes == 0
    assert again.digest == once.digest
    assert {name: one.digest for name, one in again.arrays.items()} == {
        name: one.digest for name, one in once.arrays.items()
    }
    with pytest.raises(TargetExistsError, match="another job"):
        reblock.repartition(source, target, chunks="time=5", exist_ok=True)
    reblock.repartition(source, target, chunks="time=5", overwrite=True)
    assert zarr.open_group(target, mode="r")["t2m"].chunks == (5, 8, 2)
    (target / "notes.txt").write_text("mine")
    with pytest.raises(TargetExistsError, match=r"notes\.txt"):
        reblock.repartition(source, target, chunks=CHUNKS, overwrite=True)
    assert (target / "notes.txt").exists()


def test_verify_names_what_differs(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.zarr"
    reblock.repartition(source, target, chunks=CHUNKS)
    group = zarr.open_group(target, mode="r+")
    group["t2m"][3, 2, 1] = 1e9
    group.create_array("more", data=np.zeros(3))
    for reader in ("reblock", "library"):
        verdict = reblock.verify(source, target, reader=reader)
        assert not verdict
        assert any(one.startswith("t2m: 1 element differs, first at [3, 2, 1]") for one in verdict.differences)
        assert "more is missing in the source" in verdict.differences
        assert verdict.arrays["wind"].equal


def test_a_source_that_changes_is_not_published(source: Path, tmp_path: Path) -> None:
    """Also if the array that changes was already written."""
    job = reblock.plan(source, tmp_path / "out.zarr", chunks=CHUNKS)
    changed = []

    def progress(done: int, whole: int) -> None:
        if done > whole // 2 and not changed:
            chunk = next(path for path in sorted((source / "mask" / "c").rglob("*")) if path.is_file())
            chunk.write_bytes(chunk.read_bytes())
            changed.append(chunk)

    with pytest.raises(reblock.ReblockError, match="changed"):
        reblock.run(job, progress=progress)
    assert changed
    assert not (tmp_path / "out.zarr").exists()


def test_progress_ends_at_the_total(source: Path, tmp_path: Path) -> None:
    job = reblock.plan(source, tmp_path / "out.zarr", chunks=CHUNKS)
    seen: list[tuple[int, int]] = []
    reblock.run(job, progress=lambda *pair: seen.append(pair))
    assert max(seen) == (job.cost.bytes_read + job.cost.bytes_written,) * 2


def test_plans_in_words_and_json(source: Path, tmp_path: Path) -> None:
    job = reblock.plan(source, tmp_path / "out.zarr", chunks=CHUNKS)
    text = job.explain()
    assert all(name in text for name in dataset().variables)
    document = json.loads(json.dumps(job.to_json()))
    assert document["cost"]["seeks"] == sum(one["cost"]["seeks"] for one in document["arrays"].values())
    assert repr(job).startswith("<reblock DatasetJob")
    with pytest.raises(UsageError, match="one array"):
        reblock.save_plan(job, tmp_path / "p.json")


def test_equal_problems_are_planned_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from reblock.api import parts

    made = {f"v{number}": (("y", "x"), np.random.default_rng(number).normal(size=(60, 50))) for number in range(40)}
    save(tmp_path / "many.zarr", xarray.Dataset(made))
    count, choose = [0], parts.choose

    def counting(*given: Any, **options: Any) -> Any:
        count[0] += 1
        return choose(*given, **options)

    monkeypatch.setattr(parts, "choose", counting)
    job = reblock.plan(tmp_path / "many.zarr", tmp_path / "out.zarr", chunks="y=7", device="nvme")
    assert len(job.jobs) == 40
    assert count[0] <= 2


# ---------------------------------------------------------------- between formats
def test_forty_variables_of_a_netcdf_file(tmp_path: Path) -> None:
    chance = np.random.default_rng(1)
    axes = ("time", "latitude", "longitude")
    made = {f"v{n:02}": (axes, chance.normal(size=(20, 12, 10)).astype("f4"), {"n": np.int16(n)}) for n in range(37)}
    coordinates = {
        "time": np.arange(20, dtype="i4"),
        "latitude": np.linspace(-90, 90, 12),
        "longitude": np.arange(10.0),
    }
    world = xarray.Dataset(made, coordinates, {"title": "forty"})
    filters = {name: {"chunksizes": (5, 12, 10), "zlib": True, "shuffle": True} for name in made}
    source, target, back = tmp_path / "era.nc", tmp_path / "era.zarr", tmp_path / "back.h5"
    world.to_netcdf(source, engine="h5netcdf", encoding=filters)
    options = {"chunks": "time=-1,latitude=4,longitude=4", "memory": "256MiB", "device": "nvme"}
    report = reblock.repartition(source, target, **options)
    assert len(report.arrays) == 40
    assert report.measured.peak_bytes <= 256 << 20
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before, after = xarray.open_dataset(source, engine="h5netcdf"), xarray.open_dataset(target, engine="zarr")
        assert before.identical(after)
        before.close()
    assert reblock.repartition(target, back, chunks="time=5", device="nvme").digest == report.digest
    assert reblock.verify(source, back)


def tables(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(24.0).reshape(4, 6), chunks=(2, 3))
        file.create_dataset("names", data=["ä", "bb", ""] + ["x" * n for n in range(200)], dtype=h5py.string_dtype())
        record = np.dtype([("a", "<i4"), ("b", ">f8"), ("c", "S3")])
        file.create_dataset("deep/record", data=np.array([(1, 2.5, b"q"), (3, -0.0, b"zz")], record))
        file.create_dataset("flag", data=[0, 1, 1], dtype=h5py.enum_dtype({"N": 0, "Y": 1}, basetype="i1"))
        file.create_dataset("word", data="hello", dtype=h5py.string_dtype())
        file["deep"].attrs["k"] = np.int16(3)


def test_tables_are_copied_by_rows(tmp_path: Path) -> None:
    source, target = tmp_path / "a.h5", tmp_path / "b.h5"
    tables(source)
    report = reblock.repartition(source, target, chunks="auto", memory="1MiB")
    assert set(report.tables) == {"names", "deep/record", "flag", "word"}
    with h5py.File(source) as one, h5py.File(target) as two:
        for name in report.tables:
            assert one[name].dtype == two[name].dtype
            np.testing.assert_array_equal(one[name][()], two[name][()])
    assert reblock.verify(source, target)
    with h5py.File(target, "r+") as file:
        file["names"][1] = "other"
    verdict = reblock.verify(source, target)
    assert verdict.differences == ("names: the rows differ",)


def test_the_digest_of_a_table_is_as_described(tmp_path: Path) -> None:
    """`docs/reference/digest.md`, by hand."""
    tables(tmp_path / "a.h5")
    found = reblock.repartition(tmp_path / "a.h5", tmp_path / "b.h5").tables

    def digest(header: str, data: bytes) -> str:
        return "rbt1-" + hashlib.blake2b(header.encode() + b"\n" + data, digest_size=16).hexdigest()

    def text(*words: str) -> bytes:
        return b"".join(len(w.encode()).to_bytes(8, "little") + w.encode() for w in words)

    assert found["word"] == digest("rbt1 text ", text("hello"))
    assert found["names"] == digest("rbt1 text 203", text("ä", "bb", "", *("x" * n for n in range(200))))
    record = b"".join(struct.pack("<id3s", *row) for row in ((1, 2.5, b"q"), (3, -0.0, b"zz")))
    assert found["deep/record"] == digest("rbt1 {a:i4,b:f8,c:S3} 2", record)
    assert found["flag"] == digest("rbt1 i1 3", bytes([0, 1, 1]))


def test_what_the_target_cannot_hold_is_named_or_skipped(tmp_path: Path) -> None:
    source, target = tmp_path / "a.h5", tmp_path / "b.zarr"
    tables(source)
    with h5py.File(source, "r+") as file:
        file.create_dataset("links", data=[file["x"].ref], dtype=h5py.ref_dtype)
    with pytest.raises(UsageError, match=r"cannot copy links.*skip_unsupported=True leaves"):
        reblock.repartition(source, target)
    assert not target.exists()
    report = reblock.repartition(source, target, skip_unsupported=True)
    assert any(note.startswith("links is left out") for note in report.notes)
    group = zarr.open_group(target, mode="r")
    np.testing.assert_array_equal(group["x"][...], np.arange(24.0).reshape(4, 6))
    assert "links" not in group
