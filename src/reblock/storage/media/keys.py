"""Building targets on a medium of keys, where nothing can be renamed: chunks have their final keys, metadata is last.

::

    memory://a/scan.zarr/.reblock/lock               names the run that works here; made only if it does not exist
    memory://a/scan.zarr/.reblock/journal/00000000   the log, an object for each line
    memory://a/scan.zarr/.reblock/scratch/0/…        intermediate arrays
    memory://a/scan.zarr/.reblock/member-0002/…      the lock, log and scratch of one member of a job array
    memory://a/scan.zarr/c/0/0                       chunks of the unfinished array
    memory://a/scan.zarr/zarr.json                   its metadata, which publishes it

An old array is removed before a new one is written in its place, because no such medium can swap two prefixes.
"""

from __future__ import annotations

import errno
import json
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from reblock.errors import DiskError, FormatError, LockedError, ReblockError, UsageError
from reblock.model.medium import FILE, FOLDER
from reblock.model.workspace import TargetMedium
from reblock.storage.media.small import RUN_FOLDER, read_whole

_JOURNAL, _LOCK, _SCRATCH = "journal", "lock", "scratch"
_MEMBER = re.compile(r"member-(\d{4,})")
#: The most bytes of one line of a log, and of a lock.
_LONGEST, _LOCK_BYTES = 1 << 30, 4096
#: Errors of media for a key that does not exist.
_MISSING = (errno.ENOENT, errno.ENOTDIR)


def is_there(medium: TargetMedium, key: str) -> bool:
    """Whether anything has this key. A failed request is an error, so that no run takes a log for missing."""
    return _is_found(lambda: medium.status(key))


def _has_object(medium: TargetMedium, key: str) -> bool:
    """Whether there is an object under a key, by one request."""

    def look() -> None:
        with medium.reader(key) as handle:
            handle.status()

    return _is_found(look)


def _is_found(look: Callable[[], object]) -> bool:
    try:
        look()
    except FileNotFoundError:
        return False
    except DiskError as error:
        if error.errno not in _MISSING:
            raise
        return False
    return True


class KeyPlace:
    """A key; nothing leads from it to another."""

    def __init__(self, key: str) -> None:
        self.real = key.rstrip("/")

    def meets(self, other: KeyPlace) -> bool:
        """Whether one is a prefix of the other."""
        one, two = f"{self.real}/", f"{other.real}/"
        return one.startswith(two) or two.startswith(one)


class KeyFolder:
    """A prefix that only runs use."""

    def __init__(self, medium: TargetMedium, path: str) -> None:
        self._medium = medium
        self.path = self.reach = path

    def check_place(self) -> None:
        """A prefix cannot be moved."""

    def names(self) -> list[str]:
        """All names below it, sorted."""
        with suppress(FileNotFoundError):
            return sorted(name for name, _ in self._medium.entries(self.path))
        return []

    def remove(self, name: str) -> None:
        """Remove an object, or all below a name."""
        key = f"{self.path}/{name}"
        self._medium.remove(key)
        self._medium.remove_folder(key)

    def remove_itself(self) -> bool:
        """An empty prefix needs no removal, except for its marker."""
        if self.names():
            return False
        self._medium.remove_folder(self.path)
        return True

    def close(self) -> None:
        """Nothing to close."""


