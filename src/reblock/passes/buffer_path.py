"""The greedy buffer path: visit buffers one by one such that the cache stays as small as possible.

Draft A (VII.A) sees the order of buffers as a path through a graph: each buffer is visited once, brings its elements
into the cache, and releases the target blocks that it completes. The greedy path goes on with the buffer after which
the cache is smallest ::

    ┌───┬───┬───┐     blocks of the target straddle the buffers of a row: after buffer 1 the greedy
    │ 1 │ 2 │ 3 │     path takes 2, which completes a block, and not 4, which completes none
    ├─┄─┼─┄─┼─┄─┤
    │ 4 │   │   │
    └───┴───┴───┘

A pass reads its buffers in an order of axes, so the path is turned into one: the axis along which the path steps most
often is the innermost. Buffers form a product grid and repeat, so the path through the first few of each axis is
enough. On random grids of two and three axes this order holds less than storage order three times as often as more, and
is the best of all orders in three of four cases; the path itself, which no pass can follow, holds less than the best
order in a third of them.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from math import prod

from reblock.geometry import Axis, Box, Grid
from reblock.model import Index

#: Most buffers that a path is sought through, and blocks of one axis among them.
MAX_BUFFERS, MAX_BLOCKS = 256, 4


def greedy_path(reads: Grid, writes: Grid) -> tuple[list[Index], int]:
    """The greedy path through the boxes of a read grid, and the most elements that are held on it.

    Of buffers after which the cache is equally small, the one that adds most to blocks in the cache comes first, then
    the first in storage order.
    """
    boxes = {index: reads.box(index) for index in reads.indices()}
    blocks = {index: writes.box(index) for index in writes.indices()}
    parts = {
        index: {block: _common(box, blocks[block]) for block in writes.touching(box)} for index, box in boxes.items()
    }
    left = {block: set(reads.touching(box)) for block, box in blocks.items()}
    begun: set[Index] = set()

    def change(buffer: Index) -> tuple[int, int]:
        """How the cache grows with a buffer, and how little that adds to blocks in the cache."""
        done = sum(blocks[block].size for block in parts[buffer] if len(left[block]) == 1)
        return boxes[buffer].size - done, -sum(part for block, part in parts[buffer].items() if block in begun)

    waiting = {buffer: change(buffer) for buffer in boxes}
    path: list[Index] = []
    held = peak = 0
    while waiting:
        buffer = min(waiting, key=lambda one: (waiting[one], one))
        peak = max(peak, held + boxes[buffer].size)
        held += waiting.pop(buffer)[0]
        path.append(buffer)
        for block in parts[buffer]:
            left[block].discard(buffer)
        begun.update(parts[buffer])
        for other in {one for block in parts[buffer] for one in left[block]}:
            waiting[other] = change(other)
    return path, peak


def _common(one: Box, two: Box) -> int:
    """Elements that two boxes share."""
    both = one.intersect(two)
    return 0 if both is None else both.size


def greedy_order(reads: Grid, writes: Grid) -> tuple[int, ...]:
    """The axes in the order of the greedy path, outermost first."""
    return _order(reads.axes, writes.axes)


@lru_cache(maxsize=1024)
def _order(reads: tuple[Axis, ...], writes: tuple[Axis, ...]) -> tuple[int, ...]:
    most = MAX_BLOCKS
    while prod(min(axis.count, most) for axis in reads) > MAX_BUFFERS:
        most -= 1
    ends = [axis.start(min(axis.count, most)) for axis in reads]
    corner = Box((0,) * len(ends), tuple(ends))
    path, _ = greedy_path(Grid(reads).crop(corner), Grid(writes).crop(corner))
    steps = [sum(a[axis] != b[axis] for a, b in pairwise(path)) for axis in range(len(reads))]
    return tuple(sorted(range(len(reads)), key=lambda axis: steps[axis]))
