"""The workspace of a local target: a hidden folder beside it, published by one rename.

::

    .scan.zarr.reblock/
      lock        held by the run that works here
      journal     the log: what is finished
      array       the future target
      scratch     intermediate arrays
      replaced    an old target during its removal, if two folders cannot be swapped in one step
      member-0002 the lock, log and scratch of one member of a job array
      crew-1f0c…  there while worker processes write here; they stop when it is gone
    .scan.zarr.reblock-done
                  the log of a finished run, while the folder is being removed

The folder's name follows from the target's, so the same command finds it again. It is private, see `private`: all work
in it is relative to its handle.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from reblock.errors import DiskError, UsageError
from reblock.storage.media.durable import Name, exchange, rename_new
from reblock.storage.media.file_log import FileLog
from reblock.storage.media.files import disk_errors, flush, kind_of
from reblock.storage.media.lock import FileLock, who_holds
from reblock.storage.media.private import PrivateFolder

_ARRAY, _JOURNAL, _LOCK, _SCRATCH, _REPLACED = "array", "journal", "lock", "scratch", "replaced"
_MEMBER = re.compile(r"member-(\d{4,})")
_CREW = re.compile(r"crew-[0-9a-f]{16}")
#: How long the workers of a run that was killed may take to see that their fence is gone, and to end a write.
FENCE_SECONDS = 1.0
#: The longest part of the target's name that the folder's name repeats, in bytes.
_LONGEST = 200


class LocalWorkspace:
    """The hidden folder in which one target is built; as a context manager, it holds the lock."""

    swaps = True
    lost = ""

    def __init__(self, target: str) -> None:
        self.target = target.rstrip("/") or "/"
        parent, name = os.path.split(os.path.abspath(self.target))
        self.parent = parent
        self._removed = False
        self.left: list[str] = []
        self._use(os.path.join(parent, f".{_shortened(name)}.reblock"))

    def _use(self, folder: str) -> None:
        self.folder, self.place, self.done = folder, folder, f"{folder}-done"
        self.journal = os.path.join(folder, _JOURNAL)
        self.lock = os.path.join(folder, _LOCK)
        self._held = FileLock(self.lock)

    # ---------------------------------------------------------------- members of a job array
    def segment(self, number: int) -> LocalWorkspace:
        """The folder of one member."""
        made = LocalWorkspace(self.target)
        made._use(os.path.join(self.folder, f"member-{number:04}"))
        return made

    def segments(self) -> list[int]:
        """Members that have a folder."""
        folder = PrivateFolder.find(self.folder)
        if folder is None:
            return []
        try:
            return sorted(int(found[1]) for name in folder.names() if (found := _MEMBER.fullmatch(name)))
        finally:
            folder.close()

    def remove_segments(self) -> None:
        """Remove the folders of all members."""
        for name in filter(_MEMBER.fullmatch, self._held.folder.names()):
            self._held.folder.remove(name)

    # ---------------------------------------------------------------- paths for those who open files below
    @property
    def reach(self) -> str:
        """The folder, or the path through its handle; see `private`."""
        return self._held.folder.reach if self._held.is_held else self.folder

    @property
    def array(self) -> str:
        """The path of the future target."""
        return os.path.join(self.reach, _ARRAY)

    @property
    def scratch(self) -> str:
        """The path of intermediate arrays."""
        return os.path.join(self.reach, _SCRATCH)

    # ---------------------------------------------------------------- the lock
    @property
    def is_there(self) -> bool:
        """Whether the folder exists, or the log of a finished run."""
        return os.path.lexists(self.folder) or os.path.lexists(self.done)

    @property
    def has_target(self) -> bool:
        """Whether anything has the target's name."""
        with disk_errors("the target cannot be made:", self.target):
            try:
                os.lstat(self.target)
            except (FileNotFoundError, NotADirectoryError):
                return False
        return True

    def holder(self) -> str | None:
        """The process that holds the lock, in words, or None."""
        with disk_errors("look at", self.folder):
            return who_holds(self.lock)

    def look(self) -> None:
        """Raise what entering would raise now, without touching anything."""
        self._held.look(self.target)

    def __enter__(self) -> Self:
        self._held.take(self.target)
        self._removed = False
        try:
            if self._fences():
                # The run that made it was killed, and its workers on other machines may not know that.
                self.unfence()
                time.sleep(FENCE_SECONDS)
        except BaseException:
            self._held.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A folder that exists after its removal belongs to another run.
        if not self._removed and not self.has_log:
            # Nothing was begun, or everything is done.
            with suppress(DiskError):
                self.remove()
        self._held.release()

    def check_place(self) -> None:
        """Raise StorageError if the folder was moved or replaced while we work in it."""
        self._held.folder.check_place()

    # ---------------------------------------------------------------- worker processes
    def fence(self) -> str | None:
        """Make a file with a name of its own; the workers of an earlier run do not know it."""
        name = f"crew-{secrets.token_hex(8)}"
        with disk_errors("create", os.path.join(self.folder, name)):
            os.close(self._held.folder.open_file(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        return os.path.join(self.folder, name)

    def unfence(self) -> None:
        """Remove such files."""
        for name in self._fences():
            self._held.folder.remove(name)

    def _fences(self) -> list[str]:
        return [name for name in self._held.folder.names() if _CREW.fullmatch(name)]

    # ---------------------------------------------------------------- the log
    def begin_log(self, line: bytes) -> FileLog:
        """A new log."""
        return FileLog.create(self.journal, line, at=self._held.folder.descriptor)

    def find_log(self) -> FileLog | None:
        """The log of an earlier attempt."""
        return FileLog.find(self.journal, at=self._held.folder.descriptor)

    def find_done(self) -> FileLog | None:
        """The log beside the folder."""
        with disk_errors("look at", self.done):
            try:
                found = os.lstat(self.done)
            except FileNotFoundError:
                return None
        if found.st_uid != os.geteuid() or not stat.S_ISREG(found.st_mode):
            raise UsageError(f"{self.done} is {kind_of(found.st_mode)} that reblock did not make: remove it")
        return FileLog.find(self.done)

    @contextmanager
    def looking(self) -> Iterator[FileLog | None]:
        """The log, for reading without the lock."""
        folder = PrivateFolder.find(self.folder)
        try:
            found = None if folder is None else FileLog.find(self.journal, at=folder.descriptor)
            yield self.find_done() if found is None else found
        finally:
            if folder is not None:
                folder.close()

    @property
    def has_log(self) -> bool:
        """Whether the folder has a log."""
        if self._held.is_held:
            return self._held.folder.look(_JOURNAL) is not None
        return os.path.lexists(self.journal)

    def forget_log(self) -> None:
        """Remove the log."""
        self._held.folder.remove(_JOURNAL)

    # ---------------------------------------------------------------- the end
    def publish(self, *, replace: bool) -> None:
        """Rename the array; an old target exists until the new one does."""
        here = self._held.folder.descriptor
        self.check_place()
        with _handle(self.parent) as above:
            old, new = Name(here, _ARRAY), Name(above, os.path.basename(os.path.abspath(self.target)))
            if not replace:
                rename_new(old, new)
            elif new.is_free or not (old.is_folder or new.is_folder):
                old.rename(new)
            elif not exchange(old, new):
                new.rename(Name(here, _REPLACED))
                old.rename(new)
            flush(above)

    def restore(self) -> None:
        """Restore an old target that a killed run had moved away and not replaced yet."""
        if self._held.folder.look(_REPLACED) is not None and not os.path.lexists(self.target):
            with disk_errors("restoring", self.target), _handle(self.parent) as above:
                name = os.path.basename(os.path.abspath(self.target))
                rename_new(Name(self._held.folder.descriptor, _REPLACED), Name(above, name))
                flush(above)

    def is_published(self, identity: int) -> bool:
        """Whether the target is the array with this inode number."""
        try:
            return os.lstat(self.target).st_ino == identity
        except OSError:
            return False

    def identity(self) -> int:
        """Inode number of the finished array."""
        found = self._held.folder.look(_ARRAY)
        if found is None:
            missing = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            raise DiskError.wrap(missing, doing="look at", path=self.array)
        return found.st_ino

    def clear(self) -> list[str]:
        """Remove everything here except the lock, the journal last; returns what was there.

        Only names that runs use are removed; others are listed in `left`.
        """
        removed = self._clear()
        if self._held.folder.look(_JOURNAL) is not None:
            self._held.folder.remove(_JOURNAL)
            removed.append(self.journal)
        self._remove_done()
        return removed

    def _clear(self) -> list[str]:
        self.restore()
        folder, removed = self._held.folder, []
        self.left = [os.path.join(self.folder, name) for name in folder.names() if not _is_ours(name)]
        for name in filter(_is_ours, folder.names()):
            if name not in (_LOCK, _JOURNAL):
                folder.remove(name)
                removed.append(os.path.join(self.folder, name))
        return removed

    def clear_array(self) -> None:
        """Remove the array, and the files that its format may have made beside it."""
        for name in filter(_is_array, self._held.folder.names()):
            self._held.folder.remove(name)

    def remove(self, *, finished: bool = False) -> list[str]:
        """Remove the folder and everything in it; returns what was there.

        The journal of a finished run is removed last: it is moved beside the folder while that is removed, and is then
        unlinked by a single call.
        """
        removed, folder = self._clear(), self._held.folder
        with disk_errors("removing", self.folder):
            if folder.look(_JOURNAL) is not None:
                removed.append(self.journal)
                if finished:
                    with suppress(FileExistsError):
                        rename_new(Name(folder.descriptor, _JOURNAL), Name(None, self.done))
                folder.remove(_JOURNAL)
            self._removed = True
            folder.remove(_LOCK)
            # Another run may have just found the folder and be working in it.
            folder.remove_itself()
        self._remove_done()
        return removed

    def _remove_done(self) -> None:
        if self.find_done() is not None:
            with disk_errors("removing", self.done), suppress(FileNotFoundError):
                os.unlink(self.done)


def _is_array(name: str) -> bool:
    return name == _ARRAY or name.startswith(f"{_ARRAY}.")


def _is_ours(name: str) -> bool:
    known = (_JOURNAL, f"{_JOURNAL}.new", _LOCK, _SCRATCH, _REPLACED)
    return _is_array(name) or name in known or bool(_MEMBER.fullmatch(name) or _CREW.fullmatch(name))


@contextmanager
def _handle(folder: str) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _shortened(name: str) -> str:
    """The name, or as much of it as fits and a hash."""
    data = os.fsencode(name)
    if len(data) <= _LONGEST:
        return name
    return f"{os.fsdecode(data[:_LONGEST])}-{hashlib.blake2b(data, digest_size=8).hexdigest()}"
