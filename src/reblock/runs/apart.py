"""Apart: check that nothing a run writes overlaps with anything its source reads.

Real paths are compared, and existing files by device and inode: a folder that is mounted twice, or a file with two
names, is the same under both.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

from reblock.errors import UsageError
from reblock.model import ObjectBound, Store
from reblock.storage.location import Location
from reblock.storage.roots import FileRoots

#: Device and inode.
Identity = tuple[int, int]


def check_apart(source: Store, target: Location, places: Sequence[tuple[str, str]]) -> None:
    """Raise UsageError if the target or one of `places` (a description and a path) overlaps with the source."""
    if not source.medium.is_local:
        return  # the target is a local file
    reads = source.backing if isinstance(source, ObjectBound) else _own_paths(source)
    written = [(f"target {target}", _Place(target.path)), *((f"{what} {path}", _Place(path)) for what, path in places)]
    own = Location.parse(source.location).path
    for read in reads:
        _check(source, written, read, "" if read == own else f" at {read}, which it reads")
    allowed = [_Place(one) for one in source.roots.allowed] if isinstance(source.roots, FileRoots) else []
    # Links lead only into allowed folders, so they matter only if the run writes there.
    near = [(what, here) for what, here in written if any(map(here.meets, allowed))]
    for link in _links(Location.parse(source.location)) if near else ():
        _check(source, near, link, f" at {os.path.realpath(link)}, where its link {link} leads")


def _check(source: Store, written: Sequence[tuple[str, _Place]], read: str, why: str) -> None:
    there = _Place(read)
    for what, here in written:
        if here.meets(there):
            raise UsageError(f"source {source.location} and {what} overlap{why}: write elsewhere, then replace")


class _Place:
    """A path, its real path, and all folders above it."""

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)
        self._own = _identity(self._path)
        self._above = set(_identities(self._path))

    def meets(self, other: _Place) -> bool:
        """Whether one is inside the other, or they are the same."""
        return (
            _is_in(self._path, other._path)
            or _is_in(other._path, self._path)
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


def _own_paths(source: Store) -> list[str]:
    """The file or folder of a source, and the other files that it names."""
    roots = [source.roots.real] if isinstance(source.roots, FileRoots) else []
    return list(dict.fromkeys([Location.parse(source.location).path, *roots, *source.described_by]))


def _links(where: Location) -> Iterator[str]:
    """Links below a source's folder, and below the folders that they lead to."""
    waiting, seen = [os.path.join(where.path, where.inner)], set[Identity]()
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
