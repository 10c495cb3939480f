"""Budget: memory of write boxes, counted before it is allocated, reused, and granted in the order of requests."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from threading import Condition

from reblock.engine.memory.arena import Arena, Release, untouched
from reblock.errors import Refused
from reblock.model import Flat

#: Small buffers are cut from mappings of this size.
_ARENA_BYTES = 64 << 20
#: Seconds to wait for memory before checking whether any can still come.
PATIENCE_SECONDS = 0.1
#: The record of a write box, as the compiled loop has it.
_Record = ctypes.c_uint64 * 4


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


class SpareMemory:
    """Buffers that one pass leaves to the next, because touching memory for the first time takes time."""

    def __init__(self) -> None:
        self._left: list[Memory] = []

    def leave(self, memories: Sequence[Memory]) -> None:
        """Leave buffers that nothing uses."""
        self._left.extend(memories)

    def take(self, limit: int, with_room: Callable[[int], int]) -> list[Memory]:
        """The buffers that a budget can use: of the room that its own have, and no more than its limit."""
        taken: list[Memory] = []
        for memory in self._left:
            if memory.room.size <= limit and memory.room.size == with_room(memory.flat.size):
                limit -= memory.room.size
                taken.append(memory)
            else:
                memory.release()
        self._left.clear()
        return taken

    def clear(self) -> None:
        """Return all buffers to the system."""
        self.take(0, lambda size: size)


class MemoryBudget:
    """A byte-counted budget of write buffers.

    One thread takes buffers, in plan order; any thread gives them back. A returned buffer stays mapped for the next box
    of its size, and counts, until its room is needed for another size. Slabs are counted when they are first touched:
    the system provides a page only then, and gets it back as soon as the buffer is returned.
    """

    def __init__(
        self, limit: int, with_room: Callable[[int], int] = lambda size: size, others: SpareMemory | None = None
    ) -> None:
        """`with_room` returns the bytes that a buffer of a size takes including its spare room.

        `others` are buffers of an earlier budget, and get those of this one.
        """
        self.limit = limit
        self._with_room = with_room
        self.peak = 0
        self.idle: Callable[[], bool] = lambda: False
        """Whether nothing is running that could return a buffer."""
        self._used = 0
        self._spare_bytes = 0
        self._spare: dict[int, list[Memory]] = {}
        self._arena = Arena(min(_ARENA_BYTES, limit))
        self._changed = Condition()
        self._stopped = False
        self._others = others
        for memory in others.take(limit, with_room) if others is not None else ():
            self._spare_bytes += memory.room.size
            self._spare.setdefault(memory.flat.size, []).append(memory)
        self.peak = self._spare_bytes

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
        return Memory(size, *self._arena.cut(self._with_room(size)))

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
        """Leave the buffers that came back to the next budget, or return them to the system."""
        if self._others is not None:
            self._others.leave([memory for some in self._spare.values() for memory in some])
        self._spare.clear()
        self._spare_bytes = 0
        self.idle = lambda: False

    def stop(self) -> None:
        """Wake waiting threads, because the run has failed."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


def slabs(size: int, whole: int) -> Memory:
    """Memory that takes only the pages that are touched, at most `whole` bytes; none of it counts yet."""
    memory = Memory(size, *untouched(whole))
    memory.slabs = 0
    return memory
