"""Private folders: our hidden folders among other people's files, held open by a handle.

Names of such folders can be guessed, so in a shared folder anybody can create them first. A folder is used only if it
is a folder and not a link, belongs to us, and is not writable by others; new ones are made with mode 0700. Its
contents are opened, listed, renamed and removed relative to the handle, and links are not followed.

Formats and the engine open paths below it. Such a path can be redirected only by a user who may rename the folder
itself: nobody in our own or in a sticky folder, every writer in other shared folders. There `reach` goes through the
handle, which follows the folder wherever it is moved ::

    /data/.scan.zarr.reblock          reach, if only we may rename the folder
    /proc/4711/fd/5                   reach, if others may
"""

from __future__ import annotations

import errno
import os
import pwd
import shutil
import stat
from contextlib import suppress
from typing import Self

from reblock.errors import DiskError, StorageError, UsageError
from reblock.storage.media.files import disk_errors, flush, kind_of, open_regular

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


class PrivateFolder:
    """An open folder of ours; nobody else can have put anything into it."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self.reach = self._reach()

    @classmethod
    def make(cls, path: str) -> Self:
        """The folder at a path, made if necessary; UsageError if something else is in its place."""
        with disk_errors("create", path), suppress(FileExistsError):
            os.mkdir(path, 0o700)
        found = cls.find(path)
        if found is None:
            raise DiskError.wrap(FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)), doing="open", path=path)
        return found

    @classmethod
    def find(cls, path: str) -> Self | None:
        """The folder at a path, or None; UsageError if something else is in its place."""
        with disk_errors("open", path):
            try:
                descriptor = os.open(path, _FLAGS)
            except (FileNotFoundError, NotADirectoryError) as error:
                if not os.path.lexists(path):
                    return None
                raise _in_the_way(path) from error
            except OSError as error:
                if error.errno == errno.ELOOP or (error.errno == errno.EACCES and not _is_our_folder(path)):
                    raise _in_the_way(path) from error
                raise
            try:
                _check_ours(path, descriptor)
                return cls(path, descriptor)
            except BaseException:
                os.close(descriptor)
                raise

    def close(self) -> None:
        """Close the handle."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    # ---------------------------------------------------------------- is it still there
    @property
    def is_in_place(self) -> bool:
        """Whether the path still leads to this folder."""
        try:
            return os.path.samestat(os.lstat(self.path), os.fstat(self.descriptor))
        except OSError:
            return False

    def check_place(self) -> None:
        """Raise StorageError if the folder was moved or replaced."""
        if not self.is_in_place:
            raise StorageError(f"{self.path} was moved or replaced by another program during the run")

    def _reach(self) -> str:
        through = f"/proc/{os.getpid()}/fd/{self.descriptor}"
        if not _others_may_rename(self.path):
            return self.path
        try:
            same = os.path.samestat(os.stat(through), os.fstat(self.descriptor))
        except OSError:
            same = False
        return through if same else self.path

    # ---------------------------------------------------------------- what is in it
    def names(self) -> list[str]:
        """All names, sorted."""
        with disk_errors("list", self.path):
            return sorted(os.listdir(self.descriptor))

    def look(self, name: str) -> os.stat_result | None:
        """The status of a name, without following links; None if it does not exist."""
        with disk_errors("look at", os.path.join(self.path, name)), suppress(FileNotFoundError):
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        return None

    def open_file(self, name: str, flags: int) -> int:
        """Open a regular file, see `open_regular`; raises plain OSErrors."""
        return open_regular(os.path.join(self.path, name), flags, at=self.descriptor)

    def remove(self, name: str) -> None:
        """Remove a file, a link, or a folder with its contents; links are not followed."""
        with disk_errors("removing", os.path.join(self.path, name)):
            found = self.look(name)
            if found is None:
                return
            if stat.S_ISDIR(found.st_mode):
                shutil.rmtree(name, dir_fd=self.descriptor)
            else:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=self.descriptor)

    def remove_itself(self) -> bool:
        """Remove the folder if it is empty; returns whether it was."""
        try:
            if self.is_in_place:
                os.rmdir(self.path)
                return True
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                raise DiskError.wrap(error, doing="removing", path=self.path) from error
        return False

    def sync(self) -> None:
        """Make its names durable."""
        with disk_errors("sync", self.path):
            flush(self.descriptor)


def _check_ours(path: str, descriptor: int) -> None:
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid():
        raise UsageError(
            f"{path} belongs to {_user(found.st_uid)}, not to {_user(os.geteuid())}: reblock works only in a folder "
            "that its user owns; have it removed, or choose another target"
        )
    if found.st_mode & _OTHERS_MAY_WRITE and _keeps_modes(descriptor, found.st_mode):
        mode = stat.S_IMODE(found.st_mode)
        raise UsageError(
            f"{path} is writable by others (mode {mode:03o}), so its contents cannot be trusted: inspect and "
            "remove it, or choose another target"
        )


def _keeps_modes(descriptor: int, mode: int) -> bool:
    """Whether the file system supports modes: some report the same mode for every file, and cannot restrict access."""
    try:
        os.fchmod(descriptor, stat.S_IMODE(mode) & ~_OTHERS_MAY_WRITE)
        kept = not os.fstat(descriptor).st_mode & _OTHERS_MAY_WRITE
        if kept:
            os.fchmod(descriptor, stat.S_IMODE(mode))
    except OSError:
        return True
    return kept


def _is_our_folder(path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _in_the_way(path: str) -> UsageError:
    try:
        found = os.lstat(path)
    except OSError as error:
        return UsageError(f"{path} cannot be inspected ({error.strerror}): choose another target")
    what = kind_of(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        with suppress(OSError):
            what += f" to {os.readlink(path)}"
    return UsageError(
        f"{path} is {what} of {_user(found.st_uid)}, where reblock needs a folder of its own: it was not followed; "
        "have it removed, or choose another target"
    )


def _others_may_rename(path: str) -> bool:
    """Whether another user could rename a folder or one of the folders above it."""
    ours = {0, os.geteuid()}
    folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    while True:
        try:
            found = os.stat(folder)
        except OSError:
            return True
        shared = found.st_mode & _OTHERS_MAY_WRITE and not found.st_mode & stat.S_ISVTX
        if found.st_uid not in ours or shared:
            return True
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above


def _user(number: int) -> str:
    with suppress(KeyError):
        return pwd.getpwuid(number).pw_name
    return f"user {number}"
