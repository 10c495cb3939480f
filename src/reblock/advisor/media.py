"""Media: the placement of chunks on N disks, buckets, tapes or platters that suits an access pattern.

An access should touch few media where switching them takes time, or many where they work in parallel. The placements
are those of `reblock.geometry.placement`; of the *boxes*, the cuts that suit the pattern.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import ceil, prod

import numpy as np

from reblock.advisor.expect import axis_blocks
from reblock.errors import UsageError
from reblock.geometry.placement import FIXED_PLACEMENTS, PLACEMENTS, Numbered, placing
from reblock.model.pattern import AccessClass, AccessPattern

#: What a placement is chosen for.
MEDIA_GOALS = ("few", "many")
#: The most media, boxes of a class that are looked at, and chunks that are looked at for a class.
MAX_MEDIA, _MAX_BOXES, _MAX_LOOKS = 1 << 16, 128, 1 << 20


@dataclass(frozen=True)
class MediaPrice:
    """A placement of chunks on media, and what an average access finds there."""

    placement: str
    """Its name."""
    touched: float
    """Media that an access touches."""
    largest: float
    """Chunks that it reads from the medium with most of them."""
    boxes: tuple[int, ...] | None = None
    """For `boxes`, the number of boxes along each axis."""

    def to_json(self) -> dict[str, object]:
        return {
            "placement": self.placement,
            "touched": self.touched,
            "largest": self.largest,
            "boxes": None if self.boxes is None else list(self.boxes),
        }


@dataclass(frozen=True)
class MediaGrid:
    """A grid of chunks and the accesses to it, to be placed on media."""

    pattern: AccessPattern
    """The accesses."""
    shape: tuple[int, ...]
    """Shape of the array."""
    chunks: tuple[int, ...]
    """Its chunks."""
    media: int
    """Number of media."""
    looks: list[list[Numbered]] = field(init=False, repr=False, compare=False)
    """For each class, the indices of the chunks of some accesses."""

    def __post_init__(self) -> None:
        if not 1 <= self.media <= MAX_MEDIA:
            raise UsageError(f"the number of media must be from 1 to {MAX_MEDIA:,}, not {self.media}")
        object.__setattr__(self, "looks", [list(self._looks(one)) for one in self.pattern.classes])

    @property
    def counts(self) -> tuple[int, ...]:
        """Chunks along each axis."""
        return tuple(-(-n // c) for n, c in zip(self.shape, self.chunks, strict=True))

    def prices(self, goal: str) -> list[MediaPrice]:
        """Every placement, the best for a goal first."""
        if goal not in MEDIA_GOALS:
            raise UsageError(f"media are chosen so that an access touches {' or '.join(MEDIA_GOALS)}, not {goal!r}")
        found = [self.price(name) for name in FIXED_PLACEMENTS]
        cuts = [self.price("boxes", boxes) for boxes in _cuts(self.media, self.counts)]
        if cuts:
            found.append(min(cuts, key=lambda one: _rank(one, goal)))
        return sorted(found, key=lambda one: _rank(one, goal))

    def price(self, placement: str, boxes: tuple[int, ...] | None = None) -> MediaPrice:
        """What an average access finds on the media of a placement."""
        assign = placing(placement, self.counts, self.media, boxes)
        touched = largest = 0.0
        for weight, looks in zip(self.pattern.weights, self.looks, strict=True):
            loads = [np.bincount(assign(indices)) for indices in looks]
            touched += float(weight) * float(np.mean([np.count_nonzero(load) for load in loads]))
            largest += float(weight) * float(np.mean([load.max() for load in loads]))
        return MediaPrice(placement, touched, largest, boxes)

    def _looks(self, one: AccessClass) -> Iterator[Numbered]:
        """Indices of the chunks of some accesses of a class: one row per axis."""
        for start, stop in self._boxes(one):
            ranges = [range(a, b) for a, b in zip(start, stop, strict=True)]
            yield np.array(list(product(*ranges)), np.int64).reshape(-1, len(ranges)).T

    def _boxes(self, one: AccessClass) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
        """Boxes of chunks that accesses of a class touch: those known, or some at random."""
        cuts = np.array(self.chunks, np.int64)
        if one.positions is not None:
            known = one.positions.thinned(_MAX_BOXES)
            for start, length in zip(known.starts, known.lengths, strict=True):
                yield (start // cuts).tolist(), ((start + length - 1) // cuts + 1).tolist()
            return
        sides = [
            min(ceil(float(axis_blocks(one, axis, self.shape[axis], cuts[axis : axis + 1])[0]) - 1e-9), count)
            for axis, count in enumerate(self.counts)
        ]
        starts = [n - z + 1 for n, z in zip(self.counts, sides, strict=True)]
        most = max(min(_MAX_BOXES, _MAX_LOOKS // prod(sides)), 1)
        places: list[tuple[int, ...]]
        if prod(starts) <= most:
            places = list(product(*map(range, starts)))
        else:
            rng = np.random.default_rng(0)
            places = list(zip(*(rng.integers(0, n, most).tolist() for n in starts), strict=True))
        for place in places:
            yield place, [a + z for a, z in zip(place, sides, strict=True)]


def _cuts(media: int, counts: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Ways to cut a grid into as many boxes as there are media."""
    if not counts:
        return
    if len(counts) == 1:
        if media <= counts[0]:
            yield (media,)
        return
    for boxes in range(1, min(media, counts[0]) + 1):
        if media % boxes == 0:
            yield from ((boxes, *rest) for rest in _cuts(media // boxes, counts[1:]))


def _rank(price: MediaPrice, goal: str) -> tuple[float, ...]:
    few = (round(price.touched, 9), round(price.largest, 9))
    return (*few, PLACEMENTS.index(price.placement)) if goal == "few" else (few[1], -few[0])
