"""The positions of an HDF5 dataset's chunks, read once from its index and stored compactly."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import CorruptError
from reblock.model.store import Index
from reblock.storage.hdf5.file import library

#: The most chunks whose positions are stored, 28 bytes each; in a larger dataset each chunk is looked up.
MANY_CHUNKS = 2_000_000
#: Numbers of the index that are passed on at a time.
_MANY_NUMBERS = 1 << 18
#: A chunk's offset in the file, stored bytes, and filter mask.
Place = tuple[int, int, int]
#: H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS.
_RAW_EDGES = 0x2
#: H5D_CHUNK_IDX_EARRAY.
_EXTENSIBLE_ARRAY = 4


class ChunkIndex:
    """Positions of the stored chunks, sorted by the chunks' numbers in C order."""

    def __init__(
        self, rows: npt.NDArray[np.uint64], chunks: Sequence[int], counts: Sequence[int], shift: int, where: str
    ) -> None:
        """Build from rows of first element per axis, offset, size and mask; CorruptError for an invalid chunk.

        A chunk outside the grid, off its lines, or listed twice would be confused with another one or lost.
        """
        ndim = len(chunks)
        firsts, lengths = rows[:, :ndim], np.array(chunks, np.uint64)
        at = firsts // lengths
        astray = ((firsts != at * lengths) | (at >= np.array(counts, np.uint64))).any(axis=1)
        if astray.any():
            first = firsts[int(astray.argmax())]
            raise CorruptError(f"{where}: the chunk index has a chunk at {_text(first)}, {_grid(chunks, counts)}")
        numbers = np.zeros(len(rows), np.int64)
        for axis, count in enumerate(counts):
            numbers = numbers * count + at[:, axis].astype(np.int64)
        order = np.argsort(numbers, kind="stable")
        self._counts = tuple(counts)
        self._numbers = numbers[order]
        if (twice := np.flatnonzero(self._numbers[1:] == self._numbers[:-1])).size:
            first = firsts[int(order[int(twice[0])])]
            raise CorruptError(
                f"{where}: the chunk index has the chunk at {_text(first)} twice, {_grid(chunks, counts)}"
            )
        self._offsets = rows[:, ndim][order] + np.uint64(shift)
        self._sizes = rows[:, ndim + 1][order]
        self._masks = rows[:, ndim + 2][order].astype(np.uint32)

    @property
    def sizes(self) -> list[int]:
        """Stored sizes of all existing chunks."""
        found: list[int] = self._sizes.tolist()
        return found

    @property
    def telling(self) -> list[Index]:
        """Unusual chunks: the longest, the shortest, and the first that is not stored."""
        found = [int(self._numbers[at(self._sizes)]) for at in (np.argmax, np.argmin) if self._sizes.size]
        gap = int(np.argmin(np.append(self._numbers == np.arange(self._numbers.size), False)))
        found += [gap] if gap < prod(self._counts) else []
        return [index_of(number, self._counts) for number in found]

    def find(self, index: Index) -> Place | None:
        """The position of a chunk; None = not stored."""
        number = 0
        for i, count in zip(index, self._counts, strict=True):
            number = number * count + i
        at = int(np.searchsorted(self._numbers, number))
        if at == self._numbers.size or self._numbers[at] != number:
            return None
        return int(self._offsets[at]), int(self._sizes[at]), int(self._masks[at])


def index_of(number: int, counts: Sequence[int]) -> Index:
    """The index in the grid of a chunk with a number in C order."""
    index = []
    for count in reversed(counts):
        number, i = divmod(number, count)
        index.append(i)
    return tuple(reversed(index))


