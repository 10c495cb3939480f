"""What the engine tells about finished write boxes, and what it is told about those of an earlier attempt."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Protocol


class Sums(NamedTuple):
    """Digest sums of some elements of an array; those of a whole are the sums of its parts."""

    first: int = 0
    """First sum, modulo 2⁶⁴."""
    second: int = 0
    """Second sum, modulo 2⁶⁴."""

    @classmethod
    def of(cls, parts: Iterable[Sums]) -> Sums:
        """Those of a whole."""
        first = second = 0
        for a, b in parts:
            first += a
            second += b
        return cls(first % 2**64, second % 2**64)

    def __add__(self, other: object) -> Sums:
        if not isinstance(other, Sums):
            return NotImplemented
        return Sums.of((self, other))


class Finished(NamedTuple):
    """One write box whose bytes were handed to the operating system."""

    number: int
    """Its number in the pass's write grid, in C order."""
    path: str
    """The file that its bytes went to; empty where the format's library placed them."""
    bytes: int
    """Logical bytes."""
    sums: Sums
    """Digest sums of its elements, as they were read."""


class Ledger(Protocol):
    """Remembers which write boxes are done. The engine calls it from any thread."""

    def finished(self, sweep: int) -> Collection[int]:
        """Numbers of the write boxes of a pass that an earlier attempt has finished."""

    def record(self, sweep: int, boxes: Sequence[Finished]) -> None:
        """Boxes of a pass were written; they count as done once they are durable.

        May wait, so that not too much is at risk, and raises if they could not be made durable.
        """
