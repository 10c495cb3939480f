"""Encoding in the memory of the unit itself: stored bytes take the place of elements that were read already.

A unit of some hundred MiB would else need as much again for its encoded bytes, which may be hardly fewer. Codecs that
read a unit in steps make no more of a step than it was, but for a little that has to wait ::

    memory    │ encoded ──→ │  free  │ ──→ elements still to be read       │ room for what does not compress │
                            ↑        ↑
                          done      read
"""

from __future__ import annotations

import numpy as np

from reblock.model.store import Flat, Scratch

#: Bytes of elements that are read at once.
STEP_BYTES = 2 << 20


class Behind:
    """Moves encoded bytes into a unit's memory, behind the elements that were read."""

    def __init__(self, room: Flat, ahead: int, scratch: Scratch) -> None:
        """At most `ahead` encoded bytes wait for room at any time."""
        self._room, self._waiting = room, scratch("behind", ahead)
        self._held = self._done = 0

    @property
    def free(self) -> Flat:
        """Memory for the next encoded bytes."""
        return self._waiting[self._held :]

    def add(self, size: int, read: int) -> None:
        """`size` more bytes are encoded; elements were read up to byte `read`."""
        self._held += size
        self._done, start = min(self._done + self._held, read), self._done
        moved = self._done - start
        self._room[start : self._done] = self._waiting[:moved]
        self._held -= moved
        self._waiting[: self._held] = self._waiting[moved : moved + self._held]

    def put(self, some: Flat, read: int) -> None:
        """The same for bytes in other memory: those that fit go to their place at once."""
        self.add(0, read)
        fits = 0 if self._held else min(some.size, read - self._done)
        self._room[self._done : self._done + fits] = some[:fits]
        self._done += fits
        self.free[: some.size - fits] = some[fits:]
        self._held += some.size - fits

    def end(self) -> Flat:
        """All encoded bytes, once all elements were read."""
        self.add(0, self._room.size)
        if self._held:
            raise RuntimeError(f"{self._held:,} bytes more than {self._room.size:,} of room")
        return self._room[: self._done]


def by_turns(scratch: Scratch, place: int) -> Scratch:
    """Scratch memory for a stage of a codec, other than that of the stages before and after it."""
    return lambda name, size: scratch(f"{name} {place % 2}", size)


def moved(data: Flat, to: Flat) -> Flat:
    """A copy in other memory, so that the first can be overwritten."""
    to = to[: data.size]
    to[:] = data
    return to


def append(data: Flat, more: Flat, room: Flat | None) -> Flat:
    """Some bytes after others: in the room that begins with those, if it is large enough, else in a copy."""
    size = data.size + more.size
    if room is None or room.size < size or room.ctypes.data != data.ctypes.data:
        return np.concatenate([data, more])
    room[data.size : size] = more
    return room[:size]
