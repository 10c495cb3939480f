"""A medium that forwards everything to another one and records it, for comparison with predictions."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from reblock.model.medium import Medium, ReadHandle, WriteHandle
from reblock.model.roots import Roots
from reblock.model.store import Bytes, Store
from reblock.storage.media.handles import Closing, WrappedReader
from reblock.storage.media.local import LOCAL


@dataclass
class Opening:
    """One opening of one object."""

    key: str
    """The object."""
    writing: bool
    """Whether it was opened for writing."""
    ranges: list[tuple[int, int]] = field(default_factory=list)
    """The byte ranges moved (first byte and end), in the order of the calls."""

    def runs(self, skip: int = 0) -> list[tuple[int, int]]:
        """Contiguous ranges: consecutive calls without a gap count as one. Bytes before `skip` are headers."""
        joined: list[tuple[int, int]] = []
        for start, stop in self.ranges:
            if stop <= skip:
                continue
            if joined and joined[-1][1] == start:
                joined[-1] = (joined[-1][0], stop)
            else:
                joined.append((max(start, skip), stop))
        return joined


class RecordingMedium:
    """Another medium with a record of every opening and byte range in `openings`."""

    is_local = False
    """Not local, because the compiled loop would bypass it."""

    def __init__(self, medium: Medium = LOCAL) -> None:
        self._medium = medium
        self.openings: list[Opening] = []

    def __getattr__(self, name: str) -> Any:
        # Calls that move no bytes go to the other medium.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._medium, name)

    def of(self, store: Store) -> Store:
        """The same store with its objects opened here; the caller must still finish a target."""
        # Not `copy.copy`: a store that is being written must keep its handles.
        other: Store = object.__new__(type(store))
        vars(other).update(vars(store), medium=cast("Medium", self))
        return other

    def reader(self, key: str, *, roots: Roots | None = None, direct: bool = False) -> ReadHandle:  # noqa: ARG002 - pages would blur the ranges
        """Open an object for reading, and record it."""
        return _RecordingReader(self._medium.reader(key, roots=roots), self._note(key, writing=False))

    def writer(self, key: str) -> WriteHandle:
        """Open an object for writing ranges, and record it."""
        return _RecordingWriter(self._medium.writer(key), self._note(key, writing=True))

    def write(self, key: str, parts: Sequence[Bytes]) -> None:
        """Write a whole object, and record it."""
        self._medium.write(key, parts)
        self._note(key, writing=True).ranges.append((0, sum(len(part) for part in parts)))

    def _note(self, key: str, *, writing: bool) -> Opening:
        opening = Opening(key, writing)
        self.openings.append(opening)
        return opening

    def counts(self, *, writing: bool, skip: int = 0) -> tuple[int, int, int]:
        """Opens, contiguous runs and bytes of one direction; each object's first `skip` bytes are headers."""
        runs = [run for opening in self.openings if opening.writing == writing for run in opening.runs(skip)]
        opens = sum(opening.writing == writing for opening in self.openings)
        return opens, len(runs), sum(stop - start for start, stop in runs)


class _RecordingReader(WrappedReader):
    """A handle that records reads."""

    def __init__(self, handle: ReadHandle, opening: Opening) -> None:
        super().__init__(handle)
        self._opening = opening

    def read(self, view: memoryview, offset: int, *, once: bool = False) -> int:
        count = self._handle.read(view, offset, once=once)
        self._opening.ranges.append((offset, offset + count))
        return count

    def fileno(self) -> int:
        raise io.UnsupportedOperation(f"{self.key}: reads from a descriptor cannot be recorded")


class _RecordingWriter(Closing):
    """A handle that records writes."""

    def __init__(self, handle: WriteHandle, opening: Opening) -> None:
        self.key = handle.key
        self._handle, self._opening = handle, opening

    def write(self, parts: Sequence[Bytes], offset: int) -> None:
        self._handle.write(parts, offset)
        self._opening.ranges.append((offset, offset + sum(len(part) for part in parts)))

    def resize(self, size: int) -> None:
        self._handle.resize(size)

    def close(self) -> None:
        self._handle.close()
