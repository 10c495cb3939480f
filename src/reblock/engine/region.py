"""Reading any region of a view into memory that the caller keeps, inside a budget for all else.

::

    result            the caller's
    a raw object      one piece of it, and where its runs lie          at most half of the budget
    an encoded unit   stored bytes, elements, copies between stages    as much as the unit takes, or it is refused
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain, islice
from math import prod
from typing import Any

import numpy as np

from reblock.engine.memory.buffers import Staging
from reblock.engine.pipeline.boxes import fill_element
from reblock.engine.pipeline.readers.fetch import open_raw, read_raw, read_units
from reblock.engine.pipeline.readers.library import read_boxes
from reblock.engine.pipeline.readers.opener import Opener
from reblock.engine.pipeline.readers.visits import Loaded, Visit, raw_visit, unit_visit
from reblock.engine.view import Array, View
from reblock.errors import InfeasibleError
from reblock.geometry import Box
from reblock.geometry.runs import pieces
from reblock.model import PIECE_BYTES, Divisible, Index, Layout, Measurable, Way
from reblock.model.accounting import LEAST_READING_BYTES
from reblock.units import format_size

#: The budget of who has none.
NO_LIMIT = 1 << 30
#: What is kept of a unit while others of its object are read.
_UNIT_BYTES = 1 << 10
#: What is kept of a run while its piece is read, beside its elements.
_RUN_BYTES = 64
#: Rows of raw objects up to this long are read in full where only a part of them is wanted: a call costs more.
_ROW_BYTES = 16 << 10
#: Elements that only a library can decode are in three places: in its process, on their way, and here.
_COPIES = 3


def fit(view: View, memory_bytes: int, *, ample: int = 1) -> View:
    """The same view, with parts of chunks for units where whole ones do not fit; the thriftiest where nothing does.

    Where `ample` units fit, nobody looks how much is stored of them.
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


