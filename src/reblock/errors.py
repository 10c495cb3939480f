"""Every exception that reblock raises on purpose.

::

    ReblockError
    ├── UsageError              the caller asked for something that cannot be
    │   ├── InfeasibleError     the memory budget is too small (says what would do)
    │   ├── Refused             a strategy cannot serve this problem (says why)
    │   ├── TargetExistsError   the target is there already
    │   ├── LockedError         another run is writing the target
    │   └── UnfinishedError     an unfinished run of another problem is in the way
    └── StorageError            the storage did not deliver
        ├── FormatError         not a format we know, or metadata that makes no sense
        ├── CorruptError        bytes that are lost, short, long or do not decode
        ├── UnevenError         chunks that are not divided as others of the same array are
        ├── ChangedError        the source changed while it was read
        ├── ExternalError       a file that points outside its own root
        └── DiskError           the operating system said no (path and errno)
            └── SpaceError      there is not enough room; found out before the first write
"""

from __future__ import annotations

import errno as _errno


class ReblockError(Exception):
    """Base of everything reblock raises on purpose; its message is one line."""

    #: Smallest memory budget that would do, where that is what failed.
    needs_memory_bytes: int | None = None

    def add(self, advice: str) -> None:
        """Say more at the end of the message, once."""
        if advice not in str(self):
            self.args = (f"{self}; {advice}", *self.args[1:])


class UsageError(ReblockError):
    """The request itself cannot be served; nothing was touched."""


class InfeasibleError(UsageError):
    """No plan fits the budget; `needs_memory_bytes` is the smallest that would do."""

    def __init__(self, message: str, *, needs_memory_bytes: int | None = None) -> None:
        super().__init__(message)
        self.needs_memory_bytes = needs_memory_bytes


class Refused(UsageError):  # noqa: N818 - a strategy refusing a problem is an answer, not an error
    """A strategy cannot serve a problem; the message says why."""

    def __init__(self, message: str, *, needs_memory_bytes: int | None = None) -> None:
        super().__init__(message)
        self.needs_memory_bytes = needs_memory_bytes


class TargetExistsError(UsageError):
    """The target exists and `--overwrite` was not given."""


class LockedError(UsageError):
    """Another run is writing the target; the message says which."""


class UnfinishedError(UsageError):
    """An unfinished run of another problem is in the target's place; the message says what differs."""


class StorageError(ReblockError):
    """The storage did not deliver what its metadata promises."""


class FormatError(StorageError):
    """The file is not of a known format, or its metadata makes no sense."""


class CorruptError(StorageError):
    """Stored bytes are missing, short, long, or do not decode."""


class UnevenError(StorageError):
    """A chunk is not divided as others are, so it cannot be read in parts like them."""


class ChangedError(StorageError):
    """The source changed during the run."""


class ExternalError(StorageError):
    """A file points to bytes outside its own root."""


class DiskError(StorageError):
    """The operating system refused an operation; keeps `path` and `errno`."""

    def __init__(self, message: str, *, path: str, errno: int) -> None:
        super().__init__(message)
        self.path = path
        self.errno = errno

    @classmethod
    def wrap(cls, error: OSError, *, doing: str, path: str | None = None) -> DiskError:
        """Describe an `OSError`: what was being done, to which path, and the errno's name."""
        number = error.errno or 0
        where = path or str(error.filename or "?")
        reason = error.strerror or str(error) or "unknown error"
        return cls(f"{doing} {where}: {reason} (errno {number}, {errno_name(number)})", path=where, errno=number)


class SpaceError(DiskError):
    """The file system has not the room that the run needs; nothing was written."""

    def __init__(self, message: str, *, path: str, needed: int, free: int) -> None:
        super().__init__(message, path=path, errno=_errno.ENOSPC)
        self.needed = needed
        self.free = free


def errno_name(number: int) -> str:
    """Symbolic name of an errno, such as ENOSPC."""
    return _errno.errorcode.get(number, "unknown")
