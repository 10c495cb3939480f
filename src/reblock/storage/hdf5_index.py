"""Where the chunks of an HDF5 dataset lie, read once from its index and kept small."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.model.store import Index
from reblock.storage.hdf5_file import library

#: Chunks whose places are kept, 28 bytes each; a dataset with more is asked chunk by chunk.
MANY_CHUNKS = 2_000_000
#: Numbers of the index that are given out at a time.
_MANY_NUMBERS = 1 << 18
#: A chunk's offset in the file, stored bytes, and filter mask.
Place = tuple[int, int, int]
#: H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS.
_RAW_EDGES = 0x2


class ChunkIndex:
    """Places of the stored chunks, sorted by the chunks' numbers in C order."""

    def __init__(self, rows: npt.NDArray[np.uint64], chunks: Sequence[int], counts: Sequence[int], shift: int) -> None:
        """Take rows of first element per axis, offset, size and mask."""
        ndim = len(chunks)
        where = rows[:, :ndim] // np.array(chunks, np.uint64)
        # A chunk outside the array cannot be asked for, and would be mistaken for another one.
        inside = (where < np.array(counts, np.uint64)).all(axis=1)
        numbers = np.zeros(int(inside.sum()), np.int64)
        for axis, count in enumerate(counts):
            numbers = numbers * count + where[inside, axis].astype(np.int64)
        order = np.argsort(numbers, kind="stable")
        self._counts = tuple(counts)
        self._numbers = numbers[order]
        self._offsets = rows[inside, ndim][order] + np.uint64(shift)
        self._sizes = rows[inside, ndim + 1][order]
        self._masks = rows[inside, ndim + 2][order].astype(np.uint32)

    @property
    def sizes(self) -> list[int]:
        """Stored bytes of all chunks that there are."""
        found: list[int] = self._sizes.tolist()
        return found

    def find(self, index: Index) -> Place | None:
        """Where a chunk lies; None = not stored."""
        number = 0
        for i, count in zip(index, self._counts, strict=True):
            number = number * count + i
        at = int(np.searchsorted(self._numbers, number))
        if at == self._numbers.size or self._numbers[at] != number:
            return None
        return int(self._offsets[at]), int(self._sizes[at]), int(self._masks[at])


def sweep_index(dataset: Any, emit: Callable[[bytes], None]) -> bool:
    """Give out the whole index as rows of first element per axis, offset, size and mask, some at a time.

    False where the index is too long, or h5py too old, for one sweep.
    """
    identifier = dataset.id
    number = identifier.get_num_chunks()
    if number > MANY_CHUNKS or not hasattr(identifier, "chunk_iter"):
        return False
    flat = array("Q")

    def add(info: Any) -> None:
        flat.extend(info.chunk_offset)
        flat.extend((info.byte_offset, info.size, info.filter_mask))
        if len(flat) >= _MANY_NUMBERS:
            emit(flat.tobytes())
            del flat[:]

    if number:
        identifier.chunk_iter(add)
    emit(flat.tobytes())
    return True


def read_index(dataset: Any, counts: Sequence[int], shift: int) -> ChunkIndex | None:
    """The whole index of a dataset that is open here; None where it cannot be had in one sweep."""
    rows = bytearray()
    swept = sweep_index(dataset, rows.extend)
    return ChunkIndex(rows_of(rows, len(counts)), dataset.chunks, counts, shift) if swept else None


def rows_of(data: bytes | bytearray, ndim: int) -> npt.NDArray[np.uint64]:
    """What `sweep_index` has given out, as an array."""
    return np.frombuffer(data, np.uint64).reshape(-1, ndim + 3)


def ask_index(dataset: Any, index: Index, shift: int) -> Place | None:
    """Where one chunk lies, by a search of HDF5's own."""
    first = tuple(i * c for i, c in zip(index, dataset.chunks, strict=True))
    info = dataset.id.get_chunk_info_by_coord(first)
    if info.byte_offset is None or not info.size:
        return None
    return int(info.byte_offset) + shift, int(info.size), int(info.filter_mask)


def address_shift(file: Any) -> int:
    """What to add to the chunk addresses that HDF5 reports: before 1.14.4 it forgets the user block."""
    return int(file.userblock_size) if library().version.hdf5_version_tuple[:3] < (1, 14, 4) else 0


def edges_are_raw(dcpl: Any) -> bool:
    """Whether chunks that stick out of the array skip all filters, which their filter masks do not say.

    C programs can ask for that, and h5py cannot tell, so HDF5 itself is asked.
    """
    h5py = library()
    options = ctypes.c_uint(0)
    try:
        # The extension module is linked to HDF5, so HDF5's names are found through it.
        ask = ctypes.PyDLL(h5py.h5p.__file__).H5Pget_chunk_opts
    except (OSError, AttributeError):
        return False
    ask.argtypes, ask.restype = [ctypes.c_int64, ctypes.POINTER(ctypes.c_uint)], ctypes.c_int
    with h5py._objects.phil:  # noqa: SLF001 - the lock that h5py itself takes around every call of HDF5
        return ask(dcpl.id, ctypes.byref(options)) >= 0 and bool(options.value & _RAW_EDGES)
