"""Loading: reads a region of a view into the caller's memory, with several threads, inside a budget for all the rest.

::

    result            the caller's: one array, or several; readers scatter straight into them
    a raw object      one piece for each thread, and the places of its runs     at most half of the budget
    an encoded unit   stored bytes, elements, copies between stages             one unit for each thread that fits,
                                                                                or the load is refused
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
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
from reblock.engine.view import Array, View, part
from reblock.errors import InfeasibleError
from reblock.geometry import Axis, Box, Grid
from reblock.geometry.axis import Ints
from reblock.model import PIECE_BYTES, Access, Divisible, Layout, Measurable, TransferMode
from reblock.model.accounting import LEAST_READING_BYTES
from reblock.units import format_size

#: The budget of a load without one.
NO_LIMIT = 1 << 30
#: Memory for each unit while other units of its object are read.
_UNIT_BYTES = 1 << 10
#: Rows of raw objects up to this length are read in full even if only a part is wanted: separate calls cost more.
_ROW_BYTES = 16 << 10
#: Elements that only a library can decode exist three times: in its process, in transit, and here.
_COPIES = 3
#: Regions with fewer bytes are read by the calling thread: starting another thread takes longer.
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


#: A box, and the array that receives its elements.
Part = tuple[Box, Array]


#: The elements that are taken along an axis of a box: every n-th, or those at ascending places, counted from its start.
Step = int | Ints


def load(
    view: View,
    box: Box,
    *,
    steps: Sequence[Step] | None = None,
    memory_bytes: int | None = None,
    threads: int = 1,
) -> Array:
    """The elements of a box as a new array; with steps, only some along each axis.

    The budget is for everything but the result; None = no limit. At most `threads` threads read, fewer if the budget
    has no room for a unit or a piece in each of them.
    """
    steps = tuple(steps or (1,) * box.ndim)
    shape = [
        -(-length // step) if isinstance(step, int) else len(step)
        for length, step in zip(box.shape, steps, strict=True)
    ]
    out: Array = np.empty(shape, view.layout.dtype)
    _load(view, box, [(box, out)], steps, memory_bytes, threads)
    return out


def sampled(array: Array, steps: Sequence[Step]) -> Array:
    """The elements of a box that has been read whole, as `load` gives them with steps."""
    for axis, step in enumerate(steps):
        if isinstance(step, int):
            array = array[(slice(None),) * axis + (slice(None, None, step),)]
        else:
            array = array.take(step, axis)
    return array


def load_parts(
    view: View,
    parts: Sequence[Part],
    *,
    memory_bytes: int | None = None,
    threads: int = 1,
    piece_bytes: int = PIECE_BYTES,
) -> None:
    """Read the hull of several boxes once, and copy the elements of each box into its array, in C order.

    Boxes do not overlap. The budget is for everything but the arrays. A thread takes at most `piece_bytes` for a piece
    of a raw object and what is kept for it, and at most half of its share of the budget.
    """
    wanted = [part for part in parts if part[0].size]
    if wanted:
        box = hull([box for box, _ in wanted])
        _load(view, box, wanted, (1,) * view.layout.ndim, memory_bytes, threads, piece_bytes)


def _load(
    view: View,
    box: Box,
    parts: Sequence[Part],
    steps: Sequence[Step],
    memory_bytes: int | None,
    threads: int,
    piece_bytes: int = PIECE_BYTES,
) -> None:
    if memory_bytes is not None:
        view = fit(view, memory_bytes)
        if (needed := unit_bytes(view.layout, view.store.reads)) > max(memory_bytes, LEAST_READING_BYTES):
            chunk = format_size(view.layout.unit_bytes)
            raise too_little(f"{view.store.location}: reading a chunk of {chunk}", memory_bytes, needed)
    if not any(out.size for _, out in parts):
        return
    room = max(NO_LIMIT if memory_bytes is None else memory_bytes, LEAST_READING_BYTES)
    threads = _threads(view, box, threads, room)
    share = room // threads
    loading = _Loading(view, box, parts, tuple(steps), threads, share, min(share // 2, piece_bytes))
    run_jobs(loading.jobs(), threads, loading.arena, encoded_pool(view.layout, threads, loading.arena))


def _threads(view: View, box: Box, most: int, room: int) -> int:
    """Threads that read: a library reads one box at a time, and small boxes are not worth a thread."""
    if view.store.reads is TransferMode.BOX or box.size * view.layout.itemsize < _MANY_BYTES:
        return 1
    unit = unit_bytes(view.layout, view.store.reads) or LEAST_READING_BYTES
    return max(min(most, room // unit), 1)


class _Loading:
    """One load: the arrays that receive elements, and the jobs that read them."""

    def __init__(
        self,
        view: View,
        box: Box,
        parts: Sequence[Part],
        steps: tuple[Step, ...],
        threads: int,
        room: int,
        piece_bytes: int,
    ) -> None:
        """Each thread has `room` bytes, `piece_bytes` of them for a raw piece. With steps, the box is the only part."""
        self._view, self._box, self._parts, self._steps = view, box, parts, steps
        self.arena = Arena()
        """Where readers take their memory from."""
        layout = view.layout
        moves, window = None, NO_WINDOW
        self._sampled = any(not isinstance(step, int) or step > 1 for step in steps)
        deliver: Deliver = (
            _Samples(view, box, steps, parts[0][1]) if self._sampled else Copies(parts, fill_element(view.store))
        )
        raw = not (layout.encoded or layout.indexed)
        in_one_piece = not raw or prod(layout.objects.largest_stored) * layout.itemsize <= piece_bytes
        enough = sum(out.nbytes for _, out in parts) >= _FEW_BYTES
        if enough and not self._sampled and in_one_piece and (writes := _part_grid(layout.shape, parts)) is not None:
            moves, window, deliver = self._straight(writes)
        self._window = window
        self._reading = choose_reading(
            *(view, deliver),
            full=full_axes(view),
            piece_bytes=room // _COPIES if view.store.reads is TransferMode.BOX else piece_bytes,
            coders=threads,
            batch_size=1,
            opener=Opener(view.store),
            arena=self.arena,
            moves=moves,
            max_units=max(room // (4 * _UNIT_BYTES), 1),
        )

    def jobs(self) -> Iterator[ReadJob]:
        """Jobs that read everything."""
        for reach in self._reaches():
            yield from self._reading.jobs(reach, self._window)

    def _straight(self, writes: Grid) -> tuple[native.Moves | None, Window, Deliver]:
        """How elements are scattered straight into the arrays: they are the write boxes that have a buffer."""
        view = self._view
        target = Layout.raw(view.layout.dtype, writes)
        boxes, fill = Boxes(writes, Access.RUNS, target), fill_element(view.store)
        moves = compiled_moves(view, target, fill, digest=False)
        scatter = Scatter(boxes, fill, moves, digest=False)
        window = scatter.window(self._box, {})
        places = {number: place for place, number in enumerate(window.numbers)}
        for box, out in self._parts:
            index = tuple(axis.index(x) for axis, x in zip(writes.axes, box.start, strict=True))
            number, flat = writes.number(index), out.reshape(-1).view(np.uint8)
            window.put(places[number], Buffer(boxes, number, box.size, Memory(flat.size, flat, _keep)))
        return moves, window, scatter

    def _reaches(self) -> Iterator[Box]:
        """The box; where elements are passed over, the parts of it in objects that have samples."""
        if not self._sampled:
            yield self._box
            return
        objects = self._view.layout.objects
        samples = _Samples(self._view, self._box, self._steps, self._parts[0][1])
        for index in objects.touching(self._box):
            reach = objects.box(index).intersect(self._box)
            if reach is not None and samples.in_part(reach):
                yield reach


def hull(boxes: Sequence[Box]) -> Box:
    """The smallest box around some boxes."""
    starts, stops = zip(*((box.start, box.stop) for box in boxes), strict=True)
    return Box(tuple(map(min, *starts, starts[0])), tuple(map(max, *stops, stops[0])))


def _part_grid(shape: Sequence[int], parts: Sequence[Part]) -> Grid | None:
    """The grid that is cut at the bounds of all parts; None if a part is more than one box of it."""
    cuts = []
    for axis, length in enumerate(shape):
        bounds = {0, length, *(bound for box, _ in parts for bound in (box.start[axis], box.stop[axis]))}
        cuts.append([stop - start for start, stop in pairwise(sorted(bounds))])
    grid = Grid(tuple(map(Axis.of, cuts)))
    for box, _ in parts:
        index = [axis.index(x) for axis, x in zip(grid.axes, box.start, strict=True)]
        if grid.box(index) != box:
            return None
    return grid


def _keep() -> None:
    """The caller keeps the memory of the result."""


class Copies:
    """Copies elements into the arrays that they belong to."""

    def __init__(self, parts: Sequence[Part], fill: Array) -> None:
        self._parts, self._fill = parts, fill
        shape = len(parts), parts[0][0].ndim if parts else 0
        self._starts = np.array([box.start for box, _ in parts], np.int64).reshape(shape)
        self._stops = np.array([box.stop for box, _ in parts], np.int64).reshape(shape)

    def __call__(self, loaded: Loaded, window: Window) -> list[Buffer]:  # noqa: ARG002 - arrays are no window
        """Copy elements into every array that they meet."""
        wanted = loaded.wanted
        meets = (self._starts < wanted.stop).all(axis=1) & (self._stops > wanted.start).all(axis=1)
        for place in np.flatnonzero(meets).tolist():
            box, out = self._parts[place]
            if shared := box.intersect(wanted):
                here = part(out, shared.within(box))
                here[...] = self._fill if loaded.array is None else part(loaded.array, shared.within(loaded.box))
        return []


class _Samples:
    """Copies some elements of a box along each axis."""

    def __init__(self, view: View, box: Box, steps: tuple[Step, ...], out: Array) -> None:
        self._box, self._steps, self._out, self._fill = box, steps, out, fill_element(view.store)

    def __call__(self, loaded: Loaded, window: Window) -> list[Buffer]:  # noqa: ARG002 - the result is no window
        """Copy the samples out of loaded elements."""
        taken = list(self._taken(loaded.wanted))
        # The ellipsis keeps an array an array where there are no axes.
        inside: Any = (*(slice(low, high) for low, high, _ in taken), ...)
        here = self._out[inside]
        if loaded.array is None:
            here[...] = self._fill
            return []
        found = loaded.array
        for axis, ((_, _, places), start, stop) in enumerate(
            zip(taken, loaded.box.start, loaded.wanted.stop, strict=True)
        ):
            if isinstance(places, range):
                found = found[(slice(None),) * axis + (slice(places.start - start, stop - start, places.step),)]
            else:
                found = found.take(places - start, axis)
        here[...] = found
        return []

    def in_part(self, part: Box) -> bool:
        """Whether a part has any of the samples."""
        return all(low < high for low, high, _ in self._taken(part))

    def _taken(self, part: Box) -> Iterator[tuple[int, int, range | Ints]]:
        """Per axis of a part: the first sample and the end in the result, and where they are in the array."""
        for first, start, stop, step in zip(self._box.start, part.start, part.stop, self._steps, strict=True):
            if isinstance(step, int):
                low, high = -(-(start - first) // step), -(-(stop - first) // step)
                yield low, high, range(first + low * step, stop, step)
            else:
                low, high = map(int, np.searchsorted(step, (start - first, stop - first)))
                yield low, high, step[low:high] + first


def full_axes(view: View) -> Sequence[int]:
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
