"""How the boxes in memory and the objects on disk meet along one axis.

Costs of a pass are products of per-axis sums over all pairs (memory block, object) that meet ::

    memory   ├────────┼────────┼────────┤
    objects  ├─────┼─────┼─────┼─────┼──┄┄┄      pairs: 7, of which whole: 3
                whole cut+cut whole ...

Both sides repeat, so one joint period is looked at and multiplied; nothing is enumerated block by block. Where
one side has few blocks and the other very many, the same is done between the cuts of the few.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import lcm

import numpy as np

from reblock.geometry.axis import Axis, Ints

#: Blocks up to which it is quickest to look at each of them.
QUICK_CUTS = 1 << 12
#: The largest integer that numpy adds up.
LARGEST_INT = 2**63 - 1
#: Blocks up to which looking at each of them at once beats going through stretches one by one.
LISTED_CUTS = 1 << 17


@dataclass(frozen=True, slots=True)
class Overlap:
    """Sums over all pairs (memory block, object) that meet along one axis."""

    whole: int
    """Pairs that touch all of the object."""
    cut: int
    """Pairs that touch a part of it."""
    touched: int
    """Units touched (elements where units are elements)."""
    length: int
    """Length of the units touched, in elements, overhang included."""

    @property
    def pairs(self) -> int:
        return self.whole + self.cut

    def __add__(self, other: Overlap) -> Overlap:
        return Overlap(
            self.whole + other.whole,
            self.cut + other.cut,
            self.touched + other.touched,
            self.length + other.length,
        )

    def times(self, factor: int) -> Overlap:
        """The same pairs met `factor` times."""
        return Overlap(self.whole * factor, self.cut * factor, self.touched * factor, self.length * factor)


@lru_cache(maxsize=4096)
def overlap(memory: Axis, objects: Axis, units: Axis | None = None) -> Overlap:
    """Count the pairs of memory blocks and objects; `units=None` means that any element can be read."""
    stored = objects if units is None else units
    low, high = _clean(memory, objects, stored)
    period = lcm(memory.period or 1, objects.period or 1, stored.period or 1)
    repeats = max((high - low) // period, 0)
    if repeats < 2 or memory.index(low + period) - memory.index(low) > QUICK_CUTS:
        return _count_stretches(memory, objects, units)
    stop = low + repeats * period
    edges = np.concatenate([memory.cuts(0, low), memory.cuts(stop)])
    inner = memory.cuts(low, low + period)
    return _count(edges, memory, objects, units) + _count(inner, memory, objects, units).times(repeats)


def stretches(*axes: Axis) -> tuple[int, list[tuple[int, int]]]:
    """A period, and the stretches in which every axis repeats with it or has no cut but at the start.

    Axes of few blocks are cut into stretches, axes of many give the period. No block that sticks out shares a
    stretch with blocks that do not.
    """
    period, bounds = 1, {0, axes[0].length}
    for axis in axes:
        if axis.count <= QUICK_CUTS or axis.repeats < 2:
            bounds.update(axis.cuts().tolist())
        else:
            period = lcm(period, axis.period)
            bounds.update((*axis.cuts(0, axis.middle[0]).tolist(), *axis.cuts(axis.middle[1]).tolist()))
            bounds.update((axis.middle[0], axis.start(1), axis.start(axis.count - 1)))
    marks = sorted(bounds)
    return period, list(pairwise(marks))


def _count_stretches(memory: Axis, objects: Axis, units: Axis | None) -> Overlap:
    """Look at each memory block, or stretch by stretch where they are too many."""
    if memory.count <= LISTED_CUTS:
        return _count(memory.cuts(), memory, objects, units)
    period, parts = stretches(memory, objects, objects if units is None else units)
    edges, total = [], Overlap(0, 0, 0, 0)
    for low, high in parts:
        repeats = max((high - low - memory.largest) // period, 0)
        edges.append(memory.cuts(low + repeats * period, high))
        if repeats:
            total += _count(memory.cuts(low, low + period), memory, objects, units).times(repeats)
    return total + _count(np.concatenate(edges), memory, objects, units)


def _clean(memory: Axis, *stored: Axis) -> tuple[int, int]:
    """Where everything repeats and no memory block reaches an end that sticks out."""
    low, high = memory.middle
    for axis in stored:
        low, high = max(low, axis.middle[0]), min(high, axis.middle[1])
        if axis.count and axis.lead:
            low = max(low, axis.start(1))
        if axis.count and axis.trail:
            high = min(high, axis.start(axis.count - 1))
    return low, high - memory.largest


def _count(starts: Ints, memory: Axis, objects: Axis, units: Axis | None) -> Overlap:
    if not starts.size:
        return Overlap(0, 0, 0, 0)
    ends = memory.starts(memory.indices(starts) + 1)
    first, last = objects.indices(starts), objects.indices(ends - 1)
    if units is None:
        begins, stops = starts, ends
        touched = _sum(ends - starts)
    else:
        unit_first, unit_last = units.indices(starts), units.indices(ends - 1)
        begins, stops = _stored_bounds(units, unit_first, unit_last)
        touched = _sum(unit_last - unit_first + 1)
    object_begins, object_stops = _stored_bounds(objects, first, last)
    low = first + (object_begins < begins)
    high = last - (object_stops > stops)
    whole = _sum(np.maximum(high - low + 1, 0))
    pairs = _sum(last - first + 1)
    return Overlap(whole, pairs - whole, touched, _sum(stops - begins))


def _sum(numbers: Ints) -> int:
    """The sum, also where it is larger than the integers of numpy: long objects that many blocks meet."""
    if int(numbers.max()) <= LARGEST_INT // numbers.size:
        return int(numbers.sum())
    return sum(numbers.tolist())


def _stored_bounds(axis: Axis, first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Stored start of each first block and stored end of each last one."""
    begins = axis.starts(first) - np.where(first == 0, axis.lead, 0)
    stops = axis.starts(last + 1) + np.where(last == axis.count - 1, axis.trail, 0)
    return begins, stops
