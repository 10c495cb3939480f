"""Points: what a pass may do along one axis, each with all that its cost takes from that axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from reblock.cost.memory import axis_carry, long_axes
from reblock.errors import Refused
from reblock.geometry import Axis, Overlap, overlap
from reblock.model import Problem
from reblock.passes.common_cuts import common_cuts
from reblock.passes.cuts import countable, joined


@dataclass(frozen=True)
class Point:
    """One axis of a pass, and all that its cost takes from it."""

    read: Axis
    """R on this axis."""
    write: Axis
    """W on this axis."""
    tasks: Axis
    """T on this axis."""
    runs: Overlap
    """Reads by byte runs against the source."""
    units: Overlap
    """Reads by whole units against the source."""
    writes: Overlap
    """Writes against the target."""
    whole: bool
    """Whether target objects are written whole."""
    touched: int
    """Length that the write blocks of one read block take."""
    carry: int
    """Length that is carried from one read block to the next."""
    length: int
    """Length of a task."""
    visit: int
    """Length of the part of an object that one read block meets."""

    def marks(self) -> tuple[int, ...]:
        """What a point should have little of, all told."""
        return (
            self.runs.pairs,
            self.runs.cut,
            self.units.pairs,
            self.units.length,
            self.writes.pairs,
            self.writes.cut,
            self.touched,
            self.carry,
            self.carry and self.length,
            self.length,
        )


class Sides(NamedTuple):
    """One axis of the problem."""

    objects: Axis
    """Of the source."""
    units: Axis
    """Of the source."""
    target: Axis
    """Objects of the target."""


class Rules(NamedTuple):
    """What points of an axis may do."""

    cut: bool
    """Try read lengths below one block."""
    partial_reads: bool
    """The source can be read by byte runs."""
    partial_writes: bool
    """The target can be written by byte runs."""
    held: bool
    """Count memory as elements held, or taken in slabs."""


def points_of(problem: Problem, axis: int, *, cut: bool, slabs: bool) -> list[Point]:
    """Every point of one axis of a problem, with or without read lengths below one block, with or without slabs."""
    source, target = problem.source, problem.target
    sides = Sides(source.objects.axes[axis], source.units.axes[axis], target.objects.axes[axis])
    held = problem.held or (slabs and axis in long_axes(target.objects.largest, target))
    rules = Rules(cut and source.partial_reads, source.partial_reads, target.partial_writes, held)
    return _axis_points(sides, rules)


@lru_cache(maxsize=256)
def _axis_points(sides: Sides, rules: Rules) -> list[Point]:
    """Every point of one axis that is worth a try."""
    inner, objects, out = sides.units.clipped(), sides.objects.clipped(), sides.target.clipped()
    found: dict[tuple[Axis, Axis, Axis], Point] = {}
    for read in dict.fromkeys(_reads(inner, objects, out, cut=rules.cut)):
        if not all(countable(read, other) for other in (inner, objects, out)):
            continue
        for write in dict.fromkeys([out, read.refine(out)] if rules.partial_writes else [out]):
            for tasks in _tasks(read, objects, out):
                shown = (read.refine(tasks), write.refine(tasks), tasks)
                if shown in found or not (rules.partial_writes or shown[1].count == out.count):
                    continue
                try:
                    found[shown] = _point(sides, rules, read, write, tasks)
                except Refused:
                    continue
    return list(found.values())


def _reads(inner: Axis, objects: Axis, out: Axis, *, cut: bool) -> Iterator[Axis]:
    """Read lengths worth a try: runs of source blocks, of target blocks, and parts of them."""
    length = out.length
    yield Axis.single(length)
    for blocks in dict.fromkeys((objects, out, inner)):
        for factor in _factors(blocks.count):
            yield joined(blocks, factor)
        step = blocks.step
        if cut and step and step > 1:
            for part in (2, 3, 4, 8, 16, 64, 256, 1024, step):
                if part <= step:
                    yield Axis.regular(length, -(-step // part))
    yield common_cuts(objects, out)


def _factors(count: int) -> list[int]:
    """How many blocks to join: every number while they are few, then ever coarser steps, and even shares."""
    small = range(1, min(count, 16 if count <= 100 else 6) + 1)
    powers = [1 << k for k in range(3, count.bit_length())]
    shares = [-(-count // k) for k in range(2, 7)]
    return sorted({*small, *powers, *shares} - {count}) if count > 1 else [1]


def _tasks(read: Axis, objects: Axis, out: Axis) -> Iterator[Axis]:
    """Task lengths worth a try: the whole axis, one read block, and wherever nothing is carried across."""
    yield from dict.fromkeys(
        [Axis.single(out.length), read.clipped(), common_cuts(read, out), common_cuts(objects, out)]
    )


def _point(sides: Sides, rules: Rules, read: Axis, write: Axis, tasks: Axis) -> Point:
    reads, writes = read.refine(tasks), write.refine(tasks)
    whole = writes.count == sides.target.count
    trail = sides.target.trail if whole else 0
    touched, carry = axis_carry(reads, writes, tasks, trail, allocated=not rules.held)
    return Point(
        read,
        write,
        tasks,
        overlap(reads, sides.objects, None if rules.partial_reads else sides.units),
        overlap(reads, sides.objects, sides.units),
        overlap(writes, sides.target, None if rules.partial_writes else sides.target),
        whole,
        touched,
        carry,
        tasks.largest,
        min(reads.largest, sides.objects.largest),
    )


def thin(points: list[Point], limit: int) -> list[Point]:
    """Points that no other beats in every mark; of those as many as there is room for, evenly by memory."""
    # Counts may be larger than integers of numpy; to the last digit they are compared where that matters.
    marks = np.array([point.marks() for point in points], np.float64)
    order = np.lexsort(marks.T[::-1])
    front: list[int] = []
    for index in order.tolist():
        if not any((marks[other] <= marks[index]).all() for other in front):
            front.append(index)
    if len(front) > limit:
        front.sort(key=lambda i: (points[i].touched + points[i].carry, points[i].runs.pairs))
        front = [front[i] for i in sorted(set(np.linspace(0, len(front) - 1, max(limit, 1)).astype(int).tolist()))]
    return [points[i] for i in front]
