"""Numbers: a set of integers stored as ranges, small as long as they are contiguous."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator

import numpy as np

from reblock.runs.journal import Integers, to_ranges


class Numbers(Collection[int]):
    """Integers in ascending, disjoint, half-open ranges."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        """Build from ranges in any order, which may touch and overlap."""
        self._starts: list[int] = []
        self._stops: list[int] = []
        for start, stop in sorted(pair for pair in ranges if pair[0] < pair[1]):
            if self._stops and start <= self._stops[-1]:
                self._stops[-1] = max(self._stops[-1], stop)
            else:
                self._starts.append(start)
                self._stops.append(stop)
        self._count = sum(self._stops) - sum(self._starts)

    @classmethod
    def of(cls, numbers: Integers) -> Numbers:
        """Numbers from an array in any order."""
        return cls((a, b) for a, b in to_ranges(np.unique(numbers)))

    def __or__(self, other: Numbers) -> Numbers:
        return Numbers([*self.ranges(), *other.ranges()])

    def ranges(self) -> Iterator[tuple[int, int]]:
        """The ranges, in order."""
        return zip(self._starts, self._stops, strict=True)

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        place = bisect_right(self._starts, number) - 1
        return place >= 0 and number < self._stops[place]

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        for start, stop in self.ranges():
            yield from range(start, stop)
