"""What is known of a store's objects without another request: the status of some, and the state of written ones."""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import Lock

from reblock.model.medium import Status

#: How long the status of an object that is read in ranges is remembered, and of how many.
_REMEMBER_SECONDS, _MOST_REMEMBERED = 60.0, 1 << 12
#: The most written objects whose state is kept until it is recorded.
_MOST_WRITTEN = 1 << 14


class KnownObjects:
    """The status and ETag of objects that are read in ranges, and the identity and size of written ones; any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._seen: dict[str, tuple[float, Status, str | None]] = {}
        self._written: dict[str, tuple[int, int]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._seen

    def is_old(self, key: str) -> bool:
        """Whether a status is known, but from too long ago."""
        with self._lock:
            seen = self._seen.get(key)
        return seen is not None and time.monotonic() - seen[0] > _REMEMBER_SECONDS

    def get(self, key: str) -> tuple[Status, str | None] | None:
        """Status and ETag of an object, if they are known."""
        with self._lock:
            seen = self._seen.get(key)
        return None if seen is None else seen[1:]

    def remember(self, key: str, status: Status, tag: str | None) -> None:
        """Keep a status for a while."""
        with self._lock:
            if len(self._seen) >= _MOST_REMEMBERED:
                self._seen.clear()
            self._seen[key] = time.monotonic(), status, tag

    def forget(self, key: str) -> None:
        """Forget all about an object."""
        with self._lock:
            self._seen.pop(key, None)
            self._written.pop(key, None)

    def forget_below(self, prefix: str) -> None:
        """Forget the status of all objects below a prefix."""
        with self._lock:
            self._seen = {key: seen for key, seen in self._seen.items() if not key.startswith(f"{prefix}/")}

    def note_written(self, key: str, identity: int, size: int) -> None:
        """Keep the identity and size of an object that was just written."""
        with self._lock:
            if len(self._written) >= _MOST_WRITTEN:
                self._written.clear()
            self._written[key] = identity, size

    def take_written(self, keys: Sequence[str]) -> dict[str, tuple[int, int] | None]:
        """Identity and size of written objects, each only once; None for others."""
        with self._lock:
            return {key: self._written.pop(key, None) for key in keys}
