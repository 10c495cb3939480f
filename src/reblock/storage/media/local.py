"""The local medium: keys are paths of files.

Large transfers bypass the kernel's page cache if the file system allows it (O_DIRECT): copying through the cache costs
more than the device, and evicts everything else from it. Files inside roots are opened without following links
(O_NOFOLLOW); a link is resolved first, and opened only if it stays inside.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import ClassVar

from reblock.errors import DiskError
from reblock.model.medium import PAGE_BYTES, Listed, Room, Status, round_up
from reblock.model.roots import Roots
from reblock.model.store import Bytes, Flat
from reblock.model.workspace import Stamps
from reblock.storage.media.durable import looks, make_durable, settle
from reblock.storage.media.files import KINDS, disk_errors, kind_of, sync, write_file
from reblock.storage.media.handles import Closing
from reblock.storage.media.local_workspace import LocalWorkspace
from reblock.storage.media.moving import check_moves, move_files
from reblock.storage.media.places import LocalPlace, links_below
from reblock.storage.media.private import PrivateFolder
from reblock.storage.roots import FileRoots

_DIRECT: int = getattr(os, "O_DIRECT", 0)
#: Linux's flag for reads that leave nothing in the page cache; since 6.14, on some file systems.
_DONTCACHE = 0x80 if sys.platform == "linux" else 0
#: Errors for an unsupported flag.
_UNKNOWN = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
#: Opening a pipe without a writer must not block.
_READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_WRITING = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC


class LocalHandle(Closing):
    """An open file."""

    _forgets: ClassVar[int] = _DONTCACHE

    def __init__(self, key: str, descriptor: int, *, direct: bool = False) -> None:
        self.key = key
        self.direct = direct
        self._descriptor = descriptor

    def size(self) -> int:
        """Size of the file."""
        return os.fstat(self._descriptor).st_size

    def status(self) -> Status:
        """Kind, size and stamp of the file."""
        return status_of(os.fstat(self._descriptor))

    def read(self, view: memoryview, offset: int, *, once: bool = False) -> int:
        """Fill a view from a byte offset; with `once` the bytes are not cached."""
        done = 0
        try:
            while done < len(view):
                count = self._read_some(view[done:], offset + done, once=once and not self.direct)
                done += count
                if not count or (self.direct and count % PAGE_BYTES):  # the end of the file
                    break
        except OSError as error:
            raise DiskError.wrap(error, doing="reading", path=self.key) from error
        return done

    def _read_some(self, view: memoryview, offset: int, *, once: bool) -> int:
        if once and LocalHandle._forgets:
            try:
                return os.preadv(self._descriptor, [view], offset, LocalHandle._forgets)
            except OSError as error:
                if error.errno not in _UNKNOWN:
                    raise
                LocalHandle._forgets = 0
        return os.preadv(self._descriptor, [view], offset)

    def read_run(self, staging: Flat, offset: int, size: int, *, once: bool = False) -> tuple[Flat, int]:
        """Read one range, extended to whole pages if the transfer is direct."""
        if not self.direct:
            return staging[:size], self.read(staging[:size].data, offset, once=once)
        before = offset % PAGE_BYTES
        whole = round_up(before + size)
        got = self.read(staging[:whole].data, offset - before)
        return staging[before : before + size], min(max(got - before, 0), size)

    def write(self, parts: Sequence[Bytes], offset: int) -> None:
        """Write buffers consecutively from a byte offset."""
        views = [memoryview(part).cast("B") for part in parts if len(part)]
        try:
            while views:
                count = os.pwritev(self._descriptor, views[:64], offset)
                offset += count
                while views and count >= len(views[0]):
                    count -= len(views.pop(0))
                if count:
                    views[0] = views[0][count:]
        except OSError as error:
            raise DiskError.wrap(error, doing="writing", path=self.key) from error

    def resize(self, size: int) -> None:
        """Set the length of the file."""
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise DiskError.wrap(error, doing="resizing", path=self.key) from error

    def fileno(self) -> int:
        """The descriptor, which the handle still owns."""
        return self._descriptor

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            try:
                os.close(descriptor)
            except OSError as error:
                raise DiskError.wrap(error, doing="closing", path=self.key) from error

    def __del__(self) -> None:
        # A failed run drops handles without closing them.
        if self._descriptor >= 0:
            os.close(self._descriptor)


class LocalMedium:
    """Files of this machine."""

    name = "local files"
    is_local = True
    writes_ranges = True
    renames = True

    def __reduce__(self) -> str:
        return "LOCAL"

    # ---------------------------------------------------------------- bytes
    def reader(self, key: str, *, roots: Roots | None = None, direct: bool = False) -> LocalHandle:
        """Open a file inside the roots for reading."""
        try:
            if roots is None:
                return _open(key, _READING, direct=direct)
            if roots.allows(key):
                try:
                    return _open(key, _READING | os.O_NOFOLLOW, direct=direct)
                except OSError as error:
                    if error.errno != errno.ELOOP:  # not a link
                        raise
            return _open(roots.resolve(key), _READING, direct=direct)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise DiskError.wrap(error, doing="opening", path=key) from error

    def writer(self, key: str) -> LocalHandle:
        """Open a file for writing; it and its folders are made if they do not exist."""
        try:
            try:
                return _open(key, _WRITING)
            except FileNotFoundError:
                _make_folders(key)
                return _open(key, _WRITING)
        except OSError as error:
            raise DiskError.wrap(error, doing="creating", path=key) from error

    def write(self, key: str, parts: Sequence[Bytes]) -> None:
        """Write a whole file over the existing one, which keeps its inode."""
        with self.writer(key) as handle:
            handle.write(parts, 0)
            handle.resize(sum(len(part) for part in parts))

    def create(self, key: str, data: Bytes, *, size: int | None = None) -> None:
        """Make a new file and fsync it."""
        try:
            write_file(key, data, length=size)
        except DiskError as error:
            if error.errno == errno.EEXIST:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), key) from None
            raise

    def replace(self, key: str, data: Bytes) -> None:
        """Write a draft and rename it, so that the file is complete after a power failure."""
        folder, name = os.path.split(key)
        draft = os.path.join(folder, draft_name(name))
        with disk_errors("write", key):
            with suppress(FileNotFoundError):
                os.unlink(draft)
            write_file(draft, data)
            os.replace(draft, key)
        sync(folder or ".")

    def remove(self, key: str) -> None:
        """Remove a file, or a link."""
        with disk_errors("removing", key), suppress(FileNotFoundError):
            os.unlink(key)

    # ---------------------------------------------------------------- names
    def status(self, key: str, *, roots: Roots | None = None, follow: bool = True) -> Status:
        """The result of stat; with roots, a link is resolved inside them first."""
        try:
            found = os.stat(key) if follow and roots is None else os.lstat(key)
            if follow and roots is not None and stat.S_ISLNK(found.st_mode):
                found = os.stat(roots.resolve(key))
            # Formats ask this of every chunk, so `status_of` is not called here.
            kind = KINDS.get(stat.S_IFMT(found.st_mode), "something else")
            return tuple.__new__(Status, (found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, kind))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise DiskError.wrap(error, doing="look at", path=key) from error
        except ValueError as error:  # a NUL character
            raise DiskError.wrap(OSError(errno.EINVAL, str(error)), doing="look at", path=repr(key)) from error

    def entries(self, folder: str) -> Sequence[Listed]:
        """The result of scandir."""
        try:
            with os.scandir(folder) as found:
                return [Listed(entry.name, _kind_of(entry)) for entry in found]
        except FileNotFoundError:
            raise
        except OSError as error:
            raise DiskError.wrap(error, doing="list", path=folder) from error

    def make_folder(self, key: str) -> None:
        """Make one folder; the one above it must exist."""
        try:
            os.mkdir(key)
        except FileExistsError:
            raise
        except OSError as error:
            raise DiskError.wrap(error, doing="create", path=key) from error

    # ---------------------------------------------------------------- what surrounds them
    def sync(self, key: str) -> None:
        """Fsync a file or a folder."""
        sync(key)

    def sync_name(self, key: str) -> None:
        """Fsync the folder of a path."""
        sync(os.path.dirname(os.path.abspath(key)))

    def sync_all(self, keys: Collection[str], folder: str) -> None:
        """Fsync files and their folders, or the whole file system if there are many."""
        make_durable(keys, folder)

    def room(self, folder: str) -> Room:
        """The result of statvfs for the file system."""
        with disk_errors("look at", folder):
            found, device = os.statvfs(folder), os.stat(folder).st_dev
        # Some file systems create inodes on demand, and report that they have none.
        inodes = found.f_favail if found.f_files else None
        return Room(str(device), found.f_bavail * found.f_frsize, inodes)

    def roots(self, key: str, allow: Sequence[str] = ()) -> FileRoots:
        """The real path and the allowed folders."""
        return FileRoots.of(key, allow)

    # ---------------------------------------------------------------- building targets
    def workspace(self, target: str) -> LocalWorkspace:
        """A hidden folder beside the target."""
        return LocalWorkspace(target)

    def private_folder(self, key: str, *, make: bool = False) -> PrivateFolder | None:
        """A folder that belongs to this user and that others cannot write."""
        return PrivateFolder.make(key) if make else PrivateFolder.find(key)

    def check_folder(self, folder: str, what: str) -> None:
        """Raise DiskError if a folder does not exist or may not be written."""
        if not os.path.isdir(folder):
            missing = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            raise DiskError.wrap(missing, doing=f"{what} does not exist:", path=folder)
        if not os.access(folder, os.W_OK | os.X_OK):
            refused = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            raise DiskError.wrap(refused, doing=f"{what} is not writable:", path=folder)

    def remove_folder(self, key: str) -> None:
        """Remove a folder with its contents; links are not followed."""
        with disk_errors("removing", key), suppress(FileNotFoundError):
            shutil.rmtree(key)

    def used_bytes(self, folder: str) -> int:
        """The blocks that all files below a folder take."""
        with disk_errors("look at", folder):
            files = [os.lstat(os.path.join(base, name)) for base, _, names in os.walk(folder) for name in names]
        return sum(found.st_blocks * 512 for found in files)

    def stamps(self, keys: Sequence[str]) -> Stamps:
        """Inode, size and times of files."""
        return looks(keys)

    def settle(self, keys: Sequence[str]) -> Stamps:
        """Inode, size and times of files, which are dropped from the page cache."""
        return settle(keys)

    def place(self, key: str) -> LocalPlace:
        """The real path."""
        return LocalPlace(key)

    def links(self, folder: str) -> Iterator[str]:
        """Symbolic links below a folder."""
        return links_below(folder)

    # ---------------------------------------------------------------- changing arrays
    def check_moves(self, folder: str, target: str) -> None:
        """Raise UsageError if files of a folder cannot be renamed below the target."""
        check_moves(folder, target)

    def move(self, pairs: Sequence[tuple[str, str]], target: str) -> None:
        """Rename files, and fsync their new folders."""
        move_files(pairs, target)


def draft_name(name: str) -> str:
    """The name of the draft of `replace`; a leftover draft is not a stranger."""
    return f".{name}.draft"


def status_of(found: os.stat_result) -> Status:
    """Kind, size and stamp of a file."""
    return Status(found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, kind_of(found.st_mode))


def _kind_of(entry: os.DirEntry[str]) -> str:
    """The kind of a folder entry; most file systems return it without another call."""
    if entry.is_symlink():
        return kind_of(stat.S_IFLNK)
    if entry.is_dir(follow_symlinks=False):
        return kind_of(stat.S_IFDIR)
    if entry.is_file(follow_symlinks=False):
        return kind_of(stat.S_IFREG)
    return kind_of(entry.stat(follow_symlinks=False).st_mode)


def _make_folders(path: str) -> None:
    """Make the folders of a file."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError as error:
        raise DiskError.wrap(error, doing="creating the folder of", path=path) from error


def _open(path: str, flags: int, *, direct: bool = False) -> LocalHandle:
    """Open a file, bypassing the page cache if that is requested and possible."""
    if direct and _DIRECT:
        try:
            return LocalHandle(path, os.open(path, flags | _DIRECT, 0o666), direct=True)
        except OSError as error:
            if error.errno != errno.EINVAL:  # the error of a file system without direct transfers
                raise
    return LocalHandle(path, os.open(path, flags, 0o666))


#: The files of this machine.
LOCAL = LocalMedium()
