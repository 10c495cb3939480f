"""Durability: make written bytes and names survive a power loss, and rename without replacing or by swapping.

A file that failed to sync once may sync without an error the second time, although its bytes are lost. So an error here
is final, and no sync is retried.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import stat
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reblock.storage.media.files import disk_errors, sync

Integers = npt.NDArray[np.uint64]

#: From this many files on, the whole file system is synced at once.
MANY_FILES = 16
_AT_FDCWD = -100
_NOREPLACE, _EXCHANGE = 1, 2
#: Errors of a kernel or a file system that does not support a call.
_UNKNOWN = (errno.ENOSYS, errno.EINVAL, errno.ENOTTY, errno.EOPNOTSUPP)


def make_durable(files: Collection[str], root: str) -> None:
    """Make files below a folder durable, and all names that lead to them, including the folder's own."""
    if len(files) > MANY_FILES and sync_file_system(root):
        return
    folders: set[str] = set()
    for path in files:
        sync(path)
        folder = os.path.dirname(path)
        while folder not in folders and len(folder) >= len(root):
            folders.add(folder)
            folder = os.path.dirname(folder)
    # Deepest first, so that a durable name always leads to something durable.
    for folder in sorted(folders, key=len, reverse=True):
        sync(folder)


def sync_file_system(path: str) -> bool:
    """Make everything on the file system of a path durable; False if success cannot be verified."""
    call = _function("syncfs")
    # Before 5.8 the kernel did not report failed writes.
    if call is None or _kernel() < (5, 8):
        return False
    with disk_errors("sync the file system of", path):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if call(descriptor) == 0:
                return True
            number = ctypes.get_errno()
            if number in _UNKNOWN:
                return False
            raise OSError(number, os.strerror(number))
        finally:
            os.close(descriptor)


def looks(paths: Sequence[str]) -> Integers:
    """The state of files: inode, size, and times of their last changes; zeros for a missing file."""
    return _looks(paths, os.stat)


def settle(paths: Sequence[str]) -> Integers:
    """The state of durable files that are complete; they are dropped from the page cache."""
    return _looks(paths, _settle)


def _looks(paths: Sequence[str], look: Callable[[str], os.stat_result]) -> Integers:
    seen = np.zeros((len(paths), 4), np.uint64)
    for row, path in zip(seen, paths, strict=True):
        with suppress(FileNotFoundError):
            found = look(path)
            row[:] = found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    return seen


def _settle(path: str) -> os.stat_result:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return os.stat(path)
    try:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


class Name(NamedTuple):
    """A name in a folder that is held open; without a folder, a path."""

    folder: int | None
    """Handle of the folder."""
    name: str
    """The name, or the path."""

    @property
    def is_free(self) -> bool:
        """Whether the name does not exist."""
        return self._mode is None

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder, and not a link to one."""
        return self._mode is not None and stat.S_ISDIR(self._mode)

    @property
    def _mode(self) -> int | None:
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return None

    def rename(self, new: Name) -> None:
        """Rename it, replacing whatever has the other name."""
        os.rename(self.name, new.name, src_dir_fd=self.folder, dst_dir_fd=new.folder)


def rename_new(old: Name, new: Name) -> None:
    """Rename to an unused name; FileExistsError if it exists."""
    if _rename(old, new, _NOREPLACE):
        return
    if not new.is_free:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new.name)
    if old.is_folder or not _is_linked(old, new):
        old.rename(new)


def _is_linked(old: Name, new: Name) -> bool:
    """Give a file an unused name in two steps, the first of which is exclusive even on NFS; False if impossible.

    FileExistsError if the name exists.
    """
    try:
        os.link(old.name, new.name, src_dir_fd=old.folder, dst_dir_fd=new.folder, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        return False
    os.unlink(old.name, dir_fd=old.folder)
    return True


def exchange(one: Name, two: Name) -> bool:
    """Swap two names in one step; False if the system cannot do that."""
    return _rename(one, two, _EXCHANGE)


def _rename(old: Name, new: Name, flags: int) -> bool:
    call = _function("renameat2")
    if call is None:
        return False
    here, there = (ctypes.c_int(_AT_FDCWD if one.folder is None else one.folder) for one in (old, new))
    if call(here, os.fsencode(old.name), there, os.fsencode(new.name), ctypes.c_uint(flags)) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNKNOWN:
        return False
    raise OSError(number, os.strerror(number), old.name, None, new.name)


@cache
def _function(name: str) -> Any:
    try:
        return getattr(ctypes.CDLL(None, use_errno=True), name)
    except (OSError, AttributeError):
        return None


@cache
def _kernel() -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)", platform.release()) if platform.system() == "Linux" else None
    return (int(found[1]), int(found[2])) if found else (0,)