def sweep_index(dataset: Any, emit: Callable[[bytes], None]) -> bool:
    """Pass on the whole index, a few rows at a time: first element per axis, offset, size and mask.

    Returns False if the index is too long, or h5py too old, for one sweep.
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


def read_index(dataset: Any, counts: Sequence[int], shift: int, where: str) -> ChunkIndex | None:
    """The whole index of a dataset that is open in this process; None if one sweep cannot read it."""
    rows = bytearray()
    swept = sweep_index(dataset, rows.extend)
    return ChunkIndex(rows_of(rows, len(counts)), dataset.chunks, counts, shift, where) if swept else None


def rows_of(data: bytes | bytearray, ndim: int) -> npt.NDArray[np.uint64]:
    """The rows of `sweep_index` as an array."""
    return np.frombuffer(data, np.uint64).reshape(-1, ndim + 3)


def ask_index(dataset: Any, index: Index, shift: int) -> Place | None:
    """The position of one chunk, found by HDF5."""
    first = tuple(i * c for i, c in zip(index, dataset.chunks, strict=True))
    info = dataset.id.get_chunk_info_by_coord(first)
    if info.byte_offset is None or not info.size:
        return None
    return int(info.byte_offset) + shift, int(info.size), int(info.filter_mask)


def address_shift(file: Any) -> int:
    """The offset to add to the chunk addresses that HDF5 reports: before 1.14.4 it omits the user block."""
    return int(file.userblock_size) if library().version.hdf5_version_tuple[:3] < (1, 14, 4) else 0


# -------------------------------------------------------------------- what HDF5 can tell and h5py cannot ask
def edges_are_raw(dcpl: Any) -> bool:
    """Whether chunks that extend beyond the array skip all filters; their filter masks do not show it."""
    options = ctypes.c_uint(0)
    return _call("H5Pget_chunk_opts", dcpl, ctypes.byref(options)) == 0 and bool(options.value & _RAW_EDGES)


def is_misreported(dataset: Any) -> bool:
    """Whether HDF5 reports wrong coordinates for chunks, although it reads the right ones.

    It does so (at least up to 2.0) for an extensible array, the index of datasets with one unlimited axis, if that
    axis is not the first: it stores the chunks in another order of axes, and does not undo that in its reports.
    """
    unlimited = [axis for axis, length in enumerate(dataset.maxshape) if length is None]
    if len(unlimited) != 1 or unlimited == [0]:
        return False
    kind = ctypes.c_int(_EXTENSIBLE_ARRAY)
    # If HDF5 cannot tell, the variable keeps its initial value, and the reported positions are not used.
    _call("H5Dget_chunk_index_type", dataset.id, ctypes.byref(kind))
    return kind.value == _EXTENSIBLE_ARRAY


def is_stored(dataset: Any, index: Index) -> bool:
    """Whether a chunk is stored, by the lookup that reads elements; HDF5 reports chunks in its cache as stored."""
    first = [i * c for i, c in zip(index, dataset.chunks, strict=True)]
    size = ctypes.c_uint64(0)
    place = (ctypes.c_uint64 * len(first))(*first)
    found = _call("H5Dget_chunk_storage_size", dataset.id, place, ctypes.byref(size))
    return ask_index(dataset, index, 0) is not None if found is None else found >= 0 and size.value > 0


def _call(name: str, identifier: Any, *more: Any) -> int | None:
    """The result of a function of h5py's HDF5: negative = failed; None = the function does not exist."""
    h5py = library()
    try:
        # The extension module is linked to HDF5, so it resolves HDF5's symbols.
        function = getattr(ctypes.PyDLL(h5py.h5p.__file__), name)
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_int
    with h5py._objects.phil:  # noqa: SLF001 - the lock that h5py holds during every call of HDF5
        return int(function(ctypes.c_int64(identifier.id), *more))


def _text(first: Sequence[Any]) -> str:
    return f"({', '.join(map(str, first))})"


def _grid(chunks: Sequence[int], counts: Sequence[int]) -> str:
    return f"in a grid of {' x '.join(map(str, counts))} chunks of {' x '.join(map(str, chunks))}: it is damaged"
