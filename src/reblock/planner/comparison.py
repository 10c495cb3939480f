"""Comparison: the boxes in which two arrays are read to be compared, each array once, inside a budget."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from math import prod
from typing import NamedTuple

from reblock.cost.seeks import traffic
from reblock.errors import InfeasibleError
from reblock.geometry import Grid
from reblock.model import PIECE_BYTES, Access, Layout
from reblock.model.accounting import LEAST_READING_BYTES
from reblock.units import format_size


class Comparison(NamedTuple):
    """How two arrays are compared."""

    boxes: Grid
    """Boxes that are read from both arrays."""
    reading_bytes: int
    """Memory that reading a box may take beside its elements."""


def plan_comparison(
    one: Layout, two: Layout, least_bytes: tuple[int, int], memory_bytes: int, threads: int = 1
) -> Comparison:
    """Boxes that fit into memory and make both sides read the fewest bytes.

    Two boxes are held while one of them is read, which takes `least_bytes` of each side at the least, and as much for
    each of several threads if there is room.
    """
    memory, least = max(memory_bytes, LEAST_READING_BYTES), max(least_bytes)
    # With boxes that are much smaller than chunks, each chunk would be decoded again and again.
    sides = zip((one, two), least_bytes, strict=True)
    largest = max(layout.unit_bytes * bool(reading) for layout, reading in sides)
    needed = least + min(largest, 2 * one.nbytes)
    if needed > memory:
        raise InfeasibleError(
            f"comparing chunks of {format_size(largest)} does not fit a memory budget of {format_size(memory_bytes)} "
            f"({memory_bytes} bytes): needs at least {format_size(needed)} ({needed} bytes)",
            needs_memory_bytes=needed,
        )
    reading = max(least, min(memory // 4, max(PIECE_BYTES, least) * threads))
    return Comparison(_cheapest(one, two, max((memory - reading) // (2 * one.itemsize), 1)), reading)


def _cheapest(one: Layout, two: Layout, limit: int) -> Grid:
    """The cheapest boxes of at most `limit` elements."""
    shape = one.shape
    if prod(shape) <= limit:
        return Grid.whole(shape)
    orders = list(permutations(range(len(shape)), min(len(shape), 3)))
    grids = [_slabs(shape, order, limit) for order in orders]
    grids += [_slabs(shape, order, limit, side.units) for order in orders for side in (one, two)]
    return min(grids, key=lambda grid: _bytes_read(grid, one) + _bytes_read(grid, two))


def _bytes_read(grid: Grid, layout: Layout) -> int:
    """Bytes that reading every box of a grid takes."""
    return traffic(grid, layout, Access.RUNS if layout.partial_reads else Access.UNITS).bytes


def _slabs(shape: tuple[int, ...], order: Sequence[int], limit: int, units: Grid | None = None) -> Grid:
    """Boxes of at most `limit` elements, cut along the axes of an order, the first one first.

    With units, cuts lie between them unless a box would be empty.
    """
    chunk = [max(n, 1) for n in shape]
    for axis in [*order, *(a for a in range(len(shape)) if a not in order)]:
        wanted = max(min(chunk[axis], limit * chunk[axis] // prod(chunk)), 1)
        step = 1 if units is None else units.axes[axis].largest_stored
        if wanted < chunk[axis]:
            chunk[axis] = wanted // step * step or wanted
    return Grid.of(shape, chunk)
