"""Loading: reads any region of a view into memory of the caller, with several threads, inside a budget for all else.

::

    result            the caller's; the only write box, and readers scatter straight into it
    a raw object      one piece for each thread, and the places of its runs     at most half of the budget
    an encoded unit   stored bytes, elements, copies between stages             one unit for each thread that fits,
                                                                                or the load is refused
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from reblock.engine import native
from reblock.engine.memory.arena import Arena
from reblock.engine.memory.budget import Memory
from reblock.engine.memory.scratch import encoded_pool
from reblock.engine.pipeline.boxes import Boxes, Buffer, fill_element
from reblock.engine.pipeline.readers.choose import choose_reading
from reblock.engine.pipeline.readers.jobs import run_jobs
from reblock.engine.pipeline.readers.opener import Opener
from reblock.engine.pipeline.readers.protocol import ReadJob
from reblock.engine.pipeline.readers.visits import Loaded
from reblock.engine.pipeline.scatter import NO_WINDOW, Deliver, Scatter, Window, compiled_moves
from reblock.engine.view import Array, View
from reblock.errors import InfeasibleError
from reblock.geometry import Box, Grid
from reblock.model import PIECE_BYTES, Access, Divisible, Layout, Measurable, TransferMode
from reblock.model.accounting import LEAST_READING_BYTES
from reblock.units import format_size

#: The budget of a load without one.
NO_LIMIT = 1 << 30
#: Memory that is kept of a unit while other units of its object are read.
_UNIT_BYTES = 1 << 10
#: Rows of raw objects up to this length are read in full where only a part of them is wanted: a call costs more.
_ROW_BYTES = 16 << 10
#: Elements that only a library can decode are in three places: in its process, on their way, and here.
_COPIES = 3
#: Regions with fewer bytes are read by the calling thread: starting another one takes longer.
_MANY_BYTES = 1 << 20
#: Results with fewer bytes are copied in Python: preparing the compiled loop takes longer.
_FEW_BYTES = 64 << 10


def fit(view: View, memory_bytes: int, *, ample: int = 1) -> View:
    """The same view, with parts of chunks as units if whole chunks do not fit; the smallest units if nothing fits.

    The stored sizes of units are not looked up if `ample` units fit in any case.
    """
    room = max(memory_bytes, LEAST_READING_BYTES)
    if ample * unit_bytes(view.layout, view.store.reads) <= room:
        return view
    store = view.store
    stores = [store.measured() if isinstance(store, Measurable) else store]
    if isinstance(store, Divisible) and (parts := store.divided()) is not None:
        stores.append(parts)
    views = [replace(view, store=other) for other in stores]
    taken = [unit_bytes(other.layout, other.store.reads) for other in views]
    return next((other for other, size in zip(views, taken, strict=True) if size <= room), views[np.argmin(taken)])


def too_little(what: str, memory_bytes: int, needed: int) -> InfeasibleError:
    """An error for a budget that is too small."""
    return InfeasibleError(
        f"{what} does not fit a memory budget of {format_size(memory_bytes)} ({memory_bytes} bytes): needs at least "
        f"{format_size(needed)} ({needed} bytes)",
        needs_memory_bytes=needed,
    )


def unit_bytes(layout: Layout, reads: TransferMode) -> int:
    """The least memory that reading takes beside the result: that of one unit, where units are read whole."""
    if not (layout.encoded or layout.indexed):
        return 0
    index = 2 * 16 * -(-layout.units.count // max(layout.objects.count, 1)) * layout.indexed
    elements = _COPIES * layout.unit_bytes if reads is TransferMode.BOX else 0
    return layout.unit_memory_bytes + index + elements if layout.encoded else layout.unit_bytes + index + elements


def load(
    view: View,
    box: Box,
    *,
    steps: Sequence[int] | None = None,
    memory_bytes: int | None = None,
    threads: int = 1,
) -> Array:
    """The elements of a box as a new array; with steps, only every n-th along each axis.

    The budget is for everything but the result; None = no limit. At most `threads` threads read, fewer if the budget
    has no room for a unit or a piece in each of them.
    """
    if memory_bytes is not None:
        view = fit(view, memory_bytes)
        if (needed := unit_bytes(view.layout, view.store.reads)) > max(memory_bytes, LEAST_READING_BYTES):
            chunk = format_size(view.layout.unit_bytes)
            raise too_little(f"{view.store.location}: reading a chunk of {chunk}", memory_bytes, needed)
    room = max(NO_LIMIT if memory_bytes is None else memory_bytes, LEAST_READING_BYTES)
    threads = _threads(view, box, threads, room)
    loading = _Loading(view, box, tuple(steps or (1,) * box.ndim), threads, room // threads)
    if loading.out.size:
        run_jobs(loading.jobs(), threads, loading.arena, encoded_pool(view.layout, threads, loading.arena))
    return loading.out


def _threads(view: View, box: Box, most: int, room: int) -> int:
    """Threads that read: a library reads one box at a time, and small boxes are not worth a thread."""
    if view.store.reads is TransferMode.BOX or box.size * view.layout.itemsize < _MANY_BYTES:
        return 1
    unit = unit_bytes(view.layout, view.store.reads) or LEAST_READING_BYTES
    return max(min(most, room // unit), 1)


class _Loading:
    """One load: its result, and the jobs that read it."""

    def __init__(self, view: View, box: Box, steps: tuple[int, ...], threads: int, room: int) -> None:
        """Each thread has `room` bytes."""
        self._view, self._box, self._steps = view, box, steps
        self.arena = Arena()
        """Where readers take their memory from."""
        shape = tuple(-(-length // step) for length, step in zip(box.shape, steps, strict=True))
        self.out: Array = np.empty(shape, view.layout.dtype)
        """The result."""
        layout, piece_bytes = view.layout, min(room // 2, PIECE_BYTES)
        moves, window = None, NO_WINDOW
        deliver: Deliver = _Samples(view, box, steps, self.out)
        raw = not (layout.encoded or layout.indexed)
        in_one_piece = not raw or prod(layout.objects.largest_stored) * layout.itemsize <= piece_bytes
        if self.out.nbytes >= _FEW_BYTES and self.out.size == box.size and in_one_piece:
            moves, window, deliver = self._straight()
        self._window = window
        self._reading = choose_reading(
            *(view, deliver),
            full=_full_axes(view),
            piece_bytes=room // _COPIES if view.store.reads is TransferMode.BOX else piece_bytes,
            coders=threads,
            batch_size=1,
            opener=Opener(view.store),
            arena=self.arena,
            moves=moves,
            max_units=max(room // (4 * _UNIT_BYTES), 1),
        )

    def jobs(self) -> Iterator[ReadJob]:
        """Jobs that read the whole result."""
        for part in self._parts():
            yield from self._reading.jobs(part, self._window)

    def _straight(self) -> tuple[native.Moves | None, Window, Deliver]:
        """How elements are scattered straight into the result, the only write box of the window that has a buffer."""
        view, box, layout = self._view, self._box, self._view.layout
        cuts = [
            tuple(n for n in (start, stop - start, length - stop) if n)
            for start, stop, length in zip(box.start, box.stop, layout.shape, strict=True)
        ]
        writes = Grid.of(layout.shape, cuts)
        target = Layout.raw(layout.dtype, writes)
        boxes, fill = Boxes(writes, Access.RUNS, target), fill_element(view.store)
        moves = compiled_moves(view, target, fill, digest=False)
        scatter = Scatter(boxes, fill, moves, digest=False)
        window, flat = scatter.window(box, {}), self.out.reshape(-1).view(np.uint8)
        window.put(0, Buffer(boxes, window.numbers[0], box.size, Memory(flat.size, flat, _keep)))
        return moves, window, scatter

    def _parts(self) -> Iterator[Box]:
        """The box; where elements are passed over, the parts of it in objects that have samples."""
        if self.out.size == self._box.size:
            yield self._box
            return
        objects = self._view.layout.objects
        samples = _Samples(self._view, self._box, self._steps, self.out)
        for index in objects.touching(self._box):
            reach = objects.box(index).intersect(self._box)
            if reach is not None and samples.in_part(reach):
                yield reach


def _keep() -> None:
    """The caller keeps the memory of the result."""


class _Samples:
    """Copies every n-th element of a box along each axis."""

    def __init__(self, view: View, box: Box, steps: tuple[int, ...], out: Array) -> None:
        self._box, self._steps, self._out, self._fill = box, steps, out, fill_element(view.store)

    def __call__(self, loaded: Loaded, window: Window) -> list[Buffer]:  # noqa: ARG002 - the result is no window
        """Copy the samples out of loaded elements."""
        here, there = self._places(loaded.wanted, loaded.box)
        self._out[here] = self._fill if loaded.array is None else loaded.array[there]
        return []

    def in_part(self, part: Box) -> bool:
        """Whether a part has any of the samples."""
        return all(low < high for low, high, _, _ in self._ranges(part))

    def _ranges(self, part: Box) -> Iterator[tuple[int, int, int, int]]:
        """Per axis of a part: the first sample and the end in the result, the first in the array, the step."""
        for first, start, stop, step in zip(self._box.start, part.start, part.stop, self._steps, strict=True):
            low, high = -(-(start - first) // step), -(-(stop - first) // step)
            yield low, high, first + low * step, step

    def _places(self, part: Box, origin: Box) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Indices of the samples of a part in the result, and in an array that starts at `origin`."""
        here: list[Any] = []
        there: list[Any] = []
        for (low, high, first, step), start, stop in zip(self._ranges(part), origin.start, part.stop, strict=True):
            here.append(slice(low, high))
            there.append(slice(first - start, stop - start, step))
        # The ellipsis keeps an array an array where there are no axes.
        return (*here, ...), (*there, ...)


def _full_axes(view: View) -> Sequence[int]:
    """The axes along which objects are read in full: the innermost ones on disk, where rows are short."""
    layout = view.layout
    if layout.encoded or layout.indexed:
        return range(layout.ndim)
    if view.store.reads is TransferMode.BOX:
        return ()
    stored, size = layout.objects.largest_stored, layout.itemsize
    for number, axis in enumerate(reversed(layout.order)):
        size *= stored[axis]
        if size > _ROW_BYTES:
            return layout.order[layout.ndim - number :]
    return layout.order
