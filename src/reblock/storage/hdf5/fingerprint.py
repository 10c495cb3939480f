"""Seal: whether the metadata of an unfinished HDF5 file without filters is still what it was when it was created.

The engine writes elements to places that the file's own index names, and HDF5 does not check that index. A flipped bit
there would send a chunk into another one. Since nothing but elements changes until the end, a hash of all other bytes
is kept in a side file, and compared before the file is gone on with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from reblock.errors import CorruptError
from reblock.storage.media.files import disk_errors
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import exists, read_head

#: Bytes that are read at a time.
_PIECE = 1 << 20
_DIGEST_BYTES = 32

#: First byte and length of a chunk.
Place = tuple[int, int]


def seal(path: str, places: Iterable[Place]) -> None:
    """Remember what a new file has besides its chunks."""
    LOCAL.remove(_side(path))
    with disk_errors("write", _side(path)):
        LOCAL.create(_side(path), _hash(path, places))


def check_seal(path: str, places: Iterable[Place]) -> None:
    """CorruptError where that is not what it was; nothing where no seal is left."""
    if not exists(LOCAL, _side(path)):
        return
    before, _ = read_head(LOCAL, _side(path), _DIGEST_BYTES + 1)
    if before != _hash(path, places):
        raise CorruptError(f"{path}: the metadata of the unfinished file was changed")


def break_seal(path: str) -> None:
    """The metadata is about to change."""
    LOCAL.remove(_side(path))


def _hash(path: str, places: Iterable[Place]) -> bytes:
    found = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    data = memoryview(bytearray(_PIECE))
    with disk_errors("read", path), LOCAL.reader(path) as handle:
        size, at = handle.size(), 0
        for start, length in [*sorted(places), (size, 0)]:
            found.update(f"{start} {length}\n".encode())
            while at < start and (count := handle.read(data[: min(start - at, _PIECE)], at)):
                found.update(data[:count])
                at += count
            at = max(at, start + length)
    return found.digest()


def _side(path: str) -> str:
    return path + ".seal"
