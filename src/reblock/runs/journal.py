"""Journal: an append-only log that states the problem of a run and its finished write boxes.

::

    {"journal": 4, "problem": {...}, "plans": [...], "arrays": [...], "boxes": [512], ...}      1f0c...   header
    {"pass": 0, "boxes": [[0, 96], [97, 99]], "bytes": 3145728, "sums": "...", "stamps": "..."}  77aa...   a group
    {"done": "t2m", "digest": "..."}                                                         5b1e...   an array
    {"forget": [0, 1], "remade": true}                                                       c04d...   begin again
    {"complete": {"inode": 1234, "digest": "..."}}                                           09b2...   the target
    {"installed": true}                                            77e0...   a change, see `installing`

Every line ends in a checksum of itself. The last line may be incomplete after a kill or a power loss; then it is
ignored. Nothing after a bad line is trusted. Boxes are half-open ranges of numbers in the pass's write grid, in C
order. Sums and stamps are 64-bit little-endian integers in base64, two and one per box in the order of the numbers.

Passes are numbered consecutively over all arrays of a run. A `JournalPart` shows the passes of one array, from 0 on.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import FormatError, command
from reblock.model.ledger import Sums
from reblock.model.workspace import Log

#: Version of the journal.
VERSION = 4
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
        # Numbers of lines: the groups of each pass, and everything else with its contents.
        self._count = 0
        self._groups: dict[int, list[int]] = {}
        self._notes: list[tuple[int, dict[str, Any]]] = []

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
                f"{log.key} is not a journal of version {VERSION}: remove the unfinished run with {command('clean')}"
            )
        journal = cls(log, header, len(first))
        for text in found:
            if (line := _open_line(text)) is None:
                break
            journal._add(line, len(text))
        return journal

    def _add(self, line: dict[str, Any], size: int) -> None:
        if "boxes" in line:
            self._groups.setdefault(line["pass"], []).append(self._count)
        else:
            self._notes.append((self._count, line))
        self._count += 1
        self.trusted += size

    def groups(self, passes: Collection[int] | None = None) -> Iterator[Group]:
        """Finished boxes of all passes or of some that still count, without those that were dropped later."""
        counting = self._counting()
        wanted = {place for number in counting if passes is None or number in passes for place in counting[number]}
        if not wanted:
            return
        last = max(wanted)
        # The header is line -1.
        for place, text in enumerate(self.log.lines(), -1):
            if place in wanted:
                if (line := _open_line(text)) is None:
                    break
                yield Group.from_json(line)
            if place == last:
                return
        raise FormatError(f"{self.log.key} changed while it was read")

    def _counting(self) -> dict[int, list[int]]:
        """Lines of groups by pass, without those that were dropped later."""
        forgotten: dict[int, int] = {}
        # Copies, because another thread may append meanwhile.
        for place, line in list(self._notes):
            forgotten.update(dict.fromkeys(line.get("forget", ()), place))
        found = {
            number: [place for place in places if place > forgotten.get(number, -1)]
            for number, places in list(self._groups.items())
        }
        return {number: places for number, places in found.items() if places}

    def begun(self) -> set[int]:
        """Passes with finished boxes."""
        return set(self._counting())

    def dropped(self) -> set[int]:
        """Intermediate arrays that have been read completely and may be removed."""
        found: set[int] = set()
        for _, line in self._notes:
            found.update(line.get("drop", ()))
            found.difference_update(line.get("forget", ()))
        return found

    def done(self) -> dict[str, str | None]:
        """Names of arrays and tables that are finished, and their digests."""
        found: dict[str, str | None] = {}
        for _, line in self._notes:
            if "done" in line:
                found[line["done"]] = line["digest"]
            elif "remade" in line:
                found.clear()
        return found

    def has(self, note: str) -> bool:
        """Whether a line of this name was added."""
        return any(note in line for _, line in self._notes)

    def complete(self) -> dict[str, Any] | None:
        """The line on the finished target, or None."""
        found = None
        for _, line in self._notes:
            found = line.get("complete", None if "forget" in line else found)
        return found

    def is_installed(self) -> bool:
        """Whether the finished patch has been moved into the array that it changes."""
        found = False
        for _, line in self._notes:
            found = line.get("installed", False if "forget" in line else found)
        return found

    def part(self, first: int, count: int) -> JournalPart:
        """The passes of one array: `count` of them, from the pass `first` on."""
        return JournalPart(self, first, count)

    def append(self, line: dict[str, Any]) -> None:
        """Add a line, which is durable when this returns; the untrusted end is cut off first."""
        data = _seal(line)
        self.log.append(data, self.trusted)
        self._add(line, len(data))


@dataclass(frozen=True)
class JournalPart:
    """The passes of one array, numbered from 0."""

    journal: Journal
    """The journal of the whole run."""
    first: int
    """The array's first pass in it."""
    count: int
    """Number of its passes."""

    def groups(self, number: int) -> Iterator[Group]:
        """Finished boxes of a pass that still count."""
        for group in self.journal.groups([self.first + number]):
            yield replace(group, number=number)

    def begun(self) -> set[int]:
        """Passes with finished boxes."""
        return {number - self.first for number in self.journal.begun()} & set(range(self.count))

    def dropped(self) -> set[int]:
        """Intermediate arrays that have been read completely and may be removed."""
        return {number - self.first for number in self.journal.dropped()} & set(range(self.count))


def join_groups(groups: Sequence[Group]) -> Group:
    """Groups of one pass as one, in the order of the numbers; a box that was done twice counts as it was left last."""
    if len(groups) == 1 and np.all(np.diff(groups[0].boxes.astype(np.int64)) > 0):
        return groups[0]
    boxes = np.concatenate([group.boxes for group in groups])
    # `unique` keeps the first of equal numbers, and the last one counts.
    boxes, places = np.unique(boxes[::-1], return_index=True)

    def join(parts: Sequence[Integers | None]) -> Integers | None:
        known = [part for part in parts if part is not None]
        return np.concatenate(known)[::-1][places] if len(known) == len(parts) else None

    sums, stamps = join([group.sums for group in groups]), join([group.stamps for group in groups])
    return Group(groups[0].number, boxes, sum(group.bytes for group in groups), sums, stamps)


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
