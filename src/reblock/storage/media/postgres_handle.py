"""Open objects of the PostgreSQL medium: readers and writers of ranges of a row."""

from __future__ import annotations

import errno
import io
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, LiteralString

from psycopg.types.numeric import Int4

from reblock.errors import DiskError
from reblock.model.medium import Status
from reblock.model.store import Bytes, Flat
from reblock.storage.media.handles import Closing
from reblock.storage.media.postgres_connections import Connection, Row

#: Most bytes of a row that are sent or received at once; libpq holds a few times as many for each connection.
PIECE_BYTES = 256 << 10
#: Size, stamp and time of an object.
STATUS: LiteralString = (
    "SELECT octet_length(data), stamp, (extract(epoch FROM modified) * 1000000)::bigint * 1000 "
    "FROM reblock.objects WHERE key = %(key)s"
)
_OPEN: LiteralString = STATUS.replace(
    " FROM reblock", ", CASE WHEN octet_length(data) <= %(head)s THEN data END FROM reblock"
)
_PIECE: LiteralString = "SELECT substr(data, %b, %b) FROM reblock.objects WHERE key = %b"
#: Put bytes at an offset of a row, with zeros where nothing was.
_PATCH: LiteralString = """
INSERT INTO reblock.objects AS o (key, data) VALUES (%(key)s, %(zeros)b || %(data)b) ON CONFLICT (key) DO UPDATE SET
data = substr(o.data, 1, %(offset)s)
    || CASE WHEN octet_length(o.data) < %(offset)s
       THEN decode(repeat('00', %(offset)s - octet_length(o.data)), 'hex') ELSE ''::bytea END
    || %(data)b || substr(o.data, %(offset)s + octet_length(%(data)b) + 1),
stamp = nextval('reblock.stamps'), modified = clock_timestamp()
"""
_RESIZE: LiteralString = """
UPDATE reblock.objects AS o SET data = substr(o.data, 1, %(size)s) || CASE WHEN octet_length(o.data) < %(size)s
    THEN decode(repeat('00', %(size)s - octet_length(o.data)), 'hex') ELSE ''::bytea END,
stamp = nextval('reblock.stamps'), modified = clock_timestamp() WHERE key = %(key)s
"""

#: Does some statements, see `PostgresMedium.ask`.
Ask = Callable[[str, str, Callable[[Connection, str], Any]], Any]


class _Handle(Closing):
    """What readers and writers have in common: nothing stays open."""

    def __init__(self, key: str) -> None:
        self.key = key


class PostgresReader(_Handle):
    """A row as it was when it was first looked at; if it is replaced meanwhile, a later read of a long row fails."""

    def __init__(self, key: str, ask: Ask, absent: Callable[[], None]) -> None:
        super().__init__(key)
        self._ask, self._absent = ask, absent
        self._lock = Lock()
        self._status: Status | None = None
        self._data: bytes | None = None
        self._began = False

    def size(self) -> int:
        """Bytes of the object."""
        return self.status().size

    def status(self) -> Status:
        """Its size and stamp; a short row is read with them."""
        with self._lock:
            if self._status is None:
                self._open()
            assert self._status is not None
            return self._status

    def _open(self) -> None:
        def work(connection: Connection, inner: str) -> Any:
            values = {"key": inner, "head": PIECE_BYTES}
            return connection.execute(_OPEN, values, binary=True).fetchone()

        found = self._ask(self.key, "read", work)
        if found is None:
            self._absent()
            raise FileNotFoundError(errno.ENOENT, "No such object", self.key)
        size, stamp, modified_ns, self._data = found
        self._status = Status(size, stamp, modified_ns, modified_ns)

    def read(self, view: memoryview, offset: int, *, once: bool = False) -> int:  # noqa: ARG002 - there is no cache
        """Fill a view from a byte offset."""
        status = self.status()
        size = max(min(len(view), status.size - offset), 0)
        if self._data is not None:
            view[:size] = self._data[offset : offset + size]
        elif size:
            self._ask(self.key, "read", lambda connection, inner: self._fill(connection, inner, view[:size], offset))
        return size

    def _fill(self, connection: Connection, inner: str, view: memoryview, offset: int) -> None:
        with connection.transaction():
            # All pieces are of the row as it is now.
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            self._pin(connection.execute(STATUS, {"key": inner}).fetchone())
            self._fill_pieces(connection, inner, view, offset)

    def _pin(self, found: Row | None) -> None:
        """Take a row that has replaced another of the same size, unless some of that was read."""
        with self._lock:
            before = self._status
            if found is not None and before is not None:
                now = Status(found[0], found[1], found[2], found[2])
                if now == before or (now.size == before.size and not self._began):
                    self._status, self._began = now, True
                    return
        changed = OSError(errno.ESTALE, "the object was replaced while it was read")
        raise DiskError.wrap(changed, doing="read", path=self.key)

    def _fill_pieces(self, connection: Connection, inner: str, view: memoryview, offset: int) -> None:
        for start in range(0, len(view), PIECE_BYTES):
            some = view[start : start + PIECE_BYTES]
            values = (Int4(offset + start + 1), Int4(len(some)), inner)
            found = connection.execute(_PIECE, values, binary=True).fetchone()
            assert found is not None
            some[:] = found[0]

    def read_run(self, staging: Flat, offset: int, size: int, *, once: bool = False) -> tuple[Flat, int]:
        """Read one range to the start of a buffer."""
        return staging[:size], self.read(staging[:size].data, offset, once=once)

    def fileno(self) -> int:
        """Not supported: there is no file."""
        raise io.UnsupportedOperation(f"{self.key} is not a file")


class PostgresWriter(_Handle):
    """A row that is written in ranges; each range is a transaction that rewrites the row."""

    def __init__(self, key: str, ask: Callable[[Callable[[Connection, str], Any]], Any]) -> None:
        super().__init__(key)
        self._ask = ask

    def write(self, parts: Sequence[Bytes], offset: int) -> None:
        """Write buffers consecutively from a byte offset."""
        data = b"".join(memoryview(part).cast("B") for part in parts if memoryview(part).nbytes)

        def work(connection: Connection, inner: str) -> None:
            values = {"key": inner, "data": data, "zeros": bytes(offset), "offset": offset}
            connection.execute(_PATCH, values)

        self._ask(work)

    def resize(self, size: int) -> None:
        """Set the length of the object."""
        self._ask(lambda connection, inner: connection.execute(_RESIZE, {"key": inner, "size": size}))
