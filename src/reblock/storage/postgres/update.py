"""Region updates: the touched chunks are read, changed and written in one transaction.

The transaction first holds the entry of the array, so that it cannot be replaced meanwhile. Then it locks the touched
rows in the order of their keys, so that two updates never wait for each other. It ends by removing the digest from the
entry, which no longer describes the elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, LiteralString, NamedTuple

import numpy as np
import numpy.typing as npt

from reblock.errors import ChangedError, CorruptError
from reblock.geometry import Box
from reblock.geometry.grid import inverse
from reblock.model.schema import element
from reblock.model.store import Extent, Index
from reblock.storage.media.postgres_connections import Connection
from reblock.storage.media.postgres_schema import ENTRY
from reblock.storage.media.postgres_url import split_key
from reblock.storage.postgres.catalogue import parse_entry

if TYPE_CHECKING:
    from reblock.storage.postgres.format import PostgresStore

_HOLD: LiteralString = "SELECT description::text FROM reblock.objects WHERE key = %s FOR KEY SHARE"
_LOCK: LiteralString = "SELECT data FROM reblock.objects WHERE key = %s FOR NO KEY UPDATE"
_MAKE: LiteralString = "INSERT INTO reblock.objects (key, data) VALUES (%s, %b) ON CONFLICT DO NOTHING"
_PUT: LiteralString = """
INSERT INTO reblock.objects AS o (key, data) VALUES (%s, %b) ON CONFLICT (key) DO UPDATE
SET data = excluded.data, stamp = nextval('reblock.stamps'), modified = clock_timestamp()
"""
_FORGET: LiteralString = """
UPDATE reblock.objects SET description = description - 'digest' - 'job', stamp = nextval('reblock.stamps'),
modified = clock_timestamp() WHERE key = %s AND (description ? 'digest' OR description ? 'job')
"""


class _Touched(NamedTuple):
    """A chunk that an update touches."""

    key: str
    """Its key in the database."""
    chunk: Index
    """Its index."""
    inside: tuple[slice, ...]
    """The elements that are replaced, in the chunk."""
    values: tuple[slice, ...]
    """Their values, in those of the update."""
    whole: bool
    """Whether all elements are replaced."""


def update(store: PostgresStore, box: Box, steps: Sequence[int], values: npt.NDArray[Any]) -> None:
    """Replace every `steps`-th element of a box."""
    touched = sorted(_touched(store, box, steps))

    def work(connection: Connection, name: str) -> None:
        with connection.transaction():
            _check(store, connection, f"{name}/{ENTRY}")
            for one in touched:
                data = _changed(store, connection, one, values[one.values])
                connection.execute(_PUT, (one.key, data))
            connection.execute(_FORGET, (f"{name}/{ENTRY}",))

    if touched:
        try:
            store.medium.ask(store.path, "update", work, writes=True)
        except FileNotFoundError:
            raise ChangedError(f"{store.path} was removed since it was opened") from None


def _touched(store: PostgresStore, box: Box, steps: Sequence[int]) -> list[_Touched]:
    grid, found = store.layout.objects, []
    for index in grid.touching(box):
        chunk = grid.box(index)
        inside, values, whole = [], [], True
        for first, stop, step, low, high in zip(box.start, box.stop, steps, chunk.start, chunk.stop, strict=True):
            a, b = max(-(-(low - first) // step), 0), -(-(min(high, stop) - first) // step)
            inside.append(slice(first + a * step - low, max(min(high, stop) - low, 0), step))
            values.append(slice(a, b))
            whole = whole and step == 1 and first <= low and high <= stop
        if all(one.start < one.stop for one in values):
            key = split_key(store.key(index))[1]
            found.append(_Touched(key, index, tuple(inside), tuple(values), whole))
    return found


def _check(store: PostgresStore, connection: Connection, key: str) -> None:
    """Hold the entry, and check that it describes the same array as when it was opened."""
    found = connection.execute(_HOLD, (key,)).fetchone()
    same = False
    if found is not None and found[0] is not None:
        now = parse_entry(found[0], store.path)
        same = now.layout() == store.layout and now.schema.chunk_order == store.schema.chunk_order
    if not same:
        raise ChangedError(f"{store.path} was replaced by another array since it was opened: open it again")


def _changed(store: PostgresStore, connection: Connection, one: _Touched, values: npt.NDArray[Any]) -> bytes:
    """The stored bytes of a chunk with new elements."""
    dtype, order = store.layout.dtype, store.layout.order
    shape = store.layout.objects.box(one.chunk).shape
    flat = np.empty(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize, np.uint8)
    array = flat.view(dtype).reshape([shape[axis] for axis in order]).transpose(inverse(order))
    if not one.whole:
        _load(store, connection, one, flat, array)
    array[one.inside] = values
    return store.encode(flat).tobytes()


def _load(
    store: PostgresStore, connection: Connection, one: _Touched, flat: npt.NDArray[np.uint8], array: npt.NDArray[Any]
) -> None:
    """Lock the row of a chunk and read it; a missing one holds the fill value, where the array may lack chunks."""
    if store.entry.sparse:
        fill = store.schema.fill_value
        array[...] = element(np.zeros((), store.layout.dtype) if fill is None else fill, store.layout.dtype)
        # Of two updates that make the same chunk, one waits here for the other.
        connection.execute(_MAKE, (one.key, store.encode(flat.copy()).tobytes()))
    found = connection.execute(_LOCK, (one.key,), binary=True).fetchone()
    if found is None:
        chunk = ",".join(map(str, one.chunk))
        raise CorruptError(f"{store.path}: chunk ({chunk}) is missing")
    store.decode(found[0], Extent(store.key(one.chunk)), flat)
