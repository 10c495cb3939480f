"""Disk: the one place where files are opened, read and written; errors leave it with path and errno."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from reblock.errors import DiskError
from reblock.model import Bytes


class Handle:
    """One visit to one object: an open file."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def size(self) -> int:
        """Size of the file."""
        return os.fstat(self._descriptor).st_size

    def read(self, view: memoryview, offset: int) -> int:
        """Fill a view from a byte offset; returns how many bytes there were."""
        done = 0
        try:
            while done < len(view):
                count = os.preadv(self._descriptor, [view[done:]], offset + done)
                if not count:
                    break
                done += count
        except OSError as error:
            raise DiskError.wrap(error, doing="reading", path=self.path) from error
        return done

    def write(self, parts: Sequence[Bytes], offset: int) -> None:
        """Write buffers one behind the other from a byte offset."""
        views = [memoryview(part).cast("B") for part in parts if len(part)]
        try:
            while views:
                count = os.pwritev(self._descriptor, views[:64], offset)
                offset += count
                while views and count >= len(views[0]):
                    count -= len(views.pop(0))
                if count:
                    views[0] = views[0][count:]
        except OSError as error:
            raise DiskError.wrap(error, doing="writing", path=self.path) from error

    def resize(self, size: int) -> None:
        """Make the file that long."""
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise DiskError.wrap(error, doing="resizing", path=self.path) from error

    def detach(self) -> int:
        """Give the descriptor to another owner."""
        descriptor, self._descriptor = self._descriptor, -1
        return descriptor

    def close(self) -> None:
        """End the visit."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            try:
                os.close(descriptor)
            except OSError as error:
                raise DiskError.wrap(error, doing="closing", path=self.path) from error

    def __del__(self) -> None:
        # A failed run drops visits half way.
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Disk:
    """Opens files; tests replace it by one that records."""

    def reader(self, path: str) -> Handle:
        """Open a file for reading; FileNotFoundError where there is none."""
        try:
            return Handle(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise DiskError.wrap(error, doing="opening", path=path) from error

    def writer(self, path: str) -> Handle:
        """Open a file for writing; it and its folders are made where they do not exist."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        try:
            try:
                return Handle(path, os.open(path, flags, 0o666))
            except FileNotFoundError:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                return Handle(path, os.open(path, flags, 0o666))
        except OSError as error:
            raise DiskError.wrap(error, doing="creating", path=path) from error
