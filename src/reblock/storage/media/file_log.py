"""A log in one local file: every line is synced, and links are never followed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from reblock.errors import FormatError, LockedError
from reblock.storage.media.durable import Name, rename_new
from reblock.storage.media.files import disk_errors, flush, flush_data, open_regular, sync, write_file

#: The longest line that is read.
_LONGEST = 1 << 30


class FileLog:
    """An append-only file of lines."""

    def __init__(self, key: str, at: int | None = None) -> None:
        """`at` is the handle of the file's folder, if there is one; then only the last name of the path counts."""
        self.key = key
        self._at = at

    @classmethod
    def create(cls, key: str, line: bytes, *, at: int | None = None) -> FileLog:
        """A new, durable log; it exists with its whole first line or not at all. Only one process can make it."""
        draft = key + ".new"
        with disk_errors("create", key):
            old, new = (draft, key) if at is None else (os.path.basename(draft), os.path.basename(key))
            with suppress(FileNotFoundError):
                os.unlink(old, dir_fd=at)
            write_file(draft, line, at=at)
            try:
                rename_new(Name(at, old), Name(at, new))
            except FileExistsError:
                raise LockedError(f"{key} was made by another run just now: try again") from None
            if at is not None:
                flush(at)
        if at is None:
            sync(os.path.dirname(key))
        sync(os.path.dirname(os.path.dirname(key)))
        return cls(key, at)

    @classmethod
    def find(cls, key: str, *, at: int | None = None) -> FileLog | None:
        """An existing log, or None; FormatError if something other than a file is in its place."""
        with disk_errors("read", key):
            try:
                os.close(open_regular(key, os.O_RDONLY, at=at))
            except FileNotFoundError:
                return None
        return cls(key, at)

    def lines(self) -> Iterator[bytes]:
        """All lines; a line that is longer than any of ours is cut, so its checksum fails."""
        with disk_errors("read", self.key), open(open_regular(self.key, os.O_RDONLY, at=self._at), "rb") as file:
            while line := file.readline(_LONGEST):
                yield line

    def append(self, line: bytes, after: int) -> None:
        """Write a line at a byte offset, which becomes the end of the file if it is not, and sync it."""
        data = memoryview(line)
        with disk_errors("write", self.key):
            descriptor = open_regular(self.key, os.O_WRONLY, at=self._at)
            try:
                if (size := os.fstat(descriptor).st_size) < after:
                    raise FormatError(f"{self.key} became shorter during the run: {size:,} of {after:,} bytes")
                if size != after:
                    os.ftruncate(descriptor, after)
                while data:
                    written = os.pwrite(descriptor, data, after)
                    data, after = data[written:], after + written
                flush_data(descriptor)
            finally:
                os.close(descriptor)
