"""Reads whole small arrays, such as coordinates, one unit after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import CorruptError
from reblock.geometry import Box
from reblock.geometry.grid import inverse
from reblock.model.store import Extent, Flat, Index, Store, TransferMode
from reblock.storage.media.files import disk_errors


def read_values(store: Store, rows: slice | None = None) -> npt.NDArray[Any]:
    """All elements of an array, or those of some positions along its first axis."""
    layout = store.layout
    wanted = Box.whole(layout.shape)
    if rows is not None:
        wanted = Box((rows.start, *wanted.start[1:]), (rows.stop, *wanted.stop[1:]))
    out = np.empty(wanted.shape, layout.dtype)
    for index in layout.objects.touching(wanted):
        inside = _common(layout.objects.box(index), wanted)
        units = list(layout.units.touching(inside))
        if store.reads is TransferMode.BOX:
            for unit in units:
                box = _common(layout.units.box(unit), wanted)
                piece = np.empty(box.shape, layout.dtype)
                store.read_box(box, piece)
                out[_index(box.within(wanted))] = piece
            continue
        for unit, extent in zip(units, store.extents(index, units, lambda one: _read(store, one)), strict=True):
            box, stored = _common(layout.units.box(unit), wanted), layout.units.stored(unit)
            out[_index(box.within(wanted))] = _unit(store, unit, extent)[_index(box.within(stored))]
    return out


def _index(box: Box) -> Any:
    """The index of a box; the ellipsis keeps an array without axes an array."""
    return (*box.slices, ...)


def _common(one: Box, other: Box) -> Box:
    return Box(tuple(map(max, one.start, other.start)), tuple(map(min, one.stop, other.stop)))


def _unit(store: Store, unit: Index, extent: Extent | None) -> npt.NDArray[Any]:
    layout = store.layout
    shape = layout.units.stored(unit).shape
    data = None
    if extent is not None:
        try:
            data = _read(store, extent)
        except FileNotFoundError:
            data = None
    if extent is None or data is None:
        if not store.fills:
            raise CorruptError(f"{store.location}: chunk {unit} is missing")
        fill = 0 if store.schema.fill_value is None else store.schema.fill_value
        return np.full(shape, np.asarray(fill).astype(layout.dtype), layout.dtype)
    flat: Flat = np.empty(int(np.prod(shape, dtype=np.int64)) * layout.itemsize, np.uint8)
    store.decode(data, extent, flat)
    ordered = [shape[axis] for axis in layout.order]
    found: npt.NDArray[Any] = flat.view(layout.dtype).reshape(ordered).transpose(inverse(layout.order))
    return found


def _read(store: Store, extent: Extent) -> bytes:
    with store.medium.reader(extent.path, roots=store.roots) as handle:
        size = handle.size()
        start = extent.offset if extent.offset >= 0 else size + extent.offset
        length = size - start if extent.length is None else extent.length
        if start < 0 or length < 0 or start + length > size:
            raise CorruptError(f"{extent.path}: {length:,} bytes at byte {start:,}, the file has {size:,}")
        data = bytearray(length)
        with disk_errors("read", extent.path):
            handle.read(memoryview(data), start)
    return bytes(data)
