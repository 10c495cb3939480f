"""Blocks on several disks: the part of the manifest that names them, and where their folders are.

::

    {"reblock": 2, …, "disks": {"placement": "round-robin",
                                "folders": ["/disk1/volume.reblock-5f0c9a3b7d21e846.0", …]}}

The manifest is untrusted: a folder counts only if it has such a name and is inside the folders that the reader allows.
There it is looked for by its name, so disks may be mounted elsewhere. Until the run that made it has given a folder its
name, it is in its workspace, see `runs.disks`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from reblock.errors import DiskError, ExternalError, FormatError, option
from reblock.geometry.placement import FIXED_PLACEMENTS, AssignOne, placing_one
from reblock.model.disks import MAX_DISKS, Disks
from reblock.model.medium import FOLDER, Medium
from reblock.model.workspace import TargetMedium
from reblock.storage.checks import check_keys, show
from reblock.storage.media.disk_names import disk_of_name, is_disk_folder
from reblock.storage.media.small import exists, is_folder
from reblock.storage.roots import FileRoots


@dataclass(frozen=True)
class BlockPlaces:
    """Where a manifest says that blocks are."""

    placement: str
    """Which block is on which disk."""
    folders: tuple[str, ...]
    """The folder of blocks on each disk."""

    @classmethod
    def of(cls, disks: Disks | None) -> BlockPlaces | None:
        """The places of a new array."""
        return None if disks is None else cls(disks.placement, disks.final or disks.folders)

    def to_json(self) -> dict[str, Any]:
        return {"placement": self.placement, "folders": list(self.folders)}

    def assign(self, counts: Sequence[int]) -> AssignOne:
        """The function that finds the disk of a block."""
        return placing_one(self.placement, counts, len(self.folders))


def check_places(value: Any, where: str) -> BlockPlaces:
    """The places in a manifest, checked; whether they are allowed is checked later."""
    if not isinstance(value, dict):
        raise FormatError(f"{where}: disks must be a JSON object, not {show(value)}")
    check_keys(value, ("placement", "folders"), where=where)
    placement, folders = value["placement"], value["folders"]
    if placement not in FIXED_PLACEMENTS:
        raise FormatError(f"{where}: the placement must be {', '.join(FIXED_PLACEMENTS)}, not {show(placement)}")
    if not isinstance(folders, list) or not 1 <= len(folders) <= MAX_DISKS:
        raise FormatError(f"{where}: disks must be a list of 1 to {MAX_DISKS:,} folders, not {show(folders)}")
    for number, folder in enumerate(folders):
        if not is_disk_folder(folder) or disk_of_name(folder) != number:
            raise FormatError(
                f"{where}: folder {number} of the disks must be a whole path that ends in NAME.reblock-ID.{number}, "
                f"not {show(folder)}"
            )
    return BlockPlaces(placement, tuple(folders))


def find_folders(places: BlockPlaces, roots: FileRoots, medium: Medium) -> tuple[str, ...]:
    """The folders of blocks, all inside the roots: where the manifest says, or directly in an allowed folder."""
    return tuple(_find(folder, places, roots, medium) for folder in places.folders)


def _find(folder: str, places: BlockPlaces, roots: FileRoots, medium: Medium) -> str:
    """Where a folder of blocks is."""
    own = [folder] if roots.inside(folder) else []
    candidates = dict.fromkeys([*own, *(os.path.join(one, os.path.basename(folder)) for one in roots.allowed)])
    there = [one for place in candidates for one in _forms(place, medium) if exists(medium, one)]
    if not there and own:
        missing = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        raise DiskError.wrap(missing, doing=f"{roots.path}: is a disk not mounted? Opening", path=folder)
    if not there:
        disks = ",".join(dict.fromkeys(map(os.path.dirname, places.folders)))
        raise ExternalError(
            f"{roots.path}: some of its blocks are in {folder}, outside {', '.join([roots.real, *roots.allowed])}: if "
            f"that can be trusted, name all disks with {option('disks', disks)}"
        )
    if len(there) > 1:
        raise FormatError(
            f"{roots.path}: its blocks may be in {there[0]} or in {there[1]}: remove the folder that is not theirs"
        )
    found = medium.status(there[0], roots=roots)
    if found.kind != FOLDER:
        raise FormatError(f"{there[0]}: expected a folder of blocks, not {found.kind}")
    return there[0]


def _forms(folder: str, medium: Medium) -> Iterator[str]:
    """The folder under its name, and in the workspace of the run that makes it."""
    yield folder
    if isinstance(medium, TargetMedium):
        yield medium.workspace(folder).array


def named_folder(folder: str, places: BlockPlaces, number: int) -> str:
    """The folder of blocks on a disk, under the name that the run that makes it gives it at its end."""
    name = os.path.basename(places.folders[number])
    if os.path.basename(folder) == name:
        return folder
    return os.path.join(os.path.dirname(os.path.dirname(folder)), name)


def strangers_on_disks(folders: Sequence[str], is_block: Any, medium: Medium) -> Iterator[str]:
    """What is in folders of blocks and is not a block."""
    for folder in folders:
        for name, kind in medium.entries(folder) if is_folder(medium, folder) else ():
            if kind == FOLDER or not is_block(name):
                yield os.path.join(folder, name)
