"""Targets that dask writes to: a new array in a workspace, written in whole objects, published at the end.

An object is a chunk, or a shard. Every task of dask writes whole objects, so that no two tasks ever change the same
one; a contiguous target is written in slabs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from threading import Lock
from typing import Any

import numpy as np

from reblock.engine.memory.arena import Arena
from reblock.engine.memory.budget import Memory
from reblock.engine.pipeline.boxes import Boxes
from reblock.engine.pipeline.writers.target import TargetWriter
from reblock.engine.report import Times
from reblock.errors import UsageError
from reblock.geometry import Box, Grid
from reblock.model import Access, Layout, Schema, Store, TransferMode
from reblock.model.store import is_single_file
from reblock.runs.staging import Staging
from reblock.storage import registry
from reblock.storage.location import Location
from reblock.storage.media.durable import sync_file_system

#: Tasks write at least this many bytes, where that is several objects.
_TASK_BYTES = 16 << 20


@dataclass
class NewArray:
    """An array that is being written; a region that is assigned consists of whole objects, or is one slab."""

    path: str
    """Where it is built."""
    inner: str
    """Path inside the file."""
    format: str
    """Its format."""
    schema: Schema
    """What it is."""
    writes: Grid
    """Boxes that are written at once."""
    access: Access
    """Whether these are whole objects."""
    store: Store | None = field(default=None, repr=False)
    """Its store, in the process that made it."""

    def __post_init__(self) -> None:
        self._lock = Lock()
        self._writer: TargetWriter | None = None

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "store": None, "_writer": None}
        del state["_lock"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=Lock())

    @property
    def shape(self) -> tuple[int, ...]:
        return self.schema.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.schema.dtype

    def __dask_tokenize__(self) -> tuple[str, str, str]:
        return type(self).__name__, self.path, self.inner

    def __setitem__(self, region: tuple[slice, ...], data: Any) -> None:
        """Write a region."""
        box = Box(tuple(one.start for one in region), tuple(one.stop for one in region))
        elements = np.asarray(data, self.dtype)
        writer, arena = self._open(), Arena()
        for index in self.writes.touching(box):
            number = self.writes.number(index)
            part, size = writer.boxes.box(number), writer.boxes.stored(number).size * self.dtype.itemsize
            if not box.contains(part):
                raise UsageError(f"{self.path}: {box} is written, which is not whole chunks or shards")
            buffer = writer.buffer(number, part.size, Memory(size, *arena.cut(size)))
            buffer.array[part.within(buffer.stored).slices] = elements[part.within(box).slices]
            if writer.encodes:
                writer.encode([buffer], Times())
            writer.write([buffer], Times())

    def _open(self) -> TargetWriter:
        with self._lock:
            if self._writer is None:
                store = self.store
                if store is None:
                    store = registry.get(self.format).reopen(self.path, self.inner, self.schema)
                    if store.writes is not TransferMode.EXTENT:
                        raise UsageError(
                            f"{self.path}: only one process can write such a file; use the threaded scheduler, or zarr"
                        )
                self._writer = TargetWriter(store, Boxes(self.writes, self.access, store.layout))
            return self._writer


def task_chunks(layout: Layout, memory_bytes: int) -> tuple[Grid, Access, tuple[tuple[int, ...], ...]]:
    """The boxes that are written at once, how, and the chunks of dask: several whole objects each, or a slab."""
    shape, row = layout.shape, [1] * layout.ndim
    if layout.objects.count == 1 and layout.partial_writes:
        axis = layout.order[0] if layout.ndim else 0
        size = prod(n for place, n in enumerate(shape) if place != axis) * layout.itemsize
        step = max(min(memory_bytes // 4, _TASK_BYTES) // max(size, 1), 1)
        cuts: list[Any] = [step if place == axis else max(n, 1) for place, n in enumerate(shape)]
        slabs = Grid.of(shape, cuts)
        return slabs, Access.RUNS, tuple(tuple(axis.lengths()) for axis in slabs.axes)
    objects = layout.objects.clipped()
    for axis in reversed(layout.order):
        size = prod(axis_.largest * count for axis_, count in zip(objects.axes, row, strict=True)) * layout.itemsize
        room = min(_TASK_BYTES, memory_bytes // 4)
        row[axis] = max(min(room // max(size, 1), objects.axes[axis].count), 1)
    chunks = []
    for one, count in zip(objects.axes, row, strict=True):
        lengths = list(one.lengths())
        chunks.append(tuple(sum(lengths[place : place + count]) for place in range(0, len(lengths), count)))
    return objects, Access.UNITS, tuple(chunks)


@contextmanager
def new_array(
    where: Location, kind: Any, schema: Schema, *, overwrite: bool, memory_bytes: int
) -> Iterator[tuple[NewArray, tuple[tuple[int, ...], ...]]]:
    """A new array and the chunks to write it in; published when the block ends, removed when it fails."""
    staging = Staging(where.path, overwrite=overwrite, single_file=is_single_file(kind))
    staging.check()
    layout = kind.layout(schema)
    writes, access, chunks = task_chunks(layout, memory_bytes)
    with staging:
        staging.check()
        staging.workspace.clear()
        # By its ordinary name, which other processes can open too.
        path = staging.workspace.array.replace(staging.workspace.reach, staging.place)
        store = kind.create(path, where.inner, schema, **registry.elsewhere(staging.building))
        try:
            yield NewArray(path, where.inner, kind.name, schema, writes, access, store), chunks
            store.checkpoint()
            store.commit()
        except BaseException:
            store.abort()
            staging.remove()
            raise
        if staging.building.is_local:
            sync_file_system(staging.parent)
        staging.workspace.check_place()
        staging.check_replaced()
        staging.publish()
        staging.remove(finished=True)
