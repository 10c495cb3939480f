"""Every exception that reblock raises on purpose.

::

    ReblockError
    ├── UsageError              the request is impossible
    │   ├── InfeasibleError     the memory budget is too small (names the least that works)
    │   ├── Refused             a strategy cannot solve this problem (says why)
    │   ├── TargetExistsError   the target already exists
    │   ├── LockedError         another run is writing the target
    │   ├── MisfitError         an element that the target's type cannot hold (its index and value)
    │   └── UnfinishedError     an unfinished run of another problem is in the way
    └── StorageError            the storage failed
        ├── FormatError         an unknown format, or invalid metadata
        ├── CorruptError        bytes that are lost, too few, too many, or do not decode
        ├── UnevenError         a chunk that is divided differently from others of the same array
        ├── ChangedError        the source changed while it was read
        ├── ExternalError       a file that points outside its own root
        └── DiskError           the operating system reported an error (path and errno)
            └── SpaceError      not enough free space; found before the first write

Messages mark options and commands with `option` and `command`. The program that shows a message spells them:
`overwrite=True` in Python, `--overwrite` on the command line.
"""

from __future__ import annotations

import errno as _errno
import json
import re
from collections.abc import Sequence
from typing import Any, Protocol

#: The character around a mark in a message; no other text contains it.
_MARK = "\x1e"
_MARKED = re.compile(f"{_MARK}([^{_MARK}]*){_MARK}")


def option(name: str, value: Any = None) -> str:
    """Mark an option in a message, by the name of its Python argument, with a value if one is given."""
    return f"{_MARK}{json.dumps(['option', name, value])}{_MARK}"


def options(*names: str) -> str:
    """Mark several options in a message."""
    *first, last = map(option, names)
    return f"{', '.join(first)} and {last}" if first else last


def either(words: Sequence[str]) -> str:
    """Words to choose from, in a message.

    >>> either(["time", "seeks", "bytes"]), either(["fill", "error"])
    ('time, seeks or bytes', 'fill or error')
    """
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def command(name: str, *arguments: str) -> str:
    """Mark a command in a message, by the name of its Python function."""
    return f"{_MARK}{json.dumps(['command', name, list(arguments)])}{_MARK}"


class Speaker(Protocol):
    """Spells options and commands for one kind of reader."""

    def option(self, name: str, value: Any) -> str:
        """Spell an option, with its value unless that is None."""

    def command(self, name: str, arguments: list[str]) -> str:
        """Spell a command."""


class Python:
    """Spells options and commands as Python."""

    def option(self, name: str, value: Any) -> str:
        """A keyword argument."""
        return name if value is None else f"{name}={value!r}"

    def command(self, name: str, arguments: list[str]) -> str:
        """A call."""
        return f"reblock.{name}({', '.join(map(repr, arguments))})"


def speak(message: str, speaker: Speaker) -> str:
    """A message with its options and commands as the speaker spells them."""

    def said(mark: re.Match[str]) -> str:
        try:
            kind, name, value = json.loads(mark[1])
        except ValueError:  # text that is not ours
            return mark[0]
        return speaker.option(name, value) if kind == "option" else speaker.command(name, value)

    return _MARKED.sub(said, message)


class ReblockError(Exception):
    """Base of everything that reblock raises on purpose; its message is one line."""

    #: Smallest memory budget that works, if the budget was too small.
    needs_memory_bytes: int | None = None

    @property
    def message(self) -> str:
        """The message with its marks, to be used in other messages and by speakers."""
        return str(self.args[0]) if self.args else ""

    def told(self, speaker: Speaker) -> str:
        """The message as the speaker spells it."""
        return speak(self.message, speaker)

    def __str__(self) -> str:
        return self.told(Python())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def add(self, advice: str) -> None:
        """Append advice to the message, once."""
        if advice not in self.message:
            self.args = (f"{self.message}; {advice}", *self.args[1:])


class Interrupted(KeyboardInterrupt):
    """A run was stopped and can be resumed; not an error, so `except ReblockError` does not catch it."""

    def __str__(self) -> str:
        return speak(str(self.args[0]), Python()) if self.args else ""


class UsageError(ReblockError):
    """The request is impossible; nothing was touched."""


class InfeasibleError(UsageError):
    """No plan fits the budget; `needs_memory_bytes` is the smallest that works."""

    def __init__(self, message: str, *, needs_memory_bytes: int | None = None) -> None:
        super().__init__(message)
        self.needs_memory_bytes = needs_memory_bytes


class Refused(UsageError):  # noqa: N818 - a strategy refusing a problem is an answer, not an error
    """A strategy cannot solve a problem; the message says why."""

    def __init__(self, message: str, *, needs_memory_bytes: int | None = None) -> None:
        super().__init__(message)
        self.needs_memory_bytes = needs_memory_bytes


class TargetExistsError(UsageError):
    """The target already exists and may not be replaced."""


class LockedError(UsageError):
    """Another run is writing the target; the message says which."""


class MisfitError(UsageError):
    """The target's type cannot hold an element; has its `index` in the source, and its `value`."""

    def __init__(self, message: str, *, index: tuple[int, ...] = (), value: Any = None) -> None:
        super().__init__(message)
        self.index = index
        self.value = value


class UnfinishedError(UsageError):
    """An unfinished run of another problem is in the target's place; the message says what differs."""


class StorageError(ReblockError):
    """The storage failed or contradicts its metadata."""


class FormatError(StorageError):
    """The file's format is unknown, or its metadata is invalid."""


class CorruptError(StorageError):
    """Stored bytes are missing, too few, too many, or do not decode."""


class UnevenError(StorageError):
    """A chunk is divided differently from others, so it cannot be read in the planned parts."""


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
    """The file system lacks the space that the run needs; nothing was written."""

    def __init__(self, message: str, *, path: str, needed: int, free: int) -> None:
        super().__init__(message, path=path, errno=_errno.ENOSPC)
        self.needed = needed
        self.free = free


def errno_name(number: int) -> str:
    """Symbolic name of an errno, such as ENOSPC."""
    return _errno.errorcode.get(number, "unknown")
