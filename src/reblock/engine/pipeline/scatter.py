"""Scatter: loaded elements go to the write boxes they belong to, all boxes of a piece in one call.

The compiled loop and numpy do the same; numpy serves where the loop was not built, and where elements are converted
on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, product
from threading import Lock
from typing import NamedTuple

import numpy as np

from reblock.engine import native
from reblock.engine.pipeline.readers.python import Loaded
from reblock.engine.pipeline.writers.target import Boxes, Buffer
from reblock.engine.view import Array
from reblock.geometry import Box
from reblock.geometry.axis import Ints
from reblock.model import Access, Index


class _Place(NamedTuple):
    """Where the write boxes of a window are."""

    shape: Index
    """Per axis how many."""
    cuts: tuple[list[int], ...]
    """Per axis their bounds."""
    lengths: list[list[int]]
    """Per axis the lengths of their buffers."""
    arrays: tuple[Ints, Ints, Ints]
    """Counts, cuts and buffer lengths as the compiled loop wants them."""
    numbers: list[int]
    """Their numbers in the write grid, in C order."""
    elements: list[int]
    """How many each of them has."""
    sizes: list[int]
    """How many bytes each of their buffers takes."""


class Window:
    """The write boxes that a read box meets; a box has its buffer here once a piece that touches it is on its way."""

    def __init__(self, place: _Place, box: Box) -> None:
        self._place = place
        self.box = box
        self.numbers = place.numbers
        self.cuts = place.cuts
        self.shape = place.shape
        self.elements = place.elements
        self.sizes = place.sizes
        self.lengths = place.lengths
        self.needs = list(place.sizes)
        """Bytes that are still to be taken for each."""
        self.buffers: list[Buffer | None] = [None] * len(place.numbers)
        self._table = np.zeros(max(len(place.numbers), 1), np.uint64)
        self.native = native.WindowStruct(*map(native.address, (*place.arrays, self._table)))

    def put(self, position: int, buffer: Buffer) -> None:
        """From now on elements go there."""
        self.buffers[position] = buffer
        self.needs[position] = 0
        self._table[position] = buffer.memory.at

    def touching(self, box: Box) -> Iterator[int]:
        """Positions of the boxes that a box meets."""
        ranges = []
        for cuts, start, stop in zip(self.cuts, box.start, box.stop, strict=True):
            low, high = np.searchsorted(cuts, [start, stop - 1], "right").tolist()
            ranges.append(range(low - 1, high))
        shape = self._place.shape
        for steps in product(*ranges):
            position = 0
            for step, count in zip(steps, shape, strict=True):
                position = position * count + step
            yield position


class Scatter:
    """Knows the write boxes of one pass."""

    def __init__(self, boxes: Boxes, fill: Array, moves: native.Moves | None, *, digest: bool) -> None:
        self._writes, self._target = boxes.writes, boxes.layout
        self._stored = boxes.layout.objects if boxes.access is Access.UNITS else boxes.writes
        self._fill = fill
        self._moves = moves
        self._digest = digest
        self._lock = Lock()
        self._place = lru_cache(maxsize=8)(self._make_place)

    def window(self, box: Box, opened: Mapping[int, Buffer]) -> Window:
        """The write boxes that a read box meets, with the buffers of those that are open already."""
        ranges = (axis.touching(a, b) for axis, a, b in zip(self._writes.axes, box.start, box.stop, strict=True))
        window = Window(self._place(tuple((meets.start, meets.stop) for meets in ranges)), box)
        for position, number in enumerate(window.numbers):
            if number in opened:
                window.put(position, opened[number])
        return window

    def __call__(self, loaded: Loaded, window: Window) -> list[Buffer]:
        """Copy into the boxes of a window; says which of them are now complete."""
        array = loaded.array
        if self._moves is None or array is None or array.dtype != self._target.dtype:
            return self._by_numpy(loaded, window)
        place = np.array([array.strides, loaded.box.start, loaded.wanted.start, loaded.wanted.stop], np.int64)
        completed = np.empty(len(window.numbers) or 1, np.int64)
        count = self._moves.scatter(window.native, array, place, completed)
        return take(window, completed, count)

    def _by_numpy(self, loaded: Loaded, window: Window) -> list[Buffer]:
        complete = []
        for position in window.touching(loaded.wanted) if loaded.wanted.size else ():
            buffer = window.buffers[position]
            if buffer is None:
                continue
            count, sums = buffer.take(loaded, self._fill, self._target.shape if self._digest else None)
            with self._lock:
                if buffer.arrived(count, sums):
                    complete.append(buffer)
        return complete

    def _make_place(self, ranges: tuple[tuple[int, int], ...]) -> _Place:
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
        return _Place(
            shape,
            tuple(cuts),
            lengths,
            (_ints(shape), _ints([cut for one in cuts for cut in one]), _ints([n for one in lengths for n in one])),
            *(many.ravel().tolist() for many in (numbers, elements, sizes)),
        )


def _ints(values: Sequence[int]) -> Ints:
    """As the compiled loop wants them, which asks for their address also where there are none."""
    return np.array(values or [0], np.int64)


def take(window: Window, completed: Ints, count: int) -> list[Buffer]:
    """The buffers that the compiled loop has listed."""
    return [buffer for buffer in (window.buffers[at] for at in completed[:count].tolist()) if buffer is not None]
