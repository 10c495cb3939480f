"""Allocators of write boxes: memory is taken in plan order, when a read box first touches a write box.

A whole box is taken at once, and its memory is reused. Where the budget is too small for that, a box is taken in slabs:

::

    read boxes    │     1     │     2     │     3     │      along the outermost axis of a box's memory
    write boxes   │       A       │       B       │
    taken at 1    ├───────────┤
    taken at 2                ├───┼───────┤                  the touched part of B; A is complete and is freed
    taken at 3                            ├───────┤
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from time import perf_counter

import numpy as np

from reblock.engine.memory.budget import MemoryBudget, SpareMemory, slabs
from reblock.engine.pipeline.boxes import Buffer
from reblock.engine.pipeline.scatter import Scatter, Window
from reblock.engine.pipeline.writers.target import TargetWriter
from reblock.geometry import Box
from reblock.geometry.axis import Ints
from reblock.model import Execution
from reblock.model.accounting import with_pages, with_room

#: Write boxes that get memory in one call, so that the dispatcher can check in between whether the run is cancelled.
MAX_BOXES = 1 << 13


class BufferAllocator:
    """Allocates whole write boxes."""

    def __init__(
        self,
        limit: int,
        scatter: Scatter,
        target: TargetWriter,
        finished: Collection[int],
        spare: SpareMemory | None = None,
    ) -> None:
        """Boxes in `finished` were written by an earlier run, and get no memory. `spare` is that of an earlier pass."""
        self._with_room = partial(with_room, target=target.store.layout)
        self.budget = MemoryBudget(limit, self._with_room, spare)
        """The budget that memory is counted against."""
        self.open: dict[int, Buffer] = {}
        """Write boxes that have memory, by number."""
        self.waited = 0.0
        """Seconds of waiting for memory."""
        self._scatter, self._target, self._finished = scatter, target, finished

    def window(self, box: Box) -> Window:
        """The write boxes that a read box meets."""
        return self._scatter.window(box, self.open)

    def allocate(self, window: Window, positions: Sequence[int], start: int, stop: int, *, wait: bool = False) -> int:
        """Allocate boxes at `positions[start:stop]`, as far as there is memory; returns the first that has none.

        Boxes that have memory already, or need none, are passed over. With `wait`, the first box gets memory in any
        case. One call settles at most MAX_BOXES boxes.
        """
        stop = min(stop, start + MAX_BOXES)
        needed = [
            at
            for at in range(start, stop)
            if window.needs[positions[at]] and window.numbers[positions[at]] not in self._finished
        ]
        some = [positions[at] for at in needed]
        taken = self._take(window, some)
        if wait and needed and needed[0] == start and not taken:
            began = perf_counter()
            taken = self._take(window, some, wait=True)
            self.waited += perf_counter() - began
        return needed[taken] if taken < len(needed) else stop

    def free(self, buffers: Sequence[Buffer]) -> None:
        """Give the memory of boxes that are written back to the budget."""
        for buffer in buffers:
            del self.open[buffer.number]
        self.budget.give([buffer.memory for buffer in buffers])

    def _take(self, window: Window, positions: list[int], *, wait: bool = False) -> int:
        """Take memory for the first of some boxes; returns their number."""
        memories = self.budget.take([window.needs[position] for position in positions], wait=wait)
        for position, memory in zip(positions, memories, strict=False):
            number = window.numbers[position]
            buffer = self.open[number] = self._target.buffer(number, window.elements[position], memory)
            window.put(position, buffer)
        return len(memories)


class SlabAllocator(BufferAllocator):
    """Allocates boxes slab by slab along some axes."""

    def __init__(
        self, limit: int, scatter: Scatter, target: TargetWriter, finished: Collection[int], axes: Collection[int]
    ) -> None:
        super().__init__(limit, scatter, target, finished)
        self._axes = axes

    def window(self, box: Box) -> Window:
        window = super().window(box)
        needs: Ints = np.full((), self._target.store.layout.itemsize, np.int64)
        for axis, (cuts, lengths) in enumerate(zip(window.cuts, window.lengths, strict=True)):
            starts, stops, stored = np.array(cuts[:-1]), np.array(cuts[1:]), np.array(lengths)
            if axis in self._axes:
                touched = np.minimum(stops, box.stop[axis]) - np.maximum(starts, box.start[axis])
                # The overhang goes with the last element.
                along = touched + (stored - (stops - starts)) * (stops <= box.stop[axis])
            else:
                along = stored * (starts >= box.start[axis])
            needs = np.multiply.outer(needs, along)
        window.needs = [self._with_room(with_pages(size)) for size in needs.ravel().tolist()]
        return window

    def _take(self, window: Window, positions: list[int], *, wait: bool = False) -> int:
        sizes = [window.needs[position] for position in positions]
        count = self.budget.count(sizes, wait=wait)
        for position, counted in zip(positions[:count], sizes, strict=False):
            number = window.numbers[position]
            buffer = self.open.get(number)
            if buffer is None:
                size = window.sizes[position]
                memory = slabs(size, self._with_room(size))
                buffer = self.open[number] = Buffer(self._target.boxes, number, window.elements[position], memory)
            buffer.memory.count(counted)
            self._target.pad(buffer, self._slab(buffer, window.box))
            window.put(position, buffer)
        return count

    def _slab(self, buffer: Buffer, read: Box) -> Box:
        """The part of a write box's memory that a read box is the first to touch."""
        box, stored = buffer.box, buffer.stored
        start, stop = list(stored.start), list(stored.stop)
        for axis in self._axes:
            start[axis] = max(box.start[axis], read.start[axis])
            if read.stop[axis] < box.stop[axis]:
                stop[axis] = read.stop[axis]
        return Box(tuple(start), tuple(stop))


def make_allocator(
    how: Execution,
    scatter: Scatter,
    target: TargetWriter,
    finished: Collection[int],
    spare: SpareMemory | None = None,
) -> BufferAllocator:
    """The allocator of a pass: of whole boxes, which may use spare memory, or of slabs of them."""
    if how.slab_axes:
        if spare is not None:
            spare.clear()
        return SlabAllocator(how.buffer_bytes, scatter, target, finished, how.slab_axes)
    return BufferAllocator(how.buffer_bytes, scatter, target, finished, spare)
