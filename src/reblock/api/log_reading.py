"""Reading logs of accesses: the accesses to one array, from a log and from those of single processes beside it."""

from __future__ import annotations

import glob
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from reblock.advisor.reads import Accesses
from reblock.api.access_log import READ, WRITE
from reblock.errors import DiskError, UsageError
from reblock.geometry.grid import chunk_text
from reblock.storage.location import Where

#: The longest line that is looked at.
_MAX_LINE_BYTES = 64 << 10


@dataclass
class _LoggedAccesses:
    """Accesses to one array, as they are read from a log."""

    shape: tuple[int, ...]
    """Shape of the array."""
    starts: list[list[int]] = field(default_factory=list)
    """Starts of boxes."""
    stops: list[list[int]] = field(default_factory=list)
    """Ends of boxes."""
    writes: list[bool] = field(default_factory=list)
    """Whether each access wrote."""


def read_log(path: Where, array: str | None, shape: Sequence[int]) -> tuple[Accesses, tuple[str, ...]]:
    """The accesses to an array in a log, and remarks on the log.

    Without the array's location, or where the log has no access to it, accesses to an array of its shape are taken,
    if there is only one.
    """
    where, wanted = os.fspath(path), tuple(shape)
    found: dict[str, _LoggedAccesses] = {}
    damaged = 0
    for line in _lines(where):
        record = _record(line)
        if record is None:
            damaged += 1
            continue
        name, sides, op, start, stop = record
        reads = found.setdefault(f"{name} {sides}", _LoggedAccesses(tuple(sides)))
        reads.starts.append(start)
        reads.stops.append(stop)
        reads.writes.append(op == WRITE)
    own = "" if array is None else f"{array} {list(wanted)}"
    notes = [f"{damaged:,} damaged lines of {where} were skipped"] if damaged else []
    if own not in found:
        same = [name for name, reads in found.items() if reads.shape == wanted]
        if len(same) != 1:
            raise UsageError(_nothing(where, found, wanted))
        own = same[0]
        if array is not None:
            notes.append(f"{where} has no accesses to {array}; those to {own.rpartition(' [')[0]} are used")
    reads = found[own]
    rows = (len(reads.starts), len(wanted))
    accesses = Accesses(
        np.array(reads.starts, np.int64).reshape(rows),
        np.array(reads.stops, np.int64).reshape(rows),
        np.array(reads.writes, bool),
    )
    return accesses, tuple(notes)


def _nothing(where: str, found: dict[str, _LoggedAccesses], shape: tuple[int, ...]) -> str:
    if not found:
        return f"{where}: the log of accesses is empty"
    names = Counter({name.rpartition(" [")[0]: len(reads.starts) for name, reads in found.items()})
    some = ", ".join(f"{name} ({count:,})" for name, count in names.most_common(3))
    return f"{where}: no accesses to this array, or to exactly one array of {chunk_text(shape)}; it has {some}"


def _lines(path: str) -> Iterator[bytes]:
    """Lines of a log and of the logs of single processes beside it."""
    files = [path, *sorted(glob.glob(f"{glob.escape(path)}.*.*"))]
    existing = [file for file in files if os.path.lexists(file)]
    for file in existing or files[:1]:
        try:
            with open(file, "rb") as stream:
                while line := stream.readline(_MAX_LINE_BYTES):
                    if line.strip():
                        yield line
        except OSError as error:
            raise DiskError.wrap(error, doing="reading the log of accesses", path=file) from error


def _record(line: bytes) -> tuple[str, list[int], str, list[int], list[int]] | None:
    """The fields of a line; None if it is damaged."""
    try:
        value = json.loads(line)
        name, shape, op = value["array"], value["shape"], value["op"]
        start, stop = value["start"], value["stop"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    lists = (shape, start, stop)
    if not (isinstance(name, str) and op in (READ, WRITE) and all(isinstance(one, list) for one in lists)):
        return None
    if len({len(one) for one in lists}) != 1 or not all(type(n) is int for one in lists for n in one):
        return None
    if not all(0 <= a < b <= n < 2**62 for a, b, n in zip(start, stop, shape, strict=True)):
        return None
    return name, shape, op, start, stop
