"""Counts what buffers really read and wrote, and brings it to the report, also from other processes of this machine."""

from __future__ import annotations

import json
import os
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from threading import RLock
from typing import Any
from uuid import uuid4


@dataclass
class BufferCounts:
    """What happened at run time; sums over all processes that tell."""

    buffers: int = 0
    """Buffers that were read."""
    deferred: int = 0
    """Buffers that were not read at once, because memory was short."""
    pieces: int = 0
    """Loads, or parts of loads, that were taken from buffers."""
    direct: int = 0
    """Pieces that were read directly from the file."""
    gathered: int = 0
    """Buffers that were written."""
    scattered: int = 0
    """Chunks that were written one by one, although a buffer was planned."""
    opens: int = 0
    """Visits to objects."""
    runs: int = 0
    """Contiguous byte ranges."""
    seeks: int = 0
    """Openings plus runs inside partly touched objects."""
    bytes: int = 0
    """Logical bytes moved."""
    peak_bytes: int = 0
    """The most bytes in buffers of one process."""

    def add(self, other: BufferCounts) -> None:
        """Add what another process, or another buffer, has counted."""
        for f in fields(self):
            mine, theirs = getattr(self, f.name), getattr(other, f.name)
            setattr(self, f.name, max(mine, theirs) if f.name == "peak_bytes" else mine + theirs)


#: The most arrays and notes that one report remembers.
_MAX_ROWS, _MAX_NOTES = 1000, 20


@dataclass
class Records:
    """Everything that was reported."""

    tally: BufferCounts = field(default_factory=BufferCounts)
    """What happened at run time."""
    arrays: list[dict[str, Any]] = field(default_factory=list)
    """What was planned for each array of each graph."""
    notes: list[str] = field(default_factory=list)
    """What was left alone, and why."""
    graphs: int = 0
    """Graphs that were optimised."""

    def add(self, record: dict[str, Any]) -> None:
        """Add one record, as it is written to files."""
        self.tally.add(BufferCounts(**record.get("tally", {})))
        self.graphs += record.get("graphs", 0)
        self.arrays = [*self.arrays, *record.get("arrays", ())][-_MAX_ROWS:]
        for note in record.get("notes", ()):
            if note not in self.notes and len(self.notes) < _MAX_NOTES:
                self.notes.append(note)


@dataclass(frozen=True)
class Channel:
    """The way to a report: straight to it in its own process, through a file from others on the same machine."""

    name: str
    """Its unique name."""
    process: int
    """The process of the report."""
    path: str | None = None
    """A file to which other processes append."""

    def post(self, **record: Any) -> None:
        """Report something; never fails."""
        with _lock:
            if os.getpid() == self.process:
                if self.name in _open:
                    _open[self.name].add(record)
                return
        if self.path is not None:
            line = json.dumps(record) + "\n"
            # A report is not worth a failure.
            with suppress(OSError):
                descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
                try:
                    os.write(descriptor, line.encode())
                finally:
                    os.close(descriptor)

    def count(self, **counts: int) -> None:
        """Report counts."""
        self.post(tally=counts)


# Garbage collection may close a channel while this thread posts to another.
_lock = RLock()
_open: dict[str, Records] = {}


class Collector:
    """Receives what is reported through a channel."""

    def __init__(self) -> None:
        descriptor, path = tempfile.mkstemp(prefix="reblock-dask-", suffix=".report")
        os.close(descriptor)
        self.channel = Channel(uuid4().hex, os.getpid(), path)
        with _lock:
            _open[self.channel.name] = Records()
        weakref.finalize(self, _close, self.channel)

    def records(self) -> Records:
        """Everything so far."""
        found = Records()
        with _lock:
            mine = _open[self.channel.name]
            found.add({"tally": asdict(mine.tally), "graphs": mine.graphs, "arrays": mine.arrays, "notes": mine.notes})
        for record in _lines(self.channel):
            found.add(record)
        return found


def _close(channel: Channel) -> None:
    with _lock:
        _open.pop(channel.name, None)
    if channel.path is not None and os.getpid() == channel.process:
        with suppress(OSError):
            os.unlink(channel.path)


def _lines(channel: Channel) -> Iterator[dict[str, Any]]:
    if channel.path is None:
        return
    with suppress(OSError), open(channel.path, encoding="utf-8") as file:
        for line in file:
            with suppress(ValueError):
                yield json.loads(line)


@dataclass(frozen=True)
class Run:
    """One optimised graph: the limits of its buffers, and where they report."""

    memory_bytes: int
    """The budget of buffers in each process."""
    staging_bytes: int
    """The budget of a reader or writer, beside the buffers."""
    channel: Channel | None = None
    """Where to report."""

    def count(self, **counts: int) -> None:
        """Report counts."""
        if self.channel is not None:
            self.channel.count(**counts)

    def note(self, text: str) -> None:
        """Report a reason why a buffer was not used."""
        if self.channel is not None:
            self.channel.post(notes=[text])
