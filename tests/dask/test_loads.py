"""Loads of graphs are found, with the box that is really needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da
import h5py
import numpy as np
import pytest
import zarr

import reblock
from dask_arrays import mapped
from reblock.dask.graphs import flat_keys, plain_graph
from reblock.dask.loads import Loads, find_loads


def loads_of(array: da.Array) -> Loads:
    keys = flat_keys(array.__dask_keys__())
    return find_loads(plain_graph(array.__dask_graph__(), keys), keys)


def bounds(array: da.Array) -> list[tuple[list[int], list[int]]]:
    (found,) = loads_of(array).arrays
    return sorted(zip(found.starts.tolist(), found.stops.tolist(), strict=True))


def test_all_kinds_of_arrays_are_found(tmp_path: Path, dataset: Any, volume: np.ndarray[Any, Any]) -> None:
    np.save(tmp_path / "v.npy", volume)
    chunked = zarr.create_array(tmp_path / "v.zarr", data=volume, chunks=(7, 60, 60))
    arrays = [da.from_array(source, chunks=20) for source in (dataset, chunked, reblock.open(tmp_path / "v.npy"))]
    for array in (*arrays, mapped(tmp_path / "v.npy", 20)):
        (found,) = loads_of(array + 1).arrays
        assert len(found.keys) == 27
        assert found.disk.layout.shape == volume.shape
    assert loads_of(da.from_array(volume, chunks=20)).arrays == []


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("lock", [False, True])
def test_ways_to_make_an_array(dataset: Any, inline: bool, lock: bool) -> None:
    (found,) = loads_of(da.from_array(dataset, chunks=30, inline_array=inline, lock=lock, fancy=False)).arrays
    assert len(found.keys) == 8
    assert (found.lock is not None) == lock


def test_slices_narrow_what_is_loaded(dataset: Any) -> None:
    x = da.from_array(dataset, chunks=30)
    assert bounds(x[3:10, 40, ::2]) == [([3, 40, 0], [10, 41, 29]), ([3, 40, 30], [10, 41, 59])]
    assert bounds(x[10:50][5:10]) == [([15, j, k], [20, j + 30, k + 30]) for j in (0, 30) for k in (0, 30)]
    assert bounds(x[::-1][:5, :30, :30]) == [([55, 0, 0], [60, 30, 30])]


def test_a_load_with_two_uses_is_loaded_whole(dataset: Any) -> None:
    x = da.from_array(dataset, chunks=60)
    assert bounds(x[:5] + x[5:10]) == [([0, 0, 0], [60, 60, 60])]


def test_few_elements_of_a_box_are_left_alone(dataset: Any) -> None:
    found = loads_of(da.from_array(dataset, chunks=60)[::10])
    assert found.arrays == []
    assert found.passed_over == 1


def test_loads_of_the_same_array_come_together(dataset: Any) -> None:
    x, y = da.from_array(dataset, chunks=30), da.from_array(dataset, chunks=(60, 20, 20), name="again")
    (found,) = loads_of(da.concatenate([x, y])).arrays
    assert len(found.keys) == 8 + 9
    with h5py.File(dataset.file.filename) as file:
        z = da.from_array(file["x"], chunks=30, name="third")
        assert len(loads_of(da.stack([x, z])).arrays) == 1


def test_closed_files_are_left_to_dask(dataset: Any) -> None:
    x = da.from_array(dataset, chunks=30)
    dataset.file.close()
    assert loads_of(x).arrays == []
