"""extract: numpy gets the same elements, and no chunk is read twice for any number of regions."""

from __future__ import annotations

import csv
import math
import os
import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

import reblock
from reblock.api.array import Array
from reblock.errors import InfeasibleError, TargetExistsError, UsageError
from reblock.model import TreeFormat
from reblock.storage import registry
from reblock.testing.recording import RecordingMedium

Arrays = np.ndarray[Any, Any]
SHAPE = (96, 80, 64)


def volume(dtype: str = "<u2") -> Arrays:
    return np.random.default_rng(5).integers(0, 250, SHAPE).astype(dtype)


def ball(centre: tuple[float, ...], radius: float, shape: tuple[int, ...] = SHAPE) -> Arrays:
    grid = np.indices(shape).astype(float)
    return np.asarray(sum((axis - c) ** 2 for axis, c in zip(grid, centre, strict=True)) <= radius**2)


def box_of(centre: tuple[float, ...], radius: float) -> tuple[slice, ...]:
    return tuple(
        slice(max(math.ceil(c - radius), 0), min(math.floor(c + radius) + 1, n))
        for c, n in zip(centre, SHAPE, strict=True)
    )


def hundred() -> list[tuple[float, ...]]:
    """A hundred spheres, many of which overlap."""
    rng = np.random.default_rng(7)
    return [(*(float(round(rng.uniform(0, n - 1), 1)) for n in SHAPE), float(rng.integers(1, 12))) for _ in range(100)]


def make(path: Path, kind: str, data: Arrays) -> str:
    """The volume in a format and chunking."""
    if kind == "npy":
        np.save(path / "a.npy", data)
        return str(path / "a.npy")
    if kind == "fortran":
        np.save(path / "a.npy", np.asfortranarray(data))
        return str(path / "a.npy")
    where = str(path / ("a.h5" if kind.startswith("h5") else "a.zarr"))
    options: dict[str, Any] = {
        "zarr": {"codec": "zstd:1"},
        "raw": {"codec": "none"},
        "shards": {"shards": (48, 40, 32), "codec": "zstd:1"},
        "rawshards": {"shards": (48, 40, 32), "codec": "none"},
        "h5": {"codec": "shuffle+gzip:1"},
        "h5lzf": {"codec": "lzf"},
    }[kind]
    chunks = (24, 20, 16) if "shards" in kind else (24, 20, 32)
    reblock.repartition(data, where, chunks=chunks, **options)
    return where


def recorded(where: str) -> tuple[Array, RecordingMedium]:
    array = reblock.open(where)
    medium = RecordingMedium(array.store.medium)
    return replace(array, store=medium.of(array.store)), medium


@pytest.mark.parametrize("kind", ["npy", "fortran", "zarr", "raw", "shards", "rawshards", "h5", "h5lzf"])
def test_a_hundred_spheres_read_each_chunk_once(tmp_path: Path, kind: str) -> None:
    data = volume()
    array, medium = recorded(make(tmp_path, kind, data))
    spheres = hundred()
    found = reblock.extract(array, spheres=spheres)
    for (name, elements), one in zip(found.arrays.items(), spheres, strict=True):
        assert np.array_equal(elements, data[box_of(one[:3], one[3])]), name
    assert found.plan is not None
    assert found.plan.sweeps == 1
    if kind.startswith("h5"):
        assert found.traffic.opens == found.plan.objects <= 4 * 4 * 2
        return
    seen: Counter[tuple[str, int]] = Counter()
    for opening in medium.openings:
        for start, stop in opening.ranges:
            step = 1 if stop - start < 4096 else 64
            seen.update((opening.key, byte) for byte in range(start, stop, step) if byte % step == 0)
    assert seen
    assert max(seen.values()) == 1, "no byte is read twice"
    if kind in ("zarr", "raw", "shards", "rawshards"):
        opens = Counter(opening.key for opening in medium.openings)
        assert max(opens.values()) == 1, "no file is opened twice"
        assert found.traffic.opens == found.plan.objects == len(opens)


