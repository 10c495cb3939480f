"""Leases: the right to write a target on a store, for a while after each renewal of its lock.

::

    owner      writes the lock again, on condition that it is still its own
               cannot do so for half the lease → stops writing, at once and for good
    worker     writes for the owner, perhaps elsewhere: reads the lock → has it changed since the last look?
               no change for half the lease, or another owner → stops writing, too
    taker      waits for the whole lease, by the server's clock

Nobody compares clocks. An owner counts from before it sent a renewal, and a worker from before the look that did not
show it yet, so both count at least the time that has passed at the server. The second half of the lease is for
requests that are on their way.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from threading import Event, RLock, Thread
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from reblock.errors import ReblockError, StorageError

if TYPE_CHECKING:
    from reblock.storage.media.object import ObjectMedium

#: How long a lock is valid after its last write.
LEASE_SECONDS = 30.0
#: How often its owner writes it in that time, and how often workers read it.
_BEATS = 6
_LOCK_BYTES = 4096
#: Times of objects may be rounded to seconds.
_ROUNDING_SECONDS = 1.0


class LeaseTerms(NamedTuple):
    """What another process must know about a lease to write under it."""

    target: str
    """The target."""
    lock: str
    """The key of its lock."""
    owner: str
    """The name of the run that owns it."""
    seconds: float
    """How long the lock is valid after its last write."""


class Lease:
    """The lease of its owner, which renews it."""

    def __init__(self, medium: ObjectMedium, terms: LeaseTerms, told: dict[str, Any], tag: str, began: float) -> None:
        """`told` is the content of the lock, `tag` its ETag; the request that made it was sent when it `began`."""
        self.terms = terms
        self._medium, self._told, self._tag = medium, told, tag
        self._renewed = began
        self._lost = ""
        self._stop = Event()
        self._thread = Thread(target=self._renew, name="reblock-lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise StorageError if the lease was lost, or could not be renewed for half its time."""
        late = time.monotonic() - self._renewed
        if not self._lost and late > self.terms.seconds / 2:
            self._lost = f"the lock could not be renewed for {late:.0f} seconds"
        if self._lost:
            raise _stopped(self.terms, self._lost)

    def end(self) -> None:
        """Stop renewing, and give the lock back if it is still ours."""
        self._stop.set()
        self._thread.join()
        with suppress(ReblockError, OSError):
            self.check()
            self._medium.remove(self.terms.lock)

    def _renew(self) -> None:
        beat = 0
        while not self._stop.wait(self.terms.seconds / _BEATS):
            beat += 1
            began = time.monotonic()
            try:
                tag = self._medium.put_if(
                    self.terms.lock, document({**self._told, "beat": beat}), self._tag, urgent=True
                )
            except FileExistsError:
                self._lost = "another run has taken the lock"
                return
            except (ReblockError, OSError):
                continue
            self._tag, self._renewed = tag or self._tag, began


class FollowedLease:
    """The lease of another process, seen by a worker that writes for it."""

    def __init__(self, medium: ObjectMedium, terms: LeaseTerms) -> None:
        self.terms = terms
        self._medium = medium
        self._lost = ""
        self._renewed = self._looked = 0.0
        self._tag: str | None = None
        self._lock = RLock()
        self._begun = False

    def check(self) -> None:
        """Raise StorageError if the owner may have lost the lease. The first call reads the lock."""
        with self._lock:
            if not self._begun:
                self._begin()
        late = time.monotonic() - self._renewed
        if not self._lost and late > self.terms.seconds / 2:
            self._lost = f"the run that began this work has not renewed its lock for {late:.0f} seconds"
        if self._lost:
            raise _stopped(self.terms, self._lost)

    def _begin(self) -> None:
        """Read the lock for the first time; its age comes from the server's clock."""
        self._looked = self._renewed = began = time.monotonic()
        # Asking for the server's time is itself a write, which is checked here again.
        self._begun = True
        try:
            found = self._read()
            if found is None:
                return
            self._tag, written = found
            age = server_time(self._medium, self.terms.lock.rpartition("/")[0]) - written
        except BaseException:
            self._begun = False
            raise
        self._renewed = began - max(age, 0.0) - _ROUNDING_SECONDS
        Thread(target=self._follow, name="reblock-lease", daemon=True).start()

    def _follow(self) -> None:
        while not self._lost:
            time.sleep(self.terms.seconds / _BEATS)
            began = time.monotonic()
            try:
                found = self._read()
            except (ReblockError, OSError):
                continue
            if found is not None and found[0] != self._tag:
                # It was renewed after the previous read.
                self._tag, self._renewed = found[0], self._looked
            self._looked = began

    def _read(self) -> tuple[str, float] | None:
        """ETag and time of the lock; None if it is no longer the owner's."""
        found = read_lock(self._medium, self.terms.lock)
        if found is None or found[1].get("owner") != self.terms.owner:
            self._lost = "the run that began this work has given back its lock, or lost it"
            return None
        return found[0], found[2]


def _stopped(terms: LeaseTerms, why: str) -> StorageError:
    return StorageError(f"{terms.lock}: {why}, so another run may be writing: this run has stopped")


def document(told: dict[str, Any]) -> bytes:
    """The content of a lock."""
    return json.dumps(told).encode()


def read_lock(medium: ObjectMedium, key: str) -> tuple[str, dict[str, Any], float] | None:
    """ETag, content and time of a lock; None if there is none."""

    def get() -> tuple[Any, bytes]:
        found = medium.library.get(medium.store, medium.path(key))
        return found.meta, bytes(found.bytes())[:_LOCK_BYTES]

    try:
        meta, data = medium.send(key, "read", get, urgent=True)
    except FileNotFoundError:
        return None
    try:
        told = json.loads(data)
    except ValueError:
        told = {}
    return meta["e_tag"] or "", told if isinstance(told, dict) else {}, medium.status_of(meta).modified_ns / 1e9


def server_time(medium: ObjectMedium, folder: str) -> float:
    """The server's time: that of an object written for this purpose."""
    key = f"{folder}/clock-{uuid4().hex}"
    medium.replace(key, b"")
    try:
        return medium.status(key).modified_ns / 1e9
    finally:
        medium.remove(key)
