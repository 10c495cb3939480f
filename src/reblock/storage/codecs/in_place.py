"""zstd and Blosc on memory that is given to them, and in the memory of the unit itself.

There what is stored takes the place of elements that were read already. A unit of some hundred MiB would else need as
much again for its encoded bytes, which may be hardly fewer. Both zstd and Blosc read a unit in steps, and make no more
of a step than it was, but for a little that has to wait ::

    memory    │ encoded ──→ │  free  │ ──→ elements still to be read       │ room for what does not compress │
                            ↑        ↑
                          done      read

Blosc's format is a header, a table of where blocks start, and the blocks, each encoded on its own: groups of blocks
that are encoded one after the other make the same frame as all of them at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from reblock.model.store import Flat, Scratch
from reblock.storage.codecs.blosc_frame import HEADER_BYTES, read_header
from reblock.storage.codecs.compiled import Part, library, memory

#: Elements that are read at once: two of Blosc's largest blocks.
STEP_BYTES = 2 << 20

_LEVEL, _CHECKSUM = 100, 201
_CONTINUE, _END = 0, 2
#: Most that Blosc adds to a block: its start, and the lengths of at most 16 streams.
_ADDED_BYTES = 4 + 4 * 16


class Behind:
    """Encoded bytes on their way to the place of elements."""

    def __init__(self, room: Flat, ahead: int, scratch: Scratch) -> None:
        """They get ahead of what was read by so many bytes at the most."""
        self._room, self._waiting = room, scratch("behind", ahead)
        self._held = self._done = 0

    @property
    def free(self) -> Flat:
        """Where the next ones go."""
        return self._waiting[self._held :]

    def add(self, size: int, read: int) -> None:
        """There are so many more now; elements were read up to there."""
        self._held += size
        self._done, start = min(self._done + self._held, read), self._done
        moved = self._done - start
        self._room[start : self._done] = self._waiting[:moved]
        self._held -= moved
        self._waiting[: self._held] = self._waiting[moved : moved + self._held]

    def put(self, some: Flat, read: int) -> None:
        """The same for bytes that were made elsewhere: those that find a place go there at once."""
        self.add(0, read)
        fits = 0 if self._held else min(some.size, read - self._done)
        self._room[self._done : self._done + fits] = some[:fits]
        self._done += fits
        self.free[: some.size - fits] = some[fits:]
        self._held += some.size - fits

    def end(self) -> Flat:
        """All was read: what is encoded."""
        self.add(0, self._room.size)
        if self._held:
            raise RuntimeError(f"{self._held:,} bytes more than {self._room.size:,} of room")
        return self._room[: self._done]


def by_turns(scratch: Scratch, place: int) -> Scratch:
    """Scratch memory for a stage of a codec, other than that of the stages before and after it."""
    return lambda name, size: scratch(f"{name} {place % 2}", size)


def moved(data: Flat, to: Flat) -> Flat:
    """A copy in scratch memory, so that what was there can be written over."""
    to = to[: data.size]
    to[:] = data
    return to


def append(data: Flat, more: Flat, room: Flat | None) -> Flat:
    """Some bytes after others: in the room that begins with those, if there is one and it goes on, else in a copy."""
    size = data.size + more.size
    if room is None or room.size < size or room.ctypes.data != data.ctypes.data:
        return np.concatenate([data, more])
    room[data.size : size] = more
    return room[:size]


# ---------------------------------------------------------------- zstd
def zstd(data: Flat, room: Flat | None, scratch: Scratch, level: int, *, checksum: bool) -> Flat | None:
    """The frame of some bytes: in the room for it, which may begin with them, or in scratch memory.

    None where the library is not at hand.
    """
    functions = library("numcodecs.zstd")
    if functions is None:
        return None
    most = data.size + data.size // 256 + 128
    room = scratch("stored", most) if room is None or room.size < most else room
    machine = functions.ZSTD_createCCtx()
    if not machine:
        raise MemoryError
    try:
        for setting, value in ((_LEVEL, level), (_CHECKSUM, checksum)):
            _right(functions, functions.ZSTD_CCtx_setParameter(machine, setting, value))
        if room.ctypes.data != data.ctypes.data:
            return room[: _right(functions, functions.ZSTD_compress2(machine, *memory(room), *memory(data)))]
        return _zstd_in_place(functions, machine, data, room, scratch)
    finally:
        functions.ZSTD_freeCCtx(machine)


def _zstd_in_place(functions: Any, machine: int, data: Flat, room: Flat, scratch: Scratch) -> Flat:
    behind = Behind(room, STEP_BYTES + room.size - data.size, scratch)
    _right(functions, functions.ZSTD_CCtx_setPledgedSrcSize(machine, data.size))
    given, left = Part(data.ctypes.data, 0, 0), 1
    while left or given.used < data.size:
        if given.used == given.size:
            given.size = min(given.size + STEP_BYTES, data.size)
        out = Part(*memory(behind.free), 0)
        mode = _END if given.size == data.size else _CONTINUE
        left = _right(functions, functions.ZSTD_compressStream2(machine, out, given, mode))
        behind.add(out.used, given.used)
    return behind.end()


def _right(functions: Any, code: int) -> int:
    if functions.ZSTD_isError(code):
        raise RuntimeError(f"zstd fails with error {2**64 - code}")
    return code


# ---------------------------------------------------------------- Blosc
class Blosc(NamedTuple):
    """Settings, as Blosc takes them."""

    cname: str
    clevel: int
    shuffle: int
    typesize: int
    blocksize: int


def blosc(data: Flat, room: Flat | None, scratch: Scratch, settings: Blosc) -> Flat | None:
    """The same for Blosc; None as well where blocks are too small, or too large, for the room."""
    functions = library("numcodecs.blosc")
    if functions is None:
        return None
    if room is None or room.size < data.size + HEADER_BYTES:
        room = scratch("stored", data.size + HEADER_BYTES)
    if room.ctypes.data != data.ctypes.data:
        return _frame(functions, data, room[: data.size + HEADER_BYTES], settings)
    return _blosc_in_place(functions, data, room, scratch, settings)


def _frame(functions: Any, data: Flat, room: Flat, settings: Blosc) -> Flat:
    """A frame; the data as it is where there is room for nothing else."""
    name, level, shuffle, typesize, blocksize = settings
    sizes = (level, shuffle, typesize, data.size)
    made = functions.blosc_compress_ctx(*sizes, data.ctypes.data, *memory(room), name.encode(), blocksize, 1)
    if made <= 0:
        raise RuntimeError(f"Blosc does not encode {data.size:,} bytes: error {made}")
    return room[:made]


def _blosc_in_place(functions: Any, data: Flat, room: Flat, scratch: Scratch, settings: Blosc) -> Flat | None:
    size = data.size
    if not settings.clevel or size < 2 * STEP_BYTES or room.size >= 1 << 31:
        return None
    # The size of a block does not depend on how many there are, if there are some.
    first = _frame(functions, data[:STEP_BYTES], scratch("group", 2 * STEP_BYTES), settings)
    like = read_header(first[:HEADER_BYTES].tobytes(), first.size)
    block = like.block_bytes
    blocks = -(-size // block)
    added = HEADER_BYTES + blocks * _ADDED_BYTES
    if like.is_raw or 2 * block > STEP_BYTES or size + added > room.size:
        return None
    group, starts, end = STEP_BYTES // block * block, np.empty(blocks, "<u4"), HEADER_BYTES + 4 * blocks
    # What is no whole group goes with the last one.
    behind, out = Behind(room, 2 * STEP_BYTES + added, scratch), scratch("group", 2 * STEP_BYTES + added)
    behind.add(end, 0)
    for start in range(0, size // group * group, group):
        stop = size if size - start < 2 * group else start + group
        made = _frame(functions, data[start:stop], out, settings)
        one, many = start // block, -(-(stop - start) // block)
        head = HEADER_BYTES + 4 * many
        starts[one : one + many] = made[HEADER_BYTES:head].view("<u4") + (end - head)
        behind.put(made[head:], stop)
        end += made.size - head
    made = behind.end()
    header = like._replace(width=settings.typesize, nbytes=size, stored_bytes=end).pack()
    made[:HEADER_BYTES] = np.frombuffer(header, np.uint8)
    made[HEADER_BYTES : HEADER_BYTES + 4 * blocks] = starts.view(np.uint8)
    return made
