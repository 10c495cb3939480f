"""Fingerprint: detects changed metadata of an unfinished HDF5 file without filters.

The engine writes elements to the positions in the file's own index, and HDF5 does not check that index. A flipped bit
there would direct a chunk into another one. Only elements change until the end, so a hash of all other bytes is kept
in a side file and compared before the file is continued.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from reblock.errors import CorruptError
from reblock.storage.media.files import disk_errors
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import exists, read_head

#: Bytes read at a time.
_PIECE = 1 << 20
_DIGEST_BYTES = 32

#: First byte and length of a chunk.
Place = tuple[int, int]


def save_fingerprint(path: str, places: Iterable[Place]) -> None:
    """Save the fingerprint of a new file: a hash of all bytes outside its chunks."""
    LOCAL.remove(_side(path))
    with disk_errors("write", _side(path)):
        LOCAL.create(_side(path), _hash(path, places))


def check_fingerprint(path: str, places: Iterable[Place]) -> None:
    """Raise CorruptError if the fingerprint differs; do nothing if none was saved."""
    if not exists(LOCAL, _side(path)):
        return
    before, _ = read_head(LOCAL, _side(path), _DIGEST_BYTES + 1)
    if before != _hash(path, places):
        raise CorruptError(f"{path}: the metadata of the unfinished file was changed")


def remove_fingerprint(path: str) -> None:
    """Remove the fingerprint, before the metadata changes."""
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