def test_chunks_that_no_region_touches_are_not_read(tmp_path: Path) -> None:
    array, medium = recorded(make(tmp_path, "zarr", volume()))
    reblock.extract(array, regions=[np.s_[0:5, 0:5, 0:5], np.s_[90:, 70:, 60:]])
    assert sorted(os.path.relpath(one.key, tmp_path / "a.zarr") for one in medium.openings) == ["c/0/0/0", "c/3/3/1"]


@pytest.mark.parametrize("ending", [".zarr", ".h5"])
@pytest.mark.parametrize("outside", ["keep", "fill"])
def test_several_regions_are_a_dataset(tmp_path: Path, ending: str, outside: str) -> None:
    if not isinstance(registry.for_target(f"x{ending}"), TreeFormat):
        pytest.skip("the format holds one array")
    data = volume(">f4")
    source = make(tmp_path, "zarr", data)
    spheres = ["30,40,20,5", "0,79,63,7.5", "50.5,10,10,0.9"]
    target = str(tmp_path / f"balls{ending}")
    made = reblock.extract(source, target, spheres=spheres, regions=["3:90,:,5:9"], outside=outside)
    assert [one.name for one in made.regions] == ["region_0", "sphere_0", "sphere_1", "sphere_2"]
    opened: Any = zarr.open_group(target, mode="r") if ending == ".zarr" else h5py.File(target)
    assert np.array_equal(opened["region_0"][...], data[3:90, :, 5:9])
    for number, words in enumerate(spheres):
        *centre, radius = map(float, words.split(","))
        mask = ball(tuple(centre), radius)
        box = box_of(tuple(centre), radius)
        here = opened[f"sphere_{number}"]
        wanted = data[box] if outside == "keep" else np.where(mask[box], data[box], 0)
        assert np.array_equal(here[...], wanted)
        assert list(here.attrs["origin"]) == [side.start for side in box]
        assert here.attrs["radius"] == radius
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", f"balls{ending}"]
    with pytest.raises(TargetExistsError):
        reblock.extract(source, target, spheres=spheres)
    if ending == ".h5":
        opened.close()
    reblock.extract(source, target, spheres=spheres[:2], overwrite=True)
    again: Any = zarr.open_group(target, mode="r") if ending == ".zarr" else h5py.File(target)
    assert sorted(again) == ["sphere_0", "sphere_1"]


def test_one_region_is_an_array(tmp_path: Path) -> None:
    data = volume()
    source = make(tmp_path, "zarr", data)
    made = reblock.extract(source, str(tmp_path / "part.npy"), regions=["10:20,:,5:9"])
    assert made.report is not None
    assert np.array_equal(np.load(tmp_path / "part.npy"), data[10:20, :, 5:9])
    reblock.extract(source, str(tmp_path / "ball.npy"), spheres=["30,40,20,5"])
    assert np.array_equal(np.load(tmp_path / "ball.npy"), data[25:36, 35:46, 15:26])
    with pytest.raises(UsageError, match="2 regions are a dataset of as many arrays, and npy holds one"):
        reblock.extract(source, str(tmp_path / "two.npy"), spheres=["30,40,20,5", "1,1,1,1"])


