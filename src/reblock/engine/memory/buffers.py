"""Buffers: memory that is counted before it is allocated, reused, and given in the order it is asked for."""

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

#: Smaller buffers come from the allocator; larger ones are mapped, so that they are aligned for direct transfers and
#: giving them back really frees them.
_MAPPED_BYTES = DIRECT_BYTES
#: From this size on huge pages are asked for: fewer faults at the first touch.
_HUGE_BYTES = 2 << 20
#: A huge page that takes longer to get is dearer than small ones: some host has to find it first.
_SLOW_SECONDS = 1.5e-3
#: Buffers that are smaller are cut from regions of this size.
_REGION_BYTES = 64 << 20
#: How long to wait for memory before asking whether any can come.
PATIENCE_SECONDS = 0.1
#: The slot for what is stored of units.
STORED = "stored"
#: What is known of a write box, as the compiled loop has it.
_Record = ctypes.c_uint64 * 4


#: Gives memory back to the system.
Release = Callable[[], None]


class Stopped(Exception):  # noqa: N818 - the reason is kept elsewhere
    """Nobody should wait for memory any more."""


class Memory:
    """A piece of the budget: bytes, and the record that is kept of the write box in them."""

    __slots__ = ("at", "flat", "record", "release", "room", "slabs", "start")

    def __init__(self, size: int, room: Flat, release: Release) -> None:
        # Very many small ones have no room behind them, and no second array.
        self.flat = flat = room if room.size == size else room[:size]
        """The bytes."""
        self.room = room
        """The same, and what is free behind them."""
        self.slabs: int | None = None
        """How many of them count; None where they all do."""
        self.release = release
        """Gives them back to the system."""
        self.record = _Record()
        """Their address, the elements that have not arrived yet, and the digest sums of those that have."""
        self.at = ctypes.addressof(self.record)
        """Where the record is."""
        self.start = self.record[0] = ctypes.addressof(ctypes.c_char.from_buffer(flat.data)) if flat.size else 0
        """Where the bytes are."""

    def count(self, size: int) -> None:
        """Another slab is taken."""
        self.slabs = (self.slabs or 0) + size


class Buffers:
    """A byte-counted budget of write buffers.

    One thread takes, in plan order; any thread gives back. A buffer given back stays mapped for the next box of
    its size, and counts, until its room is needed for another size. Slabs are counted when they are first touched: the
    system gives memory for a page no sooner, and has it back as soon as the buffer is given back.
    """

    def __init__(self, limit: int, with_room: Callable[[int], int] = lambda size: size) -> None:
        """`with_room` says how much a buffer of a size takes with what is kept free behind it."""
        self.limit = limit
        self._with_room = with_room
        self.peak = 0
        self.idle: Callable[[], bool] = lambda: False
        """Whether nothing is on its way that could give a buffer back."""
        self._used = 0
        self._spare_bytes = 0
        self._spare: dict[int, list[Memory]] = {}
        self._region = Region(min(_REGION_BYTES, limit))
        self._changed = Condition()
        self._stopped = False

    def take(self, sizes: Sequence[int], *, wait: bool = False) -> list[Memory]:
        """Buffers of the first of these sizes, as many as there is room for now; or `wait` until there is for one."""
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
        """The same for slabs: how many of them are counted."""
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
        """Wait for room, which a plan that was priced right always finds."""
        room = partial(self._changed.wait_for, lambda: self._stopped or self._used + size <= self.limit)
        while size > self.limit or not room(PATIENCE_SECONDS):
            if size > self.limit or self.idle():
                raise Refused(
                    f"a buffer of {size:,} bytes does not fit into the {self.limit:,} that the plan leaves for them, "
                    f"of which {self._used:,} are in use: make the plan with more memory"
                )

    def _make(self, size: int) -> Memory:
        """A buffer that counts already; spare ones of other sizes make room for it."""
        while self._spare and self._used + self._spare_bytes > self.limit:
            self._unspare(next(iter(self._spare))).release()
        self.peak = max(self.peak, self._used + self._spare_bytes)
        return Memory(size, *self._region.cut(self._with_room(size)))

    def _unspare(self, size: int) -> Memory:
        """A spare buffer, which is no longer one."""
        self._spare_bytes -= self._with_room(size)
        spare = self._spare[size]
        if len(spare) == 1:
            del self._spare[size]
        return spare.pop()

    def give(self, memories: list[Memory]) -> None:
        """Take buffers back."""
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
        """Give everything back to the system, and forget whoever could tell that there is nothing to wait for."""
        self._spare.clear()
        self._spare_bytes = 0
        self.idle = lambda: False

    def stop(self) -> None:
        """Wake whoever waits: the run has failed."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


class Region:
    """Where buffers come from: those of a middle size are cut from one mapping, so that they share huge pages.

    A mapping takes no memory but what is touched, up to the end of a huge page, and goes with the last buffer. Huge
    pages are asked for as long as the first one of each mapping comes quickly.
    """

    def __init__(self, size: int = 0) -> None:
        """So many bytes are mapped at a time, a huge page at least."""
        self._bytes = max(size, _HUGE_BYTES)
        self._lock = Lock()
        self._mapping: mmap.mmap | None = None
        self._next = 0
        self._huge = True

    def cut(self, size: int) -> tuple[Flat, Release]:
        """Fresh memory, and what gives it back to the system though others share the mapping, or still refer to it."""
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
    """Memory of which only those pages are taken that are touched, `whole` bytes at the most; none of it counts yet."""
    mapping = _mapped(whole, huge=False)
    memory = Memory(size, np.frombuffer(mapping, np.uint8, whole), partial(_release, mapping, 0, len(mapping)))
    memory.slabs = 0
    return memory


def allocate(size: int) -> Flat:
    """Fresh memory, page-aligned where it is large."""
    return np.empty(size, np.uint8) if size < _MAPPED_BYTES else np.frombuffer(_mapped(size), np.uint8, size)


def _is_slow(mapping: mmap.mmap) -> bool:
    """Touch the first huge page of a mapping: whether it took long, by the time that this thread worked."""
    start = -ctypes.addressof(ctypes.c_char.from_buffer(mapping)) % _HUGE_BYTES
    if start + _HUGE_BYTES > len(mapping) or not hasattr(mmap, "MADV_NOHUGEPAGE"):
        return False
    began = thread_time()
    mapping[start] = 0
    return thread_time() - began > _SLOW_SECONDS


def _mapped(size: int, *, huge: bool = True) -> mmap.mmap:
    # Python maps memory for several processes unless told otherwise, and gets no huge pages for that.
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
    """Whoever has memory of its own gives it back by forgetting it."""


@cache
def _trim() -> Callable[[int], int] | None:
    """Glibc's `malloc_trim`, where that is the allocator."""
    try:
        found = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    found.restype, found.argtypes = ctypes.c_int, [ctypes.c_size_t]
    return found


