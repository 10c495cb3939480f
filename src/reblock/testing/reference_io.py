"""Reads and writes whole arrays by the rules of the Store protocol alone: one thread, one call at a time.

It is slow and simple on purpose. It uses only what the adapter states, so any engine can move an array that
survives the round trip.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import CorruptError
from reblock.geometry import Box
from reblock.geometry.grid import inverse
from reblock.model.layout import Layout
from reblock.model.medium import Medium
from reblock.model.store import Bytes, Extent, Flat, Index, Store, TransferMode
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import exists

#: An array of any type.
Array = npt.NDArray[Any]


def read_array(store: Store) -> Array:
    """The whole array as it is stored, in `store.layout.dtype`."""
    layout = store.layout
    out = np.empty(layout.shape, layout.dtype)
    if store.reads is TransferMode.BOX:
        for unit in layout.units.indices():
            box = layout.units.box(unit)
            piece = np.empty(box.shape, layout.dtype)
            store.read_box(box, piece)
            out[whole(box)] = piece
        return out
    for index in layout.objects.indices():
        units = list(layout.units.touching(layout.objects.box(index)))
        for unit, extent in zip(units, find(store, index, units), strict=True):
            box = layout.units.box(unit)
            stored = read_unit(store, unit, extent)
            out[whole(box)] = stored[whole(box.within(layout.units.stored(unit)))]
    return out


def whole(box: Box) -> tuple[Any, ...]:
    """The index of a box; the ellipsis keeps an array without axes an array."""
    return (*box.slices, ...)


def find(store: Store, index: Index, units: list[Index]) -> list[Extent | None]:
    """`store.extents`; an object whose file is missing counts as not stored."""
    try:
        return list(store.extents(index, units, partial(read_extent, medium=store.medium)))
    except FileNotFoundError:
        return [None] * len(units)


def is_there(store: Store, index: Index) -> bool:
    """Whether any unit of an object is stored."""
    units = list(store.layout.units.touching(store.layout.objects.box(index)))
    found = find(store, index, units)
    return any(extent is not None and exists(store.medium, extent.path) for extent in found)


def read_unit(store: Store, unit: Index, extent: Extent | None) -> Array:
    """One unit's elements, overhang included; fill if it is missing and the format defines that."""
    layout = store.layout
    shape = layout.units.stored(unit).shape
    data: Bytes | None = None
    if extent is not None:
        try:
            data = read_extent(extent, store.medium)
        except FileNotFoundError:
            data = None
    if extent is None or data is None:
        if not store.fills:
            raise CorruptError(f"chunk {unit} of {store.location} is missing")
        return fill_array(store, shape)
    flat: Flat = np.empty(int(np.prod(shape, dtype=np.int64)) * layout.itemsize, np.uint8)
    store.decode(data, extent, flat)
    return unit_view(layout, flat, shape)


def fill_array(store: Store, shape: tuple[int, ...]) -> Array:
    """An array of the store's fill value, or of zeros if it has none."""
    out = np.zeros(shape, store.layout.dtype)
    if store.schema.fill_value is not None:
        out[...] = np.asarray(store.schema.fill_value, store.layout.dtype)
    return out


def unit_view(layout: Layout, flat: Flat, shape: tuple[int, ...]) -> Array:
    """A unit's decoded bytes as an array in the array's own axes."""
    ordered = tuple(shape[axis] for axis in layout.order)
    return flat.view(layout.dtype).reshape(ordered).transpose(inverse(layout.order))


def unit_bytes(layout: Layout, data: Array) -> Flat:
    """The bytes of an object from its elements in the array's own axes."""
    ordered = np.ascontiguousarray(data.transpose(layout.order))
    return ordered.reshape(-1).view(np.uint8)


def read_extent(extent: Extent, medium: Medium = LOCAL) -> bytes:
    """Bytes at an extent; FileNotFoundError if the object is missing, CorruptError if it is too short."""
    with medium.reader(extent.path) as handle:
        size = handle.size()
        start = extent.offset if extent.offset >= 0 else size + extent.offset
        length = max(size - start, 0) if extent.length is None else extent.length
        if start < 0 or start + length > size:
            raise CorruptError(f"{extent.path}: {length} bytes wanted at {start}, the object has {size}")
        data = bytearray(length)
        handle.read(memoryview(data), start)
    return bytes(data)


def write_array(store: Store, array: Array, *, pieces: int = 1, skip: Collection[Index] = ()) -> None:
    """Write every object except those in `skip`; `pieces` > 1 writes raw objects in pieces, the last one first.

    The caller calls `store.commit()`.
    """
    layout = store.layout
    assert array.shape == layout.shape, f"{array.shape} is not the store's shape {layout.shape}"
    assert array.dtype == layout.dtype, f"{array.dtype} is not the store's type {layout.dtype}"
    for index in layout.objects.indices():
        if index in skip:
            continue
        box = layout.objects.box(index)
        if store.writes is TransferMode.BOX:
            store.write_box(box, np.ascontiguousarray(array[whole(box)]).reshape(box.shape))
            continue
        stored = layout.objects.stored(index)
        buffer = fill_array(store, stored.shape)
        buffer[whole(box.within(stored))] = array[whole(box)]
        data = store.encode(unit_bytes(layout, buffer)).data
        if store.writes is TransferMode.UNIT:
            store.write_unit(index, data)
        else:
            write_object(store, index, data, pieces=pieces)


def write_object(store: Store, index: Index, data: Bytes, *, pieces: int = 1) -> None:
    """Write an object's bytes to the place that the store names."""
    place = store.place(index)
    view = memoryview(data).cast("B")
    before = store.preamble(index)
    if not store.medium.writes_ranges:
        store.medium.write(place.path, [before, view])
        return
    with store.medium.writer(place.path) as handle:
        handle.write([before], 0)
        step = max(-(-len(view) // pieces), 1)
        for start in reversed(range(0, len(view), step)):
            handle.write([view[start : start + step]], place.offset + start)
