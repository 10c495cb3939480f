"""Axis: one axis of a grid, cut into blocks, described without enumerating them.

Every cut axis in repartitioning has the same form ::

      lead   head       pattern × repeats               tail     trail
    ┄┄┄┄┄┄├──┬────┼──┬───┼──┬───┼──┬───┼──┬───┼───┬──┬───┤┄┄┄┄┄┄┄┄┄
          0                                            length

A regular axis is a pattern of one length. An irregular axis is all tail. The common refinement of two regular
axes repeats with the least common multiple of their lengths. `lead` and `trail` are the lengths by which the
first and the last block extend beyond the axis: stored chunks do so at the edge of a crop, and where a format
pads its last chunk. Lengths, starts and indices cost O(pattern), whatever the number of blocks. An axis with few
blocks is regular or all tail, so that equal cuts make equal axes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate, takewhile
from math import lcm
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import Refused, UsageError
from reblock.geometry import values

Ints = npt.NDArray[np.int64]

#: The longest axis and the longest chunk; padding beyond it must also fit 64 bits.
MAX_LENGTH = 2**62

#: The most distinct cuts that may be enumerated; a grid with more is refused as too irregular.
MANY_CUTS = 1 << 21

#: The most cuts of two axes that may be merged: those of one common period, or all if there is none.
MERGED_CUTS = 1 << 16

#: Up to this many blocks, an irregular axis is stored and written as the list of its lengths.
FEW_BLOCKS = 128

#: Up to this many blocks, plain integers are faster than arrays.
ONE_BY_ONE = 24


@dataclass(frozen=True)
class Axis:
    """One axis cut into blocks: head, pattern × repeats, tail."""

    head: tuple[int, ...] = ()
    """Lengths of the blocks before the pattern."""
    pattern: tuple[int, ...] = ()
    """Lengths that repeat."""
    repeats: int = 0
    """How often the pattern repeats."""
    tail: tuple[int, ...] = ()
    """Lengths of the blocks after the pattern."""
    lead: int = 0
    """Elements by which the first block starts before the axis."""
    trail: int = 0
    """Elements by which the last block ends after the axis."""

    # Axes are the keys of all caches of counts, so the hash is needed very often.
    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.head, self.pattern, self.repeats, self.tail, self.lead, self.trail))

    @classmethod
    def regular(cls, length: int, chunk: int, *, padded: bool = False) -> Axis:
        """Blocks of one length; the last one is clipped, or extends beyond the axis if `padded`."""
        if length == 0:
            return cls()
        whole, rest = divmod(length, chunk)
        trail = chunk - rest if padded and rest else 0
        if not whole:
            return cls((), (length,), 1, (), 0, trail)
        return cls((), (chunk,), whole, (rest,) if rest else (), 0, trail)

    @classmethod
    def of(cls, lengths: Sequence[int]) -> Axis:
        """Blocks of the given lengths (recognises regular ones)."""
        lengths = tuple(lengths)
        if lengths and all(n == lengths[0] for n in lengths[:-1]) and lengths[-1] <= lengths[0]:
            return cls.regular(sum(lengths), lengths[0])
        return cls(tail=lengths)

    @classmethod
    def single(cls, length: int) -> Axis:
        """One block; none if the length is 0."""
        return cls.regular(length, max(length, 1))

    # ---------------------------------------------------------------- sizes
    @cached_property
    def _head(self) -> list[int]:
        return [0, *accumulate(self.head)]

    @cached_property
    def _pattern(self) -> list[int]:
        return [0, *accumulate(self.pattern)]

    @cached_property
    def _tail(self) -> list[int]:
        return [0, *accumulate(self.tail)]

    @cached_property
    def period(self) -> int:
        """Length of the pattern; 0 without one."""
        return self._pattern[-1]

    @cached_property
    def middle(self) -> tuple[int, int]:
        """Start and end of the repeated part."""
        return self._head[-1], self._head[-1] + self.period * self.repeats

    @cached_property
    def length(self) -> int:
        return self.middle[1] + self._tail[-1]

    @cached_property
    def count(self) -> int:
        """Number of blocks."""
        return len(self.head) + len(self.pattern) * self.repeats + len(self.tail)

    @cached_property
    def largest(self) -> int:
        """Length of the longest block, clipped to the axis."""
        return max((*self.head, *self.pattern, *self.tail), default=0)

    @cached_property
    def largest_stored(self) -> int:
        """Length of the longest block as it is stored, overhang included."""
        if not self.count:
            return 0
        ends = {0, self.count - 1}
        return max(self.largest, *(b - a for a, b in map(self.stored, ends)))

    # ---------------------------------------------------------------- one block
    def start(self, index: int) -> int:
        """Start of block `index`; `index == count` gives the length."""
        index -= len(self.head)
        if index < 0:
            return self._head[index + len(self.head)]
        inside = len(self.pattern) * self.repeats
        if index < inside:
            turn, phase = divmod(index, len(self.pattern))
            return self._head[-1] + turn * self.period + self._pattern[phase]
        return self.middle[1] + self._tail[index - inside]

    def index(self, position: int) -> int:
        """Index of the block that contains a position; the length itself belongs to block `count`."""
        first, last = self.middle
        if position < first:
            return bisect_right(self._head, position) - 1
        if position < last:
            turn, phase = divmod(position - first, self.period)
            return len(self.head) + turn * len(self.pattern) + bisect_right(self._pattern, phase) - 1
        return len(self.head) + len(self.pattern) * self.repeats + bisect_right(self._tail, position - last) - 1

    def interval(self, index: int) -> tuple[int, int]:
        """Start and end of a block, clipped to the axis."""
        return self.start(index), self.start(index + 1)

    def stored(self, index: int) -> tuple[int, int]:
        """Start and end of a block as it is stored, overhang included."""
        return (
            self.start(index) - (self.lead if index == 0 else 0),
            self.start(index + 1) + (self.trail if index == self.count - 1 else 0),
        )

    def touching(self, start: int, stop: int) -> range:
        """Indices of the blocks that meet [start, stop)."""
        return range(self.index(start), self.index(stop - 1) + 1) if start < stop else range(0)

    # ---------------------------------------------------------------- many blocks
    @cached_property
    def _arrays(self) -> tuple[Ints, Ints, Ints]:
        return tuple(np.array(part, np.int64) for part in (self._head, self._pattern, self._tail))  # type: ignore[return-value]

    def starts(self, indices: Ints) -> Ints:
        """`start` of many blocks."""
        if indices.size <= ONE_BY_ONE:
            return np.array([self.start(index) for index in indices.tolist()], np.int64)
        heads, patterns, tails = self._arrays
        out = np.empty_like(indices)
        inside = len(self.head) + len(self.pattern) * self.repeats
        in_head, in_tail = indices < len(self.head), indices >= inside
        middle = ~(in_head | in_tail)
        out[in_head] = heads[indices[in_head]]
        if self.repeats:
            turn, phase = np.divmod(indices[middle] - len(self.head), len(self.pattern))
            out[middle] = heads[-1] + turn * self.period + patterns[phase]
        out[in_tail] = self.middle[1] + tails[indices[in_tail] - inside]
        return out

    def bounds(self, first: int, last: int) -> Ints:
        """`stored` of the blocks `first` to `last - 1`, one per row."""
        cuts = self.starts(np.arange(first, last + 1))
        found = np.stack([cuts[:-1], cuts[1:]], 1)
        if first < last:
            found[0, 0] -= self.lead if first == 0 else 0
            found[-1, 1] += self.trail if last == self.count else 0
        return found

    def indices(self, positions: Ints) -> Ints:
        """`index` of many positions."""
        if positions.size <= ONE_BY_ONE:
            return np.array([self.index(position) for position in positions.tolist()], np.int64)
        heads, patterns, tails = self._arrays
        first, last = self.middle
        out = np.empty_like(positions)
        in_head, in_tail = positions < first, positions >= last
        middle = ~(in_head | in_tail)
        out[in_head] = np.searchsorted(heads, positions[in_head], "right") - 1
        if self.repeats:
            turn, phase = np.divmod(positions[middle] - first, self.period)
            out[middle] = len(self.head) + turn * len(self.pattern) + np.searchsorted(patterns, phase, "right") - 1
        base = len(self.head) + len(self.pattern) * self.repeats
        out[in_tail] = base + np.searchsorted(tails, positions[in_tail] - last, "right") - 1
        return out

    def floors(self, positions: Ints) -> Ints:
        """The last cut at or before each position."""
        return self.starts(self.indices(positions))

    def ceils(self, positions: Ints) -> Ints:
        """The first cut at or after each position."""
        indices = self.indices(positions)
        starts = self.starts(indices)
        return np.where(starts == positions, starts, self.starts(np.minimum(indices + 1, self.count)))

    def cuts(self, start: int = 0, stop: int | None = None) -> Ints:
        """Starts of the blocks that start in [start, stop)."""
        stop = self.length if stop is None else min(stop, self.length)
        if start >= stop:
            return np.empty(0, np.int64)
        first, last = self.index(start), self.index(stop - 1)
        if self.start(first) < start:
            first += 1
        if last - first >= MANY_CUTS:
            raise Refused(f"too irregular: more than {MANY_CUTS:,} different cuts along one axis")
        return self.starts(np.arange(first, last + 1, dtype=np.int64))

    def cuts_between(self, starts: Ints, stops: Ints) -> tuple[Ints, Ints]:
        """`cuts` of many intervals, concatenated, and the interval that each cut belongs to."""
        first, last = self.indices(starts), self.indices(np.minimum(stops, self.length) - 1)
        first += self.starts(first) < starts
        counts = np.where(starts < stops, np.maximum(last - first + 1, 0), 0)
        if (total := int(np.sum(counts))) > MANY_CUTS:
            raise Refused(f"too irregular: more than {MANY_CUTS:,} different cuts along one axis")
        before = np.cumsum(counts) - counts
        owner = np.repeat(np.arange(counts.size), counts)
        return self.starts(np.arange(total) - before[owner] + first[owner]), owner

    def lengths(self) -> list[int]:
        """Every block's length; refused if there are too many to list."""
        if self.count > MANY_CUTS:
            raise Refused(f"too many blocks to list: {self.count:,}")
        return [*self.head, *self.pattern * self.repeats, *self.tail]

    # ---------------------------------------------------------------- making others
    def clipped(self) -> Axis:
        """The same cuts without overhang."""
        return self if not (self.lead or self.trail) else replace(self, lead=0, trail=0)

    def refine(self, other: Axis) -> Axis:
        """The common refinement: every cut of both, no overhang."""
        if self.length != other.length:
            raise UsageError(f"cannot refine an axis of {self.length} by one of {other.length}")
        return _refine(self.clipped(), other.clipped())

    def crop(self, start: int, stop: int) -> Axis:
        """The part [start, stop), relative to `start`; cut blocks keep their full stored extent."""
        if start >= stop:
            return Axis()
        if (start, stop) == (0, self.length):
            return self
        first, last = self.index(start), self.index(stop - 1)
        lead, trail = start - self.stored(first)[0], self.stored(last)[1] - stop
        if first == last:
            return Axis((), (stop - start,), 1, (), lead, trail)
        inside = len(self.pattern) * self.repeats
        bounds = (len(self.head), len(self.head) + inside)
        low, high = first + 1, last
        head = self.head[low : min(high, bounds[0])]
        turns = max(min(high, bounds[1]) - max(low, bounds[0]), 0)
        tail = self.tail[max(low - bounds[1], 0) : max(high - bounds[1], 0)]
        pattern: tuple[int, ...] = ()
        repeats = 0
        if turns:
            phase = (max(low, bounds[0]) - bounds[0]) % len(self.pattern)
            pattern = self.pattern[phase:] + self.pattern[:phase]
            repeats, rest = divmod(turns, len(pattern))
            tail = pattern[:rest] + tail
        opening, closing = self.start(first + 1) - start, stop - self.start(last)
        return Axis((opening, *head), pattern if repeats else (), repeats, (*tail, closing), lead, trail).canonical()

    def canonical(self) -> Axis:
        """The same blocks in one form: a list if they are few, else the shortest pattern, from as early as it fits."""
        if self.count <= FEW_BLOCKS or not self.repeats:
            lengths = self.lengths() if self.repeats else self.head + self.tail
            return replace(Axis.of(lengths), lead=self.lead, trail=self.trail)
        pattern, repeats = _primitive(self.pattern, self.repeats)
        early = _matching(self.head[::-1], pattern[::-1])
        turns, rest = divmod(early, len(pattern))
        head, moved = self.head[: len(self.head) - early], pattern[len(pattern) - rest :]
        pattern, tail = moved + pattern[: len(pattern) - rest], moved + self.tail
        late = _matching(tail, pattern) // len(pattern)
        return replace(
            self, head=head, pattern=pattern, repeats=turns + repeats + late, tail=tail[late * len(pattern) :]
        )

    def multiple(self, factor: int) -> Axis:
        """Join every `factor` consecutive blocks into one, from the start."""
        if factor <= 1:
            return self.clipped()
        if self.step is not None:
            return Axis.regular(self.length, self.step * factor)
        return _normal(self.cuts()[::factor], self.length)

    # ---------------------------------------------------------------- text
    @property
    def step(self) -> int | None:
        """The block length of a regular axis, else None."""
        if self.head or len(self.pattern) > 1 or len(self.tail) > 1:
            return None
        if not self.pattern:
            return self.tail[0] if self.tail else None
        return self.pattern[0] if not self.tail or self.tail[0] <= self.pattern[0] else None

    def to_json(self) -> Any:
        """An integer, a list of lengths, or the parts if the list would be long; the same for equal blocks."""
        axis = self.canonical()
        if axis.step is not None:
            return axis.step
        if not axis.repeats:
            return list(axis.tail)
        return {
            "head": list(axis.head),
            "pattern": list(axis.pattern),
            "repeats": axis.repeats,
            "tail": list(axis.tail),
        }

    @classmethod
    def from_json(cls, value: Any, length: int) -> Axis:
        """Inverse of `to_json` for an axis of the given length; UsageError for anything else."""
        if isinstance(value, dict):
            parts = values.members(value, "an axis", ("head", "pattern", "repeats", "tail"))
            head, pattern, tail = (_lengths(parts[key], key) for key in ("head", "pattern", "tail"))
            repeats = values.integer(parts["repeats"], "repeats", least=1, most=MAX_LENGTH)
            if not pattern:
                raise UsageError("an axis that repeats needs a pattern")
            axis = cls(head, pattern, repeats, tail)
        elif isinstance(value, list):
            axis = cls.of(_lengths(value, "block lengths"))
        else:
            axis = cls.regular(length, values.integer(value, "a block length", least=1, most=MAX_LENGTH))
        if axis.length != length:
            raise UsageError(f"blocks of an axis add up to {axis.length}, not {length}")
        return axis


