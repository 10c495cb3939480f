"""Chunks that are stored are gathered, and the array holds what plain dask would have stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask
import dask.array as da
import h5py
import numpy as np
import pytest
import zarr

import reblock.dask
from reblock.dask.writing import stretches
from reblock.geometry import Box, Grid
from reblock.model import Layout

Volume = np.ndarray[Any, Any]


@pytest.fixture
def blocks(tmp_path: Path, volume: Volume) -> da.Array:
    """A Zarr array of blocks, read block by block."""
    return da.from_array(zarr.create_array(tmp_path / "blocks.zarr", data=volume, chunks=(12, 12, 12)), chunks=12)


@pytest.mark.parametrize("strategy", ["auto", "clustered", "multiple", "keep"])
@pytest.mark.parametrize("memory", ["90KiB", "200KiB", "2MiB"])
def test_merging_into_one_dataset(tmp_path: Path, blocks: da.Array, volume: Volume, memory: str, strategy: str) -> None:
    with h5py.File(tmp_path / "out.h5", "w") as file:
        out = file.create_dataset("x", volume.shape, volume.dtype)
        with reblock.dask.io(memory=memory, strategy=strategy) as report:
            assert da.store(blocks + 1, out) is None
        np.testing.assert_array_equal(out[:], volume + 1)
    found = report.to_json()
    (row,) = (row for row in found["arrays"] if row["writing"])
    assert row["plain"]["seeks"] == 125 * 145
    if strategy == "auto":
        assert row["buffers"] == found["counted"]["gathered"]
        assert found["counted"]["seeks"] == row["buffered"]["seeks"] < row["plain"]["seeks"] / 5
        assert found["counted"]["scattered"] == 0


def test_reading_and_writing_at_once(tmp_path: Path, dataset: Any, volume: Volume) -> None:
    out = np.lib.format.open_memmap(tmp_path / "out.npy", "w+", volume.dtype, volume.shape)
    with reblock.dask.io(memory="400KiB") as report:
        da.store(da.from_array(dataset, chunks=(20, 20, 20)) + 1, out, lock=False)
    np.testing.assert_array_equal(out, volume + 1)
    assert [row["buffers"] > 1 for row in report.arrays] == [True, True]
    assert report.counted["direct"] == report.counted["scattered"] == 0


def test_regions_are_stored_where_they_belong(tmp_path: Path, blocks: da.Array, volume: Volume) -> None:
    with h5py.File(tmp_path / "out.h5", "w") as file:
        out = file.create_dataset("x", (130, 60, 60), volume.dtype)
        regions = [(slice(start, start + 60), slice(None), slice(None)) for start in (5, 65)]
        with reblock.dask.io(memory="1MiB") as report:
            da.store([blocks, blocks * 2], [out, out], regions=regions)
        np.testing.assert_array_equal(out[5:65], volume)
        np.testing.assert_array_equal(out[65:125], volume * 2)
        assert not out[:5].any()
        assert not out[125:].any()
    assert report.counted["gathered"] >= 1


def test_gaps_between_regions_are_not_written(tmp_path: Path, blocks: da.Array, volume: Volume) -> None:
    out = np.lib.format.open_memmap(tmp_path / "out.npy", "w+", volume.dtype, (130, 60, 60))
    out[60:70] = 7
    regions = [(slice(start, start + 60), slice(None), slice(None)) for start in (0, 70)]
    with reblock.dask.io(memory="2MiB"):
        da.store([blocks, blocks], [out, out], regions=regions, lock=False)
    assert (out[60:70] == 7).all()
    np.testing.assert_array_equal(out[70:], volume)


def test_overlapping_stores_are_left_to_dask(tmp_path: Path, blocks: da.Array) -> None:
    with h5py.File(tmp_path / "out.h5", "w") as file:
        out = file.create_dataset("x", (60, 60, 60), "u2")
        with reblock.dask.io(memory="1MiB") as report:
            da.store([blocks, blocks], [out, out])
    assert "some of its stores overlap" in report.notes[0]
    assert report.counted["gathered"] == 0


def test_what_is_returned_is_what_dask_returns(tmp_path: Path, blocks: da.Array, volume: Volume) -> None:
    out = zarr.create_array(tmp_path / "out.zarr", shape=volume.shape, dtype=volume.dtype, chunks=(60, 60, 60))
    with reblock.dask.io(memory="1MiB") as report:
        stored = (blocks + 1).store(out, return_stored=True, lock=False)
        stored = stored[0] if isinstance(stored, tuple) else stored
        np.testing.assert_array_equal(stored.compute(), volume + 1)
        assert report.counted["gathered"] == 1
        delayed = da.store(blocks, out, compute=False, lock=False)
        delayed.compute()
        assert report.counted["gathered"] == 2
        loaded = (blocks * 2).store(out, return_stored=True, compute=False)
        loaded = loaded[0] if isinstance(loaded, tuple) else loaded
        np.testing.assert_array_equal(loaded.compute(), volume * 2)
    assert "read back" in report.notes[0]


def test_to_zarr_and_to_hdf5(tmp_path: Path, dataset: Any, volume: Volume) -> None:
    x = da.from_array(dataset, chunks=(20, 20, 20))
    with reblock.dask.io(memory="200KiB") as report:
        (x + 1).to_zarr(tmp_path / "out.zarr")
        (x + 2).to_hdf5(tmp_path / "out.h5", "/y")
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "out.zarr")[:], volume + 1)
    with h5py.File(tmp_path / "out.h5") as file:
        np.testing.assert_array_equal(file["y"][:], volume + 2)
    assert report.graphs == 2
    assert report.counted["direct"] == 0


@pytest.mark.parametrize("dtype", ["f4", "i1", ">i8"])
def test_types_are_converted_as_before(tmp_path: Path, blocks: da.Array, dtype: str) -> None:
    found = []
    for context in (dask.config.set({}), reblock.dask.io(memory="1MiB")):
        with h5py.File(tmp_path / "out.h5", "w") as file, context:
            out = file.create_dataset("x", blocks.shape, dtype)
            da.store(blocks / 3, out)
            found.append(out[:])
    np.testing.assert_array_equal(*found)


def test_chunks_that_are_no_plain_arrays_are_written_one_by_one(
    tmp_path: Path, blocks: da.Array, volume: Volume
) -> None:
    masked = da.ma.masked_greater(blocks, 100)
    out = np.lib.format.open_memmap(tmp_path / "out.npy", "w+", volume.dtype, volume.shape)
    with reblock.dask.io(memory="1MiB") as report:
        da.store(masked, out, lock=False)
    np.testing.assert_array_equal(out, volume)
    assert report.counted["scattered"] == 125


def test_a_lock_is_held_for_each_write(tmp_path: Path, blocks: da.Array) -> None:
    class Counting:
        entered = 0

        def acquire(self) -> None:
            Counting.entered += 1

        def release(self) -> None:
            pass

        def __enter__(self) -> None:
            self.acquire()

        def __exit__(self, *_: object) -> None:
            self.release()

    with h5py.File(tmp_path / "out.h5", "w") as file, reblock.dask.io(memory="1MiB"):
        da.store(blocks, file.create_dataset("x", blocks.shape, "u2"), lock=Counting())
    assert 1 <= Counting.entered < 125


def test_stretches_cover_a_box_once_and_keep_objects_whole() -> None:
    for chunks in ((60, 60), (7, 60), (7, 9)):
        layout = Layout.raw("u1", Grid.of((60, 60), chunks, padded=True))
        box, seen = Box((7, 0), (60, 60)), np.zeros((60, 60), int)
        for stretch in stretches(box, layout, 600):
            seen[stretch.slices] += 1
            assert chunks == (60, 60) or stretch.start[0] % 7 == 0
        assert (seen[7:] == 1).all()
        assert not seen[:7].any()
