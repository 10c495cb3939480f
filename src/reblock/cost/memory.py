"""The exact peak of memory, by recursion over the axes of a sweep.

A sweep holds *read so far − written so far* at step p. Both are prefix counts in lexicographic order. For axis d and
its read block p, let r(p) be the block's length, w(p) the length of the write blocks that p completes, R(p) and W(p)
their sums before p, and V the volume of the axes inside d. Then ::

    peak_d(α, β) = max over p of (α·R(p) − β·W(p))·V + peak_{d+1}(α·r(p), β·w(p))
    innermost      max over p of (α·R(p) − β·W(p)) + α·r(p)
    answer         peak_0(1, 1)

      R  ├───────┼───────┼───────┤        at the second read block: R = 8, r = 8,
      W  ├───────────┼───────────┤        W = 0 before it, w = 12 completed by it

Only distinct pairs (r, w) recurse, and of the positions that share a pair only the corners of their hull can be the
maximum. Along a periodic axis the terms are linear in the number of periods, so the first and the last two periods are
enough. With a task grid, the peak is the largest over the classes of tasks.

The engine's allocation follows the same recursion with r(p) = the length of write blocks first touched at p: it keeps
one buffer per write box, from its first element to its last. If memory does not allow that, it allocates a write box in
slabs, when a read box first touches them: then r(p) is the block's own length along the outer axes of a write box's
memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from math import lcm, prod

import numpy as np

from reblock.cost.flight import (
    SMALL_PIECE_BYTES,
    flight_bytes,
    least_flight_bytes,
    least_piece_bytes,
    units_in_flight,
    visit_bytes,
)
from reblock.errors import Refused
from reblock.geometry import Axis
from reblock.geometry.axis import Ints
from reblock.geometry.overlap import QUICK_CUTS, stretches
from reblock.model import PIECE_BYTES, Access, Layout, Pass, Plan
from reblock.model.accounting import array_bytes, with_pages, with_records, with_room, without_records

#: The most classes of tasks along one axis, and the most combinations of them; a task grid with more is refused.
MANY_CLASSES = 4096

#: The most different steps along one axis; a read grid with more is refused.
MANY_STEPS = 1 << 18

#: Bytes of write buffers for boxes that are complete and not yet written, if the budget allows.
LEAST_BEHIND, MOST_BEHIND = 16 << 20, 1 << 30
#: Up to this peak, there is a box for every unit in flight.
LITTLE_PEAK = 192 << 20

#: Slabs are cut along an axis only if a write box has at least this many contiguous bytes inside it, because a slab
#: ends in the middle of a page, once for each such stretch.
SLAB_BYTES = 256 << 10

#: Up to this many points, Python is faster than numpy.
FEW_POINTS = 64

Points = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Steps:
    """One axis of one class of tasks: how much each read block adds and completes."""

    volume: int
    """Length of the axis in the task."""
    groups: tuple[tuple[int, int, Points], ...]
    """For each distinct (r, w): the pairs (R, W) before its read blocks that can be the maximum."""
    ends: Points
    """Pairs (R + r, W) that can be the maximum if this axis is the innermost."""


def held_elements(sweep: Pass) -> int:
    """The most elements read and not yet written at any step (the papers' count)."""
    return _peak(sweep, sweep.order, [0] * len(sweep.order))


def buffer_elements(sweep: Pass, target: Layout, slabs: Collection[int] = ()) -> int:
    """The most elements in write buffers at any step, if these are allocated in slabs along some axes."""
    return _peak(sweep, slabs, _trails(sweep, target))


def buffer_bytes(sweep: Pass, target: Layout, room: int | None = None) -> int:
    """The most bytes of write buffers at any step: of whole boxes, or of slabs if whole boxes do not fit."""
    slabs = () if room is None else slab_axes(sweep, target, room)
    return with_records(boxes_bytes(sweep, target, slabs), sweep.writes.count, target)


def slab_axes(sweep: Pass, target: Layout, room: int) -> tuple[int, ...]:
    """The axes along which write boxes are allocated in slabs; none if whole boxes fit or take no more."""
    whole = boxes_bytes(sweep, target)
    axes = long_axes(sweep.writes.largest, target) if whole > without_records(room, sweep.writes.count, target) else ()
    return axes if axes and boxes_bytes(sweep, target, axes) < whole else ()


def boxes_bytes(sweep: Pass, target: Layout, slabs: tuple[int, ...] = ()) -> int:
    """The most bytes of write boxes at any step, whole or in slabs, without their bookkeeping."""
    size = max(buffer_elements(sweep, target, slabs) * target.itemsize, least_box_bytes(target))
    return with_room(with_pages(size) if slabs else size, target)


def least_box_bytes(target: Layout) -> int:
    """The least that counts for a write box: a page, or an object if that is smaller.

    Smaller boxes save no useful memory, and cost a seek for every few elements.
    """
    return min(SMALL_PIECE_BYTES, prod(target.objects.largest) * target.itemsize)


def long_axes(box: Sequence[int], target: Layout) -> tuple[int, ...]:
    """The outer axes of a box's memory that can be cut into slabs."""
    axes = target.order
    return tuple(
        axis for place, axis in enumerate(axes) if prod(box[a] for a in axes[place:]) * target.itemsize >= SLAB_BYTES
    )


def _trails(sweep: Pass, target: Layout) -> list[int]:
    """The overhang of the last write boxes beyond the array, axis by axis."""
    return [axis.trail if sweep.write_access is Access.UNITS else 0 for axis in target.objects.axes]


def _longest(axis: Axis, trail: int) -> int:
    """The longest block of an axis, including the overhang of the last one."""
    return max(axis.largest, axis.length - axis.start(axis.count - 1) + trail) if axis.count else 0


def _peak(sweep: Pass, slabs: Collection[int], trails: Sequence[int]) -> int:
    """The peak if write boxes take memory as elements arrive along some axes, and at once along the others."""
    grids = (sweep.reads.axes, sweep.writes.axes, sweep.tasks.axes)
    return _peak_of(tuple((*(axes[a] for axes in grids), trails[a], a not in slabs) for a in sweep.order))


@lru_cache(maxsize=4096)
def _peak_of(axes: tuple[tuple[Axis, Axis, Axis, int, bool], ...]) -> int:
    """The same from the read, write and task blocks, the overhang and whether blocks are whole, axis by axis."""
    classes = [_classes(*axis[:4], allocated=axis[4]) for axis in axes]
    if not all(classes):
        return 0
    if prod(map(len, classes)) > MANY_CLASSES:
        raise Refused(f"tasks of more than {MANY_CLASSES:,} different kinds: cut tasks where read and write grids meet")
    return max(_sweep_peak(combination) for combination in product(*classes)) if classes else 1


def _sweep_peak(axes: Sequence[Steps]) -> int:
    """The recursion, for one class of tasks."""
    volumes = [prod(axis.volume for axis in axes[place + 1 :]) for place in range(len(axes))]
    known: dict[tuple[int, int, int], int] = {}

    def peak(place: int, alpha: int, beta: int) -> int:
        if place == len(axes) - 1:
            return max(alpha * r - beta * w for r, w in axes[place].ends)
        key = (place, alpha, beta)
        if key not in known:
            known[key] = max(
                max(alpha * r - beta * w for r, w in points) * volumes[place]
                + peak(place + 1, alpha * brought, beta * completed)
                for brought, completed, points in axes[place].groups
            )
        return known[key]

    return peak(0, 1, 1)


@lru_cache(maxsize=4096)
def _classes(reads: Axis, writes: Axis, tasks: Axis, trail: int, *, allocated: bool) -> tuple[Steps, ...]:
    """The different sweeps that tasks make along one axis."""
    if reads.count == tasks.count:
        # One read block per task: everything arrives at once, so the longest task is the worst.
        longest = _longest(tasks, trail)
        return (Steps(longest, ((longest, longest, ((0, 0),)),), ((longest, 0),)),) if longest else ()
    found: dict[Steps, None] = {}
    for start, stop in _distinct_tasks(reads, writes, tasks):
        found[_steps(reads, writes, start, stop, trail if stop == tasks.length else 0, allocated=allocated)] = None
    return tuple(found)


def axis_carry(reads: Axis, writes: Axis, tasks: Axis, trail: int, *, allocated: bool) -> tuple[int, int]:
    """Along one axis: the most that a read block adds, and the most that is carried to the next."""
    groups = [group for steps in _classes(reads, writes, tasks, trail, allocated=allocated) for group in steps.groups]
    brought = max((r for r, _, _ in groups), default=0)
    return brought, max((before - done for _, _, points in groups for before, done in points), default=0)


def _distinct_tasks(reads: Axis, writes: Axis, tasks: Axis) -> list[tuple[int, int]]:
    """Intervals of tasks that include every kind of task."""
    if not tasks.count:
        return []
    axes = (reads, writes, tasks)
    low, high = max(axis.middle[0] for axis in axes), min(axis.middle[1] for axis in axes)
    period = lcm(*(axis.period or 1 for axis in axes))
    repeats = max((high - low - tasks.largest) // period, 0)
    if repeats < 2:
        cuts = tasks.cuts()
    else:
        cuts = np.concatenate([tasks.cuts(0, low + period), tasks.cuts(low + repeats * period)])
    ends = tasks.starts(tasks.indices(cuts) + 1)
    # Of the tasks that read one block, only the longest matters: memory is proportional to its length.
    keep = reads.indices(ends) - reads.indices(cuts) > 1
    keep[np.argmax(np.where(keep, 0, ends - cuts))] = keep[-1] = True
    cuts, ends = cuts[keep], ends[keep]
    if cuts.size > MANY_CLASSES:
        raise Refused(f"more than {MANY_CLASSES:,} different tasks along one axis: cut tasks where the grids meet")
    return list(zip(cuts.tolist(), ends.tolist(), strict=True))


def _steps(reads: Axis, writes: Axis, start: int, stop: int, trail: int, *, allocated: bool) -> Steps:
    """Prefix sums of one task's sweep along one axis, reduced to those that can be the maximum."""
    begins = _sampled(reads, writes, start, stop)
    if begins.size > MANY_STEPS:
        raise Refused(
            f"more than {MANY_STEPS:,} different steps along one axis: cut tasks, or read where the grids meet"
        )
    ends = reads.starts(reads.indices(begins) + 1)
    written, done = writes.floors(begins), writes.floors(ends)
    brought, after = (writes.ceils(begins), writes.ceils(ends)) if allocated else (begins, ends)
    if trail:
        brought, after, written, done = (a + trail * (a == stop) for a in (brought, after, written, done))
    groups = _grouped(after - brought, done - written, brought - start, written - start)
    ahead = [(before + r, done) for (r, _), points in groups.items() for before, done in points]
    return Steps(
        stop - start + trail,
        tuple((r, w, _hull(points)) for (r, w), points in groups.items()),
        _hull(ahead),
    )


def _grouped(
    brought: Ints, completed: Ints, before: Ints, written: Ints
) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """For each distinct (r, w), the points (R, W) before its read blocks that can be the maximum."""
    groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
    if brought.size <= FEW_POINTS:
        for r, w, *point in zip(*(a.tolist() for a in (brought, completed, before, written)), strict=True):
            groups.setdefault((r, w), []).append((point[0], point[1]))
        return groups
    order = np.lexsort((written, -before, completed, brought))
    brought, completed, before, written = (a[order] for a in (brought, completed, before, written))
    borders = np.flatnonzero((np.diff(brought) != 0) | (np.diff(completed) != 0)) + 1
    for first, last in pairwise([0, *borders.tolist(), brought.size]):
        key = int(brought[first]), int(completed[first])
        groups[key] = _thinned(before[first:last], written[first:last])
    return groups


def _thinned(before: Ints, written: Ints) -> list[tuple[int, int]]:
    """Points, the longest R first, without most of those inside their hull; vectorised."""
    lower = np.minimum.accumulate(written)
    keep = np.append(True, written[1:] < lower[:-1])
    x, y = before[keep], written[keep]
    while x.size > FEW_POINTS:
        # Products may exceed 64 bits; a point that rounding makes doubtful is kept.
        ahead = (x[1:-1] - x[:-2]).astype(float) * (y[2:] - y[:-2])
        behind = (y[1:-1] - y[:-2]).astype(float) * (x[2:] - x[:-2])
        keep = np.concatenate([[True], ahead < behind * (1 + 1e-12), [True]])
        if keep.all():
            break
        x, y = x[keep], y[keep]
    return list(zip(x.tolist(), y.tolist(), strict=True))


def _sampled(reads: Axis, writes: Axis, start: int, stop: int) -> Ints:
    """Starts of the read blocks of a task: all of them, or the first and the last two periods.

    The last read block of the repeated part may reach into the tail of the write grid and complete other lengths there
    than earlier blocks, so it is included.
    """
    low, high = max(start, reads.middle[0], writes.middle[0]), min(stop, reads.middle[1], writes.middle[1])
    period = lcm(reads.period or 1, writes.period or 1)
    repeats = max(high - low, 0) // period
    if repeats < 3 or reads.index(low + period) - reads.index(low) > QUICK_CUTS:
        return _sampled_stretches(reads, writes, start, stop)
    return np.concatenate([reads.cuts(start, low + period), reads.cuts(low + (repeats - 2) * period, stop)])


def _sampled_stretches(reads: Axis, writes: Axis, start: int, stop: int) -> Ints:
    """All of them, or, if there are too many, a selection between the cuts of a write grid with few cuts."""
    if reads.index(stop - 1) - reads.index(start) <= QUICK_CUTS:
        return reads.cuts(start, stop)
    period, low, high = stretches(reads, writes)
    period = min(period, reads.length)
    inside = (high > start) & (low < stop)
    low, high = np.maximum(low[inside], start), np.minimum(high[inside], stop)
    repeats = (high - low) // period
    # All periods if there are few, otherwise the first and the last two.
    many = repeats >= 3
    ahead, _ = reads.cuts_between(low, np.where(many, low + period, low))
    behind, _ = reads.cuts_between(np.where(many, low + (repeats - 2) * period, low), high)
    return np.sort(np.concatenate([ahead, behind]))


def _hull(points: list[tuple[int, int]]) -> Points:
    """The points that maximise α·x − β·y for some α, β >= 0."""
    best: list[tuple[int, int]] = []
    for x, y in sorted(set(points), key=lambda point: (-point[0], point[1])):
        if best and y >= best[-1][1]:
            continue
        while len(best) > 1 and _above(best[-2], best[-1], (x, y)):
            best.pop()
        best.append((x, y))
    return tuple(best)


def _above(first: tuple[int, int], middle: tuple[int, int], last: tuple[int, int]) -> bool:
    """Whether the middle point is on or inside the line between the others."""
    cross = (middle[0] - first[0]) * (last[1] - first[1]) - (middle[1] - first[1]) * (last[0] - first[0])
    return cross >= 0


def allocated_bytes(sweep: Pass, source: Layout, target: Layout, plan: Plan, memory_bytes: int) -> int:
    """Memory that the engine allocates for a pass of a plan within a budget."""
    flight = planned_flight(sweep, source, target, plan, memory_bytes)
    boxes = granted_bytes(sweep, target, plan.depth, flight, memory_bytes)
    return with_records(boxes, sweep.writes.count, target) + flight


def planned_flight(sweep: Pass, source: Layout, target: Layout, plan: Plan, memory_bytes: int) -> int:
    """Memory beside the write boxes of a pass of a plan, within a budget."""
    depth = flight_depth(sweep, source, target, plan.depth, plan.coders, memory_bytes)
    piece = planned_piece(sweep, source, target, depth, memory_bytes)
    return flight_bytes(sweep, source, target, depth, plan.coders, piece)


def planned_piece(sweep: Pass, source: Layout, target: Layout, depth: int, memory_bytes: int) -> int:
    """The limit for pieces of raw objects: smaller than usual if the write boxes leave no room for a single one."""
    if depth > 1 or source.encoded or source.indexed:
        return PIECE_BYTES
    room = memory_bytes - buffer_bytes(sweep, target, memory_bytes - least_flight_bytes(sweep, source, target))
    least, piece = least_piece_bytes(visit_bytes(sweep, source), source), PIECE_BYTES
    while flight_bytes(sweep, source, target, piece_bytes=piece) > room:
        if piece == least:
            # The papers' count of memory has no place for pieces.
            return PIECE_BYTES
        piece = max(piece // 2, least)
    return piece


def flight_depth(sweep: Pass, source: Layout, target: Layout, depth: int, coders: int, memory_bytes: int) -> int:
    """How many of `depth` requests can be in flight: the write boxes must have room for the elements they bring."""
    wanted = prod(map(min, sweep.reads.largest, source.units.largest)) * target.itemsize
    reading = depth
    while source.encoded and reading > 1:
        units = units_in_flight(sweep, source, reading, coders)
        flight = flight_bytes(sweep, source, target, reading, coders)
        if units * wanted <= granted_bytes(sweep, target, depth, flight, memory_bytes):
            break
        reading = units - 1
    return max(reading, 1)


def granted_bytes(sweep: Pass, target: Layout, depth: int, flight: int, memory_bytes: int) -> int:
    """Memory for write boxes within a budget, beside `flight` bytes of units in flight; bookkeeping is not counted.

    Beside the buffers that it must hold, the engine has some more, so that boxes can still be written while the next
    ones are read: those that two steps complete, between LEAST_BEHIND and MOST_BEHIND; if all of that is little, one
    for each unit in flight; never more than the budget or the whole array, because touching memory for the first time
    costs time.
    """
    room = without_records(memory_bytes - flight, sweep.writes.count, target)
    buffers = boxes_bytes(sweep, target, slab_axes(sweep, target, memory_bytes - flight))
    behind = min(max(behind_bytes(sweep, target), LEAST_BEHIND), MOST_BEHIND)
    box = with_room(prod(map(_longest, sweep.writes.axes, _trails(sweep, target))) * target.itemsize, target)
    if buffers + flight + depth * box <= LITTLE_PEAK:
        behind = max(behind, depth * box)
    behind, room = min(behind, array_bytes(target) - buffers), room - buffers
    if room < behind:
        # Only whole boxes can use the spare memory.
        behind = max(room - room % max(box, 1), 0)
    return buffers + behind


def behind_bytes(sweep: Pass, target: Layout) -> int:
    """Bytes of boxes that wait to be written while others are read: those that two steps complete, or all of them."""
    sides = []
    for *axes, trail in zip(sweep.reads.axes, sweep.writes.axes, sweep.tasks.axes, _trails(sweep, target), strict=True):
        classes = _classes(*axes, trail, allocated=True)
        sides.append(max((w for steps in classes for _, w, _ in steps.groups), default=0))
    return min(with_room(2 * prod(sides) * target.itemsize, target), buffer_bytes(sweep, target))
