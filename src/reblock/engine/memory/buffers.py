"""Buffers: memory that is counted before it is allocated, reused, and granted in order."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from queue import LifoQueue
from threading import Condition, Lock
from time import thread_time

import numpy as np

from reblock.errors import Refused
from reblock.model import Flat, Layout, Scratch
from reblock.model.medium import DIRECT_BYTES, PAGE_BYTES, round_up

#: Smaller buffers come from the allocator. Larger ones are mapped, so that they are aligned for direct transfers, and
#: freeing them returns their memory to the system.
_MAPPED_BYTES = DIRECT_BYTES
#: From this size on, huge pages are requested: they cause fewer page faults on first touch.
_HUGE_BYTES = 2 << 20
#: A huge page that takes longer than this costs more than small pages, because a host must find it first.
_SLOW_SECONDS = 1.5e-3
#: Smaller buffers are cut from regions of this size.
_REGION_BYTES = 64 << 20
#: Seconds to wait for memory before checking whether any can become free.
PATIENCE_SECONDS = 0.1
#: The slot for the stored bytes of units.
STORED = "stored"
#: The record of a write box in the compiled loop.
_Record = ctypes.c_uint64 * 4


#: Returns memory to the system.
Release = Callable[[], None]


class Stopped(Exception):  # noqa: N818 - the reason is stored elsewhere
    """The run has stopped, so waiting for memory ends."""


class Memory:
    """A piece of the budget: bytes, and the record of the write box in them."""

    __slots__ = ("at", "flat", "record", "release", "room", "slabs", "start")

    def __init__(self, size: int, room: Flat, release: Release) -> None:
        # Small buffers, of which there may be very many, have no spare room and no second array.
        self.flat = flat = room if room.size == size else room[:size]
        """The bytes."""
        self.room = room
        """The bytes and the spare room after them."""
        self.slabs: int | None = None
        """The number of bytes that count; None = all."""
        self.release = release
        """Returns the bytes to the system."""
        self.record = _Record()
        """The address of the bytes, the number of missing elements, and the digest sums of the others."""
        self.at = ctypes.addressof(self.record)
        """Address of the record."""
        self.start = self.record[0] = ctypes.addressof(ctypes.c_char.from_buffer(flat.data)) if flat.size else 0
        """Address of the bytes."""

    def count(self, size: int) -> None:
        """Count another slab."""
        self.slabs = (self.slabs or 0) + size


class Buffers:
    """A byte-counted budget of write buffers.

    One thread takes buffers, in plan order; any thread gives them back. A returned buffer stays mapped for the next box
    of its size, and counts, until its room is needed for another size. Slabs are counted when they are first touched:
    the system provides a page only then, and gets it back as soon as the buffer is returned.
    """

    def __init__(self, limit: int, with_room: Callable[[int], int] = lambda size: size) -> None:
        """`with_room` returns the bytes that a buffer of a size takes including its spare room."""
        self.limit = limit
        self._with_room = with_room
        self.peak = 0
        self.idle: Callable[[], bool] = lambda: False
        """Whether nothing is running that could return a buffer."""
        self._used = 0
        self._spare_bytes = 0
        self._spare: dict[int, list[Memory]] = {}
        self._region = Region(min(_REGION_BYTES, limit))
        self._changed = Condition()
        self._stopped = False

    def take(self, sizes: Sequence[int], *, wait: bool = False) -> list[Memory]:
        """Buffers of the first of these sizes, as many as fit now; with `wait`, at least one."""
        taken: list[Memory] = []
        with self._changed:
            for size in sizes:
                if not self._reserve(self._with_room(size), wait=wait and not taken):
                    break
                taken.append(self._unspare(size) if size in self._spare else self._make(size))
            if self._stopped:
                raise Stopped
        return taken

    def count(self, sizes: Sequence[int], *, wait: bool = False) -> int:
        """The same for slabs: returns how many of them are counted."""
        with self._changed:
            counted = 0
            while counted < len(sizes) and self._reserve(sizes[counted], wait=wait and not counted):
                counted += 1
            self.peak = max(self.peak, self._used)
            if self._stopped:
                raise Stopped
        return counted

    def _reserve(self, size: int, *, wait: bool) -> bool:
        if self._used + size > self.limit:
            if not wait:
                return False
            self._wait(size)
        self._used += size
        return True

    def _wait(self, size: int) -> None:
        """Wait for room; with a correctly priced plan, there will be some."""
        room = partial(self._changed.wait_for, lambda: self._stopped or self._used + size <= self.limit)
        while size > self.limit or not room(PATIENCE_SECONDS):
            if size > self.limit or self.idle():
                raise Refused(
                    f"a buffer of {size:,} bytes does not fit into the {self.limit:,} that the plan leaves for them, "
                    f"of which {self._used:,} are in use: make the plan with more memory"
                )

    def _make(self, size: int) -> Memory:
        """A buffer that is already counted; spare buffers of other sizes make room for it."""
        while self._spare and self._used + self._spare_bytes > self.limit:
            self._unspare(next(iter(self._spare))).release()
        self.peak = max(self.peak, self._used + self._spare_bytes)
        return Memory(size, *self._region.cut(self._with_room(size)))

    def _unspare(self, size: int) -> Memory:
        """Take a spare buffer."""
        self._spare_bytes -= self._with_room(size)
        spare = self._spare[size]
        if len(spare) == 1:
            del self._spare[size]
        return spare.pop()

    def give(self, memories: list[Memory]) -> None:
        """Return buffers."""
        for memory in memories:
            if memory.slabs is not None:
                memory.release()
        with self._changed:
            for memory in memories:
                if memory.slabs is not None:
                    self._used -= memory.slabs
                    continue
                self._used -= memory.room.size
                self._spare_bytes += memory.room.size
                self._spare.setdefault(memory.flat.size, []).append(memory)
            self._changed.notify_all()

    def close(self) -> None:
        """Return everything to the system."""
        self._spare.clear()
        self._spare_bytes = 0
        self.idle = lambda: False

    def stop(self) -> None:
        """Wake waiting threads, because the run has failed."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


