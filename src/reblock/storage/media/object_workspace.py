"""Building targets in object stores: a lock with a lease, since a store does not notice that a process has died.

::

    .reblock/lock    {"owner": ..., "lease_seconds": 30}    made by a conditional request: of several, one succeeds
    owner            writes it again every few seconds, on condition that it is still its own
                     cannot do so for half the lease → stops writing, at once and for good
    taker            sees by the server's clock that a whole lease has passed since the last write → replaces it,
                     on condition that it is still the one that was seen

A process that has died on the machine of the taker is recognised at once, and its lease is not waited for. A store that
ignores conditions lets two runs write one target; it is recognised by a probe and refused.
"""

from __future__ import annotations

import os
import re
import socket
import time
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from reblock.errors import DiskError, LockedError, ReblockError, UsageError, option
from reblock.storage.media.keys import KeyLog, KeyWorkspace
from reblock.storage.media.object_lease import LEASE_SECONDS, Lease, LeaseTerms, document, read_lock, server_time
from reblock.storage.media.small import RUN_FOLDER

if TYPE_CHECKING:
    from reblock.storage.media.object import ObjectMedium

#: Names that runs use in their folder.
_OURS = re.compile(r"lock|journal|scratch|building|member-\d{4,}|(probe|clock)-[0-9a-f]{32}")


