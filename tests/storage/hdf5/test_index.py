"""Indexes of HDF5 datasets: every kind, with any axes unlimited, and some that lie."""

from __future__ import annotations

import itertools
import random
import tracemalloc
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pytest

import reblock
from reblock.errors import CorruptError, StorageError
from reblock.model.store import TransferMode
from reblock.storage.hdf5 import check as hdf5_check
from reblock.storage.hdf5.format import FORMAT
from reblock.storage.hdf5.index import ChunkIndex
from reblock.storage.hdf5.sandbox.reader import Reader
from reblock.testing.arrays import Array, same_bits
from reblock.testing.reference_io import read_array, read_extent

#: Shapes with their chunks; counts of chunks differ, are equal, and leave a part of a chunk over.
SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((7,), (2,)),
    ((4, 6), (2, 3)),
    ((4, 4), (2, 2)),
    ((5, 9), (5, 9)),
    ((2, 4, 6), (1, 2, 3)),
    ((3, 5, 7), (2, 2, 3)),
    ((3, 2, 3, 4), (1, 2, 2, 2)),
)
VERSIONS = ("earliest", "v108", "v110", "v112", "latest")
FILTERS: dict[str, dict[str, Any]] = {
    "none": {},
    "gzip": {"compression": "gzip", "shuffle": True},
    "fletcher32": {"fletcher32": True},
    "lzf": {"compression": "lzf"},
}
#: How a dataset comes to its shape.
HISTORIES = ("at once", "grown", "shrunk", "holes")


def limits(shape: tuple[int, ...], unlimited: tuple[bool, ...], room: int) -> tuple[int | None, ...]:
    return tuple(None if free else n + room for n, free in zip(shape, unlimited, strict=True))


def make(
    path: Path,
    shape: tuple[int, ...],
    chunks: tuple[int, ...],
    maxshape: tuple[int | None, ...],
    version: str,
    filters: str,
    history: str,
) -> Array:
    """A dataset `x`, and what h5py reads of it."""
    data = np.arange(1, prod(shape) + 1, dtype="<i4").reshape(shape)
    start = {
        "at once": shape,
        "holes": shape,
        "grown": tuple(1 if m is None else n for n, m in zip(shape, maxshape, strict=True)),
        "shrunk": tuple(3 * n if m is None else m for n, m in zip(shape, maxshape, strict=True)),
    }[history]
    with h5py.File(path, "w", libver=version if version == "latest" else (version, "latest")) as file:
        dataset = file.create_dataset(
            "x", start, data.dtype, chunks=chunks, maxshape=maxshape, fillvalue=-3, **FILTERS[filters]
        )
        if history == "shrunk":
            dataset[...] = -9
        dataset.resize(shape)
        if history == "holes":
            for index in list(itertools.product(*map(range, shape)))[:: prod(shape) // 2 + 1]:
                dataset[index] = data[index]
        else:
            dataset[...] = data
        return np.asarray(dataset[...])


def problems() -> list[tuple[Any, ...]]:
    """All indexes, shapes, unlimited axes, filters and histories."""
    found = []
    for (shape, chunks), version, filters, history, room in itertools.product(
        SHAPES, VERSIONS, FILTERS, HISTORIES, (0, 5)
    ):
        for unlimited in itertools.product((False, True), repeat=len(shape)):
            found.append((shape, chunks, limits(shape, unlimited, room), version, filters, history))
    return found


def check(folder: Path, problem: tuple[Any, ...]) -> None:
    path = folder / "a.h5"
    path.unlink(missing_ok=True)
    data = make(path, *problem)
    store = FORMAT.open(str(path), "")
    assert same_bits(read_array(store), data), problem
    assert not any("not used" in note for note in store.schema.notes), problem
    _, _, maxshape, version, filters, _ = problem
    late = [axis for axis, length in enumerate(maxshape) if length is None] not in ([], [0])
    swapped = late and maxshape.count(None) == 1 and version not in ("earliest", "v108")
    assert store.reads is (TransferMode.BOX if swapped or filters == "lzf" else TransferMode.EXTENT), problem


def test_indexes_of_every_kind(tmp_path: Path) -> None:
    for problem in random.Random(20).sample(problems(), 60):
        check(tmp_path, problem)


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(10))
def test_more_indexes(tmp_path: Path, seed: int) -> None:
    for problem in random.Random(seed).sample(problems(), 150):
        check(tmp_path, problem)


