"""The contiguous runs of a stored object that a box covers, and pieces of a box in disk order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from reblock.geometry.axis import Ints
from reblock.geometry.box import Box


def runs(stored: Box, part: Box, order: Sequence[int]) -> tuple[Ints, int]:
    """Offsets of the contiguous runs of `part` inside `stored`, in elements and in disk order, and their length.

    All runs of a box have the same length. `order` lists the axes from the outermost to the innermost on disk.
    """
    sizes = [stored.stop[a] - stored.start[a] for a in order]
    firsts = [part.start[a] - stored.start[a] for a in order]
    extents = [part.stop[a] - part.start[a] for a in order]
    length, place = 1, len(sizes)
    while place:
        place -= 1
        length *= extents[place]
        if extents[place] != sizes[place]:
            break
    strides = [prod(sizes[k + 1 :]) for k in range(len(sizes))]
    offsets = np.array([sum(f * s for f, s in zip(firsts, strides, strict=True))], np.int64)
    for axis in range(place):
        offsets = np.add.outer(offsets, np.arange(extents[axis], dtype=np.int64) * strides[axis]).ravel()
    return offsets, length


def pieces(box: Box, order: Sequence[int], limit: int) -> Iterator[Box]:
    """Cut a box into boxes of at most `limit` elements, in disk order."""
    if box.size <= limit or not order:
        yield box
        return
    axis = order[0]
    inner = box.size // (box.stop[axis] - box.start[axis])
    step = max(limit // inner, 1)
    for start in range(box.start[axis], box.stop[axis], step):
        part = Box(
            (*box.start[:axis], start, *box.start[axis + 1 :]),
            (*box.stop[:axis], min(start + step, box.stop[axis]), *box.stop[axis + 1 :]),
        )
        yield from pieces(part, order[1:], limit)
