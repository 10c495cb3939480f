"""Writing: buffers of write boxes, and how a complete one goes to the target."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

import numpy as np

from reblock.engine.disk import DIRECT_BYTES, Disk
from reblock.engine.reading import Loaded
from reblock.engine.view import Array, part, shaped
from reblock.geometry import Box
from reblock.geometry.runs import runs
from reblock.model import Access, Flat, Index, Store, Traffic, Way


@dataclass
class Buffer:
    """One write box on its way to completion."""

    box: Box
    """The elements that belong to it."""
    stored: Box
    """What its memory covers: the box, or the whole object with what sticks out."""
    index: Index
    """The object that it belongs to."""
    flat: Flat
    """Its memory, in disk order."""
    array: Array
    """The same memory as an array in the target's axes."""
    missing: int
    """Elements that have not arrived yet."""

    @cached_property
    def address(self) -> int:
        """Where the memory is."""
        return int(self.flat.__array_interface__["data"][0])

    def take(self, loaded: Loaded, fill: object) -> int:
        """Copy what belongs here out of loaded elements; returns how many they were."""
        shared = self.box.intersect(loaded.wanted)
        if shared is None:
            return 0
        here = part(self.array, shared.within(self.stored))
        if loaded.array is None:
            here[...] = fill
        else:
            here[...] = part(loaded.array, shared.within(loaded.box))
        return shared.size


class Writer:
    """Knows how the boxes of one pass become bytes of the target."""

    def __init__(self, store: Store, access: Access, disk: Disk, serial: AbstractContextManager[object] | None = None):
        self.store = store
        self.access = access
        self._disk = disk
        self._serial = serial or Lock()
        self._made: set[Index] = set()
        self._making = Lock()

    def buffer(self, box: Box, memory: Callable[[int], Flat]) -> Buffer:
        """A buffer for a write box."""
        layout = self.store.layout
        index = tuple(axis.index(x) for axis, x in zip(layout.objects.axes, box.start, strict=True))
        stored = layout.objects.stored(index) if self.access is Access.UNITS else box
        flat = memory(stored.size * layout.itemsize)
        array = shaped(flat, stored, layout)
        if stored != box:
            fill = self.store.schema.fill_value
            array[...] = 0 if fill is None else fill
        return Buffer(box, stored, index, flat, array, box.size)

    def write(self, buffer: Buffer) -> Traffic:
        """Write a complete buffer; says what it took."""
        size = buffer.stored.size * self.store.layout.itemsize
        if self.store.writes is Way.BOX:
            with self._serial:
                self.store.write_box(buffer.box, buffer.array[buffer.box.within(buffer.stored).slices])
            return self._whole(buffer, size)
        if self.access is Access.RUNS:
            return self._write_runs(buffer, size)
        data = buffer.flat
        layout = self.store.layout
        raw = not (layout.encoded or layout.indexed)
        encoded = data.data if raw else self.store.encode(data)
        if self.store.writes is Way.UNIT:
            with self._serial:
                self.store.write_unit(buffer.index, encoded)
            return self._whole(buffer, size)
        place = self.store.place(buffer.index)
        before = self.store.preamble(buffer.index)
        if raw and not place.offset and size >= DIRECT_BYTES and self.store.writes is Way.EXTENT:
            with self._disk.writer(place.path, direct=True) as handle:
                handle.write_whole(data)
            return Traffic(1, 1, 1, size)
        with self._disk.writer(place.path) as handle:
            handle.write([before, encoded], place.offset - len(before))
        return Traffic(1, 1, 1, size)

    def _whole(self, buffer: Buffer, size: int) -> Traffic:
        """What a box costs that the format's library writes: a visit, and its runs where it is a part."""
        stored = self.store.layout.objects.stored(buffer.index)
        if buffer.stored == stored:
            return Traffic(1, 1, 1, size)
        offsets, _ = runs(stored, buffer.stored, self.store.layout.order)
        return Traffic(1, len(offsets), 1 + len(offsets), size)

    def _write_runs(self, buffer: Buffer, size: int) -> Traffic:
        layout = self.store.layout
        stored = layout.objects.stored(buffer.index)
        place = self.store.place(buffer.index)
        before = self.store.preamble(buffer.index)
        offsets, length = runs(stored, buffer.box, layout.order)
        step = length * layout.itemsize
        data = buffer.flat.data
        with self._disk.writer(place.path) as handle:
            if place.offset == len(before) and self._first(buffer.index):
                handle.write([before], 0)
                handle.resize(place.offset + stored.size * layout.itemsize)
            for number, offset in enumerate((offsets * layout.itemsize).tolist()):
                handle.write([data[number * step : (number + 1) * step]], place.offset + offset)
        inside = 0 if buffer.box == stored else len(offsets)
        return Traffic(1, len(offsets), 1 + inside, size)

    def _first(self, index: Index) -> bool:
        """Whether this is the first piece of an object that has its own file."""
        with self._making:
            if index in self._made:
                return False
            self._made.add(index)
            return True


def fill_scalar(store: Store) -> object:
    """What an element that is not stored is worth."""
    fill = store.schema.fill_value
    return np.zeros((), store.layout.dtype)[()] if fill is None else fill
