"""Sharing local folders: locks of several readers, and trees of links to the files of another folder."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Collection

from reblock.storage.media.files import disk_errors, sync

#: Errors of a file system that cannot link files, or not these.
_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)


class SharedHold:
    """A lock that many readers hold at once; it ends with this object, or with the process."""

    def __init__(self, path: str) -> None:
        """FileNotFoundError if there is no such file."""
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)
        if not os.fstat(self._descriptor).st_nlink:
            self.release()
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def release(self) -> None:
        """Let go of the lock."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.release()


def remove_unheld(folder: str, lock: str) -> bool:
    """Remove a folder, unless a reader holds its lock; returns whether it was removed."""
    with disk_errors("removing", folder):
        try:
            descriptor = os.open(os.path.join(folder, lock), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            shutil.rmtree(folder)  # no reader can have opened it
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(os.path.join(folder, lock))
            shutil.rmtree(folder)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
    return True


def link_tree(old: str, new: str, skip: Collection[str]) -> None:
    """Link every file below a folder into another one, except those with some relative names; names are durable.

    Where files cannot be linked, they are copied.
    """
    with disk_errors("link the files of", old):
        for base, folders, files in os.walk(old):
            inside = os.path.relpath(base, old)
            there = new if inside == os.curdir else os.path.join(new, inside)
            os.makedirs(there, exist_ok=True)
            folders.sort()
            for name in files:
                if os.path.normpath(os.path.join(inside, name)) not in skip:
                    _link(os.path.join(base, name), os.path.join(there, name))
            sync(there)


def _link(old: str, new: str) -> None:
    try:
        os.link(old, new, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copyfile(old, new, follow_symlinks=False)
        sync(new)
