"""Disks of a run: the blocks of a target that is spread over several disks, hidden there until it is published.

::

    journal names the folders → a workspace on each disk, with its own lock → blocks → manifest is renamed
                              → each folder gets its name → folders of a replaced array and workspaces are removed

The rename of the manifest is the publish: before it, no reader knows the blocks; after it, a reader finds a folder
under its name or in its workspace. Every step after the publish can be repeated, by the next command on the target.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from secrets import token_hex
from types import TracebackType
from typing import Any, Self

import numpy as np

from reblock.errors import DiskError, FormatError, ReblockError, UsageError
from reblock.geometry.placement import placing
from reblock.model import Format, Layout
from reblock.model.disks import Disks, Spreadable
from reblock.model.workspace import Workspace
from reblock.runs.space import Need
from reblock.storage.media.disk_names import is_disk_folder, name_folders
from reblock.storage.media.registry import target_medium
from reblock.storage.media.small import exists

#: Blocks whose disks are found in one call.
_BATCH = 1 << 18


def disks_of(format: Format) -> Disks | None:
    """The disks over which a format spreads new arrays."""
    return format.disks if isinstance(format, Spreadable) else None


def listed_folders(header: Mapping[str, Any]) -> list[str]:
    """The folders on disks that a journal names; a journal must not be able to name other folders for removal."""
    found = header.get("disks") or []
    if not isinstance(found, list) or not all(map(is_disk_folder, found)):
        raise FormatError("the journal names folders on disks that reblock does not make")
    return found


def new_folders(format: Format, target: str) -> list[str]:
    """The folders on disks of a new run; their names are new, too."""
    disks = disks_of(format)
    return [] if disks is None else list(name_folders(disks, target, token_hex(8)).final)


class DiskWorkspaces:
    """The workspaces of a target's blocks, one on each disk; as a context manager, it holds their locks."""

    def __init__(self, target: str, folders: Sequence[str], *, begun: bool) -> None:
        """`begun` means that they must exist: an earlier attempt has written blocks there."""
        self._target, self._begun = target, begun
        self._held = ExitStack()
        self.folders = tuple(folders)
        self._workspaces = [target_medium(folder).workspace(folder) for folder in folders]

    def __enter__(self) -> Self:
        with ExitStack() as entered:
            for workspace in self._workspaces:
                if self._begun and not workspace.is_there:
                    missing = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
                    raise DiskError.wrap(missing, doing="is a disk not mounted? Opening", path=workspace.folder)
                entered.enter_context(workspace)
                if not workspace.has_log:
                    # A workspace without a log would be removed when it is left. This one says where it belongs.
                    workspace.begin_log(json.dumps({"disk of": os.path.abspath(self._target)}).encode() + b"\n")
            self._held = entered.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, ReblockError):
            for workspace in self._workspaces:
                error.args = tuple(
                    one.replace(workspace.reach, workspace.folder) if isinstance(one, str) else one
                    for one in error.args
                )
        self._held.close()

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders below which blocks are written."""
        return tuple(workspace.reach for workspace in self._workspaces)

    def check_place(self) -> None:
        """Raise StorageError if a workspace was moved or replaced."""
        for workspace in self._workspaces:
            workspace.check_place()

    def format(self, format: Format) -> Format:
        """The format that makes the array in these workspaces."""
        disks = disks_of(format)
        if disks is None or not isinstance(format, Spreadable):
            return format
        built = tuple(workspace.array for workspace in self._workspaces)
        made = format.on_disks(replace(disks, final=self.folders, built=built))
        if not isinstance(made, Format):
            raise UsageError(f"format {format.name} cannot be used on disks")
        return made

    def clear_array(self) -> None:
        """Remove the blocks of an earlier attempt."""
        for workspace in self._workspaces:
            workspace.clear_array()


def settle_disks(folders: Sequence[str], replaced: Sequence[str], *, published: bool) -> list[str]:
    """End a run on its disks: give the blocks their names if the target is published, or remove them.

    Of a published target, the folders of the array that it has replaced are removed as well. Can be repeated; returns
    the folders that were removed.
    """
    removed: list[str] = []
    for folder in folders:
        try:
            target_medium(folder).check_folder(os.path.dirname(folder), "the disk")
        except DiskError as error:
            error.add("mount it, or make an empty folder in its place, and repeat the command")
            raise
    for folder in folders:
        medium = target_medium(folder)
        workspace = medium.workspace(folder)
        if not workspace.is_there:
            continue
        with workspace:
            if published and exists(medium, workspace.array):
                _name(workspace)
            workspace.remove()
        removed.append(workspace.folder)
    for folder in replaced if published else ():
        if is_disk_folder(folder) and folder not in folders:
            workspace = target_medium(folder).workspace(folder)
            if workspace.is_there:
                with workspace:
                    workspace.remove()
            target_medium(folder).remove_folder(folder)
            removed.append(folder)
    return removed


def _name(workspace: Workspace) -> None:
    """Give the blocks on a disk their name."""
    try:
        workspace.publish(replace=False)
    except FileExistsError:
        raise FormatError(
            f"{workspace.target} is in the place of blocks in {workspace.folder}, which the array needs there: "
            "move it away, and repeat the command"
        ) from None
    except OSError as error:
        raise DiskError.wrap(error, doing="publishing", path=workspace.target) from error


def needs_on_disks(layout: Layout, disks: Disks, folders: Sequence[str]) -> list[Need]:
    """The space that blocks take on each disk, without those in `folders` that exist already."""
    counts, grid = layout.objects.counts, layout.objects
    total, files = np.zeros(len(disks.folders), np.int64), np.zeros(len(disks.folders), np.int64)
    lengths = [np.fromiter(axis.lengths(), np.int64) for axis in grid.axes]
    assign = placing(disks.placement, counts, len(disks.folders))
    for start in range(0, grid.count, _BATCH):
        numbers = np.arange(start, min(start + _BATCH, grid.count))
        indices = np.array(np.unravel_index(numbers, counts)) if counts else np.zeros((0, 1), np.int64)
        sizes = np.full(numbers.size, layout.itemsize, np.int64)
        for row, some in zip(indices, lengths, strict=True):
            sizes *= some[row]
        on = assign(indices)
        np.add.at(total, on, sizes)
        np.add.at(files, on, 1)
    needs = []
    for number, disk in enumerate(disks.folders):
        used = _used_bytes(folders[number]) if folders else 0
        needs.append(Need(disk, max(int(total[number]) - used, 0), 0 if used else int(files[number]) + 4, certain=True))
    return needs


def _used_bytes(folder: str) -> int:
    medium = target_medium(folder)
    begun = medium.workspace(folder).array
    return medium.used_bytes(begun) if exists(medium, begun) else 0
