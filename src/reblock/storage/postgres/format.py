"""The postgres format: an array is an entry in the catalogue of a database, and a row for each chunk.

::

    postgresql://HOST/DATABASE::t2m           the array t2m
      t2m/array                               its entry, see `catalogue`; written last, which publishes the array
      t2m/c/00000000000000000000              its chunks, numbered in the order of chunks

A chunk has at most 64 MiB. It is clipped at the edge of the array, and raw unless there is a codec.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import CorruptError, FormatError, TargetExistsError, UsageError
from reblock.geometry import Box, Grid
from reblock.geometry.grid import Cut, chunk_text
from reblock.model.codec import Codec
from reblock.model.layout import Layout
from reblock.model.medium import Medium
from reblock.model.schema import NO_RECORD, Record, Schema, element
from reblock.model.store import Bytes, ChunkLimits, Extent, Flat, Format, Index, Read, Scratch, fresh
from reblock.storage import attributes
from reblock.storage.attributes import is_text
from reblock.storage.by_extent import ByExtent
from reblock.storage.checks import dtype_problem, show
from reblock.storage.codecs.chain import Chain, trial
from reblock.storage.conventions import with_singles, without_ties
from reblock.storage.media.local import LOCAL
from reblock.storage.media.postgres import PostgresMedium
from reblock.storage.media.postgres_schema import CHUNKS, DIGITS, ENTRY, MAX_OBJECT_BYTES
from reblock.storage.media.postgres_url import split_key
from reblock.storage.media.small import RUN_FOLDER, check_folder, new_folder
from reblock.storage.postgres.catalogue import CatalogueEntry, chunk_numbers, parse_entry
from reblock.storage.postgres.update import update
from reblock.units import format_size

#: The most names of arrays that a message lists.
_SHOWN = 5
#: The most names that are compared with a name that does not exist.
_COMPARED = 1000


@dataclass(frozen=True)
class PostgresStore(ByExtent):
    """One array in a database."""

    path: str
    """Its URL, with its name after `::`."""
    entry: CatalogueEntry
    """Its entry in the catalogue."""
    medium: PostgresMedium
    """The medium of databases."""
    new: bool = field(default=False, repr=False)
    """Whether the array is being made, so that `commit` writes its entry."""

    @property
    def format(self) -> str:
        return "postgres"

    @property
    def location(self) -> str:
        return self.path

    @property
    def schema(self) -> Schema:
        return self.entry.schema

    @cached_property
    def layout(self) -> Layout:
        return self.entry.layout()

    @property
    def fills(self) -> bool:
        return self.entry.sparse

    @property
    def encoding(self) -> str:
        """The codec of a chunk."""
        return f"zarr {self.schema.codec}" if self.schema.codec else ""

    @property
    def described_by(self) -> Sequence[str]:
        return (f"{self.path}/{ENTRY}",)

    @cached_property
    def chain(self) -> Chain:
        """The codec of a chunk, ready for use."""
        return Chain(self.schema.codec, self.schema.dtype)

    @cached_property
    def _number(self) -> Callable[[Sequence[int]], int]:
        found: Callable[[Sequence[int]], int] = chunk_numbers(self.layout.objects.counts, self.schema.chunk_order)
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("path", "entry", "medium", "new")}

    # ---------------------------------------------------------------- where bytes are
    def key(self, index: Index) -> str:
        """The key of a chunk."""
        if self.entry.inline:
            return f"{self.path}/{ENTRY}"
        return f"{self.path}/{CHUNKS}/{self._number(index):0{DIGITS}}"

    def extents(self, index: Index, units: Sequence[Index], read: Read) -> Sequence[Extent | None]:  # noqa: ARG002 - nothing to read
        return [self.place(index)] * len(units)

    def object_files(self, outer: Index, last: range) -> Sequence[str]:
        return [self.key((*outer, index)) for index in last]

    def place(self, index: Index) -> Extent:
        if self.schema.codec:
            return Extent(self.key(index))
        return Extent(self.key(index), 0, self.layout.objects.box(index).size * self.layout.itemsize)

    def initial(self) -> bytes:
        """The bytes of an empty array in the row of its entry."""
        if not self.entry.inline:
            return b""
        fill = np.zeros((), self.schema.dtype) if self.schema.fill_value is None else self.schema.fill_value
        return element(fill, self.schema.dtype).tobytes() * prod(self.schema.shape)

    def preamble(self, index: Index) -> Bytes:  # noqa: ARG002 - a row is a chunk
        return b""

    # ---------------------------------------------------------------- what bytes mean
    def decode(self, data: Bytes, extent: Extent, out: Flat, scratch: Scratch = fresh) -> None:
        if not self.schema.codec and len(data) != out.size:
            raise CorruptError(f"{extent.path}: {len(data):,} bytes, expected {out.size:,}")
        self.chain.decode(data, out, scratch)

    def encode(self, data: Flat, room: Flat | None = None, scratch: Scratch = fresh) -> Flat:
        return self.chain.encode(data, room, scratch)

    # ---------------------------------------------------------------- updates
    def update(self, box: Box, steps: Sequence[int], values: npt.NDArray[Any]) -> None:
        """Write elements of a box, in one transaction; only the chunks that they touch are rewritten."""
        update(self, box, steps, values)

    # ---------------------------------------------------------------- life
    def checkpoint(self) -> None:
        """Every row is durable when it is written."""

    def commit(self, record: Record = NO_RECORD) -> None:
        if self.new:
            made = replace(self.entry, schema=replace(self.schema, record=record))
            self.medium.publish(self.path, made.to_json())


@dataclass(frozen=True)
class PostgresFormat:
    """Opens and creates arrays in databases."""

    name: str = "postgres"
    """As in `--to`."""
    suffixes: tuple[str, ...] = ()
    """None: an array in a database is recognised by its URL."""
    checksum: str = "crc32c"
    """The codec that adds a checksum to a chunk."""

    def probe(self, path: str, *, medium: Medium = LOCAL) -> bool:
        return isinstance(medium, PostgresMedium) and medium.describe(path) is not None

    def open(self, path: str, inner: str, allow: Sequence[str] = (), *, medium: Medium = LOCAL) -> PostgresStore:  # noqa: ARG002 - rows lead nowhere else
        database = _database(path, inner, medium)
        text = database.describe(path)
        if text is not None:
            return PostgresStore(path, parse_entry(text, path), database)
        url, name = split_key(path)
        found = database.arrays(path, _COMPARED)
        near = get_close_matches(name, found, _SHOWN, 0.5) or found
        there = ", ".join(near[:_SHOWN]) + (", …" if len(near) > _SHOWN else "")
        advice = f"there are {there}" if found else "there is none in it"
        raise FormatError(f"{url}: there is no array {name} in this database; {advice}")

    def strangers(self, path: str, *, medium: Medium = LOCAL) -> Iterator[str]:
        self.open(path, "", medium=medium)
        for name, _ in medium.entries(path):
            if name not in (ENTRY, CHUNKS, RUN_FOLDER):
                yield name

    def adapt(self, schema: Schema, asked: Collection[str]) -> Schema:
        if problem := dtype_problem(schema.dtype):
            raise UsageError(f"{self.name}: {problem}")
        notes = list(schema.notes)
        codec = schema.codec
        try:
            trial(codec, schema.dtype)
        except ValueError as error:
            if "codec" in asked:
                raise UsageError(f"{self.name}: {error}") from None
            notes.append(f"codec {codec} is not kept: {error}")
            codec = type(codec)()
        if schema.shards is not None:
            if "shards" in asked:
                raise UsageError(f"{self.name}: each chunk is a row, so shards are not possible")
            notes.append(f"shards {chunk_text(schema.shards)} are not kept: each chunk is a row")
        axes = schema.axes
        if axes is not None and not all(is_text(name) and "\0" not in name for name in axes):
            notes.append(f"axis names {show(axes)} are not kept: a database has no such text")
            axes = None
        found, ties = without_ties(schema.attributes)
        found, singles = with_singles(found, netcdf=schema.netcdf)
        kept, changed = attributes.to_json(found)
        chunks, smaller = _fitting_chunks(schema, required="chunks" in asked)
        return replace(
            schema,
            chunks=chunks,
            shards=None,
            codec=codec,
            axes=axes,
            attributes=kept,
            notes=(*notes, *smaller, *ties, *singles, *changed),
        )

    def chunk_limits(self, codec: Codec) -> ChunkLimits:  # noqa: ARG002 - the limit is that of a row
        """A row has a limit, and rows have an order."""
        return ChunkLimits(most_bytes=MAX_OBJECT_BYTES, ordered=True)

    def layout(self, schema: Schema) -> Layout:
        return CatalogueEntry(schema).layout()

    def foresee(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> PostgresStore:
        """One row for each chunk."""
        database = _database(path, inner, medium)
        return PostgresStore(path, CatalogueEntry(schema), database, new=True)

    def create(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> PostgresStore:
        store = self.foresee(path, inner, schema, medium=medium)
        _check_above(store)
        try:
            new_folder(medium, path)
        except FileExistsError:
            raise TargetExistsError(f"{path} exists already") from None
        return store

    def create_empty(
        self, path: str, inner: str, schema: Schema, *, lower_bounds: Sequence[int] = (), medium: Medium = LOCAL
    ) -> PostgresStore:
        """Make an array without any chunk, complete at once; TargetExistsError if there is anything."""
        database = _database(path, inner, medium)
        if lower_bounds and len(lower_bounds) != schema.ndim:
            raise UsageError(f"{len(lower_bounds)} lower bounds for {schema.ndim} axes")
        store = PostgresStore(path, CatalogueEntry(schema, tuple(lower_bounds), sparse=True), database)
        _check_above(store)
        try:
            database.publish(path, store.entry.to_json(), store.initial(), new=True)
        except FileExistsError:
            raise TargetExistsError(f"{path} exists: choose another name") from None
        return store

    def reopen(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> PostgresStore:
        store = self.foresee(path, inner, schema, medium=medium)
        check_folder(medium, path)
        return store


def _database(path: str, inner: str, medium: Medium) -> PostgresMedium:
    if not isinstance(medium, PostgresMedium) or inner:
        raise UsageError(f"{path}: an array of the format postgres is at postgresql://HOST/DATABASE::NAME")
    if not split_key(path)[1]:
        found = medium.arrays(path, _SHOWN)
        there = f": {', '.join(found)}" if found else ", there is none yet"
        raise UsageError(f"{path}: name an array of the database after '::'{there}")
    return medium


def _check_above(store: PostgresStore) -> None:
    """Raise UsageError if the name of a new array is below that of another one."""
    url, name = split_key(store.path)
    parts = name.split("/")
    for count in range(1, len(parts)):
        above = f"{url}::{'/'.join(parts[:count])}"
        if store.medium.describe(above) is not None:
            raise UsageError(f"{store.path}: {above} is an array, so no other can be below it: choose another name")


def _fitting_chunks(schema: Schema, *, required: bool) -> tuple[tuple[Cut, ...], list[str]]:
    """Chunks that fit into a row: halved along their longest axis until they do, unless they were requested."""
    largest = list(Grid.of(schema.shape, schema.chunks).largest)
    size = prod(largest) * schema.dtype.itemsize
    if size <= MAX_OBJECT_BYTES:
        return schema.chunks, []
    limit = f"a chunk of {format_size(size)} is larger than the {format_size(MAX_OBJECT_BYTES)} of a row"
    if required:
        raise UsageError(f"postgres: {limit}; choose smaller chunks")
    while prod(largest) * schema.dtype.itemsize > MAX_OBJECT_BYTES:
        axis = max(range(len(largest)), key=lambda one: largest[one])
        largest[axis] = -(-largest[axis] // 2)
    return tuple(largest), [f"{limit}; chunks of {chunk_text(largest)} are used"]


#: Found by the registry.
FORMAT: Format = PostgresFormat()