# ---------------------------------------------------------------- masks
@pytest.mark.parametrize("dtype", ["u1", "<i8", "<f4", "bool"])
def test_labels_of_a_mask_are_regions(tmp_path: Path, dtype: str) -> None:
    data = volume()
    labels = np.zeros(SHAPE, "u1")
    labels[ball((20, 20, 20), 9)] = 1
    if dtype != "bool":
        labels[50:60, 3:5, 60:] = 7
        labels[0, 0, 0] = 7
        labels[90, 70, 2] = 9
    np.save(tmp_path / "l.npy", labels.astype(dtype))
    names = [1] if dtype == "bool" else [1, 7, 9]
    rows = reblock.extract(data, masks=[str(tmp_path / "l.npy")], result="table").rows
    assert [row["region"] for row in rows] == [f"label_{name}" for name in names]
    for row, name in zip(rows, names, strict=True):
        inside = data[labels == name]
        assert (row["count"], row["sum"], row["min"], row["max"]) == (
            inside.size,
            inside.sum(),
            inside.min(),
            inside.max(),
        )
        assert row["mean"] == pytest.approx(inside.mean(), rel=1e-12)
        assert row["std"] == pytest.approx(inside.std(), rel=1e-12)
    if dtype != "bool":
        values = reblock.extract(data, masks=[str(tmp_path / "l.npy=7,9")], result="values").arrays
        assert list(values) == ["label_7", "label_9"]
        assert np.array_equal(values["label_7"], data[labels == 7])


def test_a_mask_of_fewer_axes(tmp_path: Path) -> None:
    """A mask of x, y, z serves a series of x, y, z, t, and one of z, y, x a series of t, z, y, x."""
    series = np.random.default_rng(0).integers(0, 99, (12, 10, 8, 20)).astype("<i2")
    labels = np.zeros((12, 10, 8), "u1")
    labels[2:5, 3:4, 1:7] = 3
    np.save(tmp_path / "l.npy", labels)
    first = reblock.extract(series, masks=[str(tmp_path / "l.npy=3")], result="values").arrays["label_3"]
    assert np.array_equal(first, series[labels == 3].reshape(-1))
    turned = np.ascontiguousarray(np.moveaxis(series, 3, 0))
    last = reblock.extract(turned, masks=[str(tmp_path / "l.npy")], result="table").rows[0]
    assert last["sum"] == series[labels == 3].sum()
    sphere = reblock.extract(series, spheres=["5,5,4,:,2"], result="values").arrays["sphere_0"]
    assert np.array_equal(sphere, series[ball((5, 5, 4), 2, (12, 10, 8))].reshape(-1))


