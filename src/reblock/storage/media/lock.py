"""Lock: one run per target, whichever process starts it.

The lock is a kernel lock on an open file, so it ends with the process that holds it. The file names the holder. A
finished run removes the file together with its folder, so a lock counts only while its path still leads to the locked
file.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
from datetime import UTC, datetime

from reblock.errors import DiskError, FormatError, LockedError, UsageError
from reblock.storage.media.files import disk_errors, open_regular
from reblock.storage.media.private import PrivateFolder

#: Seconds for which a lock is tried; a process that only checks whether it is held has it for a moment.
_PATIENCE_SECONDS, _PAUSE_SECONDS = 0.4, 0.02


class FileLock:
    """A lock file in a private folder, which is made if it does not exist."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._folder: PrivateFolder | None = None
        self._descriptor = -1

    @property
    def is_held(self) -> bool:
        """Whether this object holds the lock."""
        return self._folder is not None

    @property
    def folder(self) -> PrivateFolder:
        """The folder, while the lock is held."""
        if self._folder is None:
            raise UsageError(f"{self.path} is not held")
        return self._folder

    def take(self, what: str) -> None:
        """Take the lock; LockedError if another process holds it."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        with disk_errors("lock", self.path):
            while not self._try():
                if time.monotonic() > deadline:
                    raise _locked(what, _holder(self.path))
                time.sleep(_PAUSE_SECONDS)

    def look(self, what: str) -> None:
        """Raise what `take` would raise now, without touching anything."""
        where, name = os.path.split(self.path)
        folder = PrivateFolder.find(where)
        if folder is not None:
            try:
                _check_made(folder, name)
            finally:
                folder.close()
        with disk_errors("lock", self.path):
            if holder := who_holds(self.path):
                raise _locked(what, holder)

    def release(self) -> None:
        """Release the lock."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.close()

    def _try(self) -> bool:
        where, name = os.path.split(self.path)
        try:
            folder = PrivateFolder.make(where)
        except DiskError as error:
            if error.errno != errno.ENOENT or not os.path.isdir(os.path.dirname(where) or "."):
                raise
            return False  # the folder was removed just now
        try:
            self._descriptor = self._lock(folder, name)
        finally:
            if self._descriptor < 0:
                folder.close()
        self._folder = folder if self._descriptor >= 0 else None
        return self._folder is not None

    def _lock(self, folder: PrivateFolder, name: str) -> int:
        """The lock's descriptor, or -1 if another process has it."""
        _check_made(folder, name)
        try:
            descriptor = folder.open_file(name, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:  # the folder was removed just now
            return -1
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _same(folder, name, descriptor):
                raise BlockingIOError
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, _introduction(), 0)
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return -1
            raise
        return descriptor


def _locked(what: str, holder: str) -> LockedError:
    return LockedError(f"{what} is being written by another run ({holder}): wait for it")


def _check_made(folder: PrivateFolder, name: str) -> None:
    """Raise UsageError if a folder has contents but no lock of this name.

    The lock is made first and removed last, so a run that has just begun or ended is not refused: the names are listed
    before the lock is looked up.
    """
    strange = folder.names()
    if strange and name not in strange and folder.look(name) is None:
        raise UsageError(
            f"{folder.path} is not a folder that reblock made: it has no lock, but {', '.join(strange[:3])}"
            f"{', …' if len(strange) > 3 else ''}; move it away, or choose another target"
        )


def who_holds(path: str) -> str | None:
    """The holder of a lock, in words, or None. UsageError if its folder is not ours."""
    folder = PrivateFolder.find(os.path.dirname(path))
    if folder is None:
        return None
    try:
        descriptor = folder.open_file(os.path.basename(path), os.O_RDONLY)
    except FileNotFoundError:
        return None
    finally:
        folder.close()
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(path)
    finally:
        os.close(descriptor)
    return None


def _same(folder: PrivateFolder, name: str, descriptor: int) -> bool:
    found = folder.look(name)
    return folder.is_in_place and found is not None and os.path.samestat(found, os.fstat(descriptor))


def _introduction() -> bytes:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since}).encode()


def _holder(path: str) -> str:
    try:
        with open(open_regular(path, os.O_RDONLY), "rb") as file:
            told = json.loads(file.read(4096))
        return f"process {int(told['pid'])} on {told['host']} since {told['since']}"
    except (OSError, FormatError, ValueError, LookupError, TypeError):
        return "which has just begun"
