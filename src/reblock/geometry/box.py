"""Box: a half-open N-D interval."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod


@dataclass(frozen=True, slots=True)
class Box:
    """Half-open interval `start[d] <= x[d] < stop[d]` on every axis d."""

    start: tuple[int, ...]
    """First element inside, per axis."""
    stop: tuple[int, ...]
    """First element outside, per axis."""

    @classmethod
    def whole(cls, shape: tuple[int, ...]) -> Box:
        """The box of a whole array."""
        return cls((0,) * len(shape), tuple(shape))

    @property
    def ndim(self) -> int:
        return len(self.start)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(b - a for a, b in zip(self.start, self.stop, strict=True))

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def slices(self) -> tuple[slice, ...]:
        """For indexing an array with this box."""
        return tuple(map(slice, self.start, self.stop))

    def intersect(self, other: Box) -> Box | None:
        """The intersection, or None if it is empty."""
        start = tuple(map(max, self.start, other.start))
        stop = tuple(map(min, self.stop, other.stop))
        return Box(start, stop) if all(a < b for a, b in zip(start, stop, strict=True)) else None

    def contains(self, other: Box) -> bool:
        """Whether the other box is inside this one."""
        return all(a <= b for a, b in zip(self.start, other.start, strict=True)) and all(
            a >= b for a, b in zip(self.stop, other.stop, strict=True)
        )

    def shift(self, offset: tuple[int, ...]) -> Box:
        """The box moved by an offset per axis."""
        return Box(
            tuple(a + o for a, o in zip(self.start, offset, strict=True)),
            tuple(b + o for b, o in zip(self.stop, offset, strict=True)),
        )

    def within(self, origin: Box) -> Box:
        """The same box in coordinates relative to the start of `origin`."""
        return self.shift(tuple(-a for a in origin.start))

    def permute(self, axes: tuple[int, ...]) -> Box:
        """The box with its axes reordered as `numpy.transpose` would."""
        return Box(tuple(self.start[a] for a in axes), tuple(self.stop[a] for a in axes))

    def points(self) -> Iterator[tuple[int, ...]]:
        """Every index inside, in C order."""
        return product(*map(range, self.start, self.stop))

    def __str__(self) -> str:
        return "[" + ", ".join(f"{a}:{b}" for a, b in zip(self.start, self.stop, strict=True)) + "]"
