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

A message that tells what to try names options and commands by `option` and `command`. Whoever shows it says them in
their own language: `overwrite=True` in Python, `--overwrite` on the command line.
"""

from __future__ import annotations

import errno as _errno
import json
import re
from typing import Any, Protocol

#: What a mark in a message begins and ends with; no other text has it.
_MARK = "\x1e"
_MARKED = re.compile(f"{_MARK}([^{_MARK}]*){_MARK}")


def option(name: str, value: Any = None) -> str:
    """An option for a message, by the name of the argument in Python, with a value if it is given."""
    return f"{_MARK}{json.dumps(['option', name, value])}{_MARK}"


def options(*names: str) -> str:
    """Several options for a message."""
    *first, last = map(option, names)
    return f"{', '.join(first)} and {last}" if first else last


def command(name: str, *arguments: str) -> str:
    """A command for a message, by the name of the function in Python."""
    return f"{_MARK}{json.dumps(['command', name, list(arguments)])}{_MARK}"


class Speaker(Protocol):
    """Says options and commands in the language of who reads the message."""

    def option(self, name: str, value: Any) -> str:
        """An option, with its value unless that is None."""

    def command(self, name: str, arguments: list[str]) -> str:
        """A command."""


class Python:
    """Speaks Python."""

    def option(self, name: str, value: Any) -> str:
        """A keyword argument."""
        return name if value is None else f"{name}={value!r}"

    def command(self, name: str, arguments: list[str]) -> str:
        """A call."""
        return f"reblock.{name}({', '.join(map(repr, arguments))})"


def speak(message: str, speaker: Speaker) -> str:
    """A message with its options and commands in the speaker's language."""

    def said(mark: re.Match[str]) -> str:
        try:
            kind, name, value = json.loads(mark[1])
        except ValueError:  # somebody else's text
            return mark[0]
        return speaker.option(name, value) if kind == "option" else speaker.command(name, value)

    return _MARKED.sub(said, message)


class ReblockError(Exception):
    """Base of everything reblock raises on purpose; its message is one line."""

    #: Smallest memory budget that would do, where that is what failed.
    needs_memory_bytes: int | None = None

    @property
    def message(self) -> str:
        """The message as it was written, for other messages and for speakers."""
        return str(self.args[0]) if self.args else ""

    def told(self, speaker: Speaker) -> str:
        """The message in the language of who reads it."""
        return speak(self.message, speaker)

    def __str__(self) -> str:
        return self.told(Python())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def add(self, advice: str) -> None:
        """Say more at the end of the message, once."""
        if advice not in self.message:
            self.args = (f"{self.message}; {advice}", *self.args[1:])


class Interrupted(KeyboardInterrupt):
    """A run was told to stop, and can be resumed; no error, so `except ReblockError` does not catch it."""

    def __str__(self) -> str:
        return speak(str(self.args[0]), Python()) if self.args else ""


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
    """The target exists, and is not to be replaced."""


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
