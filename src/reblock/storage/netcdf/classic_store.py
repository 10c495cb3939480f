"""The arrays of a NetCDF-3 file, as the engine reads and writes them: by extents.

A fixed variable is one object. A variable of the record dimension has an object for each record, since records of other
variables are between them; if it is the only one, nothing is between them, and it is one object too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy.typing as npt

from reblock.errors import CorruptError, UsageError
from reblock.geometry import Grid
from reblock.model.dataset import Dimension, GroupSchema, Tree
from reblock.model.layout import Layout
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.model.store import Bytes, Extent, Index, Read, Store
from reblock.storage.by_extent import RawByExtent
from reblock.storage.checks import show
from reblock.storage.conventions import FILL_VALUE, fill_attribute
from reblock.storage.media.files import disk_errors
from reblock.storage.media.local import LOCAL
from reblock.storage.netcdf.classic import ClassicHeader, ClassicVariable

#: Name of the format of NetCDF-3 files.
NAME = "netcdf3"


@dataclass(frozen=True)
class ClassicStore(RawByExtent):
    """One variable of a NetCDF-3 file."""

    path: str
    """The file."""
    inner: str
    """Name of the variable."""
    schema: Schema
    """Its schema."""
    begin: int
    """Offset of its first element."""
    step: int
    """Bytes from one of its records to the next; 0 if it is one run of bytes."""
    end: int
    """Offset behind its last element."""
    roots: Roots | None = None
    """The real file; None for a new one."""
    medium: Medium = LOCAL
    """The medium of the file."""

    @property
    def format(self) -> str:
        return NAME

    @property
    def location(self) -> str:
        return f"{self.path}::{self.inner}"

    @cached_property
    def layout(self) -> Layout:
        return classic_layout(self.schema)

    @property
    def described_by(self) -> Sequence[str]:
        return (self.path,)

    def extents(self, index: Index, units: Sequence[Index], read: Read) -> Sequence[Extent | None]:  # noqa: ARG002 - each object is one unit
        return [self.place(unit) for unit in units]

    def place(self, index: Index) -> Extent:
        record = index[0] if self.step else 0
        return Extent(self.path, self.begin + record * self.step, self.layout.object_bytes)

    def preamble(self, index: Index) -> Bytes:  # noqa: ARG002 - objects share one file
        return b""

    def checkpoint(self) -> None:
        self.medium.sync(self.path)

    def commit(self, record: Record = NO_RECORD) -> None:  # noqa: ARG002 - NetCDF-3 has no place for it
        self.check_size()
        self.medium.sync(self.path)
        self.medium.sync_name(self.path)

    def check_size(self) -> None:
        """CorruptError if the file is shorter than its header promises."""
        with disk_errors("look at", self.path):
            found = self.medium.status(self.path).size
        if found < self.end:
            raise CorruptError(f"{self.location}: its elements end at byte {self.end:,}, the file has {found:,}")


def classic_layout(schema: Schema) -> Layout:
    """Every byte can be read and written on its own; objects are records, or all there is."""
    return Layout.raw(schema.dtype, Grid.of(schema.shape, schema.chunks), schema.order)


def is_interleaved(header: ClassicHeader, variable: ClassicVariable) -> bool:
    """Whether there are other bytes between the records of a variable."""
    return header.is_record(variable) and header.record_bytes != header.part_bytes(variable)


def schema_of(header: ClassicHeader, variable: ClassicVariable) -> Schema:
    """The schema of a variable."""
    shape = header.shape(variable)
    whole = tuple(max(length, 1) for length in shape)
    fill = variable.attributes.get(FILL_VALUE)
    return Schema(
        shape,
        variable.dtype,
        (1, *whole[1:]) if is_interleaved(header, variable) else whole,
        fill_value=None if fill is None else fill_attribute(fill, variable.dtype),
        attributes=variable.attributes,
        axes=variable.axes or None,
        netcdf=True,
        unlimited=(True, *(False for _ in shape[1:])) if header.is_record(variable) else (),
    )


def store_of(
    path: str,
    header: ClassicHeader,
    name: str,
    schema: Schema | None = None,
    roots: Roots | None = None,
    *,
    medium: Medium,
) -> ClassicStore:
    """The store of a variable."""
    variable = header.variables[name]
    return ClassicStore(
        path,
        name,
        schema_of(header, variable) if schema is None else schema,
        variable.begin,
        header.record_bytes if is_interleaved(header, variable) else 0,
        header.end(variable),
        roots,
        medium,
    )


def tree_of(header: ClassicHeader) -> Tree:
    """Everything that a NetCDF-3 file holds."""
    dimensions = {name: Dimension(length, name == header.record_axis) for name, length in header.dimensions.items()}
    return Tree(
        {"": GroupSchema(header.attributes, dimensions)},
        {name: schema_of(header, variable) for name, variable in header.variables.items()},
        notes=header.notes,
    )


@dataclass(frozen=True)
class ClassicTree:
    """All variables of a NetCDF-3 file."""

    path: str
    """The file."""
    header: ClassicHeader
    """Its header."""
    roots: Roots | None = None
    """The real file."""
    medium: Medium = LOCAL
    """The medium of the file."""

    @property
    def format(self) -> str:
        return NAME

    @property
    def location(self) -> str:
        return self.path

    @cached_property
    def tree(self) -> Tree:
        return tree_of(self.header)

    @property
    def described_by(self) -> Sequence[str]:
        return (self.path,)

    @property
    def record(self) -> Record:
        return NO_RECORD

    def array(self, name: str) -> Store:
        if name not in self.header.variables:
            raise UsageError(f"{self.path}: there is no variable {show(name)}")
        return store_of(self.path, self.header, name, roots=self.roots, medium=self.medium)

    def rows(self, name: str, start: int, stop: int, limit_bytes: int) -> npt.NDArray[Any]:  # noqa: ARG002 - as the protocol says
        raise UsageError(f"{self.path}: {show(name)} is not a table; NetCDF-3 has none")
