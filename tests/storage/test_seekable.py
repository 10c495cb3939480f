"""A file with a position that libraries read: positions, and reads to the end."""

from __future__ import annotations

import io
from typing import Any

from reblock.storage.seekable import SeekableFile


class Letters(SeekableFile):
    """Reads from bytes."""

    def __init__(self, data: bytes) -> None:
        super().__init__(len(data))
        self._data = data

    def readinto(self, buffer: Any) -> int:
        found = self._data[self.position : self.position + len(buffer)]
        buffer[: len(found)] = found
        self.position += len(found)
        return len(found)


def test_positions_and_reads() -> None:
    file = Letters(b"abcdefgh")
    assert (file.readable(), file.seekable(), file.writable()) == (True, True, False)
    assert (file.read(3), file.tell()) == (b"abc", 3)
    assert (file.seek(2, io.SEEK_CUR), file.read(2)) == (5, b"fg")
    assert (file.seek(-3, io.SEEK_END), file.read()) == (5, b"fgh")
    assert (file.seek(20), file.read(1)) == (20, b"")
    assert file.seek(-5) == 0
    assert io.BufferedReader(file).read() == b"abcdefgh"
