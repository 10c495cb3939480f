"""The medium of object stores: S3, Google Cloud Storage and Azure through obstore, and web servers.

::

    s3://bucket/a/scan.zarr/c/0/0     one store for each bucket, connected once and kept by its URL
    └─ root ──┘ └──── path ─────┘

Objects are written whole, by one request, and read by ranges. Folders are prefixes; an empty folder exists only in this
process. A stamp is made of path, ETag and size: bytes that are written again may keep their stamp.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any
from uuid import uuid4

import obstore

from reblock.errors import DiskError
from reblock.model.medium import FILE, FOLDER, Listed, Room, Status
from reblock.model.roots import Roots
from reblock.model.store import Bytes
from reblock.model.workspace import Stamps
from reblock.storage.media.keys import KeyFolder, KeyPlace
from reblock.storage.media.object_connection import Connection
from reblock.storage.media.object_handle import ObjectHandle
from reblock.storage.media.object_known import KnownObjects
from reblock.storage.media.object_lease import FollowedLease, Lease, LeaseTerms
from reblock.storage.media.object_store import Pages
from reblock.storage.media.object_survey import PAGE, THREADS, identity_of, stamp_rows, survey, together
from reblock.storage.media.object_url import check_url, split_object
from reblock.storage.media.object_workspace import ObjectWorkspace
from reblock.storage.media.small import RUN_FOLDER
from reblock.storage.media.upload_workspace import UploadWorkspace

#: For objects of at least this size, a status request comes before the first read.
_FILE_BYTES = 1 << 20
#: The mark by which the writer of a conditional object recognises it; Azure takes only identifiers.
_MARK = "reblockmark"
#: Objects by which a folder on a server without listings is recognised.
_SIGNS = ("zarr.json", ".zarray", ".zgroup", "reblock.json")


class ObjectMedium:
    """The objects of one bucket, container or server."""

    is_local = writes_ranges = renames = False

    def __init__(self, root: str, options: Mapping[str, str], *, locks: bool = True) -> None:
        """`options` are those of obstore; what they leave out comes from the environment.

        Without `locks`, the caller makes sure that each target has one writer.
        """
        self.name = root
        self._options, self.locks = dict(options), locks
        connection = Connection(root, self._options)
        self.lists, self.gate, self.library = connection.lists, connection.gate, connection.library
        self.store, self.send, self._check_bucket = connection.store, connection.send, connection.check_bucket
        self._lock = Lock()
        self._folders: set[str] = set()
        self.known = KnownObjects()
        self._bare: set[str] = set()
        self.keeps_conditions = False
        """Whether a run has found that the store keeps conditions of writes."""
        # By target and lock.
        self._leases: dict[tuple[str, str], Lease | FollowedLease] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        with self._lock:
            held = [lease.terms for lease in self._leases.values()]
        return _travel, (self.name, self._options, self.locks, held)

    def has(self, options: Mapping[str, str], *, locks: bool) -> bool:
        """Whether it was connected with these options."""
        return self._options == dict(options) and self.locks == locks

    def path(self, key: str) -> str:
        """The path of a key in its bucket."""
        return split_object(key)[1]

    # ---------------------------------------------------------------- what was seen
    @staticmethod
    def status_of(meta: Any) -> Status:
        """The status of an object from its metadata."""
        # Listings tell fractions of a second, and responses do not.
        modified = int(meta["last_modified"].timestamp()) * 10**9
        return Status(int(meta["size"]), identity_of(meta["path"], meta["e_tag"] or str(modified)), modified, modified)

    def remembered(self, key: str) -> tuple[Status, str | None] | None:
        """Status and ETag of an object that was looked at a moment ago."""
        if self.known.is_old(key):
            self.look(key)
        return self.known.get(key)

    # ---------------------------------------------------------------- bytes
    def reader(self, key: str, *, roots: Roots | None = None, direct: bool = False) -> ObjectHandle:  # noqa: ARG002
        """Open an object for reading; nothing leads out of a bucket."""
        return ObjectHandle(key, self)

    def writer(self, key: str) -> Any:
        """Not possible: objects are written whole."""
        wrong = OSError(errno.EOPNOTSUPP, "objects of a store can only be written whole")
        raise DiskError.wrap(wrong, doing="writing", path=key)

    def write(self, key: str, parts: Sequence[Bytes]) -> None:
        """Write a whole object by one request."""
        self._put(key, parts)

    def create(self, key: str, data: Bytes, *, size: int | None = None) -> None:
        """Make a new object, by a conditional request."""
        self._put(key, [data, bytes(max((size or 0) - len(memoryview(data).cast("B")), 0))], mode="create")

    def replace(self, key: str, data: Bytes) -> None:
        """Write a whole object by one request, which is atomic."""
        self._put(key, [data])

    def put_new(self, key: str, data: bytes) -> str | None:
        """Make a new object and return its ETag; FileExistsError if there is one."""
        return self._put(key, [data], mode="create")

    def put_if(self, key: str, data: bytes, tag: str, *, urgent: bool = False) -> str | None:
        """Replace an object if its ETag is still this one; returns the new one. FileExistsError if it is not."""
        return self._put(key, [data], mode={"e_tag": tag}, urgent=urgent)

    def _put(self, key: str, parts: Sequence[Bytes], mode: Any = "overwrite", *, urgent: bool = False) -> str | None:
        path = self._writable(key)
        some = [view for part in parts if len(view := memoryview(part).cast("B"))]
        data = some[0] if len(some) == 1 else b"".join(some)
        mark = uuid4().hex
        attributes = {} if mode == "overwrite" else {_MARK: mark}

        tries = 0

        def put() -> str | None:
            nonlocal tries
            tries += 1
            # A request that is repeated may outlive the lease.
            self._writable(key)
            made = obstore.put(self.store, path, data, mode=mode, attributes=attributes, use_multipart=False)
            return made["e_tag"]

        self.known.forget(key)
        if self._bare and f"/{RUN_FOLDER}/" not in key:
            with self._lock:
                self._bare = {one for one in self._bare if not path.startswith(f"{one}/")}
        try:
            tag = self.send(key, "write", put, urgent=urgent)
        except FileExistsError:
            if tries == 1:
                raise
            # The response to an earlier try may have been lost.
            with suppress(FileNotFoundError):
                there = self.send(key, "read", lambda: obstore.get(self.store, path))
                if there.attributes.get(_MARK) == mark:
                    return str(there.meta["e_tag"])
            raise
        if tag is not None and mode == "overwrite":
            self.known.note_written(key, identity_of(path, tag), len(data))
        return tag

    def _writable(self, key: str) -> str:
        root, path = split_object(key)
        if root != self.name or not path or key.endswith("/"):
            invalid = OSError(errno.EINVAL, f"a key must begin with {self.name}/ and end in a name")
            raise DiskError.wrap(invalid, doing="writing", path=key)
        for (target, _), lease in list(self._leases.items()):
            if key.startswith(f"{target}/") or key == target:
                lease.check()
        return path

    def remove(self, key: str) -> None:
        """Remove an object, if it exists."""
        self.known.forget(key)
        with suppress(FileNotFoundError):
            path = self._writable(key)
            self.send(key, "remove", lambda: obstore.delete(self.store, path))

    # ---------------------------------------------------------------- names
    def status(self, key: str, *, roots: Roots | None = None, follow: bool = True) -> Status:  # noqa: ARG002
        """Kind, size and stamp of an object or folder."""
        path = self.path(key)
        if path and not key.endswith("/"):
            with suppress(FileNotFoundError):
                return self.look(key)
        if not self._is_folder(key):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), key)
        return Status(0, 0, 0, 0, FOLDER)

    def _is_folder(self, key: str) -> bool:
        path = self.path(key)
        with self._lock:
            if any(made == path or made.startswith(f"{path}/") for made in self._folders):
                return True
        if not self.lists:
            return any(self._exists(f"{key.rstrip('/')}/{sign}") for sign in _SIGNS)
        return next(self.listed(key, most=1), None) is not None or not path

    def _exists(self, key: str) -> bool:
        try:
            self.look(key)
        except (FileNotFoundError, DiskError):
            return False
        return True

    def listed(self, key: str, most: int = PAGE, after: str | None = None) -> Iterator[Any]:
        """Objects below a prefix, in the order of their names, those after a key."""
        path = self.path(key)
        pages = Pages(self.store, f"{path}/" if path else None, most, None if after is None else self.path(after))
        while page := self.send(key, "list", pages.next):
            yield from page

    def look(self, key: str) -> Status:
        """The status of an object, by one request; that of one that is read in ranges is remembered.

        FileNotFoundError if there is none.
        """
        path = self.path(key)
        if not path:
            # A server would answer for its bucket.
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), key)
        meta = self.send(key, "look at", lambda: self.library.head(self.store, path))
        status = self.status_of(meta)
        if status.size >= _FILE_BYTES or key in self.known:
            self.known.remember(key, status, meta["e_tag"])
        return status

    def entries(self, folder: str) -> Sequence[Listed]:
        """The next parts of the keys below a folder."""
        path = self.path(folder)
        if not self.lists:
            wrong = OSError(errno.EOPNOTSUPP, "an HTTP server does not list its files")
            raise DiskError.wrap(wrong, doing="list", path=folder)
        found = self.send(folder, "list", lambda: obstore.list_with_delimiter(self.store, f"{path}/" if path else None))
        listed = dict.fromkeys(map(_last, self._with_objects(found["common_prefixes"])), FOLDER)
        listed |= {_last(one["path"]): FILE for one in found["objects"] if one["path"] != path}
        below = f"{path}/" if path else ""
        with self._lock:
            made = [
                one[len(below) :].partition("/")[0] for one in self._folders if one.startswith(below) and one != path
            ]
            exists = path in self._folders
        listed |= {name: FOLDER for name in made if name and name not in listed}
        if not listed and not exists:
            if path and self._exists(folder):
                wrong = NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
                raise DiskError.wrap(wrong, doing="list", path=folder)
            self._check_bucket()
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
        return [Listed(name, kind) for name, kind in listed.items()]

    def _with_objects(self, prefixes: Sequence[str]) -> Sequence[str]:
        """The prefixes below which there are objects; some servers also list those of removed objects for a while."""
        if len(prefixes) > THREADS:
            return prefixes
        found = together(prefixes, lambda one: next(self.listed(f"{self.name}/{one}", most=1), None))
        return [one for one, first in zip(prefixes, found, strict=True) if first is not None]

    def set_bare(self, key: str, bare: bool) -> None:  # noqa: FBT001 - what it becomes
        """Note that nothing but the objects of a run is below a target; the first write of another object ends that."""
        with self._lock:
            (self._bare.add if bare else self._bare.discard)(self.path(key))

    def is_bare(self, key: str) -> bool:
        """Whether nothing is below a target, as far as a run has noted."""
        return self.path(key) in self._bare

    def make_folder(self, key: str) -> None:
        """Remember an empty folder."""
        with self._lock:
            if self.path(key) in self._bare:
                self._folders.add(self.path(key))
                return
        with suppress(FileNotFoundError):
            self.status(key)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), key)
        with self._lock:
            self._folders.add(self.path(key))

    # ---------------------------------------------------------------- what surrounds them
    def sync(self, key: str) -> None:
        """An object is durable when its request was answered."""

    def sync_name(self, key: str) -> None:
        """The same."""

    def sync_all(self, keys: Collection[str], folder: str) -> None:
        """The same."""

    def room(self, folder: str) -> Room:  # noqa: ARG002 - buckets have no limit
        """No limit is known."""
        return Room(self.name, None, None)

    def roots(self, key: str, allow: Sequence[str] = ()) -> None:
        """A key leads nowhere else."""

    # ---------------------------------------------------------------- building targets
    def workspace(self, target: str) -> ObjectWorkspace:
        """A prefix below the target."""
        return ObjectWorkspace(self, target)

    def upload_workspace(self, target: str, folder: str | None = None) -> UploadWorkspace:
        """A local folder, from which a file is uploaded."""
        return UploadWorkspace(self, target, folder)

    def hold(self, target: str, lease: Lease | FollowedLease | None, lock: str | None = None) -> None:
        """Allow writes below a target only while a lease is valid; None removes the lease of one lock, or all."""
        with self._lock:
            if lease is not None:
                self._leases[target, lease.terms.lock] = lease
                return
            for key in [one for one in self._leases if one[0] == target and lock in (None, one[1])]:
                del self._leases[key]

    def follow(self, terms: LeaseTerms) -> None:
        """Do so while the owner of a lease, another process, renews it."""
        with self._lock:
            known = self._leases.get((terms.target, terms.lock))
        if known is None or (isinstance(known, FollowedLease) and known.terms.owner != terms.owner):
            self.hold(terms.target, FollowedLease(self, terms))

    def private_folder(self, key: str, *, make: bool = False) -> KeyFolder | None:
        """A prefix that only runs use."""
        return KeyFolder(self, key) if make or self._is_folder(key) else None

    def check_folder(self, folder: str, what: str) -> None:  # noqa: ARG002 - it is the bucket that may be missing
        """Raise DiskError if there is no such bucket."""
        self._check_bucket()

    def remove_folder(self, key: str) -> None:
        """Remove all objects below a prefix, many with one request."""
        path = self.path(key)
        with self._lock:
            self._folders = {one for one in self._folders if one != path and not one.startswith(f"{path}/")}
        self.known.forget_below(key)
        self._writable(f"{key}/x")
        while paths := [one["path"] for _, one in zip(range(PAGE), self.listed(key), strict=False)]:
            self._remove_paths(key, paths)

    def remove_all(self, keys: Sequence[str]) -> None:
        """Remove objects, many with one request."""
        for start in range(0, len(keys), PAGE):
            some = keys[start : start + PAGE]
            for key in some:
                self.known.forget(key)
            self._remove_paths(some[0], [self._writable(key) for key in some])

    def _remove_paths(self, key: str, paths: list[str]) -> None:
        with suppress(FileNotFoundError):
            self.send(key, "remove", lambda: obstore.delete(self.store, paths))

    def used_bytes(self, folder: str) -> int:
        """The sizes of all objects below a folder."""
        return sum(int(one["size"]) for one in self.listed(folder))

    def survey(self, keys: Sequence[str]) -> Sequence[Status | None]:
        """The status of many objects, with few requests; None = missing."""
        return survey(self, keys)

    def stamps(self, keys: Sequence[str]) -> Stamps:
        """The state of objects: path, ETag and size. Times would add nothing, and a response to a write has none."""
        return stamp_rows(None if found is None else (found.identity, found.size) for found in survey(self, keys))

    def settle(self, keys: Sequence[str]) -> Stamps:
        """The state of objects that were just written; known from the responses for most of them."""
        told = self.known.take_written(keys)
        others = [key for key, known in told.items() if known is None]
        told |= {
            key: None if found is None else (found.identity, found.size)
            for key, found in zip(others, survey(self, others), strict=True)
        }
        return stamp_rows(told[key] for key in keys)

    def place(self, key: str) -> KeyPlace:
        """The key itself."""
        return KeyPlace(key)

    def links(self, folder: str) -> Iterator[str]:  # noqa: ARG002 - there are none
        """No key leads to another."""
        return iter(())


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


_CONNECTED: dict[str, ObjectMedium] = {}
_CONNECTING = Lock()
_DEFAULTS: dict[str, Any] = {"options": {}, "locks": True}


def connect(root: str, options: Mapping[str, str], locks: bool = True) -> ObjectMedium:  # noqa: FBT001, FBT002 - pickled
    """The medium of a bucket with these options, which all later calls get."""
    with _CONNECTING:
        known = _CONNECTED.get(root)
        if known is None or not known.has(options, locks=locks):
            known = _CONNECTED[root] = ObjectMedium(root, options, locks=locks)
        return known


def _travel(root: str, options: Mapping[str, str], locks: bool, held: Sequence[LeaseTerms]) -> ObjectMedium:  # noqa: FBT001 - pickled
    """The medium of a bucket in another process, which may write while the leases are renewed by their owner."""
    medium = connect(root, options, locks)
    for terms in held:
        medium.follow(terms)
    return medium


def set_defaults(options: Mapping[str, str] | None, locks: bool | None) -> None:  # noqa: FBT001 - None = as before
    """Set the options of all buckets; those that are connected are connected again."""
    if options is not None:
        _DEFAULTS["options"] = dict(options)
    if locks is not None:
        _DEFAULTS["locks"] = locks
    with _CONNECTING:
        _CONNECTED.clear()


def find_medium(key: str) -> ObjectMedium:
    """The medium of a URL, with the options that were given for its bucket before."""
    check_url(key)
    root = split_object(key)[0]
    with _CONNECTING:
        known = _CONNECTED.get(root)
    return known or connect(root, _DEFAULTS["options"], _DEFAULTS["locks"])