def _lengths(value: Any, name: str) -> tuple[int, ...]:
    """Block lengths of a JSON document."""
    return values.integers(value, name, least=1, most=MAX_LENGTH)


@lru_cache(maxsize=1 << 14)
def _refine(one: Axis, two: Axis) -> Axis:
    for fine, coarse in ((one, two), (two, one)):
        if coarse.count <= 1 or fine == coarse:
            return fine
        if fine.step and coarse.step and coarse.step % fine.step == 0:
            return fine
    first, last = max(one.middle[0], two.middle[0]), min(one.middle[1], two.middle[1])
    period = lcm(one.period, two.period) or 1
    repeats = max(last - first, 0) // period
    within = (axis.count if repeats < 2 else axis.index(first + period) - axis.index(first) for axis in (one, two))
    if sum(within) > MERGED_CUTS:
        raise Refused(f"too irregular: blocks of both grids meet in more than {MERGED_CUTS:,} places along one axis")
    if repeats < 2:
        made = _normal(_merged(one.cuts(), two.cuts()), one.length)
    else:
        bounds = ((0, first), (first, first + period), (first + repeats * period, one.length))
        head, pattern, tail = (_merged(one.cuts(a, b), two.cuts(a, b)) for a, b in bounds)
        made = Axis(
            _differences(head, first),
            _differences(pattern, first + period),
            repeats,
            _differences(tail, one.length),
        ).canonical()
    # An axis that already has all the cuts keeps its form, so that `==` recognises it.
    return next((axis for axis in (one, two) if axis.count == made.count), made)


