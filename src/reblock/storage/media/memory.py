"""The memory medium: objects of this process, under keys such as `memory://NAME/a.zarr/c/0`.

It behaves like an object store that can also write ranges: keys are flat, folders are prefixes of keys, and an empty
folder is a marker whose key ends in a slash. Every write gives an object a new stamp. NAME separates users of one
process. Everything is lost when the process ends.
"""

from __future__ import annotations

import errno
import io
import os
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from threading import Lock

import numpy as np

from reblock.errors import DiskError
from reblock.model.medium import FILE, FOLDER, Listed, Room, Status
from reblock.model.roots import Roots
from reblock.model.store import Bytes, Flat
from reblock.model.workspace import Stamps
from reblock.storage.media.handles import Closing
from reblock.storage.media.keys import KeyFolder, KeyPlace, KeyWorkspace

#: The prefix of all keys.
SCHEME = "memory://"


class _Object:
    """The bytes under one key, and their stamp."""

    __slots__ = ("data", "identity", "modified_ns")

    def __init__(self, data: bytearray, stamp: tuple[int, int]) -> None:
        self.data = data
        self.identity, self.modified_ns = stamp

    def status(self) -> Status:
        return Status(len(self.data), self.identity, self.modified_ns, self.modified_ns)


class MemoryHandle(Closing):
    """An open object; it stays as it was if it is replaced or removed meanwhile."""

    def __init__(self, key: str, medium: MemoryMedium, found: _Object) -> None:
        self.key = key
        self._medium = medium
        self._object = found

    def size(self) -> int:
        """Bytes of the object."""
        return len(self._object.data)

    def status(self) -> Status:
        """Its size and stamp."""
        with self._medium.lock:
            return self._object.status()

    def read(self, view: memoryview, offset: int, *, once: bool = False) -> int:  # noqa: ARG002 - there is no cache
        """Fill a view from a byte offset."""
        with self._medium.lock, memoryview(self._object.data) as data:
            some = data[offset : offset + len(view)]
            view[: len(some)] = some
            return len(some)

    def read_run(self, staging: Flat, offset: int, size: int, *, once: bool = False) -> tuple[Flat, int]:
        """Read one range to the start of a buffer."""
        return staging[:size], self.read(staging[:size].data, offset, once=once)

    def write(self, parts: Sequence[Bytes], offset: int) -> None:
        """Write buffers consecutively from a byte offset."""
        with self._medium.lock:
            data = self._object.data
            for part in parts:
                view = memoryview(part).cast("B")
                data.extend(bytes(max(offset + len(view) - len(data), 0)))
                data[offset : offset + len(view)] = view
                offset += len(view)
            self._object.modified_ns = self._medium.next_stamp()[1]

    def resize(self, size: int) -> None:
        """Set the length of the object."""
        with self._medium.lock:
            data = self._object.data
            del data[size:]
            data.extend(bytes(size - len(data)))
            self._object.modified_ns = self._medium.next_stamp()[1]

    def fileno(self) -> int:
        """Not supported: there is no file."""
        raise io.UnsupportedOperation(f"{self.key} is not a file")


