"""Space: check before a run that the media have room for it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from reblock.cost.estimate import scratch_bytes
from reblock.errors import SpaceError, StorageError
from reblock.model import Foreseeable, Format, Layout, Plan, Schema, Store
from reblock.model.medium import Room
from reblock.model.store import is_single_file
from reblock.model.workspace import Uploader
from reblock.storage import registry
from reblock.storage.location import Location
from reblock.storage.media.registry import medium_of, target_medium
from reblock.units import format_count, format_size


@dataclass(frozen=True)
class Need:
    """The space that an array will take on a medium."""

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
        done = max(done, target_medium(begun).used_bytes(begun))
    files = 0 if done else 2 if foreseen is None else _files(foreseen)
    return Need(folder, max(_stored_bytes(layout) - done, 0), files, raw)


def needs_of_scratch(plan: Plan, folder: str, target_folder: str) -> list[Need]:
    """The space for the intermediate arrays of a plan, in the scratch folder and in that of the target."""
    counts = [layout.objects.count for layout in plan.scratch]
    places = plan.along("", folder, target_folder)[1:-1]
    files = {place: max(n for n, at in zip(counts, places, strict=True) if at == place) for place in places}
    # The bytes of arrays in the target's space are already counted for the target.
    return [Need(place, scratch_bytes(plan) if place == folder else 0, n, certain=True) for place, n in files.items()]


def foresee(format: Format, target: Location, schema: Schema) -> Store | None:
    """The future array, for the positions of its objects; None = one file, as far as is known."""
    if not isinstance(format, Foreseeable):
        return None
    medium = medium_of(target.path)
    # A file that is uploaded is built locally.
    there = {} if isinstance(medium, Uploader) and is_single_file(format) else registry.elsewhere(medium)
    return format.foresee(target.path, target.inner, schema, **there)


def check_space(needs: list[Need]) -> list[str]:
    """Raise SpaceError if a medium certainly lacks the space; return notes if it may lack it."""
    together: dict[str, tuple[Room, list[Need]]] = {}
    for need in needs:
        room = medium_of(need.folder).room(need.folder)
        together.setdefault(room.device, (room, []))[1].append(need)
    notes = []
    for room, some in together.values():
        folder, wanted = some[0].folder, sum(need.bytes for need in some)
        free = room.free_bytes
        if free is not None and free < sum(need.bytes for need in some if need.certain):
            raise SpaceError(
                f"{folder}: {format_size(wanted)} ({wanted} bytes) are to be written and {format_size(free)} ({free} "
                "bytes) are free: free some space, or choose another place",
                path=folder,
                needed=wanted,
                free=free,
            )
        if free is not None and free < wanted:
            notes.append(f"{format_size(free)} are free for {format_size(wanted)} before encoding: it may not fit")
        files = sum(need.files for need in some)
        if room.free_objects is not None and room.free_objects < files:
            raise SpaceError(
                f"{folder}: {format_count(files)} files and folders are to be made and "
                f"{format_count(room.free_objects)} inodes are free: choose larger chunks or shards, or another place",
                path=folder,
                needed=files,
                free=room.free_objects,
            )
    return notes


def _stored_bytes(layout: Layout) -> int:
    """Bytes of all objects, overhang included."""
    total = layout.itemsize
    for axis in layout.objects.axes:
        total *= axis.length + axis.lead + axis.trail
    return total


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
