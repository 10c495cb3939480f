"""Small objects on any medium: read them within a limit, and check their existence."""

from __future__ import annotations

import errno
import os

from reblock.errors import DiskError, FormatError
from reblock.model.medium import FILE, FOLDER, Medium, Surveyor
from reblock.model.roots import Roots
from reblock.storage.media.files import disk_errors

#: The folder of a run's own objects below its target, on media that cannot rename.
RUN_FOLDER = ".reblock"


def read_head(medium: Medium, key: str, length: int, roots: Roots | None = None) -> tuple[bytes, int]:
    """The first bytes of an object, and its size; ExternalError if links lead out of its roots."""
    return _read_part(medium, key, length, roots, at_end=False)


def read_tail(medium: Medium, key: str, length: int, roots: Roots | None = None) -> bytes:
    """The last bytes of an object."""
    return _read_part(medium, key, length, roots, at_end=True)[0]


def read_whole(medium: Medium, key: str, *, limit_bytes: int, roots: Roots | None = None) -> bytes:
    """All bytes of a small object; FormatError if there are more than the limit."""
    data, size = read_head(medium, key, limit_bytes + 1, roots)
    if len(data) > limit_bytes:
        raise FormatError(f"{key}: {max(size, len(data)):,} bytes are more than the limit of {limit_bytes:,}")
    return data


def _read_part(medium: Medium, key: str, length: int, roots: Roots | None, *, at_end: bool) -> tuple[bytes, int]:
    with disk_errors("read", key), medium.reader(key, roots=roots) as handle:
        found = handle.status()
        if found.kind != FILE:
            raise FormatError(f"{key}: expected a regular file, not {found.kind}")
        data = bytearray(min(length, found.size))
        count = handle.read(memoryview(data), found.size - len(data) if at_end else 0)
        return bytes(data[:count]), found.size


def exists(medium: Medium, key: str) -> bool:
    """Whether anything has this key, including a broken link."""
    try:
        medium.status(key, follow=False)
    except (FileNotFoundError, DiskError):
        return False
    return True


def is_file(medium: Medium, key: str) -> bool:
    """Whether a key leads to an object with bytes."""
    if not isinstance(medium, Surveyor):
        return _kind(medium, key) == FILE
    # A look at an object takes one request; whether there is a folder instead would take another one.
    try:
        return medium.survey([key])[0] is not None
    except DiskError:
        return False


def has_object(medium: Medium, key: str) -> bool:
    """Whether an object has this key, or a broken link; on a store, by one request."""
    return is_file(medium, key) if isinstance(medium, Surveyor) else exists(medium, key)


def is_folder(medium: Medium, key: str) -> bool:
    """Whether a key leads to a folder."""
    return _kind(medium, key) == FOLDER


def check_folder(medium: Medium, key: str) -> None:
    """Raise DiskError if a key does not lead to a folder."""
    with disk_errors("open", key):
        if medium.status(key).kind != FOLDER:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))


def _kind(medium: Medium, key: str) -> str:
    try:
        return medium.status(key).kind
    except (FileNotFoundError, DiskError):
        return ""


def new_folder(medium: Medium, key: str) -> None:
    """Make the folder of a new array; FileExistsError if anything but a run's own folder is there."""
    try:
        medium.make_folder(key)
    except FileExistsError:
        if medium.renames or [name for name, _ in medium.entries(key)] != [RUN_FOLDER]:
            raise
