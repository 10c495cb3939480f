"""Write boxes: their bounds, and the buffers that collect their elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from reblock.engine import native
from reblock.engine.casting import convert
from reblock.engine.digest import sums
from reblock.engine.memory.budget import Memory
from reblock.engine.pipeline.readers.visits import Loaded
from reblock.engine.view import Array, part, shaped
from reblock.geometry import Box, Grid
from reblock.model import Access, Flat, Index, Layout, Store, Sums, element


@dataclass(frozen=True)
class Boxes:
    """The write boxes of one pass."""

    writes: Grid
    """How the pass cuts the array."""
    access: Access
    """Whether write boxes are whole objects, or parts of objects."""
    layout: Layout
    """The layout of the target."""

    def box(self, number: int) -> Box:
        """The elements of a write box."""
        return self.writes.box(self.writes.index(number))

    def stored(self, number: int) -> Box:
        """The box that the memory of a write box covers: the elements, or the whole object with its overhang."""
        index = self.writes.index(number)
        return self.layout.objects.stored(index) if self.access is Access.UNITS else self.writes.box(index)

    def owner(self, number: int) -> Index:
        """The object that a write box belongs to."""
        index = self.writes.index(number)
        if self.access is Access.UNITS:
            return index
        start = self.writes.box(index).start
        return tuple(axis.index(x) for axis, x in zip(self.layout.objects.axes, start, strict=True))

    def indices(self, numbers: Sequence[int]) -> list[Index]:
        """Indices of some write boxes in the write grid."""
        if not self.writes.ndim:
            return [()] * len(numbers)
        return list(zip(*(axis.tolist() for axis in np.unravel_index(numbers, self.writes.counts)), strict=True))


class Buffer:
    """One write box while its elements arrive, until it is written."""

    def __init__(self, boxes: Boxes, number: int, elements: int, memory: Memory) -> None:
        self.number = number
        """Its number in the write grid."""
        self.elements = elements
        """Elements of the box."""
        self.memory = memory
        """Its bytes, in disk order, and the record of what has arrived."""
        self.data: Flat | None = None
        """The encoded object; it takes the place of the elements if there is room."""
        self._boxes = boxes
        record = memory.record
        record[1], record[2], record[3] = elements, 0, 0

    # Cached only on use: in a run with very many boxes most of these are never needed.
    @cached_property
    def box(self) -> Box:
        """The elements of the write box."""
        return self._boxes.box(self.number)

    @cached_property
    def stored(self) -> Box:
        """The box that the memory covers."""
        return self._boxes.stored(self.number)

    @property
    def owner(self) -> Index:
        """The object that it belongs to."""
        return self._boxes.owner(self.number)

    def keep(self, stored: Flat) -> bool:
        """Put the bytes to be stored in the place of the elements; returns False if there is no room for them."""
        room = self.memory.room
        if stored.size > room.size:
            return False
        self.data = room[: stored.size]
        if native.address(stored) != self.memory.start:
            self.data[:] = stored
        return True

    @cached_property
    def array(self) -> Array:
        """The memory as an array in the target's axes."""
        return shaped(self.memory.flat, self.stored, self._boxes.layout)

    @property
    def sums(self) -> Sums:
        """Digest sums of the elements that have arrived."""
        record = self.memory.record
        return Sums(record[2], record[3])

    def take(self, loaded: Loaded, fill: Array, shape: Index | None, *, checked: bool = False) -> tuple[int, Sums]:
        """Copy the elements that belong here; returns their number, and their sums if the array's shape is given.

        MisfitError for an element that does not survive in the target's type, if that is checked.
        """
        shared = self.box.intersect(loaded.wanted)
        if shared is None:
            return 0, Sums()
        here = part(self.array, shared.within(self.stored))
        there = fill if loaded.array is None else part(loaded.array, shared.within(loaded.box))
        if there.dtype == here.dtype:
            here[...] = there
        elif loaded.array is None:
            here[...] = _converted(fill, here.dtype, shared.start, checked=checked)
        else:
            convert(there, here, checked=checked, origin=shared.start)
        return shared.size, Sums() if shape is None else sums(here, shared.start, shape)

    def arrived(self, count: int, added: Sums) -> bool:
        """Count elements that were copied; returns whether the box is complete."""
        record = self.memory.record
        record[1] -= count
        record[2], record[3] = self.sums + added
        return count > 0 and not record[1]


def _converted(fill: Array, dtype: np.dtype[Any], where: Index, *, checked: bool) -> Array:
    """The fill value in the target's type, for elements that are not stored; the first of them is at `index`."""
    made: Array = np.zeros((1,) * len(where), dtype)
    convert(fill.reshape(made.shape), made, checked=checked, origin=where)
    return made


def fill_element(store: Store) -> Array:
    """The element that replaces elements that are not stored."""
    fill = store.schema.fill_value
    return element(np.zeros((), store.layout.dtype) if fill is None else fill, store.layout.dtype)
