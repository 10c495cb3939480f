"""Writing objects of a new array one by one, from elements that are in memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from reblock.engine.memory.budget import Memory
from reblock.engine.pipeline.boxes import Boxes
from reblock.engine.pipeline.writers.target import TargetWriter
from reblock.engine.report import Times
from reblock.engine.view import Array, part
from reblock.geometry import Box
from reblock.model import Access, Layout, Store, clear_padding
from reblock.model.accounting import with_room


class ObjectWriter:
    """Encodes and writes whole objects of one array; the caller commits it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._boxes = Boxes(store.layout.objects, Access.UNITS, store.layout)
        self._writer = TargetWriter(store, self._boxes)
        self._paths: set[str] = set()

    def boxes(self) -> Iterator[tuple[int, Box]]:
        """Number and box of each object."""
        return ((number, self._boxes.box(number)) for number in range(self._boxes.writes.count))

    def write(self, number: int, elements: Array) -> None:
        """Write one object; other types are converted."""
        layout, box = self._store.layout, self._boxes.box(number)
        size = self._boxes.stored(number).size * layout.itemsize
        room = np.empty(max(with_room(size, layout), 1), np.uint8)
        buffer = self._writer.buffer(number, box.size, Memory(size, room, _nothing))
        here = part(buffer.array, box.within(buffer.stored))
        here[...] = elements
        if elements.dtype != here.dtype:
            clear_padding(here)
        times = Times()
        if self._writer.encodes:
            self._writer.encode([buffer], times)
        _, finished = self._writer.write([buffer], times)
        self._paths.update(one.path for one in finished if one.path)

    def sync(self, folder: str) -> None:
        """Make everything that was written durable; all of it is below a folder."""
        self._store.checkpoint()
        self._store.medium.sync_all(self._paths, folder)


def object_memory(layout: Layout) -> int:
    """Bytes that writing one object takes beside its elements."""
    return with_room(layout.object_bytes, layout) + layout.encoding_bytes


def _nothing() -> None:
    """The memory belongs to numpy."""
