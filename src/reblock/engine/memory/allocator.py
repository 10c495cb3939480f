"""Claims: memory for write boxes, taken in plan order when a read box first touches them.

Whole boxes are taken at once, and their memory is used again. Where the plan has no room for that, they are taken in
slabs ::

    read boxes    │     1     │     2     │     3     │      along the outermost axis of a box's memory
    write boxes   │       A       │       B       │
    taken at 1    ├───────────┤
    taken at 2                ├───┼───────┤                  B as far as it is touched; A is complete and goes
    taken at 3                            ├───────┤
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from time import perf_counter

import numpy as np

from reblock.engine.memory.buffers import Buffers, slabs
from reblock.engine.pipeline.scatter import Scatter, Window
from reblock.engine.pipeline.writers.target import Buffer, Writer
from reblock.geometry import Box
from reblock.geometry.axis import Ints
from reblock.model import Execution
from reblock.model.accounting import with_pages, with_room

#: Boxes that memory is taken for before anybody looks whether the run is cancelled.
MOST_CLAIMS = 1 << 13


class Claims:
    """Takes whole boxes."""

    def __init__(self, limit: int, scatter: Scatter, writer: Writer, finished: Collection[int]) -> None:
        self._with_room = partial(with_room, target=writer.store.layout)
        self.buffers = Buffers(limit, self._with_room)
        """Where memory comes from, and goes back to."""
        self.open: dict[int, Buffer] = {}
        """Write boxes that have some."""
        self.waited = 0.0
        """Seconds that it took until there was some."""
        self._scatter, self._writer, self._finished = scatter, writer, finished

    def window(self, box: Box) -> Window:
        """The write boxes that a read box meets."""
        return self._scatter.window(box, self.open)

    def claim(self, window: Window, positions: Sequence[int], *, wait: bool = False) -> int:
        """Take memory for the write boxes that need some, as far as there is any; says for how many that is settled.

        With `wait` it is settled for the first one at least.
        """
        needed = [
            (place, position)
            for place, position in enumerate(positions)
            if window.needs[position] and window.numbers[position] not in self._finished
        ]
        some = [position for _, position in needed]
        taken = self._take(window, some)
        if wait and needed and needed[0][0] == 0 and not taken:
            began = perf_counter()
            taken = self._take(window, some, wait=True)
            self.waited += perf_counter() - began
        return needed[taken][0] if taken < len(needed) else len(positions)

    def claim_all(self, window: Window, box: Box) -> bool:
        """Take memory for all write boxes that a box meets; says whether anything of it is wanted."""
        positions = list(window.touching(box)) if box.size else []
        claimed = 0
        while claimed < len(positions):
            # Who asks this is told to stop, where the run is cancelled; the next claim then raises.
            self.buffers.idle()
            claimed += self.claim(window, positions[claimed : claimed + MOST_CLAIMS], wait=True)
        return any(window.buffers[position] is not None for position in positions)

    def _take(self, window: Window, positions: list[int], *, wait: bool = False) -> int:
        """Take memory for the first of some boxes; says for how many."""
        memories = self.buffers.take([window.needs[position] for position in positions], wait=wait)
        for position, memory in zip(positions, memories, strict=False):
            number = window.numbers[position]
            buffer = self.open[number] = self._writer.buffer(number, window.elements[position], memory)
            window.put(position, buffer)
        return len(memories)


class Slabs(Claims):
    """Takes boxes slab by slab along some axes."""

    def __init__(
        self, limit: int, scatter: Scatter, writer: Writer, finished: Collection[int], axes: Collection[int]
    ) -> None:
        super().__init__(limit, scatter, writer, finished)
        self._axes = axes

    def window(self, box: Box) -> Window:
        window = super().window(box)
        needs: Ints = np.full((), self._writer.store.layout.itemsize, np.int64)
        for axis, (cuts, lengths) in enumerate(zip(window.cuts, window.lengths, strict=True)):
            starts, stops, stored = np.array(cuts[:-1]), np.array(cuts[1:]), np.array(lengths)
            if axis in self._axes:
                touched = np.minimum(stops, box.stop[axis]) - np.maximum(starts, box.start[axis])
                # What sticks out goes with the last element.
                along = touched + (stored - (stops - starts)) * (stops <= box.stop[axis])
            else:
                along = stored * (starts >= box.start[axis])
            needs = np.multiply.outer(needs, along)
        window.needs = [self._with_room(with_pages(size)) for size in needs.ravel().tolist()]
        return window

    def _take(self, window: Window, positions: list[int], *, wait: bool = False) -> int:
        sizes = [window.needs[position] for position in positions]
        count = self.buffers.count(sizes, wait=wait)
        for position, counted in zip(positions[:count], sizes, strict=False):
            number = window.numbers[position]
            buffer = self.open.get(number)
            if buffer is None:
                size = window.sizes[position]
                memory = slabs(size, self._with_room(size))
                buffer = self.open[number] = Buffer(self._writer.boxes, number, window.elements[position], memory)
            buffer.memory.count(counted)
            self._writer.pad(buffer, self._slab(buffer, window.box))
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


def claims(how: Execution, scatter: Scatter, writer: Writer, finished: Collection[int]) -> Claims:
    """The claims of a pass: for whole boxes, or for slabs of them."""
    if how.slab_axes:
        return Slabs(how.buffer_bytes, scatter, writer, finished, how.slab_axes)
    return Claims(how.buffer_bytes, scatter, writer, finished)
