"""Changing replicas: update a region in all copies at once, and mend what is damaged."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.api.array import Array, ArraySource, open_array
from reblock.api.machine import cores, parse_memory
from reblock.api.replicas.array import CopyStore, ReplicaArray, open_copy, open_replicas
from reblock.api.replicas.record import (
    GENERATIONS,
    ReplicaSet,
    copy_path,
    generation_path,
    lock_path,
    metadata_hash,
    read_set,
)
from reblock.engine import digest
from reblock.errors import CorruptError, InfeasibleError, ReblockError, UsageError
from reblock.geometry import Box
from reblock.geometry.notation import Ranges, parse_region
from reblock.model import Record, Store, Sums
from reblock.storage import registry
from reblock.storage.location import Where
from reblock.storage.media.local import LOCAL
from reblock.storage.media.lock import FileLock
from reblock.storage.media.sharing import link_tree, remove_unheld
from reblock.units import format_size

#: Copies of a chunk's elements that a thread holds: the old ones, the new ones, and while they are encoded.
_COPIES = 4


@dataclass(frozen=True)
class Update:
    """What an update has done."""

    generation: int
    """The new generation."""
    chunks: int
    """Chunks that were written, in all copies."""
    linked: int
    """Chunks that are shared with the generation before."""
    digest: str | None
    """The digest of the elements now."""
    removed: tuple[int, ...]
    """Old generations that nobody reads any more, and that were removed."""

    def to_json(self) -> dict[str, Any]:
        """The document of `replicas update --json`."""
        return {
            "generation": self.generation,
            "chunks": self.chunks,
            "linked": self.linked,
            "digest": self.digest,
            "removed": list(self.removed),
        }


@dataclass(frozen=True)
class Repair:
    """What a repair has found and done."""

    checked: int
    """Chunks that were read, in all copies."""
    mended: tuple[str, ...]
    """Chunks and metadata that were made again."""
    lost: tuple[str, ...]
    """Chunks that no copy has."""

    def to_json(self) -> dict[str, Any]:
        """The document of `replicas repair --json`."""
        return {"checked": self.checked, "mended": list(self.mended), "lost": list(self.lost)}


@contextmanager
def changing(folder: str) -> Iterator[None]:
    """Hold the lock of a folder of replicas."""
    lock = FileLock(os.path.join(folder, ".reblock", "lock"))
    lock.take(folder)
    try:
        yield
    finally:
        lock.release()


def update_replicas(folder: Where, source: ArraySource, *, region: Ranges, memory: str | int | None = None) -> Update:
    """Copy a region of the source into all copies; readers see the old elements everywhere, or the new ones.

    The source has the shape and type of the replicas. Chunks outside of the region are linked, not copied.

    Examples
    --------
    >>> import numpy, os, reblock, tempfile
    >>> folder = os.path.join(tempfile.mkdtemp(), "copies")
    >>> made = reblock.create_replicas(numpy.zeros((60, 40, 40)), folder, access="time-series,maps", device="nvme")
    >>> update = reblock.update_replicas(folder, numpy.ones((60, 40, 40)), region="0:10,:,:")
    >>> reblock.open(f"replicas:{folder}")[8:12, 5, 7]
    array([1., 1., 0., 0.])
    """
    path, array = os.fspath(folder), open_array(source, None, ())
    memory_bytes = parse_memory(memory)
    read_set(path)
    with changing(path):
        old = open_replicas(path, memory_bytes)
        record = old.replicas
        _check_alike(array, record)
        if old.damaged:
            raise CorruptError(f"{'; '.join(old.damaged)}: mend it first with reblock replicas repair {path}")
        box = parse_region(region, record.shape, array.axes)
        _remove_after(path, record.generation)
        number = record.generation + 1
        sums = _new_sums(old, array, box, memory_bytes)
        text = digest.text(sums, np.dtype(record.dtype), record.shape)
        written, copies = 0, []
        LOCAL.write(lock_path(path, number), [b""])
        for copy in old.copies:
            place = copy_path(number, copy.number)
            written += _copy_on_write(copy, os.path.join(path, place), array, box, text, memory_bytes)
            made = replace(record.copies[copy.number], path=place)
            copies.append(replace(made, metadata=metadata_hash(os.path.join(path, place))))
        LOCAL.sync(generation_path(path, number))
        LOCAL.sync(os.path.join(path, GENERATIONS))
        replace(record, generation=number, copies=tuple(copies), sums=sums, digest=text).write()
        whole = sum(copy.store.layout.objects.count for copy in old.copies)
        old.hold.release()
        removed = _remove_before(path, number)
    return Update(number, written, whole - written, text, removed)


def _check_alike(array: Array, record: ReplicaSet) -> None:
    if array.shape != record.shape or array.dtype != np.dtype(record.dtype):
        raise UsageError(
            f"{array.store.location} has shape {array.shape} and type {array.dtype}, the replicas in {record.folder} "
            f"{record.shape} and {np.dtype(record.dtype)}: an update needs an array like them"
        )


def _remove_after(folder: str, generation: int) -> None:
    """Remove what an update that was killed has left."""
    for name, _ in LOCAL.entries(os.path.join(folder, GENERATIONS)):
        if name.isdecimal() and int(name) > generation:
            LOCAL.remove_folder(generation_path(folder, int(name)))


def _remove_before(folder: str, generation: int) -> tuple[int, ...]:
    """Remove older generations that nobody reads."""
    older = [int(name) for name, _ in LOCAL.entries(os.path.join(folder, GENERATIONS)) if name.isdecimal()]
    return tuple(
        number
        for number in sorted(older)
        if number < generation and remove_unheld(generation_path(folder, number), "lock")
    )


# ---------------------------------------------------------------- elements
def _new_sums(old: ReplicaArray, array: Array, box: Box, memory_bytes: int) -> Sums:
    """Digest sums after the update: those of the region are replaced."""
    record = old.replicas
    before = record.sums or _sums(old, Box.whole(record.shape), memory_bytes)
    out, into = _sums(old, box, memory_bytes), _sums(array, box, memory_bytes)
    return Sums(*((a - b + c) % (1 << 64) for a, b, c in zip(before, out, into, strict=True)))


def _sums(array: Array, box: Box, memory_bytes: int) -> Sums:
    """Digest sums of the elements of a box."""
    total = Sums()
    for part in _slabs(box, max(memory_bytes // 4 // array.dtype.itemsize, 1)):
        total = total + digest.sums(array.load_box(part), part.start, array.shape)
    return total


def _slabs(box: Box, most: int) -> Iterator[Box]:
    """Parts of a box with at most a number of elements."""
    if box.size <= most:
        yield box
        return
    axis = int(np.argmax(box.shape))
    half = box.start[axis] + box.shape[axis] // 2
    starts, stops = list(box.start), list(box.stop)
    starts[axis] = stops[axis] = half
    yield from _slabs(Box(box.start, tuple(stops)), most)
    yield from _slabs(Box(tuple(starts), box.stop), most)


def _copy_on_write(copy: CopyStore, path: str, array: Array, box: Box, text: str, memory_bytes: int) -> int:
    """Make the next generation of a copy; returns the number of chunks that were written."""
    store = copy.store
    # The digest and the source of the elements are new; everything else stays.
    made = registry.get("zarr").create(path, "", store.schema)
    touched = list(store.layout.objects.touching(box))
    changed = {os.path.relpath(made.place(index).path, path) for index in touched}
    link_tree(registry.locate(store.location).path, path, {*changed, "zarr.json"})

    def write(index: Sequence[int]) -> None:
        chunk = store.layout.objects.box(tuple(index))
        elements = copy.load(chunk, None, memory_bytes)
        part = Box(tuple(map(max, chunk.start, box.start)), tuple(map(min, chunk.stop, box.stop)))
        elements[_inside(part, chunk)] = array.load_box(part)
        write_chunk(made, tuple(index), elements)

    threads = _threads(store, memory_bytes)
    with ThreadPoolExecutor(threads, "reblock-update") as pool:
        for _ in pool.map(write, touched):
            pass
    made.commit(Record(digest=text))
    return len(touched)


def _threads(store: Store, memory_bytes: int) -> int:
    needed = _COPIES * store.layout.unit_bytes
    if needed > memory_bytes:
        raise InfeasibleError(
            f"rewriting a chunk of {store.location} needs {format_size(needed)}, more than the memory budget of "
            f"{format_size(memory_bytes)}",
            needs_memory_bytes=needed,
        )
    return max(min(cores(), memory_bytes // needed), 1)


def _inside(part: Box, whole: Box) -> tuple[slice, ...]:
    return tuple(slice(a - c, b - c) for a, b, c in zip(part.start, part.stop, whole.start, strict=True))


def write_chunk(store: Store, index: tuple[int, ...], elements: npt.NDArray[Any]) -> None:
    """Encode one chunk and replace its file, durably."""
    layout, box = store.layout, store.layout.objects.box(index)
    fill = store.schema.fill_value
    padded = np.full(layout.objects.largest_stored, 0 if fill is None else fill, layout.dtype)
    padded[tuple(slice(0, n) for n in box.shape)] = elements
    flat = np.ascontiguousarray(padded.transpose(layout.order)).reshape(-1).view(np.uint8)
    LOCAL.replace(store.place(index).path, store.encode(flat).tobytes())


# ---------------------------------------------------------------- mending
def repair_replicas(folder: Where, *, memory: str | int | None = None) -> Repair:
    """Read every chunk of every copy, and make those that are damaged or missing again from the other copies.

    Examples
    --------
    >>> import numpy, os, reblock, tempfile
    >>> folder = os.path.join(tempfile.mkdtemp(), "copies")
    >>> made = reblock.create_replicas(numpy.zeros((60, 40, 40)), folder, access="time-series,maps", device="nvme")
    >>> found = reblock.repair_replicas(folder)
    >>> found.mended, found.lost
    ((), ())
    """
    path = os.fspath(folder)
    memory_bytes = parse_memory(memory)
    read_set(path)
    checked, mended, lost = 0, list[str](), list[str]()
    with changing(path):
        mended += _mend_metadata(path)
        array = open_replicas(path, memory_bytes)
        for copy in array.copies:
            others = [other for other in array.copies if other is not copy]
            for index in copy.store.layout.objects.indices():
                checked += 1
                box = copy.store.layout.objects.box(index)
                try:
                    copy.load(box, None, memory_bytes)
                    continue
                except ReblockError as error:
                    name = copy.store.place(index).path
                    if not others:
                        lost.append(f"{name}: {error}")
                        continue
                try:
                    write_chunk(copy.store, index, array.load_around(box, others))
                    mended.append(name)
                except CorruptError as error:
                    lost.append(f"{name}: {error}")
    return Repair(checked, tuple(mended), tuple(lost))


def _mend_metadata(folder: str) -> list[str]:
    """Write damaged metadata of copies again, by another copy and the record."""
    record = read_set(folder)
    stores: dict[int, Store] = {}
    damaged = []
    for number in range(len(record.copies)):
        try:
            stores[number] = open_copy(record, number)
        except ReblockError:
            damaged.append(number)
    if not stores:
        raise CorruptError(f"{folder}: the metadata of all copies is damaged")
    mended = []
    for number in damaged:
        schema = replace(next(iter(stores.values())).schema, chunks=record.copies[number].chunks)
        path = record.path_of(number)
        made = registry.get("zarr").reopen(path, "", schema)
        made.commit(schema.record)
        if metadata_hash(path) != record.copies[number].metadata:
            record = _with_metadata(record, number, metadata_hash(path))
            record.write()
        mended.append(os.path.join(path, "zarr.json"))
    return mended


def _with_metadata(record: ReplicaSet, number: int, found: str) -> ReplicaSet:
    copies = list(record.copies)
    copies[number] = replace(copies[number], metadata=found)
    return replace(record, copies=tuple(copies))
