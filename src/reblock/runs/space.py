"""Space: whether the file systems have room for what a run will write, before it writes."""

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
    """What an array will take on a file system."""

    folder: str
    """Where it goes."""
    bytes: int
    """Stored bytes, for encoded ones before encoding."""
    files: int
    """Files and folders."""
    certain: bool
    """Whether it will really be as many bytes: encoded arrays are smaller."""


def need_of(layout: Layout, foreseen: Store | None, folder: str, *, begun: str, done: int = 0) -> Need:
    """What a new array in a folder needs, less the logical bytes that are done already and lie below `begun`.

    `foreseen` tells where its objects will be; None = in one file.
    """
    raw = not (layout.encoded or layout.indexed)
    if done and layout.shards is not None:
        # Whole files have their room from their first chunk on.
        done = max(done, _allocated_bytes(begun))
    files = 0 if done else 2 if foreseen is None else _files(foreseen)
    return Need(folder, max(_stored_bytes(layout) - done, 0), files, raw)


def foresee(format: Format, target: Location, schema: Schema) -> Store | None:
    """The array as it will be, for the places of its objects; None = one file, as far as anybody can tell."""
    return format.foresee(target.path, target.inner, schema) if isinstance(format, Foreseeable) else None


def check_space(needs: list[Need]) -> list[str]:
    """SpaceError where a file system certainly has not the room; notes where it may not have it."""
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
                "bytes) are free: make room, or choose another place",
                path=folder,
                needed=wanted,
                free=free,
            )
        if free < wanted:
            notes.append(f"{format_size(free)} are free for {format_size(wanted)} before encoding: it may not fit")
        files = sum(need.files for need in some)
        # Some file systems make inodes as they are needed, and say that they have none.
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
    """Bytes that the files below a folder take on the disk."""
    with disk_errors("look at", folder):
        files = [os.lstat(os.path.join(base, name)) for base, _, names in os.walk(folder) for name in names]
    return sum(found.st_blocks * 512 for found in files)


def _files(store: Store) -> int:
    """Files and folders of an array; objects that are not files of their own lie in one."""
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
    # Keys like c/0/0/0 take a folder for every beginning of an index.
    above, below = os.path.dirname(first), os.path.dirname(last)
    for count in reversed(grid.counts):
        if above == below:
            break
        level //= count
        total += level
        above, below = os.path.dirname(above), os.path.dirname(below)
    return total + 4
