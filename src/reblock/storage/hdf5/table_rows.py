"""Rows of tables between HDF5 and numpy: in the separate process as bytes, here as arrays.

::

    records, enumerations    the elements without padding between fields
    text                     the length of each element (8 bytes, little-endian), then all of them as UTF-8
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.recfunctions import repack_fields

from reblock.errors import CorruptError, InfeasibleError
from reblock.model.dataset import TableSchema
from reblock.units import format_size

#: Rows of text that are read first, to learn how long they are.
_FEW_ROWS = 16
#: Bytes of Python's objects for one text, beside its characters.
_OBJECT_BYTES = 64


def rows_that_fit(table: TableSchema, start: int, stop: int, limit_bytes: int, where: str) -> int:
    """The end of the rows that may be read at once, by the size of their type; InfeasibleError if not even one fits."""
    if not table.shape:
        return start + 1
    stop = min(stop, table.shape[0])
    each = prod(table.shape[1:]) * (_OBJECT_BYTES if table.kind == "text" else 2 * table.dtype.itemsize)
    decoded = prod(table.chunks) * (16 if table.kind == "text" else table.dtype.itemsize) if table.chunks else 0
    if (needed := max(each, 2 * decoded)) > limit_bytes:
        raise InfeasibleError(
            f"{where}: a row, or the chunk that holds it, takes {format_size(needed)} of memory, there are "
            f"{format_size(limit_bytes)}",
            needs_memory_bytes=needed,
        )
    return max(min(stop, start + limit_bytes // max(each, 1)), start)


def read_rows(dataset: Any, start: int, stop: int, limit_bytes: int, *, text: bool) -> tuple[int, bytes]:
    """The number of rows that were read, and their bytes; text stops when it takes the limit."""
    if not text:
        found = dataset[start:stop] if dataset.shape else dataset[()]
        array = np.asarray(found, dataset.dtype)
        dtype = repack_fields(array.dtype, align=False, recurse=True)
        return stop - start, np.ascontiguousarray(array.astype(dtype, copy=False)).tobytes()
    if not dataset.shape:
        return 1, _pack_text(np.array(dataset[()], object))
    parts, at, size, step = [], start, 0, _FEW_ROWS
    while at < stop and size < limit_bytes // 2:
        piece = dataset[at : min(at + step, stop)]
        parts.append(piece)
        at += len(piece)
        size += sum(len(one) + _OBJECT_BYTES for one in piece.ravel())
        # The next piece may take what is left, if its rows are like those before.
        step = max(min(2 * step, (limit_bytes // 2 - size) * (at - start) // max(size, 1)), 1)
    return at - start, _pack_text(np.concatenate(parts) if parts else np.empty(0, object))


def _pack_text(texts: npt.NDArray[Any]) -> bytes:
    data = [one if isinstance(one, bytes) else one.encode("utf-8", "surrogateescape") for one in texts.ravel()]
    return np.array([len(one) for one in data], "<u8").tobytes() + b"".join(data)


def unpack_rows(table: TableSchema, count: int, data: bytes, where: str) -> npt.NDArray[Any]:
    """Rows from bytes of the separate process, which may be in the hands of a hostile file."""
    shape = (count, *table.shape[1:]) if table.shape else ()
    number = prod(shape)
    if table.kind != "text":
        if len(data) != number * table.dtype.itemsize:
            raise CorruptError(f"{where}: {len(data):,} bytes for {count:,} rows")
        return np.frombuffer(bytearray(data), table.dtype).reshape(shape)
    if len(data) < 8 * number:
        raise CorruptError(f"{where}: {len(data):,} bytes for {number:,} texts")
    lengths = np.frombuffer(data, "<u8", number)
    # As Python's integers: the sum of hostile lengths may not wrap.
    if 8 * number + sum(lengths.tolist()) != len(data):
        raise CorruptError(f"{where}: the lengths of its texts do not add up")
    found, at = np.empty(number, object), 8 * number
    for place, length in enumerate(lengths.tolist()):
        found[place] = data[at : at + length].decode("utf-8", "surrogateescape")
        at += length
    return found.reshape(shape)
