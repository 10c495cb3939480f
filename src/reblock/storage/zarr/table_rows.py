"""Rows of zarr tables: read from whole chunks within a limit, and written into whole chunks."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import CorruptError, DiskError, InfeasibleError
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.storage.media.small import exists, read_head
from reblock.storage.zarr.tables import VLEN, TableMeta
from reblock.units import format_size

#: The most bytes of a chunk of our own, which is read to change some of its rows.
_OWN_BYTES = 1 << 40
#: Bytes of Python's object for one text, beside its characters.
_OBJECT_BYTES = 64


def read_rows(
    meta: TableMeta, medium: Medium, folder: str, roots: Roots | None, start: int, stop: int, limit_bytes: int
) -> npt.NDArray[Any]:
    """Rows from `start` on, chunk by chunk, until half of the limit is used; at least those of one chunk."""
    shape, kind = meta.schema.shape, meta.schema.kind
    if not shape:
        return _read_chunk(meta, medium, folder, roots, (), limit_bytes)
    parts: list[npt.NDArray[Any]] = []
    at, stop, used = start, min(stop, shape[0]), 0
    while at < stop and (not parts or 2 * used < limit_bytes):
        number = at // meta.chunks[0]
        first = number * meta.chunks[0]
        last = min(first + meta.chunks[0], stop)
        try:
            rows = _read_row_of_chunks(meta, medium, folder, roots, number, limit_bytes - used)
        except InfeasibleError:
            if parts:
                break
            raise
        parts.append(rows[at - first : last - first])
        used += _bytes_of(parts[-1]) if kind in VLEN else parts[-1].nbytes
        at = last
    return np.concatenate(parts) if parts else np.empty((0, *shape[1:]), meta.schema.dtype)


def _read_row_of_chunks(
    meta: TableMeta, medium: Medium, folder: str, roots: Roots | None, number: int, limit_bytes: int
) -> npt.NDArray[Any]:
    """The rows of all chunks with one first index."""
    length, inner = meta.chunks[0], meta.schema.shape[1:]
    count = length * prod(map(max, inner, meta.chunks[1:]))
    needed = count * (_OBJECT_BYTES if meta.schema.kind in VLEN else 2 * meta.schema.dtype.itemsize)
    if needed > limit_bytes:
        _refuse(folder, needed, limit_bytes)
    out = np.empty((length, *inner), meta.schema.dtype)
    for rest in itertools.product(*map(range, meta.counts[1:])):
        chunk = _read_chunk(meta, medium, folder, roots, (number, *rest), limit_bytes - needed // 2)
        lows = [i * c for i, c in zip(rest, meta.chunks[1:], strict=True)]
        highs = [min(low + c, n) for low, c, n in zip(lows, meta.chunks[1:], inner, strict=True)]
        inside = tuple(slice(low, high) for low, high in zip(lows, highs, strict=True))
        part = tuple(slice(high - low) for low, high in zip(lows, highs, strict=True))
        out[(slice(None), *inside)] = chunk[(slice(None), *part)]
    return out


def _refuse(where: str, needed: int, limit_bytes: int) -> None:
    raise InfeasibleError(
        f"{where}: a chunk of the table takes {format_size(needed)} of memory or more, there are "
        f"{format_size(limit_bytes)}",
        needs_memory_bytes=needed,
    )


def _read_chunk(
    meta: TableMeta, medium: Medium, folder: str, roots: Roots | None, index: tuple[int, ...], limit_bytes: int
) -> npt.NDArray[Any]:
    path = os.path.join(folder, meta.key(index))
    most = max(limit_bytes // 2, 1)
    try:
        data, size = read_head(medium, path, most, roots)
    except DiskError:
        if exists(medium, path):
            raise
        full = np.empty(meta.chunks, meta.schema.dtype)
        full[...] = meta.empty
        return full
    if size > len(data):
        _refuse(path, 2 * size, limit_bytes)
    try:
        return meta.decode(data, most)
    except CorruptError as error:
        why = f"it is damaged, or needs more memory than {format_size(most)}"
        raise CorruptError(f"{path}: {error.message}: {why}") from None


def _bytes_of(rows: npt.NDArray[Any]) -> int:
    return sum(len(one) + _OBJECT_BYTES for one in rows.ravel())


def write_rows(meta: TableMeta, medium: Medium, folder: str, start: int, rows: npt.NDArray[Any]) -> None:
    """Write rows into whole chunks; those of which only a part is given keep their other rows."""
    if not meta.schema.shape:
        medium.replace(os.path.join(folder, meta.key(())), meta.encode(rows.reshape(())))
        return
    written = []
    for number, first, last in _touched(meta, start, start + len(rows)):
        low = number * meta.chunks[0]
        whole = first == low and last in (low + meta.chunks[0], meta.schema.shape[0])
        index = (number, *(0 for _ in meta.chunks[1:]))
        if whole:
            chunk = np.empty(meta.chunks, meta.schema.dtype)
            chunk[...] = meta.empty
        else:
            chunk = _read_chunk(meta, medium, folder, None, index, _OWN_BYTES)
        if rows[first - start : last - start].size:
            chunk[first - low : last - low] = rows[first - start : last - start]
        written.append(os.path.join(folder, meta.key(index)))
        _make_folders(medium, folder, meta.key(index))
        medium.replace(written[-1], meta.encode(chunk))
    medium.sync_all(written, folder)


def _make_folders(medium: Medium, folder: str, key: str) -> None:
    """Make the folders between a table and one of its chunks, as far as they do not exist."""
    here = folder
    for part in key.split("/")[:-1]:
        here = os.path.join(here, part)
        with suppress(FileExistsError):
            medium.make_folder(here)


def _touched(meta: TableMeta, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Numbers of chunks along the first axis, and the rows of each."""
    length = meta.chunks[0]
    for number in range(start // length, -(-stop // length)):
        yield number, max(start, number * length), min(stop, (number + 1) * length)
