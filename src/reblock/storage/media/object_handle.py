"""Open objects of an object store: read by range requests, and checked against what they were when they were opened.

Most objects are chunks that are read once and whole. So the first question about an object, its size, sends the
request for all of it, and the body is read only when it is wanted. An object that is read in ranges needs its status
alone; the medium remembers it for a minute, because such objects are opened again and again.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any

from reblock.errors import ChangedError
from reblock.model.medium import Status
from reblock.model.store import Flat
from reblock.storage.media.handles import Closing

if TYPE_CHECKING:
    from reblock.storage.media.object import ObjectMedium

#: Bodies arrive in parts of at least this many bytes.
_PART_BYTES = 256 << 10


class ObjectHandle(Closing):
    """An object that is open for reading. If it is replaced meanwhile, reading it is a ChangedError."""

    def __init__(self, key: str, medium: ObjectMedium) -> None:
        self.key = key
        self._medium, self._path = medium, medium.path(key)
        self._lock = Lock()
        self._found = medium.remembered(key)
        self._whole: Any = None

    def size(self) -> int:
        """Bytes of the object."""
        return self.status().size

    def status(self) -> Status:
        """Its size and stamp."""
        return self._look()[0]

    def _look(self) -> tuple[Status, str | None]:
        """Status and ETag; the first call may send the request for the whole object."""
        with self._lock:
            if self._found is None:
                medium = self._medium
                self._whole = medium.send(self.key, "read", lambda: medium.library.get(medium.store, self._path))
                self._found = medium.status_of(self._whole.meta), self._whole.meta["e_tag"]
            return self._found

    def read(self, view: memoryview, offset: int, *, once: bool = False) -> int:  # noqa: ARG002 - there is no cache
        """Fill a view from a byte offset."""
        view = view.cast("B")
        status, tag = self._look()
        wanted = max(min(len(view), status.size - offset), 0)
        if not wanted:
            return 0
        done = 0
        with self._lock:
            whole, self._whole = self._whole, None
        if whole is not None and (offset or wanted < status.size):
            # Other ranges of it will be wanted, too.
            self._medium.known.remember(self.key, status, tag)
            whole = None

        def fetch() -> None:
            nonlocal done, whole
            options: dict[str, Any] = {"range": (offset + done, offset + wanted)}
            if tag is not None:
                options["if_match"] = tag
            medium, first = self._medium, whole
            whole = None
            body = first or medium.library.get(medium.store, self._path, options=options)
            for part in body.stream(min_chunk_size=_PART_BYTES):
                piece = memoryview(part)[: wanted - done]
                view[done : done + len(piece)] = piece
                done += len(piece)
            if done < wanted:
                raise ConnectionResetError(f"{done} of {wanted} bytes arrived")

        self._send(fetch)
        return wanted

    def _send(self, request: Callable[[], None]) -> None:
        try:
            self._medium.send(self.key, "read", request)
        except (FileExistsError, FileNotFoundError):
            self._medium.known.forget(self.key)
            raise ChangedError(f"{self.key} was replaced or removed while it was read") from None

    def read_run(self, staging: Flat, offset: int, size: int, *, once: bool = False) -> tuple[Flat, int]:
        """Read one range to the start of a buffer."""
        return staging[:size], self.read(staging[:size].data, offset, once=once)

    def fileno(self) -> int:
        """Not supported: there is no file."""
        raise io.UnsupportedOperation(f"{self.key} is not a file")

    def close(self) -> None:
        """Drop a body that was not needed."""
        self._whole = None
