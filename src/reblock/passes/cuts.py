"""Cuts of one axis that are worth trying: groups of blocks, and divisors.

Cuts are described and never listed block by block, and their number is bounded; so is the time that a search over them
takes, for any number of chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import ceil, gcd, isqrt

import numpy as np

from reblock.geometry import Axis
from reblock.model import Problem

#: Most cuts of two axes in one common period, or in all, that are cheap to examine; and that are examined at all.
QUICK_CUTS = 1 << 12
MAX_CUTS = 1 << 14

#: Divisors are sought up to this number.
MAX_DIVISOR = 1 << 18


def joined(axis: Axis, blocks: int) -> Axis:
    """The axis with every `blocks` consecutive blocks joined to one; not listed where the axis repeats."""
    if blocks <= 1 or axis.count <= 1:
        return axis.clipped()
    if blocks >= axis.count:
        return Axis.single(axis.length)
    if axis.step is not None:
        return axis.multiple(blocks)
    if len(axis.pattern) != 1 or axis.repeats < 2 * blocks:
        starts = axis.starts(np.arange(0, axis.count, blocks, dtype=np.int64))
        return Axis.of(np.diff(starts, append=axis.length).tolist())
    step, borrowed = axis.pattern[0], -len(axis.head) % blocks
    groups, rest = divmod(axis.repeats - borrowed, blocks)
    head = _sums(axis.head, blocks)
    if borrowed:
        head[-1] += step * borrowed
    lent = blocks - rest if rest else 0
    tail = [step * rest + sum(axis.tail[:lent]), *_sums(axis.tail[lent:], blocks)] if rest else _sums(axis.tail, blocks)
    return Axis(tuple(head), (step * blocks,), groups, tuple(tail))


def _sums(lengths: Sequence[int], blocks: int) -> list[int]:
    """Sums of `blocks` consecutive lengths."""
    return [sum(lengths[k : k + blocks]) for k in range(0, len(lengths), blocks)]


def aggregate(axis: Axis, length: int) -> Axis:
    """Λ of the drafts, r̂ of the thesis: the fewest consecutive blocks that are together at least `length` long."""
    if len(axis.pattern) == 1 and axis.repeats > len(axis.head) + len(axis.tail):
        return joined(axis, ceil(length / axis.pattern[0]))
    groups: list[int] = []
    for block in axis.lengths():
        if groups and groups[-1] < length:
            groups[-1] += block
        else:
            groups.append(block)
    return Axis.of(groups)


def dividing_cuts(axis: Axis, limit: int) -> Iterable[Axis]:
    """Regular cuts whose length divides the axis (the thesis' candidates) or its step, the longest first."""
    lengths = set(divisors(axis.length, limit))
    if axis.step is not None:
        lengths.update(divisors(axis.step, limit))
    return (Axis.regular(axis.length, length) for length in sorted(lengths, reverse=True))


def divisors(number: int, limit: int) -> list[int]:
    """Divisors of a number up to a limit, ascending."""
    return [d for d in _divisors(number) if d <= limit]


@lru_cache(maxsize=256)
def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, min(isqrt(number), MAX_DIVISOR) + 1) if number % n == 0]
    return sorted({d for n in small for d in (n, number // n)})


def countable(read: Axis, stored: Axis, most: int = QUICK_CUTS) -> bool:
    """Whether two axes cut each other in few enough places to be counted."""
    if read.count + stored.count <= most:
        return True
    one, two = read.period or 1, stored.period or 1
    cuts = two // gcd(one, two) * max(len(read.pattern), 1) + one // gcd(one, two) * max(len(stored.pattern), 1)
    return cuts + len(read.head) + len(read.tail) + len(stored.head) + len(stored.tail) <= most


def factors(most: int) -> list[int]:
    """1, 2, 3, … and then in ever wider steps up to `most`."""
    found = []
    factor = 1
    while factor < most:
        found.append(factor)
        factor += max(factor // 6, 1)
    return [*found, most] if most >= 1 else found


def read_cuts(problem: Problem, axis: int, limit: int, most: int) -> list[Axis]:
    """At most `most` read cuts worth trying along an axis, up to a length, the longest first.

    Multiples of source objects and units, which are read whole; multiples of target objects, which complete
    at once; divisors of the axis, of a source object and of a target object.
    """
    source, units = problem.source.objects.axes[axis].clipped(), problem.source.units.axes[axis].clipped()
    target = problem.target.objects.axes[axis].clipped()
    best: dict[Axis, None] = {}
    for blocks in dict.fromkeys((source, target, units)):
        if blocks.count and blocks.largest <= limit:
            shortest = min((*blocks.head[1:], *blocks.pattern, *blocks.tail[:-1]), default=blocks.largest)
            for factor in factors(min(limit // shortest, blocks.count)):
                best[joined(blocks, factor)] = None
    rest = [piece for blocks in (target, source) for piece in dividing_cuts(blocks, limit)]
    usable = [one for one in dict.fromkeys((*best, *rest)) if one.largest <= limit]
    quick = [one for one in usable if countable(one, source) and countable(one, target)]
    if not _short(problem, quick):
        # The quick ones are too long for the budget: add one that takes longer to count.
        slow = [one for one in usable if one not in quick and countable(one, target, MAX_CUTS)]
        quick += sorted(_short(problem, slow), key=_longest)[:1]
    strangers = [one for one in quick if one not in best]
    aligned = spread([one for one in quick if one in best], max(most - len(strangers), 2 * most // 3))
    return sorted([*aligned, *spread(strangers, most - len(aligned))], key=_longest)


def _short(problem: Problem, cuts: Iterable[Axis]) -> list[Axis]:
    """The cuts of which two blocks fit in memory."""
    return [one for one in cuts if 2 * one.largest * problem.target.itemsize <= problem.memory_bytes]


def _longest(axis: Axis) -> int:
    return -axis.largest


def spread(found: Sequence[Axis], most: int) -> list[Axis]:
    """At most `most` of the axes, evenly by length, the longest and the shortest included."""
    ordered = sorted(found, key=_longest)
    if len(ordered) <= most:
        return ordered
    if most < 2:
        return ordered[:most]
    return [ordered[k * (len(ordered) - 1) // (most - 1)] for k in range(most)]
