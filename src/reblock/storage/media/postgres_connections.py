"""Connections to PostgreSQL: a few for each database, shared by threads, and every failure in words.

A connection that the server has closed meanwhile is noticed before it is used: its socket is readable. A statement that
was running when the server went away fails, because nobody knows whether it took effect.
"""

from __future__ import annotations

import atexit
import errno
import hashlib
import os
import select
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock
from typing import Any, LiteralString

import psycopg
from psycopg import errors as pg

from reblock.errors import DiskError, FormatError, StorageError, UsageError
from reblock.storage.media.postgres_url import login_of

#: The most connections of a process to a database, besides those that hold locks.
MAX_CONNECTIONS = 8
#: Seconds to wait for a server that does not answer, and for one that says that it is starting.
_CONNECT_SECONDS, _STARTING_SECONDS = 10, 15
_STARTING = ("starting up", "recovery mode", "not yet accepting connections")

Connection = psycopg.Connection[Any]
Row = tuple[Any, ...]

#: Errors of statements, and the error numbers that say the same.
_NUMBERS: tuple[tuple[type[psycopg.Error], int], ...] = (
    (pg.InsufficientPrivilege, errno.EACCES),
    (pg.ReadOnlySqlTransaction, errno.EROFS),
    (pg.DiskFull, errno.ENOSPC),
    (pg.OutOfMemory, errno.ENOMEM),
    (pg.ProgramLimitExceeded, errno.ENAMETOOLONG),
    (pg.CheckViolation, errno.EFBIG),
)


class Connections:
    """Idle connections of this process, by database."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._idle: dict[tuple[int, str], list[Connection]] = defaultdict(list)
        self._room: dict[tuple[int, str], BoundedSemaphore] = {}
        atexit.register(self.close)

    @contextmanager
    def use(self, url: str) -> Iterator[Connection]:
        """A connection for a few statements; each is a transaction of its own."""
        owner = (os.getpid(), url)
        with self._lock:
            room = self._room.setdefault(owner, BoundedSemaphore(MAX_CONNECTIONS))
        with room:
            connection = self._take(owner) or connect(url)
            try:
                yield connection
            finally:
                self._give(owner, connection)

    def close(self) -> None:
        """Close all idle connections of this process."""
        with self._lock:
            found = [one for (process, _), some in self._idle.items() if process == os.getpid() for one in some]
            self._idle.clear()
        for one in found:
            one.close()

    def _take(self, owner: tuple[int, str]) -> Connection | None:
        while True:
            with self._lock:
                if not self._idle[owner]:
                    return None
                found = self._idle[owner].pop()
            if is_alive(found):
                return found
            found.close()

    def _give(self, owner: tuple[int, str], connection: Connection) -> None:
        if connection.closed or connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.close()
            return
        with self._lock:
            self._idle[owner].append(connection)


def is_alive(connection: Connection) -> bool:
    """Whether the server has neither closed an idle connection nor announced to do so."""
    if connection.closed:
        return False
    try:
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        return not poll.poll(0)
    except (OSError, psycopg.Error):
        return False


def connect(url: str) -> Connection:
    """A new connection; waits for a server that is starting."""
    settings: dict[str, Any] = {
        "connect_timeout": os.environ.get("PGCONNECT_TIMEOUT", str(_CONNECT_SECONDS)),
        "client_encoding": "UTF8",
        "fallback_application_name": "reblock",
        **login_of(url).settings(),
    }
    end = time.monotonic() + _STARTING_SECONDS
    while True:
        try:
            connection = psycopg.connect(url, autocommit=True, **settings)
            # Only names of the system are found without their schema.
            connection.execute("SELECT pg_catalog.set_config('search_path', '', false)")
            return connection
        except psycopg.Error as error:
            if any(text in str(error) for text in _STARTING) and time.monotonic() < end:
                time.sleep(0.1)
                continue
            raise StorageError(f"{url}: no connection to the database: {one_line(error)}") from error
        except UnicodeError as error:
            raise UsageError(f"{url}: not the URL of a database: {error}") from error


@contextmanager
def database_errors(doing: str, key: str) -> Iterator[None]:
    """Turn errors of the database into ours; a missing table is a missing object."""
    try:
        yield
    except (pg.UndefinedTable, pg.InvalidSchemaName, pg.UndefinedFunction):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), key) from None
    except (psycopg.DataError, UnicodeError) as error:
        raise UsageError(f"{doing} {key}: the database cannot hold this: {one_line(error)}") from error
    except psycopg.Error as error:
        for kind, number in _NUMBERS:
            if isinstance(error, kind):
                raise DiskError.wrap(OSError(number, one_line(error)), doing=doing, path=key) from error
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            raise StorageError(f"{doing} {key}: the connection to the database was lost: {one_line(error)}") from error
        raise DiskError.wrap(OSError(errno.EIO, one_line(error)), doing=doing, path=key) from error


def one_line(error: BaseException) -> str:
    """The message of a database, on one line."""
    return " ".join(str(error).split()) or type(error).__name__


def lock_number(name: str) -> int:
    """The number of a lock of the server, by name."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)


def set_up(url: str, version: LiteralString, statements: LiteralString, identity: str) -> None:
    """Make our schema in a database, once, in one transaction; FormatError if another program's is there."""
    with database_errors("setting up", url), connect(url) as connection, connection.transaction():
        # Two processes may do this at once.
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number("schema"),))
        found = connection.execute(
            "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = 'reblock'"
        ).fetchone()
        if found is None:
            connection.execute(statements)
            comment = psycopg.sql.SQL("COMMENT ON SCHEMA reblock IS {}")
            connection.execute(comment.format(psycopg.sql.Literal(f"{version} {identity}")))
        elif not str(found[0]).startswith(f"{version} "):
            raise FormatError(f"{url}: the schema reblock is not of this version of reblock: {found[0]!r}")
