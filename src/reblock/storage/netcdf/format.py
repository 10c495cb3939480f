"""The formats of NetCDF files: netcdf (NetCDF-4, which is HDF5 with dimensions) and netcdf3.

Elements of NetCDF-4 files are read and written as those of HDF5, by the same code. This module adds what makes a file
NetCDF: dimensions, their scales, and the rules for attributes. `netcdf` also reads NetCDF-3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy.typing as npt

from reblock.errors import CorruptError, FormatError, StorageError, UsageError
from reblock.model.codec import Codec
from reblock.model.dataset import Dimension, GroupSchema, Tree, TreeStore
from reblock.model.layout import Layout
from reblock.model.medium import Medium, Status
from reblock.model.roots import Roots
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.model.store import ChunkLimits, Store
from reblock.storage.checks import show
from reblock.storage.hdf5.file import failures, parts_of, signature_offset
from reblock.storage.hdf5.foreign import roots_of
from reblock.storage.hdf5.format import FORMAT as HDF5
from reblock.storage.hdf5.redo import recover
from reblock.storage.hdf5.sandbox.reader import Reader
from reblock.storage.hdf5.store import Hdf5Store
from reblock.storage.hdf5.tree import Hdf5Tree
from reblock.storage.hdf5.tree_writing import commit_tree, write_rows
from reblock.storage.library import LibraryArray
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import read_head
from reblock.storage.netcdf.classic_format import VARIABLE, ClassicFormat, choose_variable
from reblock.storage.netcdf.library import open_with_netcdf4
from reblock.storage.netcdf.marks import PROPERTIES, dataset_name, number_dimensions
from reblock.storage.netcdf.names import check_path
from reblock.storage.netcdf.nc4_adapt import adapt_array, adapt_tree
from reblock.storage.netcdf.nc4_add import add_variable, places_in_file
from reblock.storage.netcdf.nc4_create import create_file
from reblock.storage.netcdf.nc4_tree import Survey, read_survey
from reblock.storage.netcdf.unwritten import UnwrittenStore
from reblock.storage.trees import is_new_name

#: Bytes at the beginning of a file in which the NetCDF library has its mark.
_HEAD_BYTES = 1 << 16
_SUFFIXES = (".nc", ".nc4", ".cdf")
#: NetCDF-3 files.
FORMAT3 = ClassicFormat()


@dataclass(frozen=True)
class NetcdfTree:
    """All variables of a NetCDF-4 file, or of a group of it."""

    path: str
    """The file."""
    inner: str
    """Path of the group."""
    survey: Survey
    """What it holds, and where."""
    allow: tuple[str, ...] = ()
    """Other folders in which elements may be."""
    medium: Medium = LOCAL
    """The medium of the file."""
    status: Status | None = None
    """What the file looked like before it was surveyed."""

    @property
    def format(self) -> str:
        return NetcdfFormat.name

    @property
    def location(self) -> str:
        return f"{self.path}::{self.inner}" if self.inner else self.path

    @property
    def tree(self) -> Tree:
        return self.survey.tree

    @cached_property
    def roots(self) -> Roots:
        return roots_of(self.path, self.allow, self.medium)

    @property
    def described_by(self) -> Sequence[str]:
        return (self.path,)

    @property
    def record(self) -> Record:
        return self.survey.record

    def array(self, name: str) -> Store:
        if name not in self.tree.arrays:
            raise UsageError(f"{self.location}: there is no array {show(name)} that can be cut")
        if name in self.survey.unwritten:
            inner = f"{self.inner}/{name}" if self.inner else name
            return UnwrittenStore(self.path, inner, self.tree.arrays[name], self.roots, self.medium)
        store, schema = self._open(name), self.tree.arrays[name]
        if store.schema.shape != schema.shape or store.schema.dtype != schema.dtype:
            raise CorruptError(f"{self.location}: {name} has changed since the file was opened")
        store.schema = replace(schema, notes=tuple(dict.fromkeys((*schema.notes, *_library_notes(store)))))
        return _named(store, self.path, f"{self.inner}/{name}" if self.inner else name)

    def _open(self, name: str) -> Hdf5Store:
        """The dataset of a variable, as the survey found it if the file has not changed since."""
        dataset, told = self.survey.datasets[name], self.survey.stored.get(name)
        if told is None or self.status is None or self.medium.status(self.path) != self.status:
            return HDF5.open(self.path, dataset, self.allow, medium=self.medium)
        return Hdf5Store(self.path, dataset, *told, roots=self.roots, medium=self.medium)

    def rows(self, name: str, start: int, stop: int, limit_bytes: int) -> npt.NDArray[Any]:
        table = self.tree.tables.get(name)
        if table is None:
            raise UsageError(f"{self.location}: there is no table {show(name)}")
        stored = self.survey.datasets[name]
        as_hdf5 = Hdf5Tree(self.path, "", Tree(tables={stored: table}), NO_RECORD, self.roots, medium=self.medium)
        return as_hdf5.rows(stored, start, stop, limit_bytes)


def _library_notes(store: Hdf5Store) -> list[str]:
    return [note for note in store.schema.notes if note.startswith("elements are read through")]


def _named(store: Hdf5Store, path: str, name: str) -> Hdf5Store:
    """The store under the names of NetCDF."""
    store.format = NetcdfFormat.name
    store.location = f"{path}::{name}"
    return store


class NetcdfFormat:
    """Variables in NetCDF files."""

    name = "netcdf"
    suffixes = _SUFFIXES
    checksum = "fletcher32"
    single_file = True

    def probe(self, path: str, *, medium: Medium = LOCAL) -> bool:
        """Whether it is HDF5 with an ending of NetCDF, or with the mark of a NetCDF library."""
        if not HDF5.probe(path, medium=medium):
            return False
        return path.lower().endswith(_SUFFIXES) or PROPERTIES.encode() in read_head(medium, path, _HEAD_BYTES)[0]

    # ---------------------------------------------------------------- reading
    def open(self, path: str, inner: str, allow: Sequence[str] = (), *, medium: Medium = LOCAL) -> Store:
        """A variable by its path, or the only one."""
        if FORMAT3.probe(path, medium=medium):
            return FORMAT3.open(path, inner, allow, medium=medium)
        opened = _survey(path, "", allow, medium)
        name = "/".join(parts_of(inner))
        if any(group.startswith(name) for group in opened.tree.groups if name and name in opened.tree.groups):
            inside = [one for one in opened.tree.arrays if one.startswith(f"{name}/")]
            raise FormatError(f"{path}::{name} is a group: add ::NAME, one of {', '.join(inside[:10])}")
        chosen = choose_variable(path, [*opened.tree.arrays, *opened.tree.tables], name)
        table = opened.tree.tables.get(chosen)
        if table is not None:
            why = table.why or f"its elements are {table.kind}, which is copied as part of a dataset"
            raise FormatError(f"{path}::{chosen}: {why}")
        return opened.array(chosen)

    def open_tree(self, path: str, inner: str, allow: Sequence[str] = (), *, medium: Medium = LOCAL) -> TreeStore:
        """All variables below a group."""
        if FORMAT3.probe(path, medium=medium):
            return FORMAT3.open_tree(path, inner, allow, medium=medium)
        return _survey(path, "/".join(parts_of(inner)), allow, medium)

    def open_with_library(self, path: str, inner: str, allow: Sequence[str] = ()) -> LibraryArray:  # noqa: ARG002 - a single file
        return open_with_netcdf4(path, inner)

    def strangers(self, path: str, *, medium: Medium = LOCAL) -> Iterator[str]:
        if FORMAT3.probe(path, medium=medium):
            yield from FORMAT3.strangers(path, medium=medium)
            return
        tree = _survey(path, "", (), medium).tree
        choose_variable(path, [*tree.arrays, *tree.tables], "")
        used = {axis for schema in tree.arrays.values() for axis in schema.axes or ()}
        for name, group in tree.groups.items():
            where = f" of {name}" if name else ""
            yield from (f"attribute {attribute}{where}" for attribute in group.attributes)
            yield from (f"dimension {axis}{where}" for axis in group.dimensions if axis not in used)
            if name and not any(one.startswith(f"{name}/") for one in tree.arrays):
                yield f"group {name}"

    def tree_strangers(self, path: str, tree: Tree, *, medium: Medium = LOCAL) -> Sequence[str]:
        if FORMAT3.probe(path, medium=medium):
            return FORMAT3.tree_strangers(path, tree, medium=medium)
        found = _survey(path, "", (), medium).tree
        known = {*tree.arrays, *tree.tables, *tree.groups}
        return [name for name in (*found.arrays, *found.tables, *found.groups) if name not in known]

    # ---------------------------------------------------------------- adapting
    def adapt(self, schema: Schema, asked: Collection[str]) -> Schema:
        return adapt_array(schema, asked)

    def adapt_tree(self, tree: Tree, asked: Collection[str]) -> Tree:
        return adapt_tree(tree, asked)

    def layout(self, schema: Schema) -> Layout:
        return HDF5.layout(schema)

    def chunk_limits(self, codec: Codec) -> ChunkLimits:
        return HDF5.chunk_limits(codec)

    def foresee(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> None:
        """One file."""
        check_path("/".join(parts_of(inner)) or VARIABLE)
        HDF5.foresee(path, inner, schema, medium=medium)

    # ---------------------------------------------------------------- writing
    def create(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        """A new file with one variable."""
        _require_local(path, medium)
        name = "/".join(parts_of(inner)) or VARIABLE
        create_file(path, "", _single(name, schema))
        return self.reopen(path, name, schema, medium=medium)

    def can_add(self, path: str, inner: str, schema: Schema | None) -> bool:
        """Whether a name is new in a file; UsageError if the file has a dimension that the variable cannot share."""
        name = "/".join(parts_of(inner))
        tree = _survey(path, "", (), LOCAL).tree
        if not is_new_name(path, name, [*tree.arrays, *tree.tables], tree.groups):
            return False
        check_path(name)
        if schema is not None:
            places_in_file(path, tree, name, schema)
        return True

    def add(self, path: str, inner: str, schema: Schema) -> Store:
        """Make a variable in a file that is there, a copy."""
        name = "/".join(parts_of(inner))
        places = places_in_file(path, _survey(path, "", (), LOCAL).tree, name, schema)
        add_variable(path, name, schema, places)
        return self.reopen(path, name, schema)

    def reopen(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        """Continue a variable as the last checkpoint left it."""
        _require_local(path, medium)
        name = "/".join(parts_of(inner)) or VARIABLE
        # A checkpoint that was interrupted is completed before anything is read.
        recover(path)
        return _named(HDF5.reopen(path, _stored_name(path, name), schema, medium=medium), path, name)

    def create_tree(self, path: str, inner: str, tree: Tree, *, medium: Medium = LOCAL) -> None:
        _require_local(path, medium)
        create_file(path, "/".join(parts_of(inner)), tree)

    def write_rows(
        self,
        path: str,
        inner: str,
        name: str,
        tree: Tree,
        start: int,
        rows: npt.NDArray[Any],
        *,
        medium: Medium = LOCAL,
    ) -> None:
        """Write rows of text."""
        _require_local(path, medium)
        stored = dataset_name(number_dimensions(tree), name, tree.tables[name])
        write_rows(path, inner, stored, Tree(tables={stored: tree.tables[name]}), start, rows)

    def commit_tree(
        self,
        path: str,
        inner: str,
        tree: Tree,
        records: Mapping[str, Record],
        record: Record = NO_RECORD,
        *,
        medium: Medium = LOCAL,
    ) -> None:
        """Write the records of tables and of the whole; everything else is there since the creation."""
        _require_local(path, medium)
        places = number_dimensions(tree)
        stored = {name: dataset_name(places, name, table) for name, table in tree.tables.items() if not table.why}
        tables = {stored[name]: tree.tables[name] for name in stored}
        commit_tree(path, inner, Tree(tables=tables), {stored[n]: records[n] for n in stored if n in records}, record)
        medium.sync_name(path)


def _survey(path: str, inner: str, allow: Sequence[str], medium: Medium) -> NetcdfTree:
    roots = roots_of(path, allow, medium)
    _, size = read_head(medium, path, 0)
    with failures("open", path):
        if signature_offset(path, medium) is None:
            raise FormatError(f"{path} is not a NetCDF file: it begins neither with CDF nor with an HDF5 signature")
    status = medium.status(path)
    with closing(Reader(path, medium)) as reader:
        nodes = reader.survey(inner)
    with failures("open", path):
        return NetcdfTree(path, inner, read_survey(nodes, path, inner, size, roots), tuple(allow), medium, status)


def _stored_name(path: str, name: str) -> str:
    """The path of a variable's dataset in a file that is being written."""
    found = _survey(path, "", (), LOCAL).survey.datasets
    if name not in found:
        raise StorageError(f"{path} has no variable {show(name)} to be continued")
    return found[name]


def _single(name: str, schema: Schema) -> Tree:
    """The tree of one adapted array."""
    group = name.rpartition("/")[0]
    lengths = dict(zip(schema.axes or (), schema.shape, strict=True))
    free = {axis for axis, open_ended in zip(schema.axes or (), schema.unlimited, strict=False) if open_ended}
    dimensions = {axis: Dimension(length, axis in free) for axis, length in lengths.items()}
    groups = {"": GroupSchema()}
    parts = parts_of(group)
    groups |= {"/".join(parts[: n + 1]): GroupSchema() for n in range(len(parts))}
    groups[group] = GroupSchema({}, dimensions)
    return Tree(groups, {name: schema})


def _require_local(path: str, medium: Medium) -> None:
    if not medium.is_local:
        raise UsageError(f"{path}: NetCDF-4 needs a local file, which is not to be had in {medium.name}; zarr would do")


#: Found by the registry.
FORMAT = NetcdfFormat()