class MemoryMedium:
    """Objects of this process."""

    name = "memory"
    is_local = False
    writes_ranges = True
    renames = False

    def __init__(self) -> None:
        self.lock = Lock()
        self._objects: dict[str, _Object] = {}
        self._stamps = 0
        self._last_ns = 0

    def __reduce__(self) -> str:
        return "MEMORY"

    def next_stamp(self) -> tuple[int, int]:
        """A number and a time that no other object has; the caller holds the lock."""
        self._stamps += 1
        self._last_ns = max(self._last_ns + 1, time.time_ns())
        return self._stamps, self._last_ns

    # ---------------------------------------------------------------- bytes
    def reader(self, key: str, *, roots: Roots | None = None, direct: bool = False) -> MemoryHandle:  # noqa: ARG002
        """Open an object for reading; there are no links, and no cache to bypass."""
        with self.lock:
            return MemoryHandle(key, self, self._find(key))

    def writer(self, key: str) -> MemoryHandle:
        """Open an object for writing ranges."""
        with self.lock:
            if key not in self._objects:
                self._put(key, b"")
            return MemoryHandle(key, self, self._objects[key])

    def write(self, key: str, parts: Sequence[Bytes]) -> None:
        """Write a whole object."""
        with self.lock:
            self._put(key, b"".join(parts))

    def create(self, key: str, data: Bytes, *, size: int | None = None) -> None:
        """Make a new object."""
        with self.lock:
            if key in self._objects:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), key)
            self._put(key, bytes(data).ljust(size or 0, b"\0"))

    def replace(self, key: str, data: Bytes) -> None:
        """Write a whole object, as `write` does."""
        self.write(key, [data])

    def remove(self, key: str) -> None:
        """Remove an object, or the marker of a folder whose key ends in a slash."""
        with self.lock:
            self._objects.pop(key, None)

    def remove_folder(self, key: str) -> None:
        """Remove every object below a key, and the marker of the folder."""
        below = f"{key.rstrip('/')}/"
        with self.lock:
            for found in [found for found in self._objects if found.startswith(below)]:
                del self._objects[found]

    def _put(self, key: str, data: Bytes) -> None:
        if not key.startswith(SCHEME) or key.endswith("/"):
            invalid = OSError(errno.EINVAL, f"a key must begin with {SCHEME} and end in a name")
            raise DiskError.wrap(invalid, doing="writing", path=key)
        self._objects[key] = _Object(bytearray(data), self.next_stamp())

    def _find(self, key: str) -> _Object:
        found = self._objects.get(key)
        if found is None or key.endswith("/"):
            if self._is_taken(key):
                folder = IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
                raise DiskError.wrap(folder, doing="opening", path=key)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), key)
        return found

    def _is_taken(self, key: str) -> bool:
        below = f"{key.rstrip('/')}/"
        return key in self._objects or any(other.startswith(below) for other in self._objects)

    # ---------------------------------------------------------------- names
    def status(self, key: str, *, roots: Roots | None = None, follow: bool = True) -> Status:  # noqa: ARG002
        """Kind, size and stamp of an object or folder."""
        with self.lock:
            found = self._objects.get(key)
            if found is not None and not key.endswith("/"):
                return found.status()
            if not self._is_taken(key):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), key)
            return Status(0, 0, 0, 0, FOLDER)

    def entries(self, folder: str) -> Sequence[Listed]:
        """The next parts of the keys below a folder."""
        below = f"{folder.rstrip('/')}/"
        found: dict[str, str] = {}
        with self.lock:
            keys = [key[len(below) :] for key in self._objects if key.startswith(below)]
            if not keys:
                if folder in self._objects:
                    wrong = NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
                    raise DiskError.wrap(wrong, doing="list", path=folder)
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
        for key in filter(None, keys):
            name, slash, _ = key.partition("/")
            found[name] = FOLDER if slash else FILE
        return [Listed(name, kind) for name, kind in found.items()]

    def make_folder(self, key: str) -> None:
        """Make the marker of an empty folder."""
        with self.lock:
            if self._is_taken(key):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), key)
            self._objects[f"{key.rstrip('/')}/"] = _Object(bytearray(), self.next_stamp())

    # ---------------------------------------------------------------- what surrounds them
    def sync(self, key: str) -> None:
        """Nothing here survives the process."""

    def sync_name(self, key: str) -> None:
        """Nothing here survives the process."""

    def sync_all(self, keys: Collection[str], folder: str) -> None:
        """Nothing here survives the process."""

    def room(self, folder: str) -> Room:  # noqa: ARG002 - all share the memory of the process
        """No limit is known."""
        return Room(self.name, None, None)

    def roots(self, key: str, allow: Sequence[str] = ()) -> None:
        """A key leads nowhere else."""

    # ---------------------------------------------------------------- building targets
    def workspace(self, target: str) -> KeyWorkspace:
        """A prefix below the target."""
        return KeyWorkspace(self, target)

    def private_folder(self, key: str, *, make: bool = False) -> KeyFolder | None:
        """A prefix; all objects belong to this process."""
        with self.lock:
            return KeyFolder(self, key) if make or self._is_taken(key) else None

    def check_folder(self, folder: str, what: str) -> None:
        """Every key can be written."""

    def used_bytes(self, folder: str) -> int:
        """The sizes of all objects below a folder."""
        below = f"{folder.rstrip('/')}/"
        with self.lock:
            return sum(len(found.data) for key, found in self._objects.items() if key.startswith(below))

    def stamps(self, keys: Sequence[str]) -> Stamps:
        """The state of objects."""
        seen = np.zeros((len(keys), 4), np.uint64)
        for row, key in zip(seen, keys, strict=True):
            with suppress(FileNotFoundError):
                found = self.status(key)
                row[:] = found.identity, found.size, found.modified_ns, found.changed_ns
        return seen

    def settle(self, keys: Sequence[str]) -> Stamps:
        """The state of objects; there is no cache."""
        return self.stamps(keys)

    def place(self, key: str) -> KeyPlace:
        """The key itself."""
        return KeyPlace(key)

    def links(self, folder: str) -> Iterator[str]:  # noqa: ARG002 - there are none
        """No key leads to another."""
        return iter(())


#: The objects of this process.
MEMORY = MemoryMedium()
