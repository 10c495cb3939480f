"""Access patterns: the reads and writes that an array is expected to serve, as classes of boxes with weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import isfinite

import numpy as np
import numpy.typing as npt

from reblock.errors import UsageError
from reblock.geometry.grid import chunk_text

#: Integers per access and axis.
Table = npt.NDArray[np.int64]


class Alignment(StrEnum):
    """Where the boxes of a class start."""

    ALIGNED = "aligned"
    """At the start of a chunk, as in the paper's eq. 1."""
    ANYWHERE = "anywhere"
    """At any element, each as likely as the others."""
    POSITIONS = "positions"
    """At known positions."""


@dataclass(frozen=True, eq=False)
class Positions:
    """The boxes of accesses that really happened, or are known to come."""

    starts: Table
    """First element of each box, one row per box."""
    lengths: Table
    """Lengths of each box, one row per box."""
    counts: Table
    """Number of times that each box is accessed."""

    @classmethod
    def of(cls, starts: Sequence[Sequence[int]], shape: Sequence[int]) -> Positions:
        """Boxes of one shape at several starts."""
        rows = np.array(starts, np.int64).reshape(len(starts), len(shape))
        return cls(rows, np.broadcast_to(np.array(shape, np.int64), rows.shape), np.ones(len(rows), np.int64))

    def thinned(self, most: int) -> Positions:
        """At most `most` of the boxes, evenly spread over them."""
        if len(self.counts) <= most:
            return self
        kept = np.linspace(0, len(self.counts) - 1, most).astype(np.int64)
        return Positions(self.starts[kept], self.lengths[kept], self.counts[kept])


@dataclass(frozen=True)
class AccessClass:
    """Accesses of one shape."""

    shape: tuple[int, ...]
    """Length of the box along each axis."""
    weight: float = 1.0
    """How often it happens, relative to the other classes."""
    alignment: Alignment = Alignment.ANYWHERE
    """Where the boxes start."""
    writes: bool = False
    """Whether it writes; otherwise it reads."""
    name: str = ""
    """What it is called in reports; "" = by its shape."""
    positions: Positions | None = field(default=None, compare=False, repr=False)
    """The boxes, if their positions are known."""

    @property
    def label(self) -> str:
        """Name for reports."""
        return self.name or f"{'write ' if self.writes else ''}{chunk_text(self.shape)}"


@dataclass(frozen=True)
class AccessPattern:
    """All classes of accesses to one array."""

    classes: tuple[AccessClass, ...]
    """The classes; their weights need not add up to 1."""
    explained: float = 1.0
    """Part of the log's accesses that the classes contain; 1 for a pattern that was given."""
    accesses: int | None = None
    """Number of accesses in the log; None for a pattern that was given."""
    notes: tuple[str, ...] = ()
    """Remarks on how the pattern was found."""

    @property
    def weights(self) -> npt.NDArray[np.float64]:
        """Probability of each class."""
        weights = np.array([one.weight for one in self.classes], np.float64)
        share: npt.NDArray[np.float64] = weights / weights.sum()
        return share

    @property
    def model(self) -> str:
        """Where accesses start: the alignment of all classes, or `mixed`."""
        found = {one.alignment for one in self.classes}
        return found.pop().value if len(found) == 1 else "mixed"

    def part(self, numbers: Sequence[int]) -> AccessPattern:
        """The pattern of some of the classes."""
        return replace(self, classes=tuple(self.classes[number] for number in numbers))

    def aligned(self, alignment: Alignment) -> AccessPattern:
        """The same classes with boxes that start elsewhere."""
        return replace(self, classes=tuple(replace(one, alignment=alignment, positions=None) for one in self.classes))

    def check(self, shape: Sequence[int]) -> None:
        """Raise UsageError if the pattern cannot be one of an array of this shape."""
        if not self.classes:
            raise UsageError("the access pattern has no classes: name at least one box shape")
        for number, one in enumerate(self.classes):
            _check_class(one, f"class {number + 1} of the access pattern", tuple(shape))
        if not isfinite(sum(one.weight for one in self.classes)):
            raise UsageError("the weights of the access pattern add up to more than a number can hold")


def _check_class(one: AccessClass, what: str, shape: tuple[int, ...]) -> None:
    if len(one.shape) != len(shape):
        raise UsageError(f"{what} has {len(one.shape)} axes, the array has {len(shape)}")
    if not (isfinite(one.weight) and one.weight > 0):
        raise UsageError(f"{what} has the weight {one.weight:g}: a weight is a number above 0")
    for axis, (length, whole) in enumerate(zip(one.shape, shape, strict=True)):
        if not 1 <= length <= whole:
            raise UsageError(
                f"{what} is {chunk_text(one.shape)}: its length {length} on axis {axis} must be from 1 to {whole}, "
                "the length of the array"
            )
    if (one.positions is None) == (one.alignment is Alignment.POSITIONS):
        raise UsageError(f"{what} is {one.alignment}, which contradicts its positions")
    if one.positions is not None:
        starts, ends = one.positions.starts, one.positions.starts + one.positions.lengths
        outside = ((starts < 0) | (ends > np.array(shape, np.int64))).any(axis=1)
        if not len(starts):
            raise UsageError(f"{what} has an empty list of positions")
        if outside.any():
            start = ",".join(map(str, starts[int(outside.argmax())].tolist()))
            raise UsageError(f"{what} at {start} does not fit into the array of {chunk_text(shape)}")
