"""Places of local files, for comparison.

Real paths are compared, and existing files by device and inode: a folder that is mounted twice, or a file with two
names, is the same under both.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

#: Device and inode.
Identity = tuple[int, int]


class LocalPlace:
    """A path, its real path, and all folders above it."""

    def __init__(self, path: str) -> None:
        self.real = os.path.realpath(path)
        self._own = _identity(self.real)
        self._above = set(_identities(self.real))

    def meets(self, other: LocalPlace) -> bool:
        """Whether one is inside the other, or they are the same."""
        return (
            _is_in(self.real, other.real)
            or _is_in(other.real, self.real)
            or self._own in other._above
            or other._own in self._above
        )


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _identity(path: str) -> Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _identities(path: str) -> Iterator[Identity]:
    """Device and inode of a path and of all existing folders above it."""
    while True:
        if (found := _identity(path)) is not None:
            yield found
        above = os.path.dirname(path)
        if above == path:
            return
        path = above


def links_below(folder: str) -> Iterator[str]:
    """Links below a folder, and below the folders that they lead to."""
    waiting, seen = [folder], set[Identity]()
    while waiting:
        folder = waiting.pop()
        found = _identity(folder)
        if found is None or found in seen:
            continue
        seen.add(found)
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_symlink():
                    yield entry.path
                    waiting.append(entry.path)
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
