"""Copy a local file durably, for a run that changes the copy."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from contextlib import suppress

from reblock.errors import LockedError
from reblock.storage.media.files import disk_errors, flush

#: Bytes copied between two checks whether to stop.
_PIECE_BYTES = 64 << 20
#: Errors of file systems that cannot copy by themselves.
_PLAIN = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def copy_file(source: str, target: str, *, cancelled: Callable[[], bool] = lambda: False) -> None:
    """Copy a file to a new one with the same permissions; KeyboardInterrupt if that is cancelled.

    LockedError if another program has locked it, as HDF5 does while it writes.
    """
    with disk_errors("copy", source):
        there = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            try:
                fcntl.flock(there, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LockedError(f"{source} is locked: another program is writing it") from None
            except OSError:
                pass  # this file system has no locks
            here = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                _copy(there, here, cancelled)
                found = os.fstat(there)
                with suppress(PermissionError):
                    os.fchown(here, found.st_uid, found.st_gid)
                os.fchmod(here, found.st_mode & 0o7777)
                flush(here)
            finally:
                os.close(here)
        finally:
            os.close(there)


def _copy(there: int, here: int, cancelled: Callable[[], bool]) -> None:
    at, plain = 0, False
    while True:
        if cancelled():
            raise KeyboardInterrupt
        try:
            count = 0 if plain else os.copy_file_range(there, here, _PIECE_BYTES)
        except OSError as error:
            if at or error.errno not in _PLAIN:
                raise
            plain = True
        if plain:
            data = memoryview(os.pread(there, 1 << 20, at))
            count = len(data)
            while data:
                data = data[os.write(here, data) :]
        if not count:
            return
        at += count
