"""Arrays from files, files from arrays, and new chunks through scratch."""

from __future__ import annotations

import gc
import pickle
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import h5py
import numpy as np
import pytest
import zarr

import reblock
import reblock.dask

Volume = np.ndarray[Any, Any]


def test_an_array_from_a_path(tmp_path: Path, volume: Volume) -> None:
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["x"] = volume
    x = reblock.dask.from_array(f"{tmp_path}/v.h5::x", chunks=20)
    with reblock.dask.io(memory="200KiB") as report:
        np.testing.assert_array_equal((x + 1).compute(), volume + 1)
    assert report.counted["buffers"] > 1
    again = pickle.loads(pickle.dumps(x))
    np.testing.assert_array_equal(again[5].compute(), volume[5])
    assert reblock.dask.from_array(f"{tmp_path}/v.h5::x", chunks=20).name == x.name


def test_chunks_follow_the_stored_ones(tmp_path: Path, volume: Volume) -> None:
    zarr.create_array(tmp_path / "v.zarr", data=volume, chunks=(10, 10, 10), shards=(20, 30, 60))
    with dask.config.set({"array.chunk-size": "80KiB"}):
        x = reblock.dask.from_array(tmp_path / "v.zarr")
    for lengths, shard in zip(x.chunks, (20, 30, 60), strict=True):
        assert all(length % shard == 0 for length in lengths[:-1])


@pytest.mark.parametrize("name", ["out.zarr", "out.npy", "out.h5::y"])
@pytest.mark.parametrize("chunks", [7, (60, 60, 5), None])
def test_storing_whatever_the_chunks(tmp_path: Path, dataset: Any, volume: Volume, name: str, chunks: Any) -> None:
    x = da.from_array(dataset, chunks=(13, 20, 60)) + 1
    target = f"{tmp_path}/{name}"
    reblock.dask.store(x, target, chunks=None if name == "out.npy" else chunks, memory="1MiB")
    np.testing.assert_array_equal(reblock.open(target)[...], volume + 1)
    assert not list(tmp_path.glob(".*reblock*"))


def test_shards_are_written_whole(tmp_path: Path, volume: Volume) -> None:
    x = da.from_array(volume, chunks=7)
    path = tmp_path / "out.zarr"
    reblock.dask.store(x, path, chunks=5, shards=(30, 20, 60), codec="zstd")
    found = zarr.open_array(path)
    assert (found.chunks, found.shards) == ((5, 5, 5), (30, 20, 60))
    np.testing.assert_array_equal(found[:], volume)


def test_existing_targets_are_kept(tmp_path: Path, volume: Volume) -> None:
    path = tmp_path / "out.zarr"
    reblock.dask.store(da.from_array(volume, chunks=20), path)
    with pytest.raises(reblock.TargetExistsError):
        reblock.dask.store(da.zeros((3, 3)), path)
    np.testing.assert_array_equal(zarr.open_array(path)[:], volume)
    reblock.dask.store(da.ones((3, 3)), path, overwrite=True)
    assert (zarr.open_array(path)[:] == 1).all()


def test_a_failed_store_leaves_nothing(tmp_path: Path, volume: Volume) -> None:
    def fail(block: Volume) -> Volume:
        raise ZeroDivisionError

    path = tmp_path / "out.zarr"
    with pytest.raises(ZeroDivisionError):
        reblock.dask.store(da.from_array(volume, chunks=20).map_blocks(fail, dtype="u2"), path)
    assert list(tmp_path.iterdir()) == []
    reblock.dask.store(da.from_array(volume, chunks=20), path)
    with pytest.raises(ZeroDivisionError):
        reblock.dask.store(da.zeros(60, chunks=20).map_blocks(fail, dtype="u2"), path, overwrite=True)
    np.testing.assert_array_equal(zarr.open_array(path)[:], volume)


def test_mistakes_are_named(tmp_path: Path, volume: Volume) -> None:
    with pytest.raises(reblock.UsageError, match="an array of dask is needed, not numpy"):
        reblock.dask.store(volume, tmp_path / "x.zarr")
    x = da.from_array(volume, chunks=20)
    with pytest.raises(reblock.UsageError, match="unknown size"):
        reblock.dask.store(x[x > 3], tmp_path / "x.zarr")
    with pytest.raises(reblock.UsageError, match="one length for each axis"):
        reblock.dask.store(x, tmp_path / "x.zarr", chunks="10+50,60,60")


def test_new_chunks_through_scratch(tmp_path: Path, dataset: Any, volume: Volume, monkeypatch: Any) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t"))
    (tmp_path / "t").mkdir()
    x = reblock.dask.rechunk(da.from_array(dataset, chunks=(10, 60, 60)), (60, 7, 30), memory="1MiB")
    assert x.chunksize == (60, 7, 30)
    part = x[:, :7]
    assert len(list((tmp_path / "t").glob("reblock-rechunk-*"))) == 1
    del x
    gc.collect()
    np.testing.assert_array_equal(part.compute(), volume[:, :7])
    del part
    gc.collect()
    assert list((tmp_path / "t").glob("reblock-rechunk-*")) == []


def test_scratch_in_a_folder_is_kept(tmp_path: Path, volume: Volume) -> None:
    x = reblock.dask.rechunk(da.from_array(volume, chunks=20), 30, scratch=tmp_path)
    np.testing.assert_array_equal(x.compute(), volume)
    del x
    gc.collect()
    assert len(list(tmp_path.glob("*.zarr"))) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_processes_store_zarr_and_not_filtered_hdf5(tmp_path: Path, dataset: Any, volume: Volume) -> None:
    x = da.from_array(reblock.open(f"{dataset.file.filename}::x"), chunks=20)
    with dask.config.set(scheduler="processes", num_workers=2):
        reblock.dask.store(x, tmp_path / "out.zarr", chunks=30, memory="1MiB")
        np.testing.assert_array_equal(zarr.open_array(tmp_path / "out.zarr")[:], volume)
        with pytest.raises(reblock.ReblockError):
            reblock.dask.store(x, tmp_path / "out.h5", chunks=30, codec="gzip")
    assert not (tmp_path / "out.h5").exists()
