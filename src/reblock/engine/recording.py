"""A disk that does everything and writes down what it did, to hold predictions against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reblock.engine.disk import Disk, Handle
from reblock.model import Bytes


@dataclass
class Visit:
    """One opening of one file."""

    path: str
    """The file."""
    writing: bool
    """Whether it was opened for writing."""
    ranges: list[tuple[int, int]] = field(default_factory=list)
    """Byte ranges moved, first byte and end, in the order of the calls."""

    def runs(self, skip: int = 0) -> list[tuple[int, int]]:
        """Contiguous ranges: calls that follow each other without a gap are one. Bytes before `skip` are headers."""
        joined: list[tuple[int, int]] = []
        for start, stop in self.ranges:
            if stop <= skip:
                continue
            if joined and joined[-1][1] == start:
                joined[-1] = (joined[-1][0], stop)
            else:
                joined.append((max(start, skip), stop))
        return joined


class RecordingDisk(Disk):
    """A real disk whose every visit and byte range is kept in `visits`."""

    def __init__(self) -> None:
        super().__init__()
        self.visits: list[Visit] = []

    def reader(
        self,
        path: str,
        *,
        direct: bool = False,  # noqa: ARG002 - pages would blur the ranges
        number: int | None = None,
    ) -> Handle:
        """Open a file for reading and note it."""
        return self._recorded(super().reader(path, number=number), writing=False)

    def writer(self, path: str) -> Handle:
        """Open a file for writing and note it."""
        return self._recorded(super().writer(path), writing=True)

    def _recorded(self, handle: Handle, *, writing: bool) -> Handle:
        visit = Visit(handle.path, writing)
        self.visits.append(visit)
        return _RecordingHandle(handle, visit)

    def counts(self, *, writing: bool, skip: int = 0) -> tuple[int, int, int]:
        """Opens, contiguous runs and bytes of one direction; each file's first `skip` bytes are headers."""
        runs = [run for visit in self.visits if visit.writing == writing for run in visit.runs(skip)]
        opens = sum(visit.writing == writing for visit in self.visits)
        return opens, len(runs), sum(stop - start for start, stop in runs)


class _RecordingHandle(Handle):
    def __init__(self, handle: Handle, visit: Visit) -> None:
        super().__init__(handle.path, handle.detach())
        self._visit = visit

    def read(self, view: memoryview, offset: int, *, once: bool = False) -> int:
        count = super().read(view, offset, once=once)
        self._visit.ranges.append((offset, offset + count))
        return count

    def write(self, parts: Sequence[Bytes], offset: int) -> None:
        super().write(parts, offset)
        self._visit.ranges.append((offset, offset + sum(len(part) for part in parts)))
