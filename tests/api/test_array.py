"""Arrays and jobs as Python has them: like numpy's arrays, with its integers, and short to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reblock
from reblock.errors import UsageError


@pytest.fixture
def elements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray[Any, Any]:
    import zarr

    monkeypatch.chdir(tmp_path)
    elements = np.random.default_rng(2).normal(size=(9, 8, 7)).astype("f4")
    names = ["time", "lat", "lon"]
    zarr.create_array("x.zarr", data=elements, chunks=(4, 3, 5), dimension_names=names)
    np.save("x.npy", elements)
    return elements


def test_numpy_takes_an_array_for_an_array(elements: np.ndarray[Any, Any]) -> None:
    array = reblock.open("x.zarr")
    assert np.array_equal(np.asarray(array), elements)
    assert np.asarray(array).dtype == elements.dtype
    assert np.array_equal(np.array(array, dtype="f8"), elements.astype("f8"))
    assert np.sum(array) == elements.sum()
    assert np.array_equal(np.add(array, 1), elements + 1)
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(array, copy=False)
    np.save("one.npy", np.array(5))
    assert np.asarray(reblock.open("one.npy")).shape == ()
    assert np.asarray(reblock.open("one.npy")) == 5


def test_what_an_array_says_of_itself(elements: np.ndarray[Any, Any]) -> None:
    array = reblock.open("x.zarr")
    assert (array.ndim, array.size, array.nbytes, len(array)) == (3, elements.size, elements.nbytes, 9)
    assert array.axes == ("time", "lat", "lon")
    assert reblock.open("x.npy").axes is None
    assert all(np.array_equal(one, two) for one, two in zip(array, elements, strict=True))
    np.save("one.npy", np.array(5))
    with pytest.raises(TypeError, match="without axes"):
        len(reblock.open("one.npy"))


@pytest.mark.parametrize(
    "key",
    [
        np.s_[3],
        np.s_[np.int64(3), ..., np.uint8(2)],
        np.s_[np.int64(1) : np.int64(8) : np.int64(3)],
        np.s_[::-2, 1::3, ::-1],
        np.s_[-1, 7:0:-3],
        np.s_[2:2],
        np.s_[...],
        (),
    ],
    ids=repr,
)
@pytest.mark.parametrize("name", ["x.zarr", "x.npy"])
def test_indices_as_in_numpy(elements: np.ndarray[Any, Any], name: str, key: Any) -> None:
    found = reblock.open(name)[key]
    assert found.shape == elements[key].shape
    assert np.array_equal(found, elements[key])


def test_indices_by_name(elements: np.ndarray[Any, Any]) -> None:
    array = reblock.open("x.zarr")
    assert np.array_equal(array[{"lat": slice(2, 5), "lon": np.int64(3)}], elements[:, 2:5, 3])
    assert np.array_equal(array[{0: 3, "lon": -1}], elements[3, :, -1])
    with pytest.raises(UsageError, match="'depth' names no axis: the axes are time, lat, lon"):
        array[{"depth": 0}]


@pytest.mark.parametrize(
    "options",
    [
        {"chunks": np.array([2, 3, 4]), "region": np.s_[1:8, ..., 2:6], "transpose": np.array([2, 0, 1])},
        {
            "chunks": {"lon": np.int64(2), "time": 3},
            "region": {"time": slice(1, 8), "lon": "2:6"},
            "transpose": "lon,time,lat",
        },
        {"chunks": 2, "region": "time=1:8,lon=2:6", "transpose": ["lon", "time", "lat"]},
        {"chunks": "2", "region": "1:8,...,2:6", "transpose": "2,0,1"},
        {"chunks": np.int16(2), "shards": 4, "region": np.s_[np.int64(1) : 8, :, 2:6], "transpose": (2, 0, 1)},
        {
            "chunks": (1, 2, 2),
            "shards": {"lon": 2, "time": 4, "lat": 4},
            "region": "1:8,:,2:6",
            "transpose": (-1, 0, 1),
        },
    ],
    ids=repr,
)
def test_jobs_take_the_same_words(elements: np.ndarray[Any, Any], options: dict[str, Any]) -> None:
    reblock.repartition("x.zarr", "y.zarr", memory=np.int64(1 << 20), **options)
    expected = elements[1:8, :, 2:6].transpose(2, 0, 1)
    assert np.array_equal(np.asarray(reblock.open("y.zarr")), expected)
    view = {name: options[name] for name in ("region", "transpose")}
    for reader in ("reblock", "library"):
        assert reblock.verify("x.zarr", "y.zarr", reader=reader, **view).equal


def test_plans_from_shapes_take_them_too() -> None:
    job = reblock.plan(shape=np.array([40, 30]), dtype=np.uint16, source_chunks=np.int64(10), chunks={0: 20, 1: -1})
    assert job.schema.chunks == (20, 30)
    assert reblock.plan(shape=np.int64(40), dtype="u2", source_chunks=4, chunks="8").schema.chunks == (8,)


def test_what_is_printed_fits_a_line(elements: np.ndarray[Any, Any]) -> None:
    job = reblock.plan("x.zarr", "y.zarr", chunks=(2, 2, 2))
    report = reblock.run(job)
    for one, says in (
        (job, "x.zarr → y.zarr"),
        (job.decision, "seeks"),
        (job.plan, "pass"),
        (report, "y.zarr in"),
        (reblock.open("y.zarr"), "float32"),
        (reblock.plan(shape=(4,), dtype="u1", source_chunks=2, chunks=4), "shapes"),
    ):
        assert says in repr(one)
        assert len(repr(one)) <= 160
        assert "\n" not in repr(one)


def test_chunks_of_a_contiguous_target_are_noted_as_ignored(elements: np.ndarray[Any, Any]) -> None:
    job = reblock.plan("x.zarr", "y.npy", chunks=(2, 2, 2))
    assert "chunks 2,2,2 are ignored: npy is one array without chunks" in job.schema.notes
    assert "chunks 2,2,2 are ignored" in "\n".join(reblock.run(job).notes)
    assert not any("ignored" in note for note in reblock.plan("x.zarr", "z.npy").schema.notes)
