"""Overlap: how boxes in memory and objects on disk meet along one axis.

Costs of a pass are products of per-axis sums over all pairs (memory block, object) that meet ::

    memory   ├────────┼────────┼────────┤
    objects  ├─────┼─────┼─────┼─────┼──┄┄┄      pairs: 7, of which whole: 3
                whole cut+cut whole ...

Both sides repeat, so one joint period is counted and multiplied; blocks are not enumerated. If one side has few
blocks and the other very many, the same is done between the cuts of the side with few.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import lcm

import numpy as np

from reblock.geometry.axis import Axis, Ints
from reblock.geometry.regular import count_regular

#: Up to this many blocks, counting each of them is fastest.
QUICK_CUTS = 1 << 12
#: The largest integer of numpy.
LARGEST_INT = 2**63 - 1
#: Up to this many blocks, counting all of them at once is faster than going stretch by stretch.
LISTED_CUTS = 1 << 17


@dataclass(frozen=True, slots=True)
class Overlap:
    """Sums over all pairs (memory block, object) that meet along one axis."""

    whole: int
    """Pairs that touch all of the object."""
    cut: int
    """Pairs that touch a part of the object."""
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
    """Count the pairs of memory blocks and objects; `units=None` means that single elements can be read."""
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


@lru_cache(maxsize=64)
def stretches(*axes: Axis) -> tuple[int, Ints, Ints]:
    """A period, and the bounds of stretches in which every axis repeats with it or has a cut only at the start.

    Axes with few blocks are cut into stretches; axes with many determine the period. A block that extends beyond its
    axis shares no stretch with other blocks.
    """
    period, ends = 1, [0, axes[0].length]
    cuts: list[Ints] = []
    for axis in axes:
        if axis.count <= QUICK_CUTS or axis.repeats < 2:
            cuts.append(axis.cuts())
        else:
            period = lcm(period, axis.period)
            cuts += [axis.cuts(0, axis.middle[0]), axis.cuts(axis.middle[1])]
            ends += [axis.middle[0], axis.start(1), axis.start(axis.count - 1)]
    marks = np.sort(np.concatenate([np.array(ends, np.int64), *cuts]))
    marks = marks[np.diff(marks, prepend=-1) != 0]
    return period, marks[:-1], marks[1:]


def _count_stretches(memory: Axis, objects: Axis, units: Axis | None) -> Overlap:
    """Count each memory block, or go stretch by stretch if there are too many."""
    if memory.count <= LISTED_CUTS:
        return _count(memory.cuts(), memory, objects, units)
    return _count_regular(memory, objects, units) or _by_stretches(memory, objects, units)


def _by_stretches(memory: Axis, objects: Axis, units: Axis | None) -> Overlap:
    """Count between the cuts of the axes with few cuts, period by period of the axes with many."""
    period, low, high = stretches(memory, objects, objects if units is None else units)
    # A period longer than the axis never repeats, and may exceed numpy's integers.
    period = min(period, memory.length)
    repeats = np.maximum((high - low - memory.largest) // period, 0)
    edges, _ = memory.cuts_between(low + repeats * period, high)
    inner, owner = memory.cuts_between(low, low + np.where(repeats, period, 0))
    return _count(edges, memory, objects, units) + _count(inner, memory, objects, units, repeats[owner])


def _count_regular(memory: Axis, objects: Axis, units: Axis | None) -> Overlap | None:
    """Count regular axes: in closed form up to the last object, then the rest separately."""
    steps = [axis.step for axis in (memory, objects, objects if units is None else units)]
    block, stored, unit = steps
    # The step of an axis with one block does not give its stored length.
    if not (block and stored and unit) or objects.count < 2 or objects.lead or (units is not None and units.lead):
        return None
    if stored % unit:
        return None
    last = min(objects.start(objects.count - 1), objects.length if units is None else units.start(units.count - 1))
    many = min(last // block, memory.count - 1)
    counted = count_regular(many, block, stored, None if units is None else unit)
    if counted is None:
        return None
    if memory.count - many <= LISTED_CUTS:
        return Overlap(*counted) + _count(memory.cuts(many * block), memory, objects, units)
    rest = (many * block, memory.length)
    cropped = None if units is None else units.crop(*rest)
    return Overlap(*counted) + _by_stretches(memory.crop(*rest), objects.crop(*rest), cropped)


def _clean(memory: Axis, *stored: Axis) -> tuple[int, int]:
    """The interval in which everything repeats and no memory block reaches a block that extends beyond its axis."""
    low, high = memory.middle
    for axis in stored:
        low, high = max(low, axis.middle[0]), min(high, axis.middle[1])
        if axis.count and axis.lead:
            low = max(low, axis.start(1))
        if axis.count and axis.trail:
            high = min(high, axis.start(axis.count - 1))
    return low, high - memory.largest


def _count(starts: Ints, memory: Axis, objects: Axis, units: Axis | None, repeats: Ints | None = None) -> Overlap:
    """Count the pairs of the memory blocks with these starts, each `repeats` times or once."""
    if not starts.size:
        return Overlap(0, 0, 0, 0)
    return Overlap(*(_sum(numbers, repeats) for numbers in overlap_each(starts, memory, objects, units)))


def overlap_each(starts: Ints, memory: Axis, objects: Axis, units: Axis | None) -> tuple[Ints, Ints, Ints, Ints]:
    """The fields of `Overlap` for each of the memory blocks with these starts."""
    ends = memory.starts(memory.indices(starts) + 1)
    first, last = objects.indices(starts), objects.indices(ends - 1)
    if units is None:
        begins, stops = starts, ends
        touched = ends - starts
    else:
        unit_first, unit_last = units.indices(starts), units.indices(ends - 1)
        begins, stops = _stored_bounds(units, unit_first, unit_last)
        touched = unit_last - unit_first + 1
    object_begins, object_stops = _stored_bounds(objects, first, last)
    low = first + (object_begins < begins)
    high = last - (object_stops > stops)
    whole = np.maximum(high - low + 1, 0)
    return whole, last - first + 1 - whole, touched, stops - begins


def _sum(numbers: Ints, repeats: Ints | None) -> int:
    """The sum, even if it exceeds numpy's integers, as for long objects that many blocks meet."""
    times = 1 if repeats is None else int(np.max(repeats))
    if int(np.max(numbers)) * times <= LARGEST_INT // numbers.size:
        return int(np.sum(numbers if repeats is None else numbers * repeats))
    if repeats is None:
        return sum(numbers.tolist())
    return sum(number * times for number, times in zip(numbers.tolist(), repeats.tolist(), strict=True))


def _stored_bounds(axis: Axis, first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """The stored start of each first block and the stored end of each last block."""
    begins = axis.starts(first) - np.where(first == 0, axis.lead, 0)
    stops = axis.starts(last + 1) + np.where(last == axis.count - 1, axis.trail, 0)
    return begins, stops
