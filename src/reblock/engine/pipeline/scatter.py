"""Scatter: copies loaded elements into the write boxes that they belong to, all boxes of a piece in one call.

The compiled loop and numpy do the same. Numpy is used where the loop was not built, and where elements are converted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, product
from threading import Lock
from typing import NamedTuple, Protocol

import numpy as np

from reblock.engine import native
from reblock.engine.pipeline.boxes import Boxes, Buffer
from reblock.engine.pipeline.readers.visits import Loaded
from reblock.engine.view import Array, View
from reblock.geometry import Box
from reblock.geometry.axis import Ints
from reblock.model import Access, Index, Layout
from reblock.model.medium import DIRECT_BYTES


class _WindowGrid(NamedTuple):
    """The bounds of the write boxes of a window."""

    shape: Index
    """Number of boxes along each axis."""
    cuts: tuple[list[int], ...]
    """Bounds of the boxes along each axis."""
    lengths: list[list[int]]
    """Lengths of their buffers along each axis."""
    arrays: tuple[Ints, Ints, Ints]
    """Counts, cuts and buffer lengths as the compiled loop takes them."""
    numbers: list[int]
    """Their numbers in the write grid, in C order."""
    elements: list[int]
    """Number of elements of each box."""
    sizes: list[int]
    """Bytes of the buffer of each box."""


class Deliver(Protocol):
    """Copies loaded elements to their write boxes."""

    def __call__(self, loaded: Loaded, window: Window) -> list[Buffer]:
        """Copy elements into the boxes of a window; returns those that are now complete."""


class Window:
    """The write boxes that a read box meets; a box has its buffer here before a unit that touches it is read."""

    def __init__(self, grid: _WindowGrid, box: Box) -> None:
        self._grid = grid
        self.box = box
        self.numbers = grid.numbers
        self.cuts = grid.cuts
        self.shape = grid.shape
        self.elements = grid.elements
        self.sizes = grid.sizes
        self.lengths = grid.lengths
        self.needs = list(grid.sizes)
        """Bytes that are still to be allocated for each box."""
        self.buffers: list[Buffer | None] = [None] * len(grid.numbers)
        self._table = np.zeros(max(len(grid.numbers), 1), np.uint64)
        self.native = native.WindowStruct(*map(native.address, (*grid.arrays, self._table)))

    def put(self, position: int, buffer: Buffer) -> None:
        """Register a buffer, to which elements are copied from now on."""
        self.buffers[position] = buffer
        self.needs[position] = 0
        self._table[position] = buffer.memory.at

    def has_any(self, positions: Iterable[int]) -> bool:
        """Whether any of some boxes has a buffer: one that was finished earlier has none."""
        return any(self.buffers[position] is not None for position in positions)

    def touching(self, box: Box) -> Iterator[int]:
        """Positions of the boxes that a box meets."""
        ranges = []
        for cuts, start, stop in zip(self.cuts, box.start, box.stop, strict=True):
            low, high = np.searchsorted(cuts, [start, stop - 1], "right").tolist()
            ranges.append(range(low - 1, high))
        shape = self._grid.shape
        for steps in product(*ranges):
            position = 0
            for step, count in zip(steps, shape, strict=True):
                position = position * count + step
            yield position


_ZERO: Ints = np.zeros(1, np.int64)
#: A window without write boxes, for readers that deliver elsewhere.
NO_WINDOW = Window(_WindowGrid((), (), [], (_ZERO, _ZERO, _ZERO), [], [], []), Box((), ()))


class Scatter:
    """Copies elements into the write boxes of one pass."""

    def __init__(
        self,
        boxes: Boxes,
        fill: Array,
        moves: native.Moves | None,
        *,
        digest: bool,
        verbatim: bool = False,
        checked: bool = False,
    ) -> None:
        """With `verbatim`, the stored bytes of a unit take the place of the elements of the box that it completes.

        If `checked`, an element that does not survive in the target's type is an error.
        """
        self._writes, self._target = boxes.writes, boxes.layout
        self._stored = boxes.layout.objects if boxes.access is Access.UNITS else boxes.writes
        self._fill = fill
        self._moves = moves
        self._digest = digest
        self._checked = checked
        self.verbatim = verbatim
        self._lock = Lock()
        self._grid = lru_cache(maxsize=8)(self._make_grid)

    def window(self, box: Box, opened: Mapping[int, Buffer]) -> Window:
        """The write boxes that a read box meets, with the buffers of those that are open already."""
        ranges = (axis.touching(a, b) for axis, a, b in zip(self._writes.axes, box.start, box.stop, strict=True))
        window = Window(self._grid(tuple((meets.start, meets.stop) for meets in ranges)), box)
        for position, number in enumerate(window.numbers):
            if number in opened:
                window.put(position, opened[number])
        return window

    def __call__(self, loaded: Loaded, window: Window) -> list[Buffer]:
        """Copy elements into the boxes of a window; returns those that are now complete."""
        complete = self._copy(loaded, window)
        if self.verbatim and loaded.stored is not None:
            for buffer in complete:
                buffer.keep(loaded.stored)
        return complete

    def _copy(self, loaded: Loaded, window: Window) -> list[Buffer]:
        array = loaded.array
        if self._moves is None or array is None or array.dtype != self._target.dtype:
            return self._by_numpy(loaded, window)
        place = np.array([array.strides, loaded.box.start, loaded.wanted.start, loaded.wanted.stop], np.int64)
        completed = np.empty(len(window.numbers) or 1, np.int64)
        count = self._moves.scatter(window.native, array, place, completed)
        return completed_buffers(window, completed, count)

    def _by_numpy(self, loaded: Loaded, window: Window) -> list[Buffer]:
        complete = []
        for position in window.touching(loaded.wanted) if loaded.wanted.size else ():
            buffer = window.buffers[position]
            if buffer is None:
                continue
            shape = self._target.shape if self._digest else None
            count, sums = buffer.take(loaded, self._fill, shape, checked=self._checked)
            with self._lock:
                if buffer.arrived(count, sums):
                    complete.append(buffer)
        return complete

    def _make_grid(self, ranges: tuple[tuple[int, int], ...]) -> _WindowGrid:
        cuts, lengths = [], []
        numbers: Ints = np.zeros((), np.int64)
        elements: Ints = np.ones((), np.int64)
        sizes: Ints = np.full((), self._target.itemsize, np.int64)
        for axis, stored, (first, last) in zip(self._writes.axes, self._stored.axes, ranges, strict=True):
            cuts.append([axis.start(index) for index in range(first, last + 1)])
            lengths.append([stop - start for start, stop in map(stored.stored, range(first, last))])
            numbers = np.add.outer(numbers * axis.count, np.arange(first, last))
            elements = np.multiply.outer(elements, [stop - start for start, stop in pairwise(cuts[-1])])
            sizes = np.multiply.outer(sizes, lengths[-1])
        shape = tuple(last - first for first, last in ranges)
        return _WindowGrid(
            shape,
            tuple(cuts),
            lengths,
            (_ints(shape), _ints([cut for one in cuts for cut in one]), _ints([n for one in lengths for n in one])),
            *(many.ravel().tolist() for many in (numbers, elements, sizes)),
        )


def _ints(values: Sequence[int]) -> Ints:
    """An array for the compiled loop; never empty, because the loop takes its address."""
    return np.array(values or [0], np.int64)


def completed_buffers(window: Window, completed: Ints, count: int) -> list[Buffer]:
    """The buffers that the compiled loop has listed as complete."""
    return [buffer for buffer in (window.buffers[at] for at in completed[:count].tolist()) if buffer is not None]


def compiled_moves(
    view: View, target: Layout, fill: Array, *, digest: bool, stamps: native.Stamps | None = None
) -> native.Moves | None:
    """The compiled loop between a view and a target; None if it was not built, or has too few axes.

    With stamps it checks that files look as they did when the run began.
    """
    if native.library() is None or target.ndim > native.MAX_AXES:
        return None
    return native.Moves(
        shape=target.shape,
        dtype=target.dtype,
        source_order=view.layout.order,
        target_order=target.order,
        # numpy copies elements that are converted.
        fill=fill if fill.dtype == target.dtype else np.zeros((), target.dtype),
        fills=view.fills,
        direct=DIRECT_BYTES,
        digest=digest,
        flags=0 if view.store.roots is None else os.O_NOFOLLOW,
        stamps=stamps,
    )
