"""Common cuts of two axes, and groups of blocks that start anew at them.

::

    source    ├───┼───┼───┼───┼───┼───┤      lengths 4 and 6: both axes have a cut at 0, 12 and 24, so nothing
    target    ├─────┼─────┼─────┼─────┤      is carried across these
    common    ├───────────┼───────────┤
    grouped   ├───────┼───┼───────┼───┤      two source blocks at a time, anew after each common cut
    lazy      ├───────┼───┼───────┼───┤      as many source blocks as complete one more target block
"""

from __future__ import annotations

from collections.abc import Callable
from math import lcm

import numpy as np
import numpy.typing as npt

from reblock.errors import Refused
from reblock.geometry import Axis
from reblock.geometry.axis import FEW_BLOCKS, Ints

Shape = tuple[int, ...]

#: Most blocks that an axis made here lists; one with more is replaced by a plainer axis.
MAX_LISTED_BLOCKS = 4096
#: Most cuts that are examined: of one period, or of an axis without one.
_MAX_CUTS = 1 << 16
#: Periods up to which cuts are listed one by one.
_FEW_PERIODS = 4


def common_cuts(one: Axis, two: Axis) -> Axis:
    """Blocks between the cuts that both axes have (DRA's LCM blocks); one block where the axes are too irregular."""
    if one.step is not None and two.step is not None:
        return Axis.regular(one.length, lcm(one.step, two.step))
    fewer, more = (one, two) if one.count <= two.count else (two, one)
    try:
        return _select(fewer, more, lambda cuts: more.floors(cuts) == cuts)
    except Refused:
        return Axis.single(one.length)


def grouped(blocks: Axis, outer: Axis, count: int) -> Axis:
    """Groups of `count` blocks that start anew at every cut of `outer`, all of whose cuts the blocks have."""
    if count <= 1:
        return blocks.clipped()
    if outer.count <= 1:
        return blocks.multiple(min(count, blocks.count))
    if count >= most_blocks(blocks, outer):
        return outer
    if blocks.step and outer.step and not outer.step % blocks.step:
        return _regular_groups(blocks.length, count * blocks.step, outer.step)
    return _select(blocks, outer, lambda cuts: (blocks.indices(cuts) - blocks.indices(outer.floors(cuts))) % count == 0)


def _regular_groups(length: int, group: int, outer: int) -> Axis:
    """Groups of one length that start anew at every multiple of a longer one, in closed form."""
    if outer % group == 0:
        return Axis.regular(length, group)
    if outer // group > _MAX_CUTS:
        raise Refused(f"too irregular: more than {_MAX_CUTS:,} blocks in one period along an axis")
    repeats, rest = divmod(length, outer)
    pattern, tail = (((group,) * (n // group) + ((n % group,) if n % group else ())) for n in (outer, rest))
    made = Axis((), pattern, repeats, tail)
    # Only the last block of the pattern differs from the others, so a long axis has its canonical form.
    return made if repeats and made.count > FEW_BLOCKS else made.canonical()


def lazy(source: Axis, target: Axis) -> Axis:
    """As many source blocks at a time as complete one more target block; single ones where that has no pattern."""
    try:
        found = _select(
            source,
            target,
            lambda cuts: (cuts == 0) | (target.floors(cuts) > source.starts(np.maximum(source.indices(cuts) - 1, 0))),
        )
    except Refused:
        return source.clipped()
    return found if len(found.head) + len(found.pattern) + len(found.tail) <= MAX_LISTED_BLOCKS else source.clipped()


def most_blocks(blocks: Axis, outer: Axis) -> int:
    """The largest number of blocks of one axis that overlap one block of another."""
    if outer.count <= 1:
        return blocks.count
    first, last = max(blocks.middle[0], outer.middle[0]), min(blocks.middle[1], outer.middle[1]) - outer.largest
    period = lcm(blocks.period or 1, outer.period or 1)
    repeats = last - first > 2 * period
    cuts = np.concatenate([outer.cuts(0, first + period), outer.cuts(last)]) if repeats else outer.cuts()
    ends = outer.starts(outer.indices(cuts) + 1)
    return int(np.max(blocks.indices(ends - 1) - blocks.indices(cuts))) + 1


def _select(axis: Axis, other: Axis, keep: Callable[[Ints], npt.NDArray[np.bool_]]) -> Axis:
    """An axis with the cuts that `keep` selects: always 0, and the same cuts in each common period."""

    def kept(start: int, stop: int) -> Ints:
        cuts = axis.cuts(start, stop)
        return cuts[keep(cuts)]

    first, last = max(axis.middle[0], other.middle[0]), min(axis.middle[1], other.middle[1])
    period = lcm(axis.period or 1, other.period or 1)
    if last - first < _FEW_PERIODS * period:
        if axis.count > _MAX_CUTS:
            raise Refused(f"too irregular: more than {_MAX_CUTS:,} blocks along one axis, and no short period")
        return Axis.of(_lengths(kept(0, axis.length), axis.length))
    if axis.index(first + 2 * period) - axis.index(first + period) > _MAX_CUTS:
        raise Refused(f"too irregular: more than {_MAX_CUTS:,} blocks in one period along an axis")
    # The selection may depend on the block before, so the first period can differ from the others.
    inside = kept(first + period, first + 2 * period)
    start = int(inside[0]) if inside.size else first + period
    repeats = (last - start) // period
    head, tail = kept(0, start), kept(start + repeats * period, axis.length)
    if not inside.size:
        return Axis.of(_lengths(np.concatenate([head, tail]), axis.length))
    return Axis(
        _lengths(head, start),
        _lengths(kept(start, start + period), start + period),
        repeats,
        _lengths(tail, axis.length),
    ).canonical()


def _lengths(cuts: Ints, stop: int) -> Shape:
    return tuple(np.diff(cuts, append=stop).tolist())