def unit_bytes(layout: Layout, reads: Way) -> int:
    """Bytes that reading takes at the least beside the result: those of a unit, where units are read whole."""
    if not (layout.encoded or layout.indexed):
        return 0
    index = 2 * 16 * -(-layout.units.count // max(layout.objects.count, 1)) * layout.indexed
    elements = _COPIES * layout.unit_bytes if reads is Way.BOX else 0
    return layout.unit_memory_bytes + index + elements if layout.encoded else layout.unit_bytes + index + elements


def load(
    view: View,
    box: Box,
    *,
    steps: Sequence[int] | None = None,
    memory_bytes: int | None = None,
) -> Array:
    """The elements of a box as a new array; with steps, only every n-th along each axis.

    The budget is for everything but the result; None = no limit.
    """
    if memory_bytes is not None:
        view = fit(view, memory_bytes)
        if (needed := unit_bytes(view.layout, view.store.reads)) > max(memory_bytes, LEAST_READING_BYTES):
            chunk = format_size(view.layout.unit_bytes)
            raise too_little(f"{view.store.location}: reading a chunk of {chunk}", memory_bytes, needed)
    room = max(NO_LIMIT if memory_bytes is None else memory_bytes, LEAST_READING_BYTES)
    opener = Opener(view.store)
    staging = Staging()
    sampling = _Sampling(box, tuple(steps or (1,) * box.ndim))
    out = np.empty(sampling.shape, view.layout.dtype)
    fill = fill_element(view.store)
    for index in view.layout.objects.touching(box):
        reach = view.layout.objects.box(index).intersect(box)
        if reach is None or not sampling.takes(reach):
            continue
        for visit, loaded in _elements(view, index, reach, opener, staging, room):
            here, there = sampling.places(loaded.wanted, loaded.box)
            if loaded.missing:
                visit.require_fill()
            out[here] = fill if loaded.array is None else loaded.array[there]
    return out


class _Sampling:
    """Every n-th element of a box along each axis."""

    def __init__(self, box: Box, steps: tuple[int, ...]) -> None:
        self._box, self._steps = box, steps
        self.shape = tuple(-(-length // step) for length, step in zip(box.shape, steps, strict=True))

    def _ranges(self, part: Box) -> Iterator[tuple[int, int, int, int]]:
        """Per axis of a part: the first and the end in the result, the first in the array, the step."""
        for first, start, stop, step in zip(self._box.start, part.start, part.stop, self._steps, strict=True):
            low, high = -(-(start - first) // step), -(-(stop - first) // step)
            yield low, high, first + low * step, step

    def takes(self, part: Box) -> bool:
        """Whether any element of a part is wanted."""
        return all(low < high for low, high, _, _ in self._ranges(part))

    def places(self, part: Box, origin: Box) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Indices of a part's elements in the result, and in an array that starts at `origin`."""
        here: list[Any] = []
        there: list[Any] = []
        for (low, high, first, step), start, stop in zip(self._ranges(part), origin.start, part.stop, strict=True):
            here.append(slice(low, high))
            there.append(slice(first - start, stop - start, step))
        # The ellipsis keeps an array an array where there are no axes.
        return (*here, ...), (*there, ...)


def _elements(
    view: View, index: Index, reach: Box, opener: Opener, staging: Staging, memory_bytes: int
) -> Iterator[tuple[Visit, Loaded]]:
    """What one object holds of a box, some of it at a time."""
    layout = view.layout
    if layout.encoded or layout.indexed:
        units = layout.units.touching(reach)
        while some := list(islice(units, max(memory_bytes // (4 * _UNIT_BYTES), 1))):
            visit = unit_visit(view, index, reach, some)
            box = view.store.reads is Way.BOX
            found = read_boxes(visit) if box else read_units(visit, opener, staging)
            yield from ((visit, loaded) for loaded in found)
    elif view.store.reads is Way.BOX:
        for part in pieces(reach, layout.order, max(memory_bytes // (2 * _COPIES * layout.itemsize), 1)):
            visit = unit_visit(view, index, part)
            yield from ((visit, loaded) for loaded in read_boxes(visit))
    else:
        yield from _raw_elements(view, index, reach, opener, staging, memory_bytes)


def _raw_elements(
    view: View, index: Index, reach: Box, opener: Opener, staging: Staging, memory_bytes: int
) -> Iterator[tuple[Visit, Loaded]]:
    """What a raw object holds of a box, piece by piece; its file is opened once."""
    layout = view.layout
    full = _short_rows(layout, index)
    parts = pieces(reach, layout.order, _piece_elements(layout, index, reach, full, memory_bytes))
    visits = (raw_visit(view, index, part, full, 2 * PIECE_BYTES) for part in parts)
    first = next(visits)
    opened = open_raw(opener, first)
    with opened[0] if opened else nullcontext():
        for visit in chain([first], visits):
            yield from ((visit, read_raw(visit, piece, opened, staging)) for piece in visit.pieces if piece.wanted.size)


def _short_rows(layout: Layout, index: Index) -> Sequence[int]:
    """The innermost axes on disk along which an object is so short that it is read in full."""
    stored, size = layout.objects.stored(index).shape, layout.itemsize
    for number, axis in enumerate(reversed(layout.order)):
        size *= stored[axis]
        if size > _ROW_BYTES:
            return layout.order[layout.ndim - number :]
    return layout.order


def _piece_elements(layout: Layout, index: Index, reach: Box, full: Sequence[int], memory_bytes: int) -> int:
    """Wanted elements of a raw object that are read at a time."""
    stored = layout.objects.stored(index).shape
    # What is read is more than what is wanted by so many times, and comes in runs of at least this length.
    more = prod(stored[axis] for axis in full) // max(prod(reach.shape[axis] for axis in full), 1)
    run = prod(stored[axis] for axis in full)
    if len(full) < layout.ndim:
        run *= reach.shape[layout.order[layout.ndim - len(full) - 1]]
    element = (more + 1) * layout.itemsize + more * _RUN_BYTES // max(run, 1) + 1
    return max(min(memory_bytes // 2, PIECE_BYTES) // element, 1)
