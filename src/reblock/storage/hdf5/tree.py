"""An HDF5 file or group with everything below it, opened for reading by the separate process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import CorruptError, FormatError, UsageError
from reblock.model.dataset import Dimension, GroupSchema, TableSchema, Tree
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.storage import checks
from reblock.storage.conventions import tie_note, with_singles, without_ties
from reblock.storage.hdf5.file import failures, parts_of, signature_offset
from reblock.storage.hdf5.foreign import find, roots_of
from reblock.storage.hdf5.metadata import schema_of
from reblock.storage.hdf5.sandbox.reader import Reader
from reblock.storage.hdf5.sandbox.wire import unpack
from reblock.storage.hdf5.store import Hdf5Store
from reblock.storage.hdf5.table_rows import rows_that_fit, unpack_rows
from reblock.storage.media.local import LOCAL
from reblock.storage.records import take_record
from reblock.storage.trees import check_nodes, join, parent_of, with_dimensions, with_parents

#: The most bytes of attributes of a whole file, as text.
_MANY_BYTES = 256 << 20


@dataclass(frozen=True)
class Hdf5Tree:
    """All datasets below a group of an HDF5 file."""

    path: str
    """The file."""
    inner: str
    """Path of the group inside it."""
    tree: Tree
    """What it holds."""
    record: Record
    """The record of the run that made the dataset."""
    roots: Roots
    """The real file, and other folders that are allowed."""
    others: tuple[str, ...] = field(default=(), repr=False)
    """What the file holds beside groups and datasets, in words."""
    medium: Medium = LOCAL
    """The medium of the file."""

    format = "hdf5"

    @property
    def location(self) -> str:
        return f"{self.path}::{self.inner}" if self.inner else self.path

    @property
    def described_by(self) -> Sequence[str]:
        return (self.path,)

    def array(self, name: str) -> Hdf5Store:
        if name not in self.tree.arrays:
            raise UsageError(f"{self.location}: there is no array {checks.show(name)} that can be cut")
        store = Hdf5Store(
            *find(self.path, join(self.inner, name), self.roots, self.medium), roots=self.roots, medium=self.medium
        )
        # Its place among the others is described by the tree.
        known, notes = self.tree.arrays[name], without_tie_notes(store.schema)
        store.schema = replace(store.schema, attributes=known.attributes, axes=known.axes, notes=notes)
        return store

    def rows(self, name: str, start: int, stop: int, limit_bytes: int) -> npt.NDArray[Any]:
        table = self.tree.tables.get(name)
        if table is None or table.why:
            why = "there is no such table" if table is None else table.why
            raise UsageError(f"{self.location}: {checks.show(name)} cannot be read: {why}")
        inner = join(self.inner, name)
        where = f"{self.path}::{inner}"
        last = rows_that_fit(table, start, stop, limit_bytes, where)
        with closing(Reader(self.path, self.medium)) as reader:
            count, data = reader.rows(inner, start, last, limit_bytes, text=table.kind == "text")
        if not 0 <= count <= last - start:
            raise CorruptError(f"{where}: {count:,} rows instead of {last - start:,}")
        return unpack_rows(table, count, data, where)


def open_tree(path: str, inner: str, allow: Sequence[str], medium: Medium = LOCAL) -> Hdf5Tree:
    """Open all datasets below a group."""
    roots = roots_of(path, allow, medium)
    with failures("open", path):
        if signature_offset(path, medium) is None:
            raise FormatError(f"{path} is not an HDF5 file: it has no HDF5 signature")
    inside = "/".join(parts_of(inner))
    with closing(Reader(path, medium)) as reader:
        return _Listing(path, inside).read(reader.tree(inside)).finish(roots, medium)


class _Listing:
    """Collects the objects of a file."""

    def __init__(self, path: str, inner: str) -> None:
        self._path, self._inner = path, inner
        self._groups: dict[str, GroupSchema] = {}
        self._arrays: dict[str, Schema] = {}
        self._tables: dict[str, TableSchema] = {}
        self._dimensions: dict[str, dict[str, Dimension]] = {}
        self._notes: list[str] = []
        self._others: list[str] = []
        self._record = NO_RECORD

    def read(self, nodes: Iterable[Mapping[str, Any]]) -> _Listing:
        """Take facts from the separate process, which may be in the hands of the file."""
        weight = 0
        for count, facts in enumerate(nodes):
            check_nodes(count // 2, 0, self._path)
            weight += sum(len(str(value)) for value in facts.get("attributes", {}).values())
            if weight > _MANY_BYTES:
                raise FormatError(f"{self._path}: its attributes have more than {_MANY_BYTES:,} bytes")
            self._take(facts)
        return self

    def _take(self, facts: Mapping[str, Any]) -> None:
        kind = next(key for key in ("group", "array", "table", "dimension", "other") if key in facts)
        name = str(facts[kind])
        if kind == "other":
            self._others.append(name)
            self._notes.append(name)
        elif kind == "group":
            self._take_group(name, facts)
        elif kind == "dimension":
            self._define(name, facts["length"], unlimited=bool(facts["unlimited"]))
        else:
            try:
                self._take_dataset(name, facts) if kind == "array" else self._take_table(name, facts)
            except FormatError as error:
                self._tables[name] = TableSchema(_shape(facts), np.dtype("O"), "unknown", why=error.message)

    def _take_group(self, name: str, facts: Mapping[str, Any]) -> None:
        attributes = {str(key): unpack(value) for key, value in facts["attributes"].items()}
        record, attributes = take_record(attributes, facts["record"])
        if not name:
            self._record = record
        attributes, _ = without_ties(attributes)
        attributes, _ = with_singles(attributes, netcdf=bool(facts["netcdf"]))
        self._groups[name] = GroupSchema(attributes)
        self._notes += [f"group /{name}: {note}" for note in facts["notes"]]

    def _take_dataset(self, name: str, facts: Mapping[str, Any]) -> None:
        schema = schema_of(facts, self._where(name))
        attributes, _ = without_ties(schema.attributes)
        self._arrays[name] = replace(schema, attributes=attributes, notes=without_tie_notes(schema))
        if facts["scale"] and schema.axes == (name.rpartition("/")[2],):
            self._define(name, schema.shape[0], unlimited=True)

    def _take_table(self, name: str, facts: Mapping[str, Any]) -> None:
        if facts["why"]:
            self._tables[name] = TableSchema(_shape(facts), np.dtype("O"), "unknown", why=str(facts["why"]))
            return
        kind, where = str(facts["kind"]), self._where(name)
        dtype = np.dtype("O") if kind == "text" else dtype_of(facts["dtype"], where)
        attributes, _ = without_ties({str(key): unpack(value) for key, value in facts["attributes"].items()})
        shape = checks.check_shape(facts["shape"], where=where, itemsize=dtype.itemsize)
        chunks = None if facts["chunks"] is None else checks.check_chunks(facts["chunks"], shape, 1, where=where)
        padding = checks.check_integer(facts["padding"], what="the padding of a record", where=where)
        if padding:
            self._notes.append(f"{name}: {padding} bytes of padding in each record are not kept")
        axes = None if facts["axes"] is None else tuple(map(str, facts["axes"]))
        if facts["scale"] and axes == (name.rpartition("/")[2],):
            self._define(name, shape[0], unlimited=True)
        self._tables[name] = TableSchema(
            shape,
            dtype,
            kind,
            dict(facts["details"]),
            None if chunks is None else tuple(int(n) for n in chunks if isinstance(n, int)),
            attributes,
            axes,
        )

    def _define(self, name: str, length: Any, *, unlimited: bool) -> None:
        size = checks.check_integer(length, what="the length of an axis", where=self._where(name))
        self._dimensions.setdefault(parent_of(name), {})[name.rpartition("/")[2]] = Dimension(size, unlimited)

    def _where(self, name: str) -> str:
        return f"{self._path}::{join(self._inner, name)}"

    def finish(self, roots: Roots, medium: Medium) -> Hdf5Tree:
        """The dataset."""
        groups = with_parents(self._groups, [*self._arrays, *self._tables])
        for name, dimensions in self._dimensions.items():
            groups[name] = replace(groups[name], dimensions=dimensions)
        groups = with_dimensions(groups, {**self._arrays, **self._tables})
        tree = Tree(groups, self._arrays, self._tables, tuple(self._notes))
        return Hdf5Tree(self._path, self._inner, tree, self._record, roots, tuple(self._others), medium)


def without_tie_notes(schema: Schema) -> tuple[str, ...]:
    """Notes without those on attributes that link a dataset to its scales: a tree keeps the links."""
    suffix = tie_note("").partition("is not kept")[2]
    return tuple(note for note in schema.notes if not note.endswith(suffix))


def dtype_of(descr: Any, where: str) -> np.dtype[Any]:
    """A type from JSON: a name, or fields with name, type and, for arrays, a shape."""
    try:
        dtype: np.dtype[Any] = np.dtype(_descr(descr))
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"{where}: {checks.show(descr)} is not a type: {error}") from None
    if dtype.hasobject or dtype.itemsize > checks.MAX_ITEM_BYTES or not dtype.itemsize:
        raise FormatError(f"{where}: {checks.show(descr)} is not a type of at most {checks.MAX_ITEM_BYTES:,} bytes")
    return dtype


def _descr(value: Any) -> Any:
    if isinstance(value, str):
        return value
    return [(str(name), _descr(kind), *(tuple(map(int, shape)) for shape in more)) for name, kind, *more in value]


def _shape(facts: Mapping[str, Any]) -> tuple[int, ...]:
    try:
        return checks.check_shape(facts["shape"], where="")
    except FormatError:
        return ()


def tree_strangers(path: str, tree: Tree, medium: Medium = LOCAL) -> list[str]:
    """What a file holds that does not belong to a tree."""
    found = open_tree(path, "", (), medium)
    nodes = [*found.tree.arrays, *found.tree.tables, *found.tree.groups]
    known = {*tree.arrays, *tree.tables, *tree.groups}
    return [*found.others, *(name for name in nodes if name not in known)]
