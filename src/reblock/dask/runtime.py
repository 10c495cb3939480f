"""What runs inside the tasks of a rewritten graph: read a buffer, take a piece of it.

::

    buffer     reserve memory ── enough ──▶ one sweep over its bytes, scattered into one array per piece
                    └── short ──▶ nothing yet: read when the first piece is taken, if there is memory by then
    piece      taken out of its buffer, which then forgets it; read directly where the buffer has it not

Nothing waits for memory, so threads cannot block each other. A buffer that cannot be read, for whatever reason, leaves
its pieces to be read as the graph would have read them, with the same result or the same error.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.api.machine import cores
from reblock.dask.counting import count_traffic
from reblock.dask.memory import LENDER, MEMORY
from reblock.dask.sources import BufferSource
from reblock.dask.tally import Run
from reblock.engine import load_parts
from reblock.errors import ReblockError
from reblock.geometry import Box
from reblock.model import Layout

Array = npt.NDArray[Any]

#: One buffer is read at a time, by all cores, so that its reads follow each other on the device.
_READING = Lock()
#: Memory for one read and what is kept for it: each read may be a seek of a slow device, so they are long.
_PIECE_BYTES = 16 << 20


@dataclass(frozen=True)
class BufferSpec:
    """One buffer to be read."""

    run: Run
    """The optimised graph that it belongs to."""
    pieces: tuple[Box, ...]
    """Its pieces."""
    hull: Box
    """The box that is read."""


class ReadBuffer:
    """A buffer while its pieces wait to be taken; a value that a scheduler keeps and may send to another process."""

    def __init__(self, spec: BufferSpec, source: BufferSource, arrays: Sequence[Array | None] | None = None) -> None:
        self._spec, self._source = spec, source
        self._filled = arrays is not None
        self._arrays: list[Array | None] = list(arrays) if arrays is not None else [None] * len(spec.pieces)
        self._lock = Lock()
        self._held = _Held(sum(array.nbytes for array in self._arrays if array is not None))
        weakref.finalize(self, self._held.release).atexit = False

    def __reduce__(self) -> tuple[Any, ...]:
        with self._lock:
            return ReadBuffer, (self._spec, self._source, list(self._arrays) if self._filled else None)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self._held.size

    def fill(self) -> bool:
        """Read the buffer, if there is memory for it and it was not read before."""
        with self._lock:
            return self._filled or self._fill()

    def _fill(self) -> bool:
        spec, dtype = self._spec, self._source.dtype
        size = sum(box.size for box in spec.pieces) * dtype.itemsize
        if not MEMORY.take(size, spec.run.memory_bytes):
            return False
        self._filled = True
        LENDER.keep_bytes = spec.run.memory_bytes // 2
        try:
            arrays = [LENDER.empty(box.shape, dtype) for box in spec.pieces]
            self._read(list(zip(spec.pieces, arrays, strict=True)))
        except BaseException as error:
            MEMORY.give(size)
            if not isinstance(error, ReblockError | OSError | MemoryError | ValueError | TypeError | RuntimeError):
                raise
            spec.run.note(f"a buffer was not read: {error}")
            return True
        self._arrays = list(arrays)
        self._held.size = size
        count_box(spec.run, spec.hull, self._source.layout, buffers=1, peak_bytes=MEMORY.used)
        return True

    def _read(self, parts: list[tuple[Box, Array]]) -> None:
        source, staging = self._source, self._spec.run.staging_bytes
        source.check()
        with _READING, source.lock or nullcontext():
            load_parts(source.view, parts, memory_bytes=staging, threads=cores(), piece_bytes=_PIECE_BYTES)

    def take(self, number: int) -> Array:
        """A piece; the buffer does not keep it."""
        with self._lock:
            if not self._filled:
                self._fill()
            array, self._arrays[number] = self._arrays[number], None
            if array is not None:
                self._held.give(array.nbytes)
        run = self._spec.run
        if array is not None:
            run.count(pieces=1)
            return array
        box = self._spec.pieces[number]
        found: Array = self._source.read_directly(box.slices)
        count_box(run, box, self._source.layout, direct=1)
        return found


def count_box(run: Run, box: Box, layout: Layout, *, writing: bool = False, **counts: int) -> None:
    """Report the traffic of one box."""
    moved = count_traffic(np.array([box.start]), np.array([box.stop]), layout, writing=writing)
    run.count(opens=moved.opens, runs=moved.runs, seeks=moved.seeks, bytes=moved.bytes, **counts)


class _Held:
    """Bytes that a buffer holds."""

    def __init__(self, size: int) -> None:
        self.size = size
        if size:
            MEMORY.add(size)

    def give(self, size: int) -> None:
        self.size -= size
        MEMORY.give(size)

    def release(self) -> None:
        """Return everything, when the buffer is gone."""
        self.give(self.size)


def read_buffer(spec: BufferSpec, source: BufferSource, token: None = None) -> ReadBuffer:  # noqa: ARG001 - an order
    """A task: read a buffer, or leave that to the first piece if memory is short."""
    buffer = ReadBuffer(spec, source)
    if not buffer.fill():
        spec.run.count(deferred=1)
    return buffer


def pass_token(*results: Any) -> None:
    """A task: another buffer may be read."""


def take_piece(buffer: ReadBuffer, number: int, index: tuple[Any, ...] | None) -> Array:
    """A task: a load that is one piece of one buffer; the index selects elements of it."""
    return _select(buffer.take(number), index)


def join_pieces(
    buffers: Sequence[ReadBuffer], numbers: Sequence[int], places: Sequence[Box], index: tuple[Any, ...] | None
) -> Array:
    """A task: a load that is put together from pieces of several buffers."""
    stops = [place.stop for place in places]
    shape = tuple(map(max, *stops, stops[0]))
    out: Array | None = None
    for buffer, number, place in zip(buffers, numbers, places, strict=True):
        array = buffer.take(number)
        if out is None:
            out = LENDER.empty(shape, array.dtype)
        out[place.slices] = array
    if out is None:
        raise ValueError("a load has at least one piece")
    return _select(out, index)


def _select(array: Array, index: tuple[Any, ...] | None) -> Array:
    """Elements of an array; a copy if that is much smaller, as a view would keep all of it in memory."""
    if index is None:
        return array
    found: Array = array[index]
    return found.copy() if 2 * found.size <= array.size else found