def return_freed_memory() -> None:
    """Have the allocator return what codecs freed: the next pass has the same budget.

    This is a request, not a setting. The allocator's settings belong to the process that called us: glibc cannot tell
    what they are, and setting one ends their adjustment for good.
    """
    if trim := _trim():
        trim(0)


class Coders:
    """As many sets of scratch memory as units are decoded at once."""

    def __init__(self, count: int, region: Region) -> None:
        self._free: LifoQueue[Staging] = LifoQueue()
        for _ in range(count):
            self._free.put(Staging(region))

    @contextmanager
    def __call__(self) -> Iterator[Scratch]:
        """One of them, once it is free."""
        one = self._free.get()
        try:
            yield one
        finally:
            self._free.put(one)


class Berths:
    """Memory for what is stored of the units in flight, where their sizes are known: that of the largest of them.

    Whoever reads takes the smallest that is large enough, so that no more is touched than what those have together.
    """

    def __init__(self, sizes: Sequence[int], region: Region) -> None:
        """The first is the largest."""
        self._sizes, self._region = sizes, region
        self._free = list(range(len(sizes)))
        self._made: dict[int, Flat] = {}
        self._changed = Condition()

    def take(self, size: int) -> tuple[int, Flat]:
        """One that is free and has so many bytes, and its number; the largest where none has."""
        size = min(size, self._sizes[0])
        with self._changed:
            while (number := max((n for n in self._free if self._sizes[n] >= size), default=None)) is None:
                self._changed.wait()
            self._free.remove(number)
            if number not in self._made:
                self._made[number] = self._region.cut(max(self._sizes[number], _MAPPED_BYTES))[0]
            return number, self._made[number]

    def give(self, number: int) -> None:
        """It is free again."""
        with self._changed:
            self._free.append(number)
            self._changed.notify_all()


class Staging:
    """Scratch buffers of one thread, one per slot, grown when needed; aligned for direct transfers."""

    def __init__(self, region: Region | None = None, berths: Berths | None = None) -> None:
        """They come from a region that threads may share; what is stored goes to a berth, where there are some."""
        self._region = region or Region()
        self._slots: dict[str, tuple[Flat, Release]] = {}
        self._berths, self._berth = berths, -1

    def leave(self) -> None:
        """What was read is no longer needed."""
        if self._berths is not None and self._berth >= 0:
            self._berths.give(self._berth)
            self._berth = -1

    def __call__(self, slot: str, size: int) -> Flat:
        if self._berths is not None and slot == STORED:
            self.leave()
            self._berth, berth = self._berths.take(size)
            return berth
        flat, release = self._slots.get(slot, (None, _nothing))
        if flat is None or flat.size < size:
            release()
            flat, _ = self._slots[slot] = self._region.cut(max(size, _MAPPED_BYTES))
        return flat


def berths(layout: Layout, units: int, region: Region) -> Berths | None:
    """Memory for so many units of a source, if it is known how much is stored of them."""
    if not layout.stored_bytes:
        return None
    return Berths([size + 2 * PAGE_BYTES for size in layout.largest_stored_bytes(units)], region)
