"""Staging: a new array is built in a hidden folder beside its target, and published by one rename.

::

    .scan.zarr.reblock/
      lock        held by the run that works here
      journal     what is finished, see `journal`
      array       what will be the target
      scratch     arrays between the passes
      replaced    an old target on its way out, where two folders cannot be swapped in one step

The folder's name follows from the target's, so the same command finds it again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress
from types import TracebackType
from typing import Self

from reblock.errors import DiskError, TargetExistsError
from reblock.storage.durable import exchange, rename_new
from reblock.storage.files import disk_errors, sync
from reblock.storage.lock import Lock

#: Longest part of the target's name that the folder's name repeats, in bytes.
_LONGEST = 200


class Staging:
    """The hidden place where one target is built; as a context, the lock on it."""

    def __init__(self, target: str, *, overwrite: bool = False) -> None:
        self.target = target.rstrip("/") or "/"
        self.overwrite = overwrite
        parent, name = os.path.split(os.path.abspath(self.target))
        self.parent = parent
        self.folder = os.path.join(parent, f".{_shortened(name)}.reblock")
        self.path = os.path.join(self.folder, "array")
        self.journal = os.path.join(self.folder, "journal")
        self.scratch = os.path.join(self.folder, "scratch")
        self.lock = os.path.join(self.folder, "lock")
        self._replaced = os.path.join(self.folder, "replaced")
        self._held = Lock(self.lock)
        self._removed = False

    # ---------------------------------------------------------------- who may work here
    def check(self) -> None:
        """Whether the target may be made at all; touches nothing."""
        parent = os.path.dirname(self.target) or "."
        with disk_errors("the target cannot be made:", self.target), suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(self.target)
            if not self.overwrite:
                raise TargetExistsError(f"{self.target} exists: choose another name, or give --overwrite to replace it")
        if not os.path.isdir(parent):
            missing = FileNotFoundError(2, "No such file or directory")
            raise DiskError.wrap(missing, doing="the target's folder does not exist:", path=parent)
        if not os.access(parent, os.W_OK | os.X_OK):
            refused = PermissionError(13, "Permission denied")
            raise DiskError.wrap(refused, doing="the target's folder is not writable:", path=parent)

    def __enter__(self) -> Self:
        self._held.take(self.target)
        self._removed = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A folder of this name that is there after its removal is another run's.
        if not self._removed and not os.path.lexists(self.journal):
            # Nothing was begun, or nothing is left to be done.
            with suppress(DiskError):
                self.remove()
        self._held.release()

    # ---------------------------------------------------------------- the end
    def publish(self) -> None:
        """Give the finished array its name; an old one is there until the new one is."""
        with disk_errors("publishing", self.target):
            if not self.overwrite:
                try:
                    rename_new(self.path, self.target)
                except FileExistsError:
                    raise TargetExistsError(
                        f"{self.target} was made by somebody else meanwhile: move it away, or give --overwrite"
                    ) from None
            elif not os.path.lexists(self.target) or not (os.path.isdir(self.path) or _is_folder(self.target)):
                os.rename(self.path, self.target)
            elif not exchange(self.path, self.target):
                os.rename(self.target, self._replaced)
                os.rename(self.path, self.target)
        sync(self.parent)

    def restore(self) -> None:
        """Put an old target back that a killed run had moved away and not replaced yet."""
        if os.path.lexists(self._replaced) and not os.path.lexists(self.target):
            with disk_errors("restoring", self.target):
                os.rename(self._replaced, self.target)
            sync(self.parent)

    def published(self, inode: int) -> bool:
        """Whether the target is the array with this inode number."""
        try:
            return os.lstat(self.target).st_ino == inode
        except OSError:
            return False

    def clear(self) -> list[str]:
        """Remove all that was made here but for the lock, the journal last; says what was there."""
        self.restore()
        removed = []
        with disk_errors("removing", self.folder):
            last = {self.journal: 1, self.lock: 2}
            for path in sorted(
                (os.path.join(self.folder, name) for name in os.listdir(self.folder)),
                key=lambda path: last.get(path, 0),
            ):
                if path != self.lock:
                    remove_tree(path)
                    removed.append(path)
        return removed

    def remove(self) -> list[str]:
        """Remove the folder and all in it; says what was there."""
        removed = self.clear()
        self._removed = True
        with disk_errors("removing", self.folder):
            with suppress(FileNotFoundError):
                os.unlink(self.lock)
            # Another run may have found the folder in this moment, and work in it.
            with suppress(OSError):
                os.rmdir(self.folder)
        return removed


def remove_tree(path: str) -> None:
    """Remove a file, or a folder with all in it."""
    with disk_errors("removing", path):
        if _is_folder(path):
            shutil.rmtree(path)
        else:
            with suppress(FileNotFoundError):
                os.unlink(path)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _shortened(name: str) -> str:
    """The name, or as much of it as a longer name can repeat, and a hash of the rest."""
    data = os.fsencode(name)
    if len(data) <= _LONGEST:
        return name
    return f"{os.fsdecode(data[:_LONGEST])}-{hashlib.blake2b(data, digest_size=8).hexdigest()}"
