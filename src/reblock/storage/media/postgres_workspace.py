"""Building targets in PostgreSQL: a lock of the server instead of an object, and a log that only its holder writes.

The server releases the lock when the connection that holds it ends, for whatever reason. Lines are appended to the log
through the same connection: a run that has lost its lock, because the server was restarted, cannot record anything.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, LiteralString, Self

import psycopg

from reblock.errors import LockedError, ReblockError, StorageError, UsageError, option
from reblock.storage.media.keys import KeyWorkspace
from reblock.storage.media.postgres_connections import Connection, connect, database_errors, lock_number
from reblock.storage.media.postgres_url import NAME_MARK, split_key
from reblock.storage.media.small import exists

if TYPE_CHECKING:
    from reblock.storage.media.postgres import PostgresMedium

_HOLDER: LiteralString = """
SELECT l.pid, coalesce(a.application_name, '') FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND l.classid::bigint = ((%(number)s::bigint >> 32) & 4294967295)
AND l.objid::bigint = (%(number)s::bigint & 4294967295)
"""
_LINES: LiteralString = "SELECT data FROM reblock.objects WHERE key >= %s AND key < %s ORDER BY key"
_SIZES: LiteralString = "SELECT octet_length(data) FROM reblock.objects WHERE key >= %s AND key < %s ORDER BY key"


class PostgresLog:
    """A log of numbered rows, one for each line."""

    def __init__(self, medium: PostgresMedium, key: str, ask: Callable[[Callable[[Connection], Any]], Any]) -> None:
        self.key = key
        self._medium, self._ask = medium, ask
        self._inner = split_key(key)[1]
        # Lines, and their bytes, after the last call of `append`.
        self._known = (0, 0)

    def lines(self) -> Iterator[bytes]:
        """The lines, in their order."""
        values = (f"{self._inner}/", f"{self._inner}0")
        work = lambda connection: connection.execute(_LINES, values, binary=True).fetchall()  # noqa: E731
        for (line,) in self._ask(work):
            yield bytes(line)

    def append(self, line: bytes, after: int) -> None:
        """Remove the rows after those that have `after` bytes, and make the next one, in one transaction."""

        def work(connection: Connection) -> int:
            with connection.transaction():
                number = self._known[0] if self._known[1] == after else self._count(connection, after)
                at = f"{self._inner}/{number:08}"
                connection.execute("DELETE FROM reblock.objects WHERE key >= %s AND key < %s", (at, f"{self._inner}0"))
                connection.execute("INSERT INTO reblock.objects (key, data) VALUES (%s, %b)", (at, line))
                return number

        self._known = (self._ask(work) + 1, after + len(line))

    def _count(self, connection: Connection, after: int) -> int:
        sizes = connection.execute(_SIZES, (f"{self._inner}/", f"{self._inner}0")).fetchall()
        number = size = 0
        while size < after:
            size += sizes[number][0]
            number += 1
        return number


class PostgresWorkspace(KeyWorkspace):
    """The rows below which one target is built; as a context manager, it holds the lock."""

    def __init__(self, medium: PostgresMedium, target: str) -> None:
        super().__init__(medium, target)
        self._database = medium
        self._url, self._name = split_key(target)
        above = self._name.rpartition("/")[0]
        self.parent = f"{self._url}{NAME_MARK}{above}" if above else self._url
        self._number = lock_number(f"run {self._name}")
        self._held: Connection | None = None

    def segment(self, number: int) -> Self:  # noqa: ARG002 - there is none
        """Refused: members would need locks of their own on the server."""
        raise UsageError(f"{self.target}: job arrays cannot write into PostgreSQL; leave out {option('array_task')}")

    # ---------------------------------------------------------------- the lock
    @property
    def is_there(self) -> bool:
        """Whether a run has left anything here, or is active."""
        return exists(self._medium, self.folder) or self.holder() is not None

    def holder(self) -> str | None:
        """The process that holds the lock, in words, or None."""
        found = self._database.rows(self._url, "look at", _HOLDER, {"number": self._number})
        if not found:
            return None
        told = str(found[0][1])
        ours = told.startswith("reblock process")
        return told.removeprefix("reblock ") if ours else f"process {found[0][0]} of the server"

    def __enter__(self) -> Self:
        self._database.prepare(self._url)
        connection = connect(self._url)
        since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")
        told = f"reblock process {os.getpid()} on {socket.gethostname()[:20]} since {since}"
        try:
            with database_errors("locking", self.target):
                connection.execute("SELECT set_config('application_name', %s, false)", (told,))
                got = connection.execute("SELECT pg_try_advisory_lock(%s)", (self._number,)).fetchone()
        except BaseException:
            connection.close()
            raise
        if not (got and got[0]):
            connection.close()
            self.look()
            raise LockedError(f"{self.target} was being written by another run just now: try again")
        self._held = connection
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        held, self._held = self._held, None
        try:
            # If the server is gone, the next run removes what is left.
            with suppress(ReblockError, OSError):
                if not self.has_log:
                    self._medium.remove_folder(self.folder)
        finally:
            if held is not None:
                # A connection ends a moment after it is closed.
                with suppress(psycopg.Error):
                    held.execute("SELECT pg_advisory_unlock(%s)", (self._number,))
                held.close()

    def check_place(self) -> None:
        """Raise StorageError if the lock was lost."""
        if self._held is not None:
            self._ask_holder(lambda connection: connection.execute("SELECT 1"))

    def _ask_holder(self, work: Callable[[Connection], Any]) -> Any:
        """The result of statements on the connection that holds the lock; StorageError if it was lost."""
        if self._held is None:
            return self._database.ask(self.journal, "read", lambda connection, _: work(connection))
        try:
            with database_errors("write", self.journal):
                return work(self._held)
        except FileNotFoundError:
            raise StorageError(f"{self.target}: the tables of reblock are gone") from None

    # ---------------------------------------------------------------- the log
    def _log(self) -> PostgresLog:
        return PostgresLog(self._database, self.journal, self._ask_holder)

    def begin_log(self, line: bytes) -> PostgresLog:  # type: ignore[override]
        """A new log."""
        log = self._log()
        log.append(line, 0)
        return log

    def find_log(self) -> PostgresLog | None:  # type: ignore[override]
        """The log of an earlier attempt."""
        return self._log() if exists(self._medium, f"{self.journal}/{0:08}") else None

    def find_done(self) -> None:
        """None: the log goes in one transaction."""

    @contextmanager
    def looking(self) -> Iterator[PostgresLog | None]:  # type: ignore[override]
        """The log; it may be read at any time."""
        yield self.find_log()
