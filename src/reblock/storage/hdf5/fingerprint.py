"""Seal: whether the metadata of an unfinished HDF5 file without filters is still what it was when it was created.

The engine writes elements to places that the file's own index names, and HDF5 does not check that index. A flipped bit
there would send a chunk into another one. Since nothing but elements changes until the end, a hash of all other bytes
is kept in a side file, and compared before the file is gone on with.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress

from reblock.errors import CorruptError
from reblock.storage.media.files import disk_errors, write_file

#: Bytes that are read at a time.
_PIECE = 1 << 20

#: First byte and length of a chunk.
Place = tuple[int, int]


def seal(path: str, places: Iterable[Place]) -> None:
    """Remember what a new file has besides its chunks."""
    with disk_errors("write", _side(path)):
        with suppress(FileNotFoundError):
            os.unlink(_side(path))
        write_file(_side(path), _hash(path, places))


def check_seal(path: str, places: Iterable[Place]) -> None:
    """CorruptError where that is not what it was; nothing where no seal is left."""
    with disk_errors("read", _side(path)):
        try:
            with open(_side(path), "rb") as file:
                before = file.read()
        except FileNotFoundError:
            return
    if before != _hash(path, places):
        raise CorruptError(f"{path}: the metadata of the unfinished file was changed")


def break_seal(path: str) -> None:
    """The metadata is about to change."""
    with disk_errors("remove", _side(path)), suppress(FileNotFoundError):
        os.unlink(_side(path))


def _hash(path: str, places: Iterable[Place]) -> bytes:
    found = hashlib.blake2b(digest_size=32)
    with disk_errors("read", path), open(path, "rb", buffering=0) as file:
        size, at = os.fstat(file.fileno()).st_size, 0
        for start, length in [*sorted(places), (size, 0)]:
            found.update(f"{start} {length}\n".encode())
            file.seek(at)
            while at < start and (data := file.read(min(start - at, _PIECE))):
                found.update(data)
                at += len(data)
            at = max(at, start + length)
    return found.digest()


def _side(path: str) -> str:
    return path + ".seal"
