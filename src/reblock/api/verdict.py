"""Verdict: whether two arrays hold the same elements, and where they differ first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Difference:
    """The first element that differs."""

    index: tuple[int, ...]
    """Its index in the source; the first in C order of the source's axes."""
    source: Any
    """The source's value: a number, or text if JSON cannot express it."""
    target: Any
    """The target's value."""

    def to_json(self) -> dict[str, Any]:
        return {"index": list(self.index), "source": self.source, "target": self.target}


@dataclass(frozen=True)
class Verdict:
    """Whether two arrays hold the same elements."""

    equal: bool
    """Whether the arrays are equal."""
    differences: tuple[str, ...]
    """The differences in words, the most important first; including a stored digest that does not match."""
    source_digest: str | None = None
    """Digest of the source's elements; None if shapes or types differ."""
    target_digest: str | None = None
    """Digest of the target's elements, likewise."""
    differing_elements: int | None = None
    """The number of elements that differ in any bit; None if shapes or types differ."""
    first_difference: Difference | None = None
    """The first differing element, or None."""

    def __bool__(self) -> bool:
        return self.equal

    def to_json(self) -> dict[str, Any]:
        first = self.first_difference
        return {
            "equal": self.equal,
            "source_digest": self.source_digest,
            "target_digest": self.target_digest,
            "differing_elements": self.differing_elements,
            "first_difference": None if first is None else first.to_json(),
            "differences": list(self.differences),
        }