def _merged(one: Ints, two: Ints) -> Ints:
    """Like `numpy.union1d`, which would load numpy's masked arrays on first use."""
    cuts: Ints = np.sort(np.concatenate([one, two]))
    merged: Ints = cuts[np.diff(cuts, prepend=-1) != 0]
    return merged


def _differences(cuts: Ints, stop: int) -> tuple[int, ...]:
    return tuple(np.diff(cuts, append=stop).tolist())


def _normal(cuts: Ints, length: int) -> Axis:
    """An axis from its cuts."""
    return Axis.of(_differences(cuts, length))


def _primitive(pattern: tuple[int, ...], repeats: int) -> tuple[tuple[int, ...], int]:
    """The shortest equivalent pattern, and its repeats."""
    size = len(pattern)
    for part in range(1, size // 2 + 1):
        if size % part == 0 and pattern[part] == pattern[0] and pattern[part:] == pattern[:-part]:
            return pattern[:part], repeats * (size // part)
    return pattern, repeats


def _matching(lengths: tuple[int, ...], pattern: tuple[int, ...]) -> int:
    """The number of lengths at the start that repeat a pattern."""
    turns = 0
    while lengths[turns : turns + len(pattern)] == pattern:
        turns += len(pattern)
    same = takewhile(lambda pair: pair[0] == pair[1], zip(lengths[turns:], pattern, strict=False))
    return turns + sum(1 for _ in same)
