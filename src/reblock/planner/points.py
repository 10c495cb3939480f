"""The points that the search tries along one axis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache

import numpy as np

from reblock.cost.memory import long_axes
from reblock.errors import Refused
from reblock.geometry import Axis
from reblock.model import Problem
from reblock.passes.common_cuts import common_cuts, grouped, lazy, most_blocks
from reblock.passes.cuts import countable, joined
from reblock.passes.points import Point, Rules, Sides, make_point, rules_of, sides_of


def points_of(problem: Problem, axis: int, *, cut: bool, slabs: bool) -> list[Point]:
    """Every point of one axis of a problem, with or without read lengths below one block, with or without slabs."""
    rules = rules_of(problem, slabs=slabs and axis in long_axes(problem.target.objects.largest, problem.target))
    return _axis_points(sides_of(problem, axis), rules, cut=cut and problem.source.partial_reads)


@lru_cache(maxsize=256)
def _axis_points(sides: Sides, rules: Rules, *, cut: bool) -> list[Point]:
    """Every point of one axis that is worth a try."""
    inner, objects, out = sides.units.clipped(), sides.objects.clipped(), sides.target.clipped()
    found: dict[tuple[Axis, Axis, Axis], Point] = {}
    for read in dict.fromkeys(_reads(inner, objects, out, cut=cut)):
        if not all(countable(read, other) for other in (inner, objects, out)):
            continue
        for write in dict.fromkeys([out, read.refine(out)] if rules.partial_writes else [out]):
            for tasks in _tasks(read, objects, out):
                shown = (read.refine(tasks), write.refine(tasks), tasks)
                if shown in found or not (rules.partial_writes or shown[1].count == out.count):
                    continue
                try:
                    found[shown] = make_point(sides, rules, read, write, tasks)
                except Refused:
                    continue
    return list(found.values())


def _reads(inner: Axis, objects: Axis, out: Axis, *, cut: bool) -> Iterator[Axis]:
    """Read cuts worth trying: groups of source or target blocks, parts of blocks, and lazy reads.

    Groups of source blocks also start anew at the common cuts of source and target, where tasks may end.
    """
    length, common = out.length, common_cuts(objects, out)
    yield Axis.single(length)
    yield common
    for blocks in dict.fromkeys((objects, inner)):
        yield lazy(blocks, out)
        # Blocks that are too irregular to be grouped are left out.
        with suppress(Refused):
            if 1 < common.count < blocks.count:
                for factor in _factors(most_blocks(blocks, common)):
                    yield grouped(blocks, common, factor)
    for blocks in dict.fromkeys((objects, out, inner)):
        for factor in _factors(blocks.count):
            yield joined(blocks, factor)
        step = blocks.step
        if cut and step and step > 1:
            for part in (2, 3, 4, 8, 16, 64, 256, 1024, step):
                if part <= step:
                    yield Axis.regular(length, -(-step // part))


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


def thin(points: list[Point], limit: int) -> list[Point]:
    """Points that no other beats in every mark; of those as many as there is room for, evenly by memory."""
    # Counts may be larger than integers of numpy; to the last digit they are compared where that matters.
    marks = np.array([point.marks() for point in points], np.float64)
    order = np.lexsort(marks.T[::-1])
    front: list[int] = []
    beaten_by = np.empty_like(marks)
    for index in order.tolist():
        if not (beaten_by[: len(front)] <= marks[index]).all(1).any():
            beaten_by[len(front)] = marks[index]
            front.append(index)
    if len(front) > limit:
        front.sort(key=lambda i: (points[i].touched + points[i].carry, points[i].runs.pairs))
        front = [front[i] for i in sorted(set(np.linspace(0, len(front) - 1, max(limit, 1)).astype(int).tolist()))]
    return [points[i] for i in front]
