"""Media: which of N disks, buckets, tapes or platters holds a chunk.

An access should touch few media where switching them takes time, or many where they work in parallel ::

    round-robin   0 1 2 3      range   0 0 0 0      boxes   0 0 1 1      four-way   0 1 2 3
                  0 1 2 3              1 1 1 1              0 0 1 1                 3 0 1 2
                  0 1 2 3              2 2 2 2              2 2 3 3                 2 3 0 1
                  0 1 2 3              3 3 3 3              2 2 3 3                 1 2 3 0

- *round-robin*: chunk after chunk in C order. *range*: as many consecutive chunks on each medium.
- *boxes*: the array in N boxes, with the cuts that suit the pattern (a chunk of the size of a platter, Sarawagi &
  Stonebraker, section 2.4).
- *four-way*: neighbours along each axis are on different media, and so are as many in a row as there are media.
  *random*: by a hash of the number of the chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import ceil, gcd, prod

import numpy as np
import numpy.typing as npt

from reblock.advisor.expect import axis_blocks
from reblock.errors import UsageError
from reblock.model.pattern import AccessClass, AccessPattern

#: Names of the placements.
PLACEMENTS = ("round-robin", "range", "boxes", "four-way", "random")
#: What a placement is chosen for.
MEDIA_GOALS = ("few", "many")
#: The most media, boxes of a class that are looked at, and chunks that are looked at for a class.
MAX_MEDIA, _MAX_BOXES, _MAX_LOOKS = 1 << 16, 128, 1 << 20

#: The golden section.
_GOLDEN = 0.618

Numbered = npt.NDArray[np.int64]
#: Finds the medium of chunks from their indices: one row per axis.
Assign = Callable[[Numbered], Numbered]


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
        found = [self.price(name) for name in PLACEMENTS if name != "boxes"]
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


def placing(placement: str, counts: Sequence[int], media: int, boxes: Sequence[int] | None = None) -> Assign:
    """The function that finds the medium of chunks; `boxes` are needed for that placement.

    >>> placing("four-way", (4, 4), 4)(np.indices((2, 4)).reshape(2, -1)).tolist()
    [0, 1, 2, 3, 3, 0, 1, 2]
    """
    if placement not in PLACEMENTS:
        raise UsageError(f"there is no placement {placement!r}: use {', '.join(PLACEMENTS)}")
    if placement == "four-way":
        steps = np.array(_steps(len(counts), media), np.int64)
        return lambda indices: np.tensordot(steps, indices, 1) % media
    if placement == "boxes":
        sides = [-(-n // m) for n, m in zip(counts, boxes or (1,) * len(counts), strict=True)]
        shape = tuple(-(-n // side) for n, side in zip(counts, sides, strict=True))
        return lambda indices: _number([one // side for one, side in zip(indices, sides, strict=True)], shape)
    total = prod(counts)
    if placement == "round-robin":
        return lambda indices: _number(indices, counts) % media
    if placement == "range":
        return lambda indices: _number(indices, counts) // -(-total // media)
    return lambda indices: _mixed(_number(indices, counts)) % media


def _steps(axes: int, media: int) -> list[int]:
    """How far the medium moves with each axis: steps without a common factor with the number of media.

    The innermost axis moves by one, the others by steps near the golden section, which keeps diagonals apart.
    """
    coprime = [step for step in range(2, media) if gcd(step, media) == 1]
    others = sorted(coprime, key=lambda step: abs(step - _GOLDEN * media))[: max(axes - 1, 0)]
    return [(others or [1])[number % max(len(others), 1)] for number in range(axes - 1)] + [1] * (axes > 0)


def _number(indices: Sequence[Numbered] | Numbered, counts: Sequence[int]) -> Numbered:
    """The number of each chunk in C order."""
    number = np.zeros(np.shape(indices[0]) if len(counts) else (1,), np.int64)
    for one, count in zip(indices, counts, strict=True):
        number = number * count + one
    return number


def _mixed(numbers: Numbered) -> Numbered:
    """A hash of each number (splitmix64)."""
    mixed = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(2)).astype(np.int64)


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