@pytest.mark.parametrize("version", ["v110", "latest"])
@pytest.mark.parametrize("filters", ["none", "gzip"])
@pytest.mark.parametrize("shape", [(4, 6), (4, 4)], ids=str)
def test_the_unlimited_axis_is_not_the_first(
    tmp_path: Path, version: str, filters: str, shape: tuple[int, int]
) -> None:
    data = make(tmp_path / "a.h5", shape, (2, shape[1] // 2), (4, None), version, filters, "at once")
    report = reblock.repartition(tmp_path / "a.h5", tmp_path / "b.npy")
    assert same_bits(np.load(tmp_path / "b.npy"), data)
    assert any("wrong places for chunks" in note for note in report.notes)
    with pytest.raises(StorageError, match="only HDF5 itself finds chunk"):
        FORMAT.open(str(tmp_path / "a.h5"), "").extents((0, 1), [(0, 1)], read_extent)
    assert same_bits(np.asarray(reblock.open(tmp_path / "a.h5")[...]), data)
    again = reblock.repartition(tmp_path / "b.npy", tmp_path / "c.h5", chunks=(2, 2))
    assert not any("through HDF5" in note for note in again.notes)
    with h5py.File(tmp_path / "c.h5") as file:
        assert same_bits(file["data"][...], data)


def test_missing_chunks_of_an_index_that_is_not_believed(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        file.create_dataset("x", (4, 6), "<i4", chunks=(2, 3), maxshape=(4, None), fillvalue=7)[0, 5] = 1
    report = reblock.repartition(tmp_path / "a.h5", tmp_path / "b.npy")
    assert report.missing_chunks == 3
    with pytest.raises(CorruptError, match="chunk"):
        reblock.repartition(tmp_path / "a.h5", tmp_path / "c.npy", on_missing="error")


# -------------------------------------------------------------------- rows that cannot be
def rows(*chunks: tuple[int, int]) -> npt.NDArray[np.uint64]:
    return np.array([(*first, 100 * n, 10, 0) for n, first in enumerate(chunks)], np.uint64).reshape(-1, 5)


@pytest.mark.parametrize(
    ("chunks", "words"),
    [
        (((0, 0), (0, 6)), r"a\.h5::x: the chunk index has a chunk at \(0, 6\), in a grid of 2 x 2 chunks of 2 x 3"),
        (((0, 0), (4, 0)), r"a chunk at \(4, 0\)"),
        (((0, 0), (1, 0)), r"a chunk at \(1, 0\)"),
        (((2, 3), (0, 0), (2, 3)), r"the chunk at \(2, 3\) twice"),
        (((0, 0), (2**63, 3)), rf"a chunk at \({2**63}, 3\)"),
    ],
)
def test_chunks_without_a_place_are_an_error(chunks: tuple[tuple[int, int], ...], words: str) -> None:
    with pytest.raises(CorruptError, match=words):
        ChunkIndex(rows(*chunks), (2, 3), (2, 2), 0, "a.h5::x")


def test_telling_chunks() -> None:
    found = ChunkIndex(rows((0, 0), (2, 3), (0, 3)), (2, 3), (2, 2), 0, "x").telling
    assert found == [(0, 0), (0, 0), (1, 0)]
    assert ChunkIndex(rows(), (2, 3), (2, 2), 0, "x").telling == [(0, 0)]
    assert ChunkIndex(rows((0, 0)), (2, 3), (1, 1), 0, "x").telling == [(0, 0)] * 2


# -------------------------------------------------------------------- an index that lies
def swap(rows: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Chunks at the places of others, all in range and on the grid."""
    found = rows.copy()
    found[:, :2] = found[:, 1::-1]
    return found


def hide(rows: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    return rows[rows[:, 0] != 4]


def turn(rows: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    found = rows.copy()
    found[:, 2:] = np.roll(found[:, 2:], 1, axis=0)
    return found


@pytest.mark.parametrize("lie", [swap, hide, turn])
@pytest.mark.parametrize("filters", ["none", "gzip", "fletcher32"])
@pytest.mark.parametrize("values", ["all different", "mostly equal"])
def test_the_library_reads_where_its_index_lies(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lie: Callable[[npt.NDArray[np.uint64]], npt.NDArray[np.uint64]],
    filters: str,
    values: str,
) -> None:
    data = np.arange(36 * 36, dtype="<i4").reshape(36, 36)
    if values == "mostly equal":
        # Most chunks cannot tell that they are at the place of another one.
        data = np.where(data // 36 // 4 % 3 == 0, data, 5).astype("<i4")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=data, chunks=(4, 4), **FILTERS[filters])
    true = Reader.sweep

    def lying(self: Reader, ndim: int, where: str) -> npt.NDArray[np.uint64] | None:
        found = true(self, ndim, where)
        return None if found is None else lie(found)

    monkeypatch.setattr(Reader, "sweep", lying)
    store = FORMAT.open(str(tmp_path / "a.h5"), "")
    assert store.reads is TransferMode.BOX
    assert same_bits(read_array(store), data)
    report = reblock.repartition(tmp_path / "a.h5", tmp_path / "b.npy")
    assert same_bits(np.load(tmp_path / "b.npy"), data)
    assert [note for note in report.notes if "not used, since chunk (" in note]
    assert report.missing_chunks == 0
    assert {k: v for k, v in report.measured.to_json().items() if k in ("opens", "bytes_read")} == {
        k: v for k, v in report.predicted.to_json().items() if k in ("opens", "bytes_read")
    }


@pytest.mark.parametrize("dtype", ["<f2", ">f8", "g", "G", ">c16", "S5", "V7", "?"])
def test_bits_that_mean_nothing_are_no_disagreement(tmp_path: Path, dtype: str) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("x", (4, 6), dtype, chunks=(2, 3))
        dataset[:2, :3] = np.frombuffer(bytes(range(1, 1 + 6 * dataset.dtype.itemsize)), dtype).reshape(2, 3)
    assert FORMAT.open(str(tmp_path / "a.h5"), "").reads is TransferMode.EXTENT


def test_an_index_that_is_asked_is_checked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.arange(64, dtype="<i4").reshape(8, 8)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=data, chunks=(2, 2))
    true = Reader.find
    monkeypatch.setattr(Reader, "sweep", lambda *_: None)
    assert FORMAT.open(str(tmp_path / "a.h5"), "").reads is TransferMode.EXTENT
    monkeypatch.setattr(Reader, "find", lambda self, index, shift, where: true(self, index[::-1], shift, where))
    store = FORMAT.open(str(tmp_path / "a.h5"), "")
    assert store.reads is TransferMode.BOX
    assert same_bits(read_array(store), data)


def test_a_contiguous_dataset_is_checked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.arange(5000, dtype="<i4").reshape(50, 100)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = data
    true = Reader.describe

    def lying(self: Reader, inner: str) -> dict[str, Any]:
        facts = true(self, inner)
        return {**facts, "offset": facts["offset"] - 8}

    assert FORMAT.open(str(tmp_path / "a.h5"), "").reads is TransferMode.EXTENT
    monkeypatch.setattr(Reader, "describe", lying)
    store = FORMAT.open(str(tmp_path / "a.h5"), "")
    assert store.reads is TransferMode.BOX
    assert same_bits(read_array(store), data)


def test_damage_stays_an_error_of_its_place(tmp_path: Path) -> None:
    """The check is of places; a chunk that does not decode is named by the run."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("x", data=np.arange(64).reshape(8, 8), chunks=(2, 2), compression="gzip")
        for first in itertools.product(range(0, 8, 2), repeat=2):
            dataset.id.write_direct_chunk(first, b"not a stream")
    assert FORMAT.open(str(tmp_path / "a.h5"), "").reads is TransferMode.EXTENT
    with pytest.raises(CorruptError, match=r"chunk \(0,0\) in .*a.h5, bytes \d+ to \d+"):
        reblock.repartition(tmp_path / "a.h5", tmp_path / "b.npy")


@pytest.mark.parametrize("lie", [swap, hide, turn])
def test_stored_bytes_of_long_chunks_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: Callable[[npt.NDArray[np.uint64]], npt.NDArray[np.uint64]]
) -> None:
    data = np.arange(36 * 36, dtype="<i4").reshape(36, 36)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=data, chunks=(4, 4), compression="gzip")
    monkeypatch.setattr(hdf5_check, "_DECODED_BYTES", 0)
    assert FORMAT.open(str(tmp_path / "a.h5"), "").reads is TransferMode.EXTENT
    true = Reader.sweep
    monkeypatch.setattr(Reader, "sweep", lambda *words: lie(true(*words)))
    store = FORMAT.open(str(tmp_path / "a.h5"), "")
    assert store.reads is TransferMode.BOX
    assert same_bits(read_array(store), data)


@pytest.mark.parametrize(("filters", "mebibytes"), [("none", 4), ("gzip", 4), ("gzip", 9)])
def test_the_check_takes_no_more_memory_than_a_chunk(tmp_path: Path, filters: str, mebibytes: int) -> None:
    chunk_bytes = mebibytes << 20
    data = np.random.default_rng(1).integers(0, 256, (5, chunk_bytes), np.uint8)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=data, chunks=(1, chunk_bytes), **FILTERS[filters])
    reblock.open(tmp_path / "a.h5")
    store = FORMAT.open(str(tmp_path / "a.h5"), "")
    tracemalloc.start()
    try:
        assert store.reads is TransferMode.EXTENT
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Stored, decoded, and unshuffled on the way; without filters, and of long chunks, only a part is read.
    assert peak < (3.2 * chunk_bytes if filters == "gzip" and mebibytes == 4 else 1 << 20)


def test_few_chunks_of_many_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.arange(400 * 400).reshape(400, 400), chunks=(10, 10))
    compared = []
    true = hdf5_check._read
    monkeypatch.setattr(hdf5_check, "_read", lambda *words: compared.append(words[1]) or true(*words))
    assert FORMAT.open(str(tmp_path / "a.h5"), "").reads is TransferMode.EXTENT
    assert 4 <= len(compared) == len(set(compared)) <= 12
    assert {(0, 0), (39, 39), (0, 1), (1, 0)} <= set(compared)
