"""ReplicaArray: an array with several copies, each read of which goes to the cheapest one.

A chunk that is damaged or missing in one copy is read from another one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.advisor.price import Pricing
from reblock.api.array import Array
from reblock.api.devices import known_device
from reblock.api.machine import cores, parse_memory
from reblock.api.replicas.record import ReplicaSet, lock_path, metadata_hash, read_set
from reblock.cost import PRESETS
from reblock.engine import Step, View, load, sampled
from reblock.errors import CorruptError, ReblockError, StorageError
from reblock.geometry import Box
from reblock.model import AccessClass, AccessPattern, Device, Store
from reblock.model.pattern import Alignment, Positions
from reblock.storage import registry
from reblock.storage.media.sharing import SharedHold

#: Attempts at opening replicas whose generation is replaced meanwhile.
_ATTEMPTS = 10


@dataclass(frozen=True)
class ReadPrice:
    """The estimated cost of one read on one copy."""

    copy: int
    """Number of the copy."""
    chunks: tuple[Any, ...]
    """Its chunk shape."""
    blocks: float
    """Chunks that the read touches."""
    bytes: float
    """Bytes that it moves, decoded."""
    seconds: float
    """Time on the device."""

    def to_json(self) -> dict[str, Any]:
        """The price as JSON."""
        return {
            "copy": self.copy,
            "chunks": [one if isinstance(one, int) else list(one) for one in self.chunks],
            "blocks": self.blocks,
            "bytes": self.bytes,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class CopyStore:
    """A copy that can be read."""

    number: int
    """Its number in the record."""
    store: Store
    """The array."""

    def load(self, box: Box, steps: Sequence[Step] | None, memory_bytes: int) -> npt.NDArray[Any]:
        """Elements of a box; a missing chunk is an error, because every chunk is stored."""
        view = View(self.store, Box.whole(self.store.layout.shape), tuple(range(box.ndim)), strict=True)
        return load(view, box, steps=steps, memory_bytes=memory_bytes, threads=cores())


@dataclass(frozen=True, kw_only=True)
class ReplicaArray(Array):
    """An array with several copies, opened for reading. It keeps the generation that was current when it was opened."""

    replicas: ReplicaSet
    """The record of the copies."""
    copies: tuple[CopyStore, ...]
    """The copies that can be opened."""
    damaged: tuple[str, ...] = ()
    """What was wrong with the others."""
    hold: SharedHold
    """Keeps the generation from being removed."""

    def __reduce__(self) -> tuple[Any, ...]:
        return open_replicas, (self.replicas.folder, self.memory_bytes)

    def prices(self, box: Box) -> list[ReadPrice]:
        """What a read costs on each copy, the cheapest first."""
        found = [read_price(one, box, self.devices[one.number]) for one in self.copies]
        return sorted(found, key=lambda one: (one.seconds, one.bytes, one.copy))

    @cached_property
    def devices(self) -> dict[int, Device]:
        """The device by which reads of each copy are priced: as named, or as earlier runs measured it."""
        if self.replicas.device in PRESETS:
            return {one.number: PRESETS[self.replicas.device] for one in self.copies}
        return {one.number: known_device(one.store.described_by[0], one.store.layout) for one in self.copies}

    def load_box(self, box: Box, steps: Sequence[Step] | None = None) -> npt.NDArray[Any]:
        """The elements of a box, from the cheapest copy that has them."""
        copies = self.by_price(box)
        try:
            return copies[0].load(box, steps, self.memory_bytes)
        except CorruptError:
            out = self.load_around(box, copies)
            return out if steps is None else sampled(out, steps)

    def by_price(self, box: Box) -> list[CopyStore]:
        """The copies, the cheapest for a read first."""
        numbered = {one.number: one for one in self.copies}
        return [numbered[one.copy] for one in self.prices(box)]

    def load_around(self, box: Box, copies: Sequence[CopyStore]) -> npt.NDArray[Any]:
        """The elements of a box, chunk by chunk of the first copy; what is damaged there comes from the next one."""
        first, *others = copies
        if not others:
            return first.load(box, None, self.memory_bytes)
        out = np.empty(box.shape, self.dtype)
        for index in first.store.layout.objects.touching(box):
            part = _common(first.store.layout.objects.box(index), box)
            try:
                found = first.load(part, None, self.memory_bytes)
            except CorruptError:
                found = self.load_around(part, others)
            out[tuple(slice(a - c, b - c) for a, b, c in zip(part.start, part.stop, box.start, strict=True))] = found
        return out


def _common(one: Box, two: Box) -> Box:
    starts = tuple(map(max, one.start, two.start))
    return Box(starts, tuple(map(min, one.stop, two.stop)))


def read_price(copy: CopyStore, box: Box, device: Device) -> ReadPrice:
    """What a read costs on a copy."""
    layout = copy.store.layout
    one = AccessClass(box.shape, alignment=Alignment.POSITIONS, positions=Positions.of([box.start], box.shape))
    codec = str(copy.store.schema.codec)
    found = Pricing(AccessPattern((one,)), layout.shape, layout.itemsize, device, codec).layout(layout)
    figures = (found.blocks, found.bytes, found.seconds)
    return ReadPrice(copy.number, tuple(copy.store.schema.chunks), *(float(figure[0, 0]) for figure in figures))


def open_replicas(folder: str, memory: str | int | None = None) -> ReplicaArray:
    """Open the current generation of replicas; CorruptError if no copy of it can be read."""
    for _ in range(_ATTEMPTS):
        record = read_set(folder)
        try:
            hold = SharedHold(lock_path(folder, record.generation))
        except FileNotFoundError:
            continue  # another generation has become current
        break
    else:
        raise CorruptError(f"{folder}: generation {record.generation} of the replicas is missing")
    copies, damaged = [], []
    for number, copy in enumerate(record.copies):
        try:
            copies.append(CopyStore(number, open_copy(record, number)))
        except ReblockError as error:
            damaged.append(f"{copy.path}: {error}")
    if not copies:
        hold.release()
        raise CorruptError(f"{folder}: no copy can be read: {'; '.join(damaged)}")
    memory_bytes = parse_memory(memory)
    return ReplicaArray(
        copies[0].store,
        memory_bytes,
        replicas=record,
        copies=tuple(copies),
        damaged=tuple(damaged),
        hold=hold,
    )


def open_copy(record: ReplicaSet, number: int) -> Store:
    """Open a copy; CorruptError if it is not what the record says."""
    path = record.path_of(number)
    try:
        found = metadata_hash(path)
    except StorageError as error:
        raise CorruptError(f"{path}: its metadata cannot be read: {error.message}") from error
    if found != record.copies[number].metadata:
        raise CorruptError(f"{path}: its metadata has changed since the copy was made")
    store = registry.get("zarr").open(path, "")
    if store.layout.shape != record.shape or store.schema.dtype.str != record.dtype:
        raise CorruptError(f"{path}: shape or type differ from those of {os.path.basename(record.folder)}")
    return store
