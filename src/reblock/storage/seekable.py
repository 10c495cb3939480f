"""A read-only Python file with a position, for libraries that read bytes that are not a plain local file."""

from __future__ import annotations

import io


class SeekableFile(io.RawIOBase):
    """A file of a known size; subclasses read at `position` and move it."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.position = size, 0

    def readable(self) -> bool:
        """As for files."""
        return True

    def seekable(self) -> bool:
        """As for files."""
        return True

    def tell(self) -> int:
        """The position."""
        return self.position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.position, io.SEEK_END: self.size}[whence]
        self.position = max(start + offset, 0)
        return self.position
