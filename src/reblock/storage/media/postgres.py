"""The PostgreSQL medium: objects are rows, under keys such as `postgresql://HOST/DATABASE::NAME/c/…`.

It behaves like an object store that can also write ranges: keys are flat, folders are prefixes of keys, and an empty
folder is a marker whose key ends in a slash. Every write is a transaction and gives its row a new stamp. Long rows are
read and written in pieces, so that a connection holds little memory beside the engine's buffers.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from struct import pack
from threading import Lock
from typing import Any, LiteralString, TypeVar
from uuid import uuid4

import numpy as np

from reblock.errors import DiskError
from reblock.model.medium import FILE, FOLDER, Listed, Room, Status
from reblock.model.roots import Roots
from reblock.model.store import Bytes
from reblock.model.workspace import Stamps
from reblock.storage.media.keys import KeyFolder, KeyPlace
from reblock.storage.media.postgres_connections import (
    Connection,
    Connections,
    Row,
    database_errors,
    lock_number,
    set_up,
)
from reblock.storage.media.postgres_handle import PIECE_BYTES, STATUS, PostgresReader, PostgresWriter
from reblock.storage.media.postgres_schema import ENTRY, STATEMENTS, VERSION
from reblock.storage.media.postgres_url import NAME_MARK, remember_users, split_key, users
from reblock.storage.media.postgres_workspace import PostgresWorkspace

_Found = TypeVar("_Found")
#: The beginning of a binary COPY, and its end.
_COPY_HEAD, _COPY_TAIL = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
#: The first text after all others.
_END = "\U0010ffff"

_PUT: LiteralString = """
INSERT INTO reblock.objects AS o (key, data) VALUES (%s, %b) ON CONFLICT (key) DO UPDATE
SET data = excluded.data, stamp = nextval('reblock.stamps'), modified = clock_timestamp()
"""
_ENTRIES: LiteralString = """
WITH RECURSIVE scan (key) AS (
    (SELECT key FROM reblock.objects WHERE key > %(after)s AND key < %(end)s ORDER BY key LIMIT 1)
    UNION ALL
    SELECT (SELECT o.key FROM reblock.objects AS o WHERE o.key < %(end)s AND o.key COLLATE "C" >= CASE
            WHEN strpos(substr(scan.key, %(from)s), '/') > 0
            THEN %(after)s || split_part(substr(scan.key, %(from)s), '/', 1) || '0'
            ELSE scan.key || E'\\x01' END ORDER BY o.key LIMIT 1)
    FROM scan WHERE scan.key IS NOT NULL
)
SELECT substr(key, %(from)s) FROM scan WHERE key IS NOT NULL
"""
_ANY: LiteralString = "SELECT 1 FROM reblock.objects WHERE key = %(key)s OR key >= %(after)s AND key < %(end)s LIMIT 1"
_PUBLISH: LiteralString = """
INSERT INTO reblock.objects AS o (key, data, description) VALUES (%s, %b, %s::jsonb) ON CONFLICT (key) DO UPDATE
SET description = excluded.description, stamp = nextval('reblock.stamps'), modified = clock_timestamp()
"""


class PostgresMedium:
    """Rows of databases."""

    name = "PostgreSQL"
    is_local = False
    writes_ranges = True
    renames = False

    def __init__(self) -> None:
        self._connections = Connections()
        self._lock = Lock()
        self._ready: set[str] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (users(),)

    # ---------------------------------------------------------------- statements
    def ask(self, key: str, doing: str, work: Callable[[Connection, str], _Found], *, writes: bool = False) -> _Found:
        """The result of some statements on a database; `work` gets a connection, and the key inside the database."""
        url, inner = split_key(key)
        if writes:
            self.prepare(url)
        with database_errors(doing, key), self._connections.use(url) as connection:
            return work(connection, inner)

    def rows(self, key: str, doing: str, query: LiteralString, values: Any) -> list[Row]:
        """The rows of a query that only reads."""
        return self.ask(key, doing, lambda connection, _: connection.execute(query, values).fetchall())

    def prepare(self, url: str) -> None:
        """Make our schema in a database, if it is not there."""
        with self._lock:
            if url not in self._ready:
                set_up(url, VERSION, STATEMENTS, uuid4().hex)
                self._ready.add(url)

    # ---------------------------------------------------------------- bytes
    def reader(self, key: str, *, roots: Roots | None = None, direct: bool = False) -> PostgresReader:  # noqa: ARG002
        """Open an object for reading; there are no links, and no cache to bypass."""
        return PostgresReader(key, self.ask, lambda: self._explain_absence(key))

    def writer(self, key: str) -> PostgresWriter:
        """Open an object for writing ranges; each of them rewrites the row."""
        self._check_name(key)
        return PostgresWriter(key, lambda work: self.ask(key, "write", work, writes=True))

    def write(self, key: str, parts: Sequence[Bytes]) -> None:
        """Write a whole object."""
        self._check_name(key)
        views = [memoryview(part).cast("B") for part in parts if memoryview(part).nbytes]
        if sum(map(len, views)) <= PIECE_BYTES:
            data = b"".join(views)
            self.ask(key, "write", lambda connection, inner: connection.execute(_PUT, (inner, data)), writes=True)
        else:
            self.ask(key, "write", lambda connection, inner: _copy(connection, inner, views), writes=True)

    def create(self, key: str, data: Bytes, *, size: int | None = None) -> None:
        """Make a new object."""
        self._check_name(key)
        padded = bytes(data).ljust(size or 0, b"\0")

        def insert(connection: Connection, inner: str) -> int:
            query: LiteralString = "INSERT INTO reblock.objects (key, data) VALUES (%s, %b) ON CONFLICT DO NOTHING"
            return connection.execute(query, (inner, padded)).rowcount

        if not self.ask(key, "create", insert, writes=True):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), key)

    def replace(self, key: str, data: Bytes) -> None:
        """Write a whole object, as `write` does."""
        self.write(key, [data])

    def remove(self, key: str) -> None:
        """Remove an object, or the marker of a folder."""
        self._delete(key, "DELETE FROM reblock.objects WHERE key = %(key)s OR key = %(after)s")

    def remove_folder(self, key: str) -> None:
        """Remove every object below a key, and the marker of the folder, in one transaction."""
        self._delete(key, "DELETE FROM reblock.objects WHERE key >= %(after)s AND key < %(end)s")

    def _delete(self, key: str, query: LiteralString) -> None:
        try:
            self.ask(key, "remove", lambda connection, inner: connection.execute(query, _range(inner)))
        except FileNotFoundError:
            return

    def _check_name(self, key: str) -> None:
        if not split_key(key)[1] or key.endswith("/"):
            invalid = OSError(errno.EINVAL, f"a key must have a name after {NAME_MARK}")
            raise DiskError.wrap(invalid, doing="writing", path=key)

    # ---------------------------------------------------------------- names
    def status(self, key: str, *, roots: Roots | None = None, follow: bool = True) -> Status:  # noqa: ARG002
        """Kind, size and stamp of an object or folder."""
        below: LiteralString = "SELECT 1 FROM reblock.objects WHERE key >= %(after)s AND key < %(end)s"
        query: LiteralString = (
            STATUS + " UNION ALL SELECT NULL, NULL, NULL WHERE EXISTS (" + below + ") ORDER BY 2 NULLS LAST"
        )
        rows = self.rows(key, "look at", query, _range(split_key(key)[1]))
        found = rows[0] if rows else None
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), key)
        size, stamp, modified_ns = found
        if stamp is None or key.endswith("/"):
            return Status(0, 0, 0, 0, FOLDER)
        return Status(size, stamp, modified_ns, modified_ns)

    def entries(self, folder: str) -> Sequence[Listed]:
        """The next parts of the keys below a folder, each found with one step in the index."""
        found: dict[str, str] = {}
        inner = split_key(folder)[1]
        values = {**_range(inner), "from": len(_range(inner)["after"]) + 1}
        for (rest,) in self.rows(folder, "list", _ENTRIES, values):
            name, slash, _ = rest.partition("/")
            found[name] = FOLDER if slash or found.get(name) == FOLDER else FILE
        if not found and inner and self.status(folder).kind == FILE:
            wrong = NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            raise DiskError.wrap(wrong, doing="list", path=folder)
        return [Listed(name, kind) for name, kind in found.items()]

    def make_folder(self, key: str) -> None:
        """Make the marker of an empty folder."""
        query: LiteralString = (
            "INSERT INTO reblock.objects (key, data) SELECT %(after)s, ''::bytea WHERE NOT EXISTS (SELECT 1 FROM "
            "reblock.objects WHERE key = %(key)s OR key >= %(after)s AND key < %(end)s) ON CONFLICT DO NOTHING"
        )

        def insert(connection: Connection, inner: str) -> int:
            return connection.execute(query, _range(inner)).rowcount

        if not self.ask(key, "create", insert, writes=True):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), key)

    def _explain_absence(self, key: str) -> None:
        """Raise what is wrong with an object that cannot be opened."""
        if self.status(key).kind == FOLDER:
            folder = IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            raise DiskError.wrap(folder, doing="opening", path=key)

    # ---------------------------------------------------------------- the catalogue
    def describe(self, key: str) -> str | None:
        """The description of the array at a key as JSON text, or None."""
        query: LiteralString = "SELECT description::text FROM reblock.objects WHERE key = %s"
        try:
            found = self.rows(key, "open", query, (f"{split_key(key)[1]}/{ENTRY}",))
        except FileNotFoundError:
            return None
        return str(found[0][0]) if found and found[0][0] is not None else None

    def arrays(self, key: str, most: int) -> list[str]:
        """Some names of arrays in a database, sorted."""
        try:
            found = self.rows(key, "list", "SELECT name FROM reblock.arrays ORDER BY 1 LIMIT %s", (most,))
        except FileNotFoundError:
            return []
        return [name for (name,) in found]

    def publish(self, key: str, description: str, data: bytes = b"", *, new: bool = False) -> None:
        """Write the description of the array at a key, in one transaction; if it is new, nothing may be there.

        `data` are the bytes of the row, unless it has some.

        FileExistsError if there is something.
        """

        def work(connection: Connection, inner: str) -> bool:
            with connection.transaction():
                names = _range(inner)
                if new:
                    connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number(inner),))
                    if connection.execute(_ANY, names).fetchone():
                        return False
                connection.execute(_PUBLISH, (f"{inner}/{ENTRY}", data, description))
                connection.execute("DELETE FROM reblock.objects WHERE key = %(after)s", names)
                return True

        if not self.ask(key, "publishing", work, writes=True):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), key)

    # ---------------------------------------------------------------- what surrounds them
    def sync(self, key: str) -> None:
        """Every transaction is durable when it ends."""

    def sync_name(self, key: str) -> None:
        """Every transaction is durable when it ends."""

    def sync_all(self, keys: Collection[str], folder: str) -> None:
        """Every transaction is durable when it ends."""

    def room(self, folder: str) -> Room:
        """No limit is known."""
        return Room(split_key(folder)[0], None, None)

    def roots(self, key: str, allow: Sequence[str] = ()) -> None:
        """A key leads nowhere else."""

    # ---------------------------------------------------------------- building targets
    def workspace(self, target: str) -> PostgresWorkspace:
        """Rows below the target, and a lock of the server."""
        return PostgresWorkspace(self, target)

    def private_folder(self, key: str, *, make: bool = False) -> KeyFolder | None:
        """A prefix of keys."""
        try:
            self.status(key)
        except FileNotFoundError:
            return KeyFolder(self, key) if make else None
        return KeyFolder(self, key)

    def check_folder(self, folder: str, what: str) -> None:
        """Raise if the database cannot be reached, or its user may not write there."""
        query: LiteralString = (
            "SELECT CASE WHEN to_regnamespace('reblock') IS NULL THEN has_database_privilege(current_database(), "
            "'CREATE') WHEN has_schema_privilege('reblock', 'USAGE') THEN has_table_privilege('reblock.objects', "
            "'SELECT') AND has_table_privilege('reblock.objects', 'INSERT') AND has_table_privilege('reblock.objects', "
            "'UPDATE') AND has_table_privilege('reblock.objects', 'DELETE') ELSE false END AND NOT pg_is_in_recovery()"
        )
        url = split_key(folder)[0]
        if not self.rows(url, "look at", query, ())[0][0]:
            denied = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            raise DiskError.wrap(denied, doing=f"looking at {what}", path=url)

    def used_bytes(self, folder: str) -> int:
        """The sizes of all objects below a folder."""
        query: LiteralString = (
            "SELECT coalesce(sum(octet_length(data)), 0)::bigint FROM reblock.objects "
            "WHERE key >= %(after)s AND key < %(end)s"
        )
        try:
            return int(self.rows(folder, "look at", query, _range(split_key(folder)[1]))[0][0])
        except FileNotFoundError:
            return 0

    def stamps(self, keys: Sequence[str]) -> Stamps:
        """The state of objects, with one query for each database."""
        seen = np.zeros((len(keys), 4), np.uint64)
        found: dict[tuple[str, str], Row] = {}
        places = [split_key(key) for key in keys]
        query: LiteralString = STATUS.replace("= %(key)s", "= ANY(%(keys)s)").replace("SELECT", "SELECT key,", 1)
        for url in dict.fromkeys(url for url, _ in places):
            inside = [inner for where, inner in places if where == url]
            for key, *state in self.rows(url, "look at", query, {"keys": inside}):
                found[url, key] = tuple(state)
        for row, place in zip(seen, places, strict=True):
            if place in found:
                size, stamp, modified_ns = found[place]
                row[:] = stamp, size, modified_ns, modified_ns
        return seen

    def settle(self, keys: Sequence[str]) -> Stamps:
        """The state of objects; there is no cache of ours."""
        return self.stamps(keys)

    def place(self, key: str) -> KeyPlace:
        """The key in its database, however the URL of the database is written."""
        url, inner = split_key(key)
        query: LiteralString = (
            "SELECT obj_description(oid, 'pg_namespace'), (SELECT oid FROM pg_database WHERE datname = "
            "current_database()) FROM pg_namespace WHERE nspname = 'reblock'"
        )
        found = self.rows(url, "look at", query, ())
        return KeyPlace(f"{found[0] if found else url}{NAME_MARK}{inner}")

    def links(self, folder: str) -> Iterator[str]:  # noqa: ARG002 - there are none
        """No key leads to another."""
        return iter(())


def _range(inner: str) -> dict[str, str]:
    """A key, and the range of keys below it: a slash is followed by a zero."""
    return {"key": inner, "after": f"{inner}/", "end": f"{inner}0"} if inner else {"key": "", "after": "", "end": _END}


def _copy(connection: Connection, inner: str, views: Sequence[memoryview]) -> None:
    """Write a long row in pieces."""
    name, size = inner.encode(), sum(map(len, views))
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number(inner),))
        cursor.execute("DELETE FROM reblock.objects WHERE key = %s", (inner,))
        with cursor.copy("COPY reblock.objects (key, data) FROM STDIN (FORMAT BINARY)") as copy:
            copy.write(_COPY_HEAD + pack("!hi", 2, len(name)) + name + pack("!i", size))
            for view in views:
                for start in range(0, len(view), PIECE_BYTES):
                    copy.write(bytes(view[start : start + PIECE_BYTES]))
            copy.write(_COPY_TAIL)


def _unpickle(known: dict[str, str]) -> PostgresMedium:
    remember_users(known)
    return POSTGRES


#: The databases that this process uses.
POSTGRES = PostgresMedium()
