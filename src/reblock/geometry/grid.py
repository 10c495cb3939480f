"""Grid: a shape cut into boxes along each axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import UsageError
from reblock.geometry.axis import MAX_LENGTH, Axis
from reblock.geometry.box import Box
from reblock.geometry.values import items

#: One axis of a chunk specification: one length, or every length.
Cut = int | tuple[int, ...]


@dataclass(frozen=True)
class Grid:
    """The product of its axes' blocks; boxes are numbered in C order."""

    axes: tuple[Axis, ...]
    """How each axis is cut."""

    @classmethod
    def of(cls, shape: Sequence[int], chunks: Sequence[Cut], *, padded: bool = False) -> Grid:
        """A grid from a shape and, per axis, a chunk length or all the lengths."""
        if len(shape) != len(chunks):
            raise UsageError(f"chunks {chunk_text(chunks)} have {len(chunks)} axes, the array has {len(shape)}")
        return cls(tuple(_axis(n, c, padded=padded) for n, c in zip(shape, chunks, strict=True)))

    @classmethod
    def whole(cls, shape: Sequence[int]) -> Grid:
        """The grid of a single box."""
        return cls(tuple(Axis.single(n) for n in shape))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.length for axis in self.axes)

    @property
    def ndim(self) -> int:
        return len(self.axes)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Number of blocks per axis."""
        return tuple(axis.count for axis in self.axes)

    @cached_property
    def count(self) -> int:
        """Number of boxes."""
        return prod(self.counts)

    @property
    def largest(self) -> tuple[int, ...]:
        """Shape of the largest box, clipped to the array."""
        return tuple(axis.largest for axis in self.axes)

    @property
    def largest_stored(self) -> tuple[int, ...]:
        """Shape of the largest box as it is stored, overhang included."""
        return tuple(axis.largest_stored for axis in self.axes)

    @property
    def overhangs(self) -> bool:
        """Whether any stored box extends beyond the array."""
        return any(axis.lead or axis.trail for axis in self.axes)

    def box(self, index: Sequence[int]) -> Box:
        """A box by its index, clipped to the array."""
        pairs = [axis.interval(i) for axis, i in zip(self.axes, index, strict=True)]
        return Box(tuple(a for a, _ in pairs), tuple(b for _, b in pairs))

    def stored(self, index: Sequence[int]) -> Box:
        """A box by its index as it is stored, overhang included."""
        pairs = [axis.stored(i) for axis, i in zip(self.axes, index, strict=True)]
        return Box(tuple(a for a, _ in pairs), tuple(b for _, b in pairs))

    def number(self, index: Sequence[int]) -> int:
        """The number of a box, in C order."""
        number = 0
        for i, count in zip(index, self.counts, strict=True):
            number = number * count + i
        return number

    def index(self, number: int) -> tuple[int, ...]:
        """The index of a box by its number."""
        found = []
        for count in reversed(self.counts):
            number, i = divmod(number, count)
            found.append(i)
        return tuple(found[::-1])

    def size_before(self, number: int) -> int:
        """Elements of all boxes with lower numbers."""
        if number >= self.count:
            return prod(self.shape)
        found, beside, inside = 0, 1, prod(self.shape)
        for axis, i in zip(self.axes, self.index(number), strict=True):
            start, stop = axis.interval(i)
            inside //= max(axis.length, 1)
            found += beside * start * inside
            beside *= stop - start
        return found

    def touching(self, box: Box, order: Sequence[int] | None = None) -> Iterator[tuple[int, ...]]:
        """Indices of the boxes that meet a box; `order` lists the axes from the slowest to the fastest."""
        ranges = [axis.touching(a, b) for axis, a, b in zip(self.axes, box.start, box.stop, strict=True)]
        if order is None or tuple(order) == tuple(range(self.ndim)):
            return product(*ranges)
        where = inverse(order)
        return (tuple(index[place] for place in where) for index in product(*(ranges[axis] for axis in order)))

    def indices(self, order: Sequence[int] | None = None) -> Iterator[tuple[int, ...]]:
        """Every index; `order` as in `touching`."""
        return self.touching(Box.whole(self.shape), order)

    def refine(self, other: Grid) -> Grid:
        """The common refinement: every cut of both."""
        return Grid(tuple(a.refine(b) for a, b in zip(self.axes, other.axes, strict=True)))

    def crop(self, box: Box) -> Grid:
        """The part inside a box, in coordinates relative to it; cut boxes keep their full stored extent."""
        return Grid(tuple(axis.crop(a, b) for axis, a, b in zip(self.axes, box.start, box.stop, strict=True)))

    def permute(self, axes: Sequence[int]) -> Grid:
        """The grid of the transposed array."""
        return Grid(tuple(self.axes[a] for a in axes))

    def clipped(self) -> Grid:
        """The same cuts without overhang."""
        return Grid(tuple(axis.clipped() for axis in self.axes))

    def covers(self, other: Grid) -> bool:
        """Whether every box of this grid is a union of boxes of the other."""
        return self.refine(other).counts == other.counts

    def meeting(self, other: Grid, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Mark the blocks that meet any marked block of another grid over the same array; both are indexed by block."""
        found = chosen
        for number, (mine, theirs) in enumerate(zip(self.axes, other.axes, strict=True)):
            starts = mine.starts(np.arange(mine.count + 1))
            before = np.insert(np.cumsum(found, axis=number), 0, 0, axis=number)
            low, high = theirs.indices(starts[:-1]), theirs.indices(np.minimum(starts[1:], mine.length) - 1) + 1
            found = before.take(high, number) > before.take(low, number)
        return found

    def to_json(self) -> list[Any]:
        """One entry per axis: an integer or a list of lengths."""
        return [axis.to_json() for axis in self.axes]

    @classmethod
    def from_json(cls, value: Any, shape: Sequence[int]) -> Grid:
        """Inverse of `to_json`; UsageError for anything else."""
        axes = items(value, "chunks", len(shape))
        return cls(tuple(Axis.from_json(cut, length) for cut, length in zip(axes, shape, strict=True)))

    def __str__(self) -> str:
        return chunk_text([_text_cut(axis) for axis in self.axes])


def _axis(length: int, cut: Cut, *, padded: bool) -> Axis:
    longest = max(length, cut if isinstance(cut, int) else 0)
    if longest > MAX_LENGTH:
        raise UsageError(f"an axis or chunk of {longest} elements is too long: the limit is 2**62 = {MAX_LENGTH}")
    if isinstance(cut, int):
        if cut < 1:
            raise UsageError(f"a chunk length must be at least 1, not {cut}")
        return Axis.regular(length, cut, padded=padded)
    if any(n < 1 for n in cut) or sum(cut) != length:
        raise UsageError(f"chunk lengths {'+'.join(map(str, cut))} must be positive and add up to {length}")
    return Axis.of(cut)


def _text_cut(axis: Axis) -> Cut | str:
    if axis.step is not None or not axis.count:
        return axis.step or 0
    return tuple(axis.lengths()) if axis.count <= 8 else f"{axis.count} blocks of {axis.largest} or less"


def chunk_text(chunks: Sequence[Cut | str]) -> str:
    """Chunks in the notation of the command line."""
    return ",".join("+".join(map(str, c)) if isinstance(c, tuple) else str(c) for c in chunks) or "()"


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes another."""
    places = [0] * len(order)
    for place, axis in enumerate(order):
        places[axis] = place
    return tuple(places)
