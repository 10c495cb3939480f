"""The ledger: the engine reports finished write boxes to it, and learns which an earlier attempt has finished."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Protocol


class Sums(NamedTuple):
    """Digest sums of some elements of an array; the sums of parts add up to those of the whole."""

    first: int = 0
    """First sum, modulo 2⁶⁴."""
    second: int = 0
    """Second sum, modulo 2⁶⁴."""

    @classmethod
    def of(cls, parts: Iterable[Sums]) -> Sums:
        """The sums of several parts together."""
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
    """One write box whose bytes have been passed to the operating system."""

    number: int
    """Its number in the pass's write grid, in C order."""
    path: str
    """The file that holds its bytes; empty if the format's library placed them."""
    bytes: int
    """Logical bytes."""
    sums: Sums
    """Digest sums of its elements, as they were read."""


class Ledger(Protocol):
    """Records which write boxes are done. The engine calls it from any thread."""

    def finished(self, sweep: int) -> Collection[int]:
        """Numbers of the write boxes of a pass that an earlier attempt has finished."""

    def record(self, sweep: int, boxes: Sequence[Finished]) -> None:
        """Report written boxes of a pass; they count as done once they are durable.

        The call may wait, to limit how much is not durable yet, and raises if boxes could not be made durable.
        """
