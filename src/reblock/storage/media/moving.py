"""Move files into an existing array by renames that can be repeated, never through links, durable in groups."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence

from reblock.errors import DiskError, StorageError, UsageError
from reblock.storage.media.durable import MANY_FILES, sync_file_system
from reblock.storage.media.files import disk_errors, kind_of, sync


def check_moves(folder: str, target: str) -> None:
    """Raise UsageError if files of a folder cannot or must not be renamed below the target."""
    with disk_errors("look at", target):
        found = os.lstat(target)
    if stat.S_ISLNK(found.st_mode):
        raise UsageError(f"{target} is a symbolic link to {os.path.realpath(target)}: name that path instead")
    if not os.access(target, os.W_OK | os.X_OK):
        refused = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        raise DiskError.wrap(refused, doing="the array is not writable:", path=target)
    with disk_errors("look at", folder):
        here = os.stat(folder).st_dev
    if here != found.st_dev:
        raise UsageError(
            f"{target} is on another file system than {folder}, so chunks cannot be renamed into it: "
            "name the array by the path of a folder on its own file system"
        )


def move_files(pairs: Sequence[tuple[str, str]], target: str) -> None:
    """Rename files to places below the target; a file that is gone was moved before."""
    folders = dict[str, None]()
    for old, new in pairs:
        folder = os.path.dirname(new)
        if folder not in folders:
            _enter(folder, target, folders)
        try:
            os.rename(old, new)
        except FileNotFoundError:
            if not os.path.lexists(new):
                raise StorageError(f"{old} is gone, and {new} is not there either: the change is incomplete") from None
        except OSError as error:
            raise DiskError.wrap(error, doing=f"moving {old} to", path=new) from error
    if len(folders) > MANY_FILES and sync_file_system(target):
        return
    # Deepest first, so that a durable name always leads to something durable.
    for folder in sorted(folders, key=len, reverse=True):
        sync(folder)


def _enter(folder: str, target: str, known: dict[str, None]) -> None:
    """Make a folder below the target, and check that no link leads out of it."""
    steps = [target]
    for part in os.path.relpath(folder, target).split(os.sep):
        if part != os.curdir:
            steps.append(os.path.join(steps[-1], part))
    for step in steps:
        if step in known:
            continue
        with disk_errors("create", step):
            try:
                mode = os.lstat(step).st_mode
            except FileNotFoundError:
                os.mkdir(step)
            else:
                if not stat.S_ISDIR(mode):
                    raise StorageError(f"{step} is {kind_of(mode)}, not a folder: chunks are not moved through it")
        known[step] = None
