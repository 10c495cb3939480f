"""Small reads of remote objects: they fetch blocks, which a small cache keeps.

::

    library reads 8 bytes at 70,000 → block 1 (65,536 to 131,072) is fetched by one request and kept
    library reads 96 bytes at 70,200 → no request

Headers, directories and indexes are read this way. The elements that a plan reads are not: they have requests of their
own, which the report counts.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Any

from reblock.model.medium import FILE, Medium, ReadHandle, Status, Surveyor
from reblock.model.roots import Roots
from reblock.storage.media.handles import WrappedReader

#: Bytes of a block; reads of more are not kept.
BLOCK_BYTES = 64 << 10
#: The most blocks of a process, for all its objects.
_MOST_BLOCKS = 32


class BlockCache:
    """The blocks that were used last; all objects share one cache, so that its size does not depend on their number."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._blocks: OrderedDict[tuple[str, int, int], bytes] = OrderedDict()

    def get(self, at: tuple[str, int, int]) -> bytes | None:
        """A block by key, identity and number; None if it is not kept."""
        with self._lock:
            found = self._blocks.get(at)
            if found is not None:
                self._blocks.move_to_end(at)
            return found

    def put(self, at: tuple[str, int, int], data: bytes) -> None:
        """Keep a block, and drop the one that has been unused for the longest time."""
        with self._lock:
            self._blocks[at] = data
            if len(self._blocks) > _MOST_BLOCKS:
                self._blocks.popitem(last=False)


_CACHE = BlockCache()


class CachedHandle(WrappedReader):
    """An object open for reading, whose small reads go through the cache."""

    def read(self, view: memoryview, offset: int, *, once: bool = False) -> int:
        """Fill a view from a byte offset."""
        view = view.cast("B")
        if len(view) >= BLOCK_BYTES:
            return self._handle.read(view, offset, once=once)
        done = 0
        while done < len(view):
            number, start = divmod(offset + done, BLOCK_BYTES)
            part = self._block(number)[start : start + len(view) - done]
            if not part:
                break
            view[done : done + len(part)] = part
            done += len(part)
        return done

    def _block(self, number: int) -> bytes:
        status = self.status()
        first = number * BLOCK_BYTES
        if first >= status.size:
            return b""
        at = (self.key, status.identity, number)
        found = _CACHE.get(at)
        if found is None:
            data = bytearray(min(BLOCK_BYTES, status.size - first))
            found = bytes(data[: self._handle.read(memoryview(data), first)])
            _CACHE.put(at, found)
        return found

    def fileno(self) -> int:
        """The object's file descriptor, if it is a file."""
        return self._handle.fileno()


def library_reader(medium: Medium, key: str, roots: Roots | None = None) -> ReadHandle:
    """An object for a library that reads it in small pieces: cached, unless it is a local file."""
    handle = medium.reader(key, roots=roots)
    return handle if medium.is_local else CachedHandle(handle)


class ProbedMedium:
    """A medium while the format of an array is being detected: many formats ask about the same keys."""

    def __init__(self, medium: Medium) -> None:
        self._medium = medium
        self._known: dict[str, Status | FileNotFoundError] = {}
        self._objects: dict[str, Status | None] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._medium, name)

    def reader(self, key: str, *, roots: Roots | None = None, direct: bool = False) -> ReadHandle:
        """Open an object for small reads."""
        return CachedHandle(self._medium.reader(key, roots=roots, direct=direct))

    def status(self, key: str, *, roots: Roots | None = None, follow: bool = True) -> Status:
        """The status of a key, requested only once."""
        found = self._known.get(key)
        if found is None:
            try:
                found = self._medium.status(key, roots=roots, follow=follow)
            except FileNotFoundError as error:
                found = error
            self._known[key] = found
        if isinstance(found, FileNotFoundError):
            raise found
        return found

    def survey(self, keys: Sequence[str]) -> Sequence[Status | None]:
        """The status of objects, each looked at once."""
        for key in keys:
            known = self._known.get(key)
            if known is not None:
                self._objects[key] = known if isinstance(known, Status) and known.kind == FILE else None
        if unknown := [key for key in keys if key not in self._objects]:
            self._objects |= dict(zip(unknown, self._look(unknown), strict=True))
        return [self._objects[key] for key in keys]

    def _look(self, keys: Sequence[str]) -> Sequence[Status | None]:
        if isinstance(self._medium, Surveyor):
            return self._medium.survey(keys)
        found: list[Status | None] = []
        for key in keys:
            try:
                status = self.status(key)
            except FileNotFoundError:
                found.append(None)
            else:
                found.append(status if status.kind == FILE else None)
        return found


def probed(medium: Medium) -> Medium:
    """The medium for detecting a format; local files need no cache."""
    if medium.is_local:
        return medium
    remembering: Any = ProbedMedium(medium)
    found: Medium = remembering
    return found