class KeyLog:
    """A log of numbered objects, one for each line."""

    def __init__(self, medium: TargetMedium, key: str, *, is_new: bool = False) -> None:
        """One that is new has no lines yet."""
        self.key = key
        self._medium = medium
        # Bytes and lines after our own last line: while the lock is held, nobody else appends.
        self._end: tuple[int, int] | None = (0, 0) if is_new else None

    @classmethod
    def find(cls, medium: TargetMedium, key: str) -> KeyLog | None:
        """An existing log, or None: without its first line it is none."""
        return cls(medium, key) if _has_object(medium, f"{key}/{0:08}") else None

    def lines(self) -> Iterator[bytes]:
        """The lines, up to the first number that is missing."""
        number = 0
        while (line := self._read(number)) is not None:
            yield line
            number += 1

    def _read(self, number: int) -> bytes | None:
        try:
            return read_whole(self._medium, self._line(number), limit_bytes=_LONGEST)
        except DiskError as error:
            if error.errno not in _MISSING:
                raise
            return None

    def append(self, line: bytes, after: int) -> None:
        """Make the next object, after those that have `after` bytes; later ones are removed, the last one first."""
        if self._end is None or self._end[0] != after:
            self._end = after, self._cut(after)
        number = self._end[1]
        self._end = None
        self._medium.create(self._line(number), line)
        self._end = after + len(line), number + 1

    def _cut(self, after: int) -> int:
        """Remove the lines after some bytes; returns the number of those before."""
        number = size = 0
        while size < after:
            size += self._medium.status(self._line(number)).size
            number += 1
        later = number
        while _has_object(self._medium, self._line(later)):
            later += 1
        for old in reversed(range(number, later)):
            self._medium.remove(self._line(old))
        return number

    def _line(self, number: int) -> str:
        return f"{self.key}/{number:08}"


