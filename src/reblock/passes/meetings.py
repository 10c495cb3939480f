"""Meetings: where the blocks of two axes meet, and runs of blocks that respect it."""

from __future__ import annotations

from collections.abc import Callable
from math import lcm

import numpy as np
import numpy.typing as npt

from reblock.errors import Refused
from reblock.geometry import Axis
from reblock.geometry.axis import Ints

Shape = tuple[int, ...]

#: Blocks that an axis may list before it is replaced by a plainer one.
MANY_BLOCKS = 4096
#: Cuts of a period, or of an axis without one, that are looked at.
_MANY_CUTS = 1 << 16
#: Periods up to which cuts are listed one by one.
_FEW_PERIODS = 4


def meeting(one: Axis, two: Axis) -> Axis:
    """The LCM blocks of any two axes: cut where both are."""
    fewer, more = (one, two) if one.count <= two.count else (two, one)
    return _select(fewer, more, lambda cuts: more.floors(cuts) == cuts)


def grouped(blocks: Axis, meet: Axis, count: int) -> Axis:
    """Runs of `count` blocks, begun anew at every cut of `meet`, which is coarser."""
    if count <= 1:
        return blocks.clipped()
    if meet.count <= 1:
        return blocks.multiple(min(count, blocks.count))
    if count >= most_blocks(blocks, meet):
        return meet
    if blocks.step and meet.step and not meet.step % blocks.step:
        return _regular_runs(blocks.length, count * blocks.step, meet.step)
    return _select(blocks, meet, lambda cuts: (blocks.indices(cuts) - blocks.indices(meet.floors(cuts))) % count == 0)


def _regular_runs(length: int, run: int, outer: int) -> Axis:
    """Runs of a length, begun anew at every multiple of a longer one: said, not counted."""
    repeats, rest = divmod(length, outer)
    pattern, tail = (((run,) * (span // run) + ((span % run,) if span % run else ())) for span in (outer, rest))
    return _plain((), pattern, repeats, tail) if repeats >= _FEW_PERIODS else Axis.of(pattern * repeats + tail)


def lazy(source: Axis, target: Axis) -> Axis:
    """Just enough source blocks at a time to finish one more target block; plain ones where that has no pattern."""
    try:
        found = _select(
            source,
            target,
            lambda cuts: (cuts == 0) | (target.floors(cuts) > source.starts(np.maximum(source.indices(cuts) - 1, 0))),
        )
    except Refused:
        return source.clipped()
    return found if len(found.head) + len(found.pattern) + len(found.tail) <= MANY_BLOCKS else source.clipped()


def most_blocks(blocks: Axis, outer: Axis) -> int:
    """Most blocks of one axis that meet one block of another."""
    if outer.count <= 1:
        return blocks.count
    first, last = max(blocks.middle[0], outer.middle[0]), min(blocks.middle[1], outer.middle[1]) - outer.largest
    period = lcm(blocks.period or 1, outer.period or 1)
    repeats = last - first > 2 * period
    cuts = np.concatenate([outer.cuts(0, first + period), outer.cuts(last)]) if repeats else outer.cuts()
    ends = outer.starts(outer.indices(cuts) + 1)
    return int(np.max(blocks.indices(ends - 1) - blocks.indices(cuts))) + 1


def _select(axis: Axis, other: Axis, keep: Callable[[Ints], npt.NDArray[np.bool_]]) -> Axis:
    """The cuts that `keep` keeps: 0 always, and the same ones in each period that both axes share."""

    def kept(start: int, stop: int) -> Ints:
        cuts = axis.cuts(start, stop)
        return cuts[keep(cuts)]

    first, last = max(axis.middle[0], other.middle[0]), min(axis.middle[1], other.middle[1])
    period = lcm(axis.period or 1, other.period or 1)
    if last - first < _FEW_PERIODS * period:
        if axis.count > _MANY_CUTS:
            raise Refused(f"too irregular: more than {_MANY_CUTS:,} blocks along one axis, and no short period")
        return Axis.of(_lengths(kept(0, axis.length), axis.length))
    if axis.index(first + 2 * period) - axis.index(first + period) > _MANY_CUTS:
        raise Refused(f"too irregular: more than {_MANY_CUTS:,} blocks in one period along an axis")
    # What is kept may depend on the block before, so the first period is not yet like the others.
    inside = kept(first + period, first + 2 * period)
    start = int(inside[0]) if inside.size else first + period
    repeats = (last - start) // period
    head, tail = kept(0, start), kept(start + repeats * period, axis.length)
    if not inside.size:
        return Axis.of(_lengths(np.concatenate([head, tail]), axis.length))
    return _plain(
        _lengths(head, start),
        _lengths(kept(start, start + period), start + period),
        repeats,
        _lengths(tail, axis.length),
    )


def _lengths(cuts: Ints, stop: int) -> Shape:
    return tuple(np.diff(cuts, append=stop).tolist())


def _plain(head: Shape, pattern: Shape, repeats: int, tail: Shape) -> Axis:
    """An axis with the shortest pattern, which takes in what equals it before and behind."""
    if len(set(pattern)) == 1:
        pattern, repeats = pattern[:1], repeats * len(pattern)
    size = len(pattern)
    while head[-size:] == pattern:
        head, repeats = head[:-size], repeats + 1
    while tail[:size] == pattern:
        tail, repeats = tail[size:], repeats + 1
    return Axis(head, pattern, repeats, tail)
