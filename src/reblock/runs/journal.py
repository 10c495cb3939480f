"""Journal: an append-only log that states the problem of a run and its finished write boxes.

::

    {"journal": 3, "problem": {...}, "plan": {...}, "boxes": [512], "source": {...}}            1f0c...   header
    {"pass": 0, "boxes": [[0, 96], [97, 99]], "bytes": 3145728, "sums": "...", "stamps": "..."}  77aa...   a group
    {"complete": {"inode": 1234, "digest": "..."}}                                           09b2...   the array

Every line ends in a checksum of itself. The last line may be incomplete after a kill or a power loss; then it is
ignored. Nothing after a bad line is trusted. Boxes are half-open ranges of numbers in the pass's write grid, in C
order. Sums and stamps are 64-bit little-endian integers in base64, two and one per box in the order of the numbers.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import FormatError, command
from reblock.model.ledger import Sums
from reblock.model.workspace import Log

#: Version of the journal.
VERSION = 3
_SUM_BYTES = 8

Integers = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Group:
    """Write boxes of one pass that became durable together."""

    number: int
    """The pass."""
    boxes: Integers
    """Their numbers, ascending."""
    bytes: int
    """Their logical bytes."""
    sums: Integers | None = None
    """Two digest sums of each box, if digests are kept."""
    stamps: Integers | None = None
    """The state of each box's own file, if it has one."""

    def sums_of(self, place: int) -> Sums | None:
        """Digest sums of the box at a position of the group."""
        return None if self.sums is None else Sums(int(self.sums[place, 0]), int(self.sums[place, 1]))

    def without(self, boxes: Integers) -> Group:
        """The group without some boxes."""
        kept = ~np.isin(self.boxes, boxes)
        sums, stamps = (None if values is None else values[kept] for values in (self.sums, self.stamps))
        return replace(self, boxes=self.boxes[kept], sums=sums, stamps=stamps)

    def to_json(self) -> dict[str, Any]:
        """The group as JSON, for a line."""
        made: dict[str, Any] = {"pass": self.number, "boxes": to_ranges(self.boxes), "bytes": self.bytes}
        if self.sums is not None:
            made["sums"] = _pack(self.sums)
        if self.stamps is not None:
            made["stamps"] = _pack(self.stamps)
        return made

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Group:
        """Inverse of `to_json`."""
        boxes = from_ranges(value["boxes"])
        sums, stamps = (_unpack(value[name]) if name in value else None for name in ("sums", "stamps"))
        if (sums is not None and sums.size != 2 * boxes.size) or (stamps is not None and stamps.size != boxes.size):
            raise ValueError("sums or stamps do not fit the boxes")
        return cls(value["pass"], boxes, value["bytes"], None if sums is None else sums.reshape(-1, 2), stamps)


class Journal:
    """The journal of one run."""

    def __init__(self, log: Log, header: dict[str, Any], trusted: int) -> None:
        """`trusted` is the number of bytes of the log's trusted lines."""
        self.log = log
        self.header = header
        self.trusted = trusted

    @classmethod
    def create(cls, begin: Callable[[bytes], Log], header: dict[str, Any]) -> Journal:
        """A new, durable journal in the log that `begin` makes with its first line."""
        header = {"journal": VERSION, **header}
        line = _seal(header)
        return cls(begin(line), header, len(line))

    @classmethod
    def open(cls, log: Log | None) -> Journal | None:
        """The journal in a log, or None if there is none."""
        if log is None:
            return None
        found = log.lines()
        first = next(found, b"")
        header = _open_line(first)
        if header is None or header.get("journal") != VERSION:
            raise FormatError(
                f"{log.key} is no journal of version {VERSION}: remove the unfinished run with {command('clean')}"
            )
        trusted = len(first)
        for line in found:
            if _open_line(line) is None:
                break
            trusted += len(line)
        return cls(log, header, trusted)

    def lines(self) -> Iterator[dict[str, Any]]:
        """The trusted lines after the header."""
        found, done = self.log.lines(), 0
        for text in found:
            if (line := _open_line(text)) is None:
                break
            if done:
                yield line
            done += len(text)
            if done >= self.trusted:
                return
        raise FormatError(f"{self.log.key} changed while it was read")

    def groups(self) -> Iterator[Group]:
        """Finished boxes that still count, without those that were dropped later."""
        forgotten: dict[int, int] = {}
        for place, line in enumerate(self.lines()):
            if "forget" in line:
                forgotten.update(dict.fromkeys(line["forget"], place))
        for place, line in enumerate(self.lines()):
            if "boxes" in line and place > forgotten.get(line["pass"], -1):
                yield Group.from_json(line)

    def dropped(self) -> set[int]:
        """Intermediate arrays that have been read completely and may be removed."""
        found: set[int] = set()
        for line in self.lines():
            found.update(line.get("drop", ()))
            found.difference_update(line.get("forget", ()))
        return found

    def complete(self) -> dict[str, Any] | None:
        """The line on the finished array, or None."""
        found = None
        for line in self.lines():
            found = line.get("complete", None if "forget" in line else found)
        return found

    def append(self, line: dict[str, Any]) -> None:
        """Add a line, which is durable when this returns; the untrusted end is cut off first."""
        data = _seal(line)
        self.log.append(data, self.trusted)
        self.trusted += len(data)


def to_ranges(numbers: Integers) -> list[list[int]]:
    """Ascending numbers as half-open ranges."""
    if not numbers.size:
        return []
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    starts = numbers[np.concatenate(([0], breaks))]
    stops = numbers[np.concatenate((breaks - 1, [numbers.size - 1]))] + np.uint64(1)
    return [[int(a), int(b)] for a, b in zip(starts, stops, strict=True)]


def from_ranges(ranges: Sequence[Sequence[int]]) -> Integers:
    """Inverse of `to_ranges`."""
    parts = [np.arange(a, b, dtype=np.uint64) for a, b in ranges]
    return np.concatenate(parts) if parts else np.zeros(0, np.uint64)


def _pack(values: Integers) -> str:
    return base64.b64encode(values.astype("<u8").tobytes()).decode("ascii")


def _unpack(text: str) -> Integers:
    return np.frombuffer(base64.b64decode(text, validate=True), "<u8").astype(np.uint64)


def _seal(line: dict[str, Any]) -> bytes:
    text = json.dumps(line, separators=(",", ":"), sort_keys=True).encode()
    return text + b" " + hashlib.blake2b(text, digest_size=_SUM_BYTES).hexdigest().encode() + b"\n"


def _open_line(data: bytes) -> dict[str, Any] | None:
    """The contents of a line, or None if it is incomplete or was changed."""
    text, _, seal = data.rpartition(b" ")
    if seal != hashlib.blake2b(text, digest_size=_SUM_BYTES).hexdigest().encode() + b"\n":
        return None
    line: dict[str, Any] = json.loads(text)
    return line