# ---------------------------------------------------------------- tables
def test_tables_are_files_that_others_read(tmp_path: Path) -> None:
    data = volume("<f4")
    data[20, 20, 20] = np.nan
    source = make(tmp_path, "h5", data)
    spheres = ["30,40,20,5", "20,20,20,3"]
    for ending in (".csv", ".npz"):
        made = reblock.extract(source, str(tmp_path / f"t{ending}"), spheres=spheres, result="table")
        assert made.rows[1]["count"] == 123
        assert np.isnan(made.rows[1]["mean"])
    with open(tmp_path / "t.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    inside = data[ball((30, 40, 20), 5)].astype(float)
    assert [row["region"] for row in rows] == ["sphere_0", "sphere_1"]
    assert float(rows[0]["mean"]) == pytest.approx(inside.mean())
    assert int(rows[0]["count"]) == inside.size
    table = np.load(tmp_path / "t.npz")
    assert table["std"][0] == pytest.approx(inside.std())
    for ending in (".csv", ".npz"):
        reblock.extract(source, str(tmp_path / f"v{ending}"), spheres=spheres, result="values")
    values = np.load(tmp_path / "v.npz")
    assert np.array_equal(values["sphere_0"], data[ball((30, 40, 20), 5)])
    assert np.array_equal(data[tuple(values["sphere_0.index"].T)], values["sphere_0"])
    with open(tmp_path / "v.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == inside.size + 123
    for row in rows[:50]:
        place = tuple(int(row[f"axis_{axis}"]) for axis in range(3))
        assert np.float32(row["value"]) == data[place] or np.isnan(data[place])
    with pytest.raises(TargetExistsError):
        reblock.extract(source, str(tmp_path / "v.csv"), spheres=spheres, result="values")
    reblock.extract(source, str(tmp_path / "v.csv"), spheres=spheres[:1], result="values", overwrite=True)


@pytest.mark.parametrize("result", ["table", "values"])
def test_parquet(tmp_path: Path, result: str) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    data = volume(">i2")
    reblock.extract(data, str(tmp_path / "t.parquet"), spheres=["30,40,20,5"], result=result)
    table = parquet.read_table(tmp_path / "t.parquet").to_pydict()
    inside = data[ball((30, 40, 20), 5)]
    if result == "table":
        assert table["sum"] == [inside.sum()]
    else:
        assert table["value"] == inside.tolist()


@pytest.mark.parametrize("dtype", ["bool", "i1", ">u4", "<i8", "<u8", "<f2", ">f8"])
def test_statistics_are_those_of_numpy(dtype: str) -> None:
    rng = np.random.default_rng(3)
    data = rng.integers(0, 256, (40, 30), "u1").astype("u8") * np.uint64(0x0101010101010101)
    if dtype == "bool":
        data = data % 2 == 1
    elif dtype[1] == "f":
        data = rng.normal(0, 1, (40, 30)).astype(dtype)
    else:
        data = data.astype(dtype)
    (row,) = reblock.extract(data, regions=["3:37,:"], result="table", memory="256KiB").rows
    part = data[3:37].astype(object if data.dtype.kind in "iu" else "f8")
    assert row["sum"] == pytest.approx(part.sum(), rel=1e-12)
    assert (row["min"], row["max"]) == (part.min(), part.max())
    assert row["mean"] == pytest.approx(float(part.astype("f8").mean()), rel=1e-12)
    assert row["std"] == pytest.approx(float(part.astype("f8").std()), rel=1e-9)


# ---------------------------------------------------------------- memory
def test_regions_that_do_not_fit_are_written_in_pieces(tmp_path: Path) -> None:
    data = np.random.default_rng(1).integers(0, 9, (256, 128, 128)).astype("<u2")
    reblock.repartition(data, str(tmp_path / "a.zarr"), chunks=(16, 64, 64), codec="zstd:1")
    regions = ["1:255,1:127,:", "100:200,:,3:"]
    target = str(tmp_path / "r.zarr")
    tracemalloc.start()
    made = reblock.extract(str(tmp_path / "a.zarr"), target, regions=regions, memory="4MiB")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert made.plan is not None
    assert made.plan.held_bytes <= 4 << 20
    assert peak < 8 << 20
    group: Any = zarr.open_group(target, mode="r")
    assert np.array_equal(group["region_0"][...], data[1:255, 1:127, :])
    assert np.array_equal(group["region_1"][...], data[100:200, :, 3:])
    rows = reblock.extract(str(tmp_path / "a.zarr"), regions=regions, result="table", memory="2MiB").rows
    assert [row["sum"] for row in rows] == [data[1:255, 1:127, :].sum(), data[100:200, :, 3:].sum()]


def test_too_little_memory_is_refused_with_the_least_that_would_do(tmp_path: Path) -> None:
    source = make(tmp_path, "zarr", volume())
    target = str(tmp_path / "v.npz")
    with pytest.raises(InfeasibleError) as caught:
        reblock.extract(source, target, spheres=["40,40,30,29", "1,1,1,1"], result="values", memory="1MiB")
    assert not os.path.exists(target)
    needed = caught.value.needs_memory_bytes
    assert needed is not None
    with pytest.raises(InfeasibleError):
        reblock.extract(source, target, spheres=["40,40,30,29"], result="values", memory=needed - needed // 16)
    reblock.extract(source, target, spheres=["40,40,30,29", "1,1,1,1"], result="values", memory=needed + needed // 16)
    assert np.load(target)["sphere_0"].size == ball((40, 40, 30), 29).sum()


# ---------------------------------------------------------------- words
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "no regions"),
        ({"spheres": ["1,2,3"]}, "a centre of 3 numbers and a radius"),
        ({"spheres": ["1,2,3,x"]}, "is not a number"),
        ({"spheres": ["1,2,3,nan"]}, "is not a number"),
        ({"spheres": ["1,2,3,-1"]}, "at least 0"),
        ({"spheres": [":,:,:,1"]}, "has no centre"),
        ({"spheres": ["500,2,3,4"]}, "has no elements inside"),
        ({"spheres": ["1.5,2.5,3.5,0.1"]}, "has no elements inside"),
        ({"spheres": ["1.5,2.5,3.5,0.6"]}, "has no elements inside"),
        ({"spheres": "1,2,3,4"}, "is a list"),
        ({"regions": ["5:5,:,:"]}, "takes nothing"),
        ({"regions": ["1:2,:,:,:"]}, "axes"),
        ({"masks": ["nothing.npy"]}, "nothing.npy"),
        ({"masks": ["m.npy"]}, "no labels"),
        ({"masks": ["m.npy=3"]}, "no elements with label 3"),
        ({"masks": ["small.npy"]}, "does not fit an array"),
        ({"masks": ["half.npy"]}, "whole numbers"),
        ({"masks": ["minus.npy"]}, "whole numbers"),
        ({"masks": ["text.npy"]}, "whole numbers"),
        ({"sphere_files": ["none.csv"]}, "none.csv"),
        ({"sphere_files": ["empty.csv"]}, "no spheres"),
        ({"sphere_files": ["names.csv"]}, "cannot name a region"),
        ({"sphere_files": ["twice.csv"]}, "two regions have the name 'a'"),
        ({"regions": ["1:2"], "result": "picture"}, "must be array, table or values"),
        ({"regions": ["1:2"], "outside": "no"}, "must be keep or fill"),
    ],
)
def test_words_that_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("m.npy", np.zeros(SHAPE, "u1"))
    np.save("small.npy", np.zeros((3, 3, 3), "u1"))
    np.save("half.npy", np.full(SHAPE, 0.5))
    np.save("minus.npy", np.full(SHAPE, -2))
    np.save("text.npy", np.zeros(SHAPE, "S1"))
    Path("empty.csv").write_text("x,y,z,r\n")
    Path("names.csv").write_text("1,2,3,4,../../x\n")
    Path("twice.csv").write_text("1,2,3,4,a\n5,6,7,8,a\n")
    with pytest.raises((UsageError, reblock.DiskError), match=said):
        reblock.extract(volume(), **given)


def test_files_of_spheres(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("x,y,z,radius,name\n30,40,20,5,left amygdala\n 1, 2, 3, 0 \n")
    found = reblock.extract(volume(), sphere_files=[tmp_path / "s.csv"])
    assert list(found.arrays) == ["left amygdala", "sphere_1"]
    assert found.arrays["sphere_1"].shape == (1, 1, 1)


@pytest.mark.parametrize("shape", [(), (5,), (3, 1, 2, 2, 2)])
def test_odd_shapes(shape: tuple[int, ...]) -> None:
    data = np.arange(int(np.prod(shape)), dtype="<i4").reshape(shape)
    found = reblock.extract(data, regions=["..."])
    assert np.array_equal(found.arrays["region_0"], data)
    (row,) = reblock.extract(data, regions=["..."], result="table").rows
    assert row["count"] == data.size


@pytest.fixture
def random_boxes() -> Callable[[int], list[tuple[slice, ...]]]:
    def make_boxes(seed: int) -> list[tuple[slice, ...]]:
        rng = np.random.default_rng(seed)
        made = []
        for _ in range(int(rng.integers(2, 30))):
            starts = [int(rng.integers(0, n)) for n in SHAPE]
            made.append(tuple(slice(a, int(rng.integers(a + 1, n + 1))) for a, n in zip(starts, SHAPE, strict=True)))
        return made

    return make_boxes


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["npy", "zarr", "shards"])
def test_random_boxes_in_little_memory(
    tmp_path: Path, random_boxes: Callable[[int], list[tuple[slice, ...]]], kind: str, seed: int
) -> None:
    data, regions = volume(), random_boxes(seed)
    source = make(tmp_path, kind, data)
    target = str(tmp_path / "out.zarr")
    made = reblock.extract(source, target, regions=regions, memory="1MiB")
    assert made.plan is not None
    assert made.plan.held_bytes <= 1 << 20
    group: Any = zarr.open_group(target, mode="r")
    for number, region in enumerate(regions):
        assert np.array_equal(group[f"region_{number}"][...], data[region])


def test_rows_of_spheres_may_have_numbers_as_names(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("x,y,z,r,id\n3,3,3,1,7\n3,:,3,1,12\n")
    found = reblock.extract(np.zeros((9, 8, 7), "u1"), sphere_files=[tmp_path / "s.csv"], result="table")
    assert [row["region"] for row in found.rows] == ["7", "12"]
    (tmp_path / "s.csv").write_text("3;3;3;1\n")
    with pytest.raises(UsageError, match="separated by commas"):
        reblock.extract(np.zeros((9, 8, 7), "u1"), sphere_files=[tmp_path / "s.csv"])


def test_other_values_beside_named_labels_do_not_matter(tmp_path: Path) -> None:
    mask = np.full((9, 8, 7), np.nan, "f4")
    mask[0], mask[2:4] = -1, 3
    np.save(tmp_path / "m.npy", mask)
    found = reblock.extract(np.ones(mask.shape, "u1"), masks=[f"{tmp_path}/m.npy=3"], result="table")
    assert found.rows[0]["count"] == 2 * 8 * 7
    with pytest.raises(UsageError, match="above 0, not -1"):
        reblock.extract(np.ones(mask.shape, "u1"), masks=[f"{tmp_path}/m.npy"])


def test_statistics_read_each_chunk_once_with_any_memory(tmp_path: Path) -> None:
    data = np.random.default_rng(0).integers(0, 99, (120, 120, 120)).astype("u2")
    reblock.repartition(data, tmp_path / "x.zarr", chunks=(20, 20, 120), codec="zstd:1")
    places = np.random.default_rng(1).integers(0, 120, (40, 3)).tolist()
    for memory in ("1MiB", "2MiB", "4MiB"):
        found = reblock.extract(
            tmp_path / "x.zarr", spheres=[(*one, 8) for one in places], result="table", memory=memory
        )
        assert found.plan is not None
        assert found.plan.sweeps == 1
        assert found.traffic.opens <= 36


def test_infinite_values_and_long_doubles(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    data = np.array([1, np.inf, -np.inf, 2], np.longdouble)
    for ending in (".csv", ".npz", ".parquet"):
        found = reblock.extract(data, tmp_path / f"t{ending}", regions=["0:2", ":"], result="table")
        assert [row["max"] for row in found.rows] == [np.inf, np.inf]
        assert np.isnan(found.rows[1]["mean"])
    assert not recwarn.list


@pytest.mark.parametrize("name", ["y.npy", "y.nii.gz", "y.mnc", "y.tif", "y.zarr", "y.zarr::a/b", "y.h5", "b/"])
def test_one_region_is_an_array_in_any_format(name: str, tmp_path: Path) -> None:
    data = np.arange(20 * 21 * 22, dtype="i2").reshape(20, 21, 22) + 1
    reblock.repartition(data, tmp_path / "x.zarr", chunks=(5, 6, 7), codec="zstd:1")
    squares = sum((grid - centre) ** 2 for grid, centre in zip(np.indices(data.shape), (2, 19, 10), strict=True))
    target = f"{tmp_path}/{name}"
    filled = reblock.extract(tmp_path / "x.zarr", target, spheres=["2,19,10,4"], outside="fill")
    assert np.array_equal(reblock.open(target)[...], np.where(squares <= 16, data, 0)[:7, 15:, 6:15])
    kept = reblock.extract(tmp_path / "x.zarr", tmp_path / "y.npy", spheres=["2,19,10,4"], overwrite=True)
    assert kept.traffic.opens == filled.traffic.opens == 2 * 2 * 3
