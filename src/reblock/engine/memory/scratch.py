"""Scratch memory: what threads need while they read, decode and encode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import LifoQueue
from threading import Condition

from reblock.engine.memory.arena import MAPPED_BYTES, Arena, Release, nothing
from reblock.model import Flat, Layout, Scratch
from reblock.model.medium import PAGE_BYTES

#: The slot for the stored bytes of units.
STORED = "stored"


class ScratchPool:
    """A pool of scratch memory, one set for each unit that is decoded at the same time."""

    def __init__(self, count: int, arena: Arena) -> None:
        self._free: LifoQueue[ScratchBuffers] = LifoQueue()
        for _ in range(count):
            self._free.put(ScratchBuffers(arena))

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

    def __init__(self, sizes: Sequence[int], arena: Arena) -> None:
        """`sizes` are descending."""
        self._sizes, self._arena = sizes, arena
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
                self._made[number] = self._arena.cut(max(self._sizes[number], MAPPED_BYTES))[0]
            return number, self._made[number]

    def give(self, number: int) -> None:
        """Return a buffer."""
        with self._changed:
            self._free.append(number)
            self._changed.notify_all()


class ScratchBuffers:
    """Scratch buffers of one thread, one per slot, grown when needed; aligned for direct transfers."""

    def __init__(self, arena: Arena | None = None, pool: EncodedBufferPool | None = None) -> None:
        """Buffers come from `arena`, which threads may share; those for stored bytes from `pool`, if there is one."""
        self._arena = arena or Arena()
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
        flat, release = self._slots.get(slot, (None, nothing))
        if flat is None or flat.size < size:
            release()
            flat, _ = self._slots[slot] = self._arena.cut(max(size, MAPPED_BYTES))
        return flat


def encoded_pool(layout: Layout, units: int, arena: Arena) -> EncodedBufferPool | None:
    """A pool for a number of units of a source, if their stored sizes are known."""
    if not layout.stored_bytes:
        return None
    return EncodedBufferPool([size + 2 * PAGE_BYTES for size in layout.largest_stored_bytes(units)], arena)