class Region:
    """The source of buffers: those of medium size are cut from one mapping, so that they share huge pages.

    A mapping takes only the memory that is touched, up to the end of a huge page, and ends with its last buffer. Huge
    pages are requested as long as the first one of each mapping comes quickly.
    """

    def __init__(self, size: int = 0) -> None:
        """`size` bytes are mapped at a time, at least a huge page."""
        self._bytes = max(size, _HUGE_BYTES)
        self._lock = Lock()
        self._mapping: mmap.mmap | None = None
        self._next = 0
        self._huge = True

    def cut(self, size: int) -> tuple[Flat, Release]:
        """Fresh memory, and a function that returns it to the system even if others share the mapping."""
        if size < _MAPPED_BYTES:
            return allocate(size), _nothing
        if size >= _HUGE_BYTES:
            own = self._map(size)
            return np.frombuffer(own, np.uint8, size), partial(_release, own, 0, len(own))
        with self._lock:
            mapping, start = self._mapping, self._next
            if mapping is None or start + size > len(mapping):
                mapping, start = self._mapping, self._next = self._map(self._bytes), 0
            self._next = start + round_up(size)
        return np.frombuffer(mapping, np.uint8, size, start), partial(_release, mapping, start, round_up(size))

    def _map(self, size: int) -> mmap.mmap:
        mapping = _mapped(size, huge=self._huge)
        if self._huge and _is_slow(mapping):
            self._huge = False
            mapping.madvise(mmap.MADV_NOHUGEPAGE)
        return mapping


def slabs(size: int, whole: int) -> Memory:
    """Memory that takes only the pages that are touched, at most `whole` bytes; none of it counts yet."""
    mapping = _mapped(whole, huge=False)
    memory = Memory(size, np.frombuffer(mapping, np.uint8, whole), partial(_release, mapping, 0, len(mapping)))
    memory.slabs = 0
    return memory


def allocate(size: int) -> Flat:
    """Fresh memory, page-aligned if it is large."""
    return np.empty(size, np.uint8) if size < _MAPPED_BYTES else np.frombuffer(_mapped(size), np.uint8, size)


def _is_slow(mapping: mmap.mmap) -> bool:
    """Touch the first huge page of a mapping; returns whether that took long in processor time of this thread."""
    start = -ctypes.addressof(ctypes.c_char.from_buffer(mapping)) % _HUGE_BYTES
    if start + _HUGE_BYTES > len(mapping) or not hasattr(mmap, "MADV_NOHUGEPAGE"):
        return False
    began = thread_time()
    mapping[start] = 0
    return thread_time() - began > _SLOW_SECONDS