class ObjectWorkspace(KeyWorkspace):
    """The prefix below which one target is built; as a context manager, it holds the lock."""

    lease_seconds = LEASE_SECONDS

    def __init__(self, medium: ObjectMedium, target: str) -> None:
        super().__init__(medium, target)
        if not medium.path(self.target):
            raise UsageError(f"{target} is a bucket: name an array in it, such as {self.target}/scan.zarr")
        self._objects = medium
        self._lease: Lease | None = None
        # While the lock is held, nobody else writes here: what a listing has shown stays true.
        self._has_no_log = False

    # ---------------------------------------------------------------- the lock
    @property
    def is_there(self) -> bool:
        """Whether the run's folder holds anything, by one request."""
        return self._objects.private_folder(self.folder) is not None

    def holder(self) -> str | None:
        """The process that the lock names, in words, or None if its lease is over."""
        found = self._find()
        if found is None or self._is_over(*found[1:]):
            return None
        return _in_words(found[1])

    def _find(self) -> tuple[str, dict[str, Any], float] | None:
        """ETag, content and time of the lock."""
        return read_lock(self._objects, self.lock)

    def _is_over(self, told: dict[str, Any], written: float) -> bool:
        """Whether the owner of a lock has died here, or the whole lease has passed by the server's clock."""
        if told.get("machine") == _machine() and not _is_alive(told):
            return True
        lease = told.get("lease_seconds")
        seconds = float(lease) if isinstance(lease, int | float) and 0 < lease < 3600 else self.lease_seconds
        # Times of objects may be rounded to seconds.
        return server_time(self._objects, self.folder) - written > seconds + 1

    def __enter__(self) -> Self:
        if not self._objects.locks:
            return self
        self._probe()
        told = _owner(self.lease_seconds)
        began = time.monotonic()
        try:
            tag = self._objects.put_new(self.lock, document(told)) or ""
        except FileExistsError:
            tag, began = self._take(told)
        terms = LeaseTerms(self.target, self.lock, told["owner"], self.lease_seconds)
        self._lease = Lease(self._objects, terms, told, tag, began)
        self._objects.hold(self.target, self._lease)
        self._look_around()
        return self

    def _look_around(self) -> None:
        """Note, by one request, whether nothing but the lock is below the target: then nothing has to be looked for."""
        if self.lock == f"{self.target}/{RUN_FOLDER}/lock":
            below = self._objects.listed(self.target, most=2)
            first = [f"{self._objects.name}/{one['path']}" for _, one in zip(range(2), below, strict=False)]
            self._has_no_log = first == [self.lock]
            self._objects.set_bare(self.target, self._has_no_log)

    def _take(self, told: dict[str, Any]) -> tuple[str, float]:
        """Replace a lock whose lease has expired; LockedError if it has not, or if another run was faster.

        Returns the ETag of the new one, and when the request was sent.
        """
        found = self._find()
        if found is None:
            raise LockedError(f"{self.target} was being written by another run just now: try again")
        tag, there, written = found
        if not self._is_over(there, written):
            raise LockedError(
                f"{self.target} is being written by another run ({_in_words(there)}): wait for it; if it has died on "
                f"another machine, its lock ends {self.lease_seconds:.0f} seconds after its last sign"
            )
        began = time.monotonic()
        try:
            return self._objects.put_if(self.lock, document(told), tag) or "", began
        except FileExistsError:
            raise LockedError(f"{self.target} is being written by another run, which has just begun") from None

    def _probe(self) -> None:
        """Raise UsageError if the store ignores conditions; what one run has found holds for the others."""
        if self._objects.keeps_conditions:
            return
        key = f"{self.folder}/probe-{uuid4().hex}"
        made = 0
        try:
            for _ in range(2):
                with suppress(FileExistsError):
                    self._objects.create(key, uuid4().bytes)
                    made += 1
            if made == 1:
                with suppress(FileExistsError):
                    self._objects.put_if(key, b"", '"0123456789abcdef0123456789abcdef"')
                    made += 1
        finally:
            with suppress(DiskError):
                self._objects.remove(key)
        if made > 1:
            raise UsageError(
                f"{self._medium.name} ignores conditional writes, so two runs could write one target: choose another "
                f"store, or make sure that nobody else writes {self.target} and give {option('lock', False)}"
            )
        self._objects.keeps_conditions = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lease, self._lease = self._lease, None
        try:
            with suppress(ReblockError, OSError):
                if not self._has_no_log and not self.has_log:
                    self._remove_folder()
        finally:
            self._has_no_log = False
            self._objects.set_bare(self.target, False)
            if lease is not None:
                lease.end()
            self._objects.hold(self.target, None, self.lock)

    def _remove_folder(self) -> None:
        """Remove the run's own objects, the lock last."""
        for name, _ in self._medium.entries(self.folder) if self.is_there else ():
            if _OURS.fullmatch(name) and f"{self.folder}/{name}" != self.lock:
                self._medium.remove(f"{self.folder}/{name}")
                self._medium.remove_folder(f"{self.folder}/{name}")

    # ---------------------------------------------------------------- what is there
    @property
    def has_log(self) -> bool:
        """Whether there is a log."""
        return not self._has_no_log and super().has_log

    def find_log(self) -> KeyLog | None:
        """The log of an earlier attempt."""
        return None if self._has_no_log else super().find_log()

    def segments(self) -> list[int]:
        """Members that have a prefix."""
        return [] if self._has_no_log else super().segments()

    @property
    def has_target(self) -> bool:
        """Whether there are objects that no unfinished run has made."""
        if self._objects.is_bare(self.target) or next(self._objects.listed(self.target, most=1), None) is None:
            return self._is_object()
        return super().has_target

    def _has_objects(self) -> bool:
        return self._is_object() if self._objects.is_bare(self.target) else super()._has_objects()

    def is_published(self, identity: int) -> bool:
        """Whether there is an array: the log says that it is complete only after its metadata was written."""
        return self._published or super().is_published(identity)

    def _is_object(self) -> bool:
        with suppress(FileNotFoundError, DiskError):
            self._objects.look(self.target)
            return True
        return False

    def begin_log(self, line: bytes) -> KeyLog:
        """A new log."""
        if not self._has_no_log:
            return super().begin_log(line)
        self._has_no_log = False
        log = KeyLog(self._medium, self.journal, is_new=True)
        log.append(line, 0)
        return log

    def clear(self) -> list[str]:
        """Remove scratch and log, and the unpublished array if there is a log that says that it is ours."""
        if self._has_no_log:
            return []
        first, lock = f"{self.journal}/{0:08}", self.lock
        below = [f"{self._objects.name}/{one['path']}" for one in self._objects.listed(self.folder)]
        found = [key for key in below if _OURS.fullmatch(key.removeprefix(f"{self.folder}/").partition("/")[0])]
        ours = set(found)
        self.left = [key for key in below if key not in ours]
        has_scratch = any(key.startswith(f"{self.scratch}/") for key in found)
        removed = [self.scratch] if has_scratch else []
        if first in found:
            self.clear_array()
            removed.insert(0, self.journal)
        self._objects.remove_all([key for key in found if not key.startswith(f"{self.journal}/") and key != lock])
        # Without its first line, there is no log.
        self._objects.remove_all([key for key in found if key == first])
        self._objects.remove_all([key for key in found if key.startswith(f"{self.journal}/") and key != first])
        self._has_no_log = self._lease is not None
        return removed

    def clear_array(self) -> None:
        """Remove everything below the target that is not the run's own, unless it was published."""
        if not self._objects.is_bare(self.target) or self._published:
            super().clear_array()
            return
        self._began = True
        if self._is_object():
            self._medium.remove(self.target)

    def check_place(self) -> None:
        """Raise StorageError if the lock was lost."""
        if self._lease is not None:
            self._lease.check()


def _owner(lease_seconds: float) -> dict[str, Any]:
    """What a lock says about this process."""
    return {
        "owner": uuid4().hex,
        "pid": os.getpid(),
        "born": _birth(os.getpid()),
        "host": socket.gethostname(),
        "machine": _machine(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
        "lease_seconds": lease_seconds,
    }


def _in_words(told: dict[str, Any]) -> str:
    try:
        return f"process {int(told['pid'])} on {str(told['host'])[:64]} since {str(told['since'])[:32]}"
    except (LookupError, TypeError, ValueError):
        return "which has just begun"


def _machine() -> str:
    """A name of this boot of this machine, and of its space of process numbers; "" if it has none."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    return ""


def _birth(pid: int) -> str:
    """When a process was started, in ticks since the boot; "" if that is not known."""
    with suppress(OSError, LookupError), open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(")")[2].split()[19]
    return ""


def _is_alive(told: dict[str, Any]) -> bool:
    """Whether the process of a lock that was made on this machine still runs."""
    pid = told.get("pid")
    if not told.get("machine") or not isinstance(pid, int):
        return True
    return _birth(pid) == told.get("born")
