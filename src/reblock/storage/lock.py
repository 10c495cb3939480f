"""Lock: one run per target, whichever process starts it.

The lock is the kernel's, on an open file: it ends with the process that holds it, however that ends. The file says who
holds it. Whoever is done removes the file together with its folder, so a lock counts only while its path still leads
to the very file that is locked.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
from contextlib import suppress
from datetime import UTC, datetime

from reblock.errors import LockedError
from reblock.storage.files import disk_errors

#: How long a lock is tried for; whoever only looks whether it is held has it for a moment.
_PATIENCE_SECONDS, _PAUSE_SECONDS = 0.4, 0.02


class Lock:
    """A lock file; its folder is made where it does not exist."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = -1

    def take(self, what: str) -> None:
        """Hold the lock; LockedError where somebody else does."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        with disk_errors("lock", self.path):
            while not self._try():
                if time.monotonic() > deadline:
                    raise LockedError(f"{what} is being written by another run ({_holder(self.path)}): wait for it")
                time.sleep(_PAUSE_SECONDS)

    def release(self) -> None:
        """Let others have it."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _try(self) -> bool:
        with suppress(FileExistsError):
            os.mkdir(os.path.dirname(self.path))
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:  # the folder was removed just now
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _same(self.path, descriptor):
                raise BlockingIOError
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, _introduction(), 0)
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return False
            raise
        self._descriptor = descriptor
        return True


def who_holds(path: str) -> str | None:
    """Who holds a lock, in words; None where nobody does."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        raise
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(path)
    finally:
        os.close(descriptor)
    return None


def _same(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _introduction() -> bytes:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    return json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since}).encode()


def _holder(path: str) -> str:
    try:
        with open(path, "rb") as file:
            told = json.loads(file.read(4096))
        return f"process {int(told['pid'])} on {told['host']} since {told['since']}"
    except (OSError, ValueError, LookupError, TypeError):
        return "which has just begun"