def _mapped(size: int, *, huge: bool = True) -> mmap.mmap:
    # By default Python maps shared memory, which gets no huge pages.
    if hasattr(mmap, "MAP_PRIVATE"):
        mapping = mmap.mmap(-1, round_up(size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    else:
        mapping = mmap.mmap(-1, round_up(size))
    if size >= _HUGE_BYTES and hasattr(mmap, "MADV_HUGEPAGE"):
        mapping.madvise(mmap.MADV_HUGEPAGE if huge else mmap.MADV_NOHUGEPAGE)
    return mapping


def _release(mapping: mmap.mmap, start: int, length: int) -> None:
    if hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED, start, length)


def _nothing() -> None:
    """Memory from the allocator is freed when the last reference is dropped."""


@cache
def _trim() -> Callable[[int], int] | None:
    """Glibc's `malloc_trim`, if that is the allocator."""
    try:
        found = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    found.restype, found.argtypes = ctypes.c_int, [ctypes.c_size_t]
    return found


def return_freed_memory() -> None:
    """Make the allocator return the memory that codecs freed, because the next pass has the same budget.

    This is a request, not a setting. The allocator's settings belong to the process that called us: glibc cannot report
    them, and setting one ends its automatic adjustment for good.
    """
    if trim := _trim():
        trim(0)


class Coders:
    """A pool of scratch memory, one set for each unit that is decoded at the same time."""

    def __init__(self, count: int, region: Region) -> None:
        self._free: LifoQueue[ScratchBuffers] = LifoQueue()
        for _ in range(count):
            self._free.put(ScratchBuffers(region))

    @contextmanager
    def __call__(self) -> Iterator[Scratch]:
        """One set, once it is free."""
        one = self._free.get()
        try:
            yield one
        finally:
            self._free.put(one)


class EncodedBufferPool:
    """A pool of buffers for encoded units, sized by the largest ones.

    A reader takes the smallest free buffer that is large enough, so the pool touches no more than its sizes together.
    """

    def __init__(self, sizes: Sequence[int], region: Region) -> None:
        """`sizes` are descending."""
        self._sizes, self._region = sizes, region
        self._free = list(range(len(sizes)))
        self._made: dict[int, Flat] = {}
        self._changed = Condition()

    def take(self, size: int) -> tuple[int, Flat]:
        """A free buffer of at least `size` bytes, and its number; the largest buffer if none is large enough."""
        size = min(size, self._sizes[0])
        with self._changed:
            while (number := max((n for n in self._free if self._sizes[n] >= size), default=None)) is None:
                self._changed.wait()
            self._free.remove(number)
            if number not in self._made:
                self._made[number] = self._region.cut(max(self._sizes[number], _MAPPED_BYTES))[0]
            return number, self._made[number]

    def give(self, number: int) -> None:
        """Return a buffer."""
        with self._changed:
            self._free.append(number)
            self._changed.notify_all()


class ScratchBuffers:
    """Scratch buffers of one thread, one per slot, grown when needed; aligned for direct transfers."""

    def __init__(self, region: Region | None = None, pool: EncodedBufferPool | None = None) -> None:
        """Buffers come from a region that threads may share; stored bytes go to the pool, if there is one."""
        self._region = region or Region()
        self._slots: dict[str, tuple[Flat, Release]] = {}
        self._pool, self._taken = pool, -1

    def leave(self) -> None:
        """Return the buffer of stored bytes to the pool."""
        if self._pool is not None and self._taken >= 0:
            self._pool.give(self._taken)
            self._taken = -1

    def __call__(self, slot: str, size: int) -> Flat:
        if self._pool is not None and slot == STORED:
            self.leave()
            self._taken, buffer = self._pool.take(size)
            return buffer
        flat, release = self._slots.get(slot, (None, _nothing))
        if flat is None or flat.size < size:
            release()
            flat, _ = self._slots[slot] = self._region.cut(max(size, _MAPPED_BYTES))
        return flat


def encoded_pool(layout: Layout, units: int, region: Region) -> EncodedBufferPool | None:
    """A pool for a number of units of a source, if their stored sizes are known."""
    if not layout.stored_bytes:
        return None
    return EncodedBufferPool([size + 2 * PAGE_BYTES for size in layout.largest_stored_bytes(units)], region)
