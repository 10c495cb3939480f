"""Space: check before a run that the file systems have room for it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from reblock.errors import SpaceError, StorageError
from reblock.model import Foreseeable, Format, Layout, Schema, Store
from reblock.storage.location import Location
from reblock.storage.media.files import disk_errors
from reblock.units import format_count, format_size


@dataclass(frozen=True)
class Need:
    """The space that an array will take on a file system."""

    folder: str
    """Its folder."""
    bytes: int
    """Stored bytes; for encoded arrays, bytes before encoding."""
    files: int
    """Number of files and folders."""
    certain: bool
    """Whether the number of bytes is exact; encoded arrays are smaller."""


def need_of(layout: Layout, foreseen: Store | None, folder: str, *, begun: str, done: int = 0) -> Need:
    """The space for a new array in a folder, minus the logical bytes that are already done and are below `begun`.

    `foreseen` knows the positions of its objects; None = one file.
    """
    raw = not (layout.encoded or layout.indexed)
    if done and layout.shards is not None:
        # Space for a whole file is allocated with its first chunk.
        done = max(done, _allocated_bytes(begun))
    files = 0 if done else 2 if foreseen is None else _files(foreseen)
    return Need(folder, max(_stored_bytes(layout) - done, 0), files, raw)


def foresee(format: Format, target: Location, schema: Schema) -> Store | None:
    """The future array, for the positions of its objects; None = one file, as far as is known."""
    return format.foresee(target.path, target.inner, schema) if isinstance(format, Foreseeable) else None


def check_space(needs: list[Need]) -> list[str]:
    """Raise SpaceError if a file system certainly lacks the space; return notes if it may lack it."""
    together: dict[int, list[Need]] = {}
    for need in needs:
        with disk_errors("look at", need.folder):
            together.setdefault(os.stat(need.folder).st_dev, []).append(need)
    notes = []
    for some in together.values():
        folder = some[0].folder
        with disk_errors("look at", folder):
            found = os.statvfs(folder)
        free, wanted = found.f_bavail * found.f_frsize, sum(need.bytes for need in some)
        if free < sum(need.bytes for need in some if need.certain):
            raise SpaceError(
                f"{folder}: {format_size(wanted)} ({wanted} bytes) are to be written and {format_size(free)} ({free} "
                "bytes) are free: free some space, or choose another place",
                path=folder,
                needed=wanted,
                free=free,
            )
        if free < wanted:
            notes.append(f"{format_size(free)} are free for {format_size(wanted)} before encoding: it may not fit")
        files = sum(need.files for need in some)
        # Some file systems create inodes on demand, and report that they have none.
        if found.f_files and found.f_favail < files:
            raise SpaceError(
                f"{folder}: {format_count(files)} files and folders are to be made and {format_count(found.f_favail)} "
                "inodes are free: choose larger chunks or shards, or another place",
                path=folder,
                needed=files,
                free=found.f_favail,
            )
    return notes


def _stored_bytes(layout: Layout) -> int:
    """Bytes of all objects, overhang included."""
    total = layout.itemsize
    for axis in layout.objects.axes:
        total *= axis.length + axis.lead + axis.trail
    return total


def _allocated_bytes(folder: str) -> int:
    """Bytes that the files below a folder take on disk."""
    with disk_errors("look at", folder):
        files = [os.lstat(os.path.join(base, name)) for base, _, names in os.walk(folder) for name in names]
    return sum(found.st_blocks * 512 for found in files)


def _files(store: Store) -> int:
    """The number of files and folders of an array; objects that are not files of their own share one file."""
    objects = store.layout.objects
    grid = store.layout.shards or objects
    if grid.count < 2:
        return 2
    try:
        first, last = (store.place(index).path for index in ((0,) * grid.ndim, tuple(n - 1 for n in objects.counts)))
    except StorageError:
        return 2
    if first == last:
        return 2
    total, level = grid.count, grid.count
    # Keys like c/0/0/0 need a folder for every prefix of an index.
    above, below = os.path.dirname(first), os.path.dirname(last)
    for count in reversed(grid.counts):
        if above == below:
            break
        level //= count
        total += level
        above, below = os.path.dirname(above), os.path.dirname(below)
    return total + 4
