"""What open objects of several media have in common: closing, and reading through another handle."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from reblock.model.medium import ReadHandle, Status
from reblock.model.store import Flat


class Closing:
    """Closes itself at the end of a `with` block."""

    def close(self) -> None:
        """Nothing to close."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class WrappedReader(Closing):
    """An object that is read through another handle."""

    def __init__(self, handle: ReadHandle) -> None:
        self.key = handle.key
        self._handle = handle

    def size(self) -> int:
        """Bytes of the object."""
        return self._handle.size()

    def status(self) -> Status:
        """Its size and stamp."""
        return self._handle.status()

    def read(self, view: memoryview, offset: int, *, once: bool = False) -> int:
        """Fill a view from a byte offset."""
        return self._handle.read(view, offset, once=once)

    def read_run(self, staging: Flat, offset: int, size: int, *, once: bool = False) -> tuple[Flat, int]:
        """Read one range to the start of a buffer, by `read`."""
        return staging[:size], self.read(staging[:size].data, offset, once=once)

    def close(self) -> None:
        """Close the object."""
        self._handle.close()
