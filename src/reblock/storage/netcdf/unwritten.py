"""UnwrittenStore: a variable of NetCDF-4 along an unlimited dimension, of which nothing was ever written.

HDF5 stores an empty dataset for it. The dimension got its length from other variables, and every element is fill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

from reblock.errors import UsageError
from reblock.geometry import Grid
from reblock.model.layout import Layout
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.model.store import Bytes, Extent, Index, Read
from reblock.storage.by_extent import RawByExtent
from reblock.storage.media.local import LOCAL


@dataclass(frozen=True)
class UnwrittenStore(RawByExtent):
    """A variable without elements in the file. It is only read."""

    path: str
    """The file."""
    inner: str
    """Path of the variable."""
    schema: Schema
    """Its schema, with the lengths of its dimensions."""
    roots: Roots | None = None
    """The real file."""
    medium: Medium = LOCAL
    """The medium of the file."""

    @property
    def format(self) -> str:
        return "netcdf"

    @property
    def location(self) -> str:
        return f"{self.path}::{self.inner}"

    @cached_property
    def layout(self) -> Layout:
        return Layout.raw(self.schema.dtype, Grid.of(self.schema.shape, self.schema.chunks), self.schema.order)

    @property
    def fills(self) -> bool:
        """Every element is the fill value."""
        return True

    @property
    def described_by(self) -> Sequence[str]:
        return (self.path,)

    def extents(self, index: Index, units: Sequence[Index], read: Read) -> Sequence[Extent | None]:  # noqa: ARG002 - nothing is stored
        return [None] * len(units)

    def place(self, index: Index) -> Extent:  # noqa: ARG002 - never called
        """Not possible: it is only read."""
        self._refuse()

    def preamble(self, index: Index) -> Bytes:  # noqa: ARG002 - never called
        """Not possible: it is only read."""
        self._refuse()

    def checkpoint(self) -> None:
        """Nothing to do: it is only read."""

    def commit(self, record: Record = NO_RECORD) -> None:
        """Nothing to do: it is only read."""

    def _refuse(self) -> NoReturn:
        raise UsageError(f"{self.location} has no elements in the file, and is only read")
