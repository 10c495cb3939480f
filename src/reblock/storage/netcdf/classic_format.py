"""The format netcdf3: NetCDF-3 files (classic, 64-bit offset, CDF-5), read and written by extents, without a library.

A new file has all its bytes from the beginning, and its header does not change: an interrupted run can be continued.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from reblock.errors import CorruptError, FormatError, TargetExistsError, UsageError
from reblock.model.codec import Codec
from reblock.model.dataset import Tree
from reblock.model.layout import Layout
from reblock.model.medium import Medium
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.model.store import ChunkLimits, Store
from reblock.storage.checks import show
from reblock.storage.library import LibraryArray
from reblock.storage.media.files import disk_errors
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import exists, is_file, read_head
from reblock.storage.netcdf.classic import ClassicHeader, is_classic, read_classic
from reblock.storage.netcdf.classic_adapt import adapt_classic, adapt_classic_tree, header_of_tree, single_tree
from reblock.storage.netcdf.classic_store import NAME, ClassicStore, ClassicTree, classic_layout, store_of
from reblock.storage.netcdf.classic_writer import write_header
from reblock.storage.netcdf.library import open_with_netcdf4
from reblock.storage.netcdf.names import check_path

#: Name of a new variable if none was given.
VARIABLE = "data"
#: The most names that a message lists.
_LISTED = 10


class ClassicFormat:
    """Variables in NetCDF-3 files."""

    name = NAME
    suffixes = (".nc3",)
    checksum = ""
    single_file = True

    def probe(self, path: str, *, medium: Medium = LOCAL) -> bool:
        return is_file(medium, path) and is_classic(read_head(medium, path, 4)[0])

    # ---------------------------------------------------------------- reading
    def open(self, path: str, inner: str, allow: Sequence[str] = (), *, medium: Medium = LOCAL) -> Store:
        header, roots = read_classic(path, medium=medium), medium.roots(path, allow)
        return store_of(path, header, choose_variable(path, list(header.variables), inner), roots=roots, medium=medium)

    def open_tree(self, path: str, inner: str, allow: Sequence[str] = (), *, medium: Medium = LOCAL) -> ClassicTree:
        header = read_classic(path, medium=medium)
        if inner:
            what = "is a variable" if inner in header.variables else "is not there"
            raise FormatError(f"{path}::{inner} {what}, and NetCDF-3 has no groups; leave out ::{inner}")
        return ClassicTree(path, header, medium.roots(path, allow), medium)

    def open_with_library(self, path: str, inner: str, allow: Sequence[str] = ()) -> LibraryArray:  # noqa: ARG002 - a single file
        return open_with_netcdf4(path, inner)

    def strangers(self, path: str, *, medium: Medium = LOCAL) -> Iterator[str]:
        header = read_classic(path, medium=medium)
        name = choose_variable(path, list(header.variables), "")
        yield from (f"attribute {attribute}" for attribute in header.attributes)
        used = header.variables[name].axes
        yield from (f"dimension {axis}" for axis in header.dimensions if axis not in used)
        yield from _more_bytes(path, header, medium)

    def tree_strangers(self, path: str, tree: Tree, *, medium: Medium = LOCAL) -> Sequence[str]:
        header = read_classic(path, medium=medium)
        others = [f"variable {name}" for name in header.variables if name not in tree.arrays]
        return [*others, *_more_bytes(path, header, medium)]

    # ---------------------------------------------------------------- adapting
    def adapt(self, schema: Schema, asked: Collection[str]) -> Schema:
        return adapt_classic(schema, asked)

    def adapt_tree(self, tree: Tree, asked: Collection[str]) -> Tree:
        return adapt_classic_tree(tree, asked)

    def layout(self, schema: Schema) -> Layout:
        return classic_layout(schema)

    def chunk_limits(self, codec: Codec) -> ChunkLimits:  # noqa: ARG002 - NetCDF-3 has no codecs
        return ChunkLimits(chunked=False)

    def foresee(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> None:  # noqa: ARG002 - as the protocol says
        """One file."""
        check_path(_variable_name(path, inner))

    # ---------------------------------------------------------------- writing
    def create(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        name = _variable_name(path, inner)
        header = header_of_tree(single_tree(name, schema))
        _create(path, header, medium)
        return store_of(path, header, name, schema, medium=medium)

    def reopen(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        name = _variable_name(path, inner)
        header = read_classic(path, medium=medium)
        if name not in header.variables:
            raise CorruptError(f"{path}: there is no variable {show(name)} to be continued")
        store: ClassicStore = store_of(path, header, name, schema, medium=medium)
        there = store_of(path, header, name, medium=medium).schema
        if (there.shape, there.dtype, there.chunks, there.axes) != (
            *(schema.shape, schema.dtype, schema.chunks),
            schema.axes,
        ):
            raise CorruptError(f"{path}::{name} is not the variable that was being written")
        store.check_size()
        return store

    def create_tree(self, path: str, inner: str, tree: Tree, *, medium: Medium = LOCAL) -> None:
        _refuse_group(path, inner)
        _create(path, header_of_tree(tree), medium)

    def write_rows(
        self,
        path: str,
        inner: str,  # noqa: ARG002 - NetCDF-3 has no tables, here and below
        name: str,
        tree: Tree,  # noqa: ARG002
        start: int,  # noqa: ARG002
        rows: npt.NDArray[Any],  # noqa: ARG002
        *,
        medium: Medium = LOCAL,  # noqa: ARG002
    ) -> None:
        raise UsageError(f"{path}: NetCDF-3 cannot hold {show(name)}")

    def commit_tree(
        self,
        path: str,
        inner: str,
        tree: Tree,
        records: Mapping[str, Record],  # noqa: ARG002 - NetCDF-3 has no place for them
        record: Record = NO_RECORD,  # noqa: ARG002 - the same
        *,
        medium: Medium = LOCAL,
    ) -> None:
        _refuse_group(path, inner)
        if read_head(medium, path, len(written := write_header(header_of_tree(tree))))[0] != written:
            raise CorruptError(f"{path}: not the header of the dataset that was being written")
        medium.sync(path)
        medium.sync_name(path)


def choose_variable(path: str, names: Sequence[str], inner: str) -> str:
    """A variable by its name, or the only one."""
    listed = ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
    if inner:
        if inner in names:
            return inner
        raise FormatError(f"{path} has no {inner}: it holds {listed or 'no variables'}")
    if len(names) == 1:
        return names[0]
    if not names:
        raise FormatError(f"{path} holds no variable")
    raise FormatError(f"{path} holds more than one variable: add ::NAME, one of {listed}")


def _create(path: str, header: ClassicHeader, medium: Medium) -> None:
    if exists(medium, path):
        raise TargetExistsError(f"{path} exists already")
    with disk_errors("create", path):
        medium.create(path, write_header(header), size=_file_bytes(header))


def _file_bytes(header: ClassicHeader) -> int:
    """The length of a whole file, with the padding at its end."""
    end = header.end_of_elements
    return end if len(header.record_variables) == 1 else -(-end // 4) * 4


def _more_bytes(path: str, header: ClassicHeader, medium: Medium) -> Iterator[str]:
    more = read_head(medium, path, 0)[1] - header.end_of_elements
    if more > 3:
        yield f"{more:,} bytes after the last variable"


def _variable_name(path: str, inner: str) -> str:
    if "/" in inner:
        raise UsageError(f"{path}: NetCDF-3 has no groups; use ::{inner.rpartition('/')[2]}, or netcdf")
    return inner or VARIABLE


def _refuse_group(path: str, inner: str) -> None:
    if inner:
        raise UsageError(f"{path}: NetCDF-3 has no groups; leave out ::{inner}, or use netcdf")