class KeyWorkspace:
    """The prefix below which one target is built; as a context manager, it holds the lock."""

    swaps = False
    lost = ""

    def __init__(self, medium: TargetMedium, target: str) -> None:
        self._medium = medium
        self.target = self.array = target.rstrip("/")
        if RUN_FOLDER in self.target.split("/"):
            raise UsageError(f"{target}: {RUN_FOLDER} holds what runs need, and no arrays: choose another name")
        self.parent = self.target.rpartition("/")[0]
        self.left: list[str] = []
        self._began = self._published = False
        self._use(f"{self.target}/{RUN_FOLDER}")

    def _use(self, folder: str) -> None:
        self.folder = self.reach = self.place = folder
        self.journal, self.lock, self.scratch = (f"{folder}/{name}" for name in (_JOURNAL, _LOCK, _SCRATCH))

    # ---------------------------------------------------------------- members of a job array
    def segment(self, number: int) -> Self:
        """The prefix of one member."""
        made = type(self)(self._medium, self.target)
        made._use(f"{self.folder}/member-{number:04}")  # noqa: SLF001 - another of the same class
        return made

    def segments(self) -> list[int]:
        """Members that have a prefix."""
        with suppress(FileNotFoundError):
            names = [name for name, _ in self._medium.entries(self.folder)]
            return sorted(int(found[1]) for name in names if (found := _MEMBER.fullmatch(name)))
        return []

    def remove_segments(self) -> None:
        """Remove the prefixes of all members."""
        for number in self.segments():
            self._medium.remove_folder(f"{self.folder}/member-{number:04}")

    # ---------------------------------------------------------------- worker processes
    def fence(self) -> str | None:
        """None: worker processes follow the lease of the lock, if there is one."""
        return None

    def unfence(self) -> None:
        """Nothing to remove."""

    # ---------------------------------------------------------------- the lock
    @property
    def is_there(self) -> bool:
        """Whether anything is in the run's folder."""
        return is_there(self._medium, self.folder)

    @property
    def has_target(self) -> bool:
        """Whether there are objects that no unfinished run has made."""
        return not self.has_log and self._has_objects()

    def _has_objects(self) -> bool:
        try:
            return any(name != RUN_FOLDER for name, _ in self._medium.entries(self.target)) or self._is_object()
        except FileNotFoundError:
            return self._is_object()
        except DiskError as error:
            if error.errno != errno.ENOTDIR:
                raise
            return True  # an object, not a prefix

    def _is_object(self) -> bool:
        with suppress(FileNotFoundError, DiskError):
            return self._medium.status(self.target).kind == FILE
        return False

    def holder(self) -> str | None:
        """The process that the lock names, in words, or None."""
        if not is_there(self._medium, self.lock):
            return None
        try:
            told = json.loads(read_whole(self._medium, self.lock, limit_bytes=_LOCK_BYTES))
            return f"process {int(told['pid'])} on {told['host']} since {told['since']}"
        except (ReblockError, OSError, ValueError, LookupError, TypeError):
            return "which has just begun"

    def look(self) -> None:
        """Raise what entering would raise now."""
        if (holder := self.holder()) is not None:
            raise LockedError(f"{self.target} is being written by another run ({holder}): wait for it")

    def __enter__(self) -> Self:
        since = datetime.now(UTC).isoformat(timespec="seconds")
        told = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since}).encode()
        try:
            self._medium.create(self.lock, told)
        except FileExistsError:
            self.look()
            raise LockedError(f"{self.target} was being written by another run just now: try again") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.has_log:
            with suppress(DiskError):
                self._medium.remove_folder(self.folder)
        self._medium.remove(self.lock)

    def check_place(self) -> None:
        """A prefix cannot be moved."""

    # ---------------------------------------------------------------- the log
    def begin_log(self, line: bytes) -> KeyLog:
        """A new log."""
        self._medium.remove_folder(self.journal)
        log = KeyLog(self._medium, self.journal)
        log.append(line, 0)
        return log

    def find_log(self) -> KeyLog | None:
        """The log of an earlier attempt."""
        return KeyLog.find(self._medium, self.journal)

    def find_done(self) -> KeyLog | None:
        """None: the first line is removed first, and without it there is no log."""
        return None

    @contextmanager
    def looking(self) -> Iterator[KeyLog | None]:
        """The log; it may be read at any time."""
        yield self.find_log()

    @property
    def has_log(self) -> bool:
        """Whether there is a log."""
        return self.find_log() is not None

    def forget_log(self) -> None:
        """Remove the log, and the array if it was begun: without a log, nobody would know that a run had made it."""
        if self._began:
            self.clear_array()
        self._remove_log()

    def _remove_log(self) -> None:
        self._medium.remove(f"{self.journal}/{0:08}")
        self._medium.remove_folder(self.journal)

    # ---------------------------------------------------------------- the end
    def clear(self) -> list[str]:
        """Remove scratch and log, and the unpublished array if there is a log that says that it is ours."""
        removed = []
        if self.has_log:
            self.clear_array()
            removed.append(self.journal)
        if is_there(self._medium, self.scratch):
            removed.append(self.scratch)
        self._medium.remove_folder(self.scratch)
        self.remove_segments()
        self._remove_log()
        return removed

    def clear_array(self) -> None:
        """Remove everything below the target that is not the run's own, unless it was published."""
        if self._published:
            return
        self._began = True
        with suppress(FileNotFoundError):
            for name, kind in self._medium.entries(self.target):
                if name != RUN_FOLDER:
                    remove = self._medium.remove_folder if kind == FOLDER else self._medium.remove
                    remove(f"{self.target}/{name}")
        # Servers that keep objects as files refuse to remove a folder.
        if self._is_object():
            self._medium.remove(self.target)

    def identity(self) -> int:
        """The array has its final keys, so there is nothing to compare."""
        if not self._has_objects():
            raise FormatError(f"{self.target}: the array that was being written is gone")
        return 0

    def is_published(self, identity: int) -> bool:  # noqa: ARG002 - the log's last line comes after the metadata
        """Whether there is an array: the log says that it is complete only after its metadata was written."""
        return self._has_objects()

    def publish(self, *, replace: bool) -> None:  # noqa: ARG002 - an old array was removed before
        """The metadata has been written."""
        self._published = True

    def restore(self) -> None:
        """Nothing is ever moved away."""

    def remove(self, *, finished: bool = False) -> list[str]:
        """Remove the run's folder, and the array unless it is published."""
        self._published = self._published or finished
        return self.clear()
