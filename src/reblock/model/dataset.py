"""Datasets: named arrays in groups, with attributes and shared axes, and the protocols of formats that hold them.

A dataset is described by a Tree, apart from where its bytes are, as an array is by a Schema ::

    source    format.open_tree(path, inner) → TreeStore: tree, array(name) → Store
    target    format.adapt_tree(tree, asked) → the nearest tree that the format can hold
              format.create_tree(path, inner, tree): groups, attributes, dimensions and every array, empty
              per array: format.reopen(path, inner/name, schema) → the engine writes → store.commit(record)
              per table: format.write_rows(path, inner, name, tree, start, rows), a block of rows at a time
              format.commit_tree(path, inner, tree, records): what readers look for first comes last

Since `create_tree` makes all arrays, a run that begins an array and a run that continues it take the same step,
`reopen`; and a killed `create_tree` is simply made again, because nothing was written yet.

Names are paths from the top of the dataset without leading slash, such as `ocean/t2m`; the top itself is "". Most
arrays are cut into boxes by the engine. Those that cannot be cut (text of any length, records, enumerations) are
tables: the format's library copies them in blocks of rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.model.store import Format, Store


@dataclass(frozen=True)
class Dimension:
    """An axis that arrays of a group share."""

    length: int
    """Its length."""
    unlimited: bool = False
    """Whether other programs may append along it."""


@dataclass(frozen=True)
class GroupSchema:
    """A group, apart from the arrays in it."""

    attributes: Mapping[str, Any] = field(default_factory=dict)
    """User metadata: values are JSON values, numpy scalars or numpy arrays."""
    dimensions: Mapping[str, Dimension] = field(default_factory=dict)
    """Shared axes that are defined here, by name; arrays here and below refer to them in `Schema.axes`."""


@dataclass(frozen=True)
class TableSchema:
    """An array that the engine cannot cut."""

    shape: tuple[int, ...]
    """Length of each axis; rows are taken along the first."""
    dtype: np.dtype[Any]
    """Type of an element: a structured type, an integer, or object for text and bytes of any length."""
    kind: str
    """What an element is, in one word: `text`, `bytes`, `record`, `enum`, or the format's word for it."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What else the type says, such as the names of an enumeration; JSON values."""
    chunks: tuple[int, ...] | None = None
    """Length of a chunk along each axis; None = one piece."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """User metadata, as in a Schema."""
    axes: tuple[str, ...] | None = None
    """Names of the axes."""
    fill_value: Any = None
    """Value of elements that are not stored; None if the format has none."""
    why: str = ""
    """Why the format cannot hold it, in words; "" if it can."""


@dataclass(frozen=True)
class Tree:
    """Everything that a dataset holds, apart from its elements."""

    groups: Mapping[str, GroupSchema] = field(default_factory=lambda: {"": GroupSchema()})
    """Groups by name, parents first; "" is the top and always there."""
    arrays: Mapping[str, Schema] = field(default_factory=dict)
    """Arrays by name, in the order of the source."""
    tables: Mapping[str, TableSchema] = field(default_factory=dict)
    """Arrays that cannot be cut, by name."""
    notes: tuple[str, ...] = ()
    """What could not be kept, in words for the report; an array's own notes are in its schema."""


@runtime_checkable
class TreeStore(Protocol):
    """One dataset on storage, open for reading. Picklable, and every call is thread-safe."""

    @property
    def format(self) -> str:
        """Name of the format."""

    @property
    def location(self) -> str:
        """`PATH[::INNER]`, for messages."""

    @property
    def tree(self) -> Tree:
        """What it holds."""

    @property
    def medium(self) -> Medium:
        """The medium of its bytes."""

    @property
    def roots(self) -> Roots | None:
        """Where its files may be."""

    @property
    def described_by(self) -> Sequence[str]:
        """Files that describe groups and tables; if one of them changes, it is another dataset."""

    @property
    def record(self) -> Record:
        """The record of the run that made the dataset; empty if there is none."""

    def array(self, name: str) -> Store:
        """One of the arrays, as the format opens it alone."""

    def rows(self, name: str, start: int, stop: int, limit_bytes: int) -> npt.NDArray[Any]:
        """Rows of a table from `start`: as many as fit into the limit, at least one, none from `stop` on.

        Objects are `str` or `bytes`. A table without axes has one row, of shape (). InfeasibleError if one row, or what
        must be decoded to read it, takes more memory than the limit.
        """


@runtime_checkable
class TreeFormat(Format, Protocol):
    """A format whose files or folders can hold several arrays."""

    def open_tree(self, path: str, inner: str, allow: Sequence[str] = (), *, medium: Medium = ...) -> TreeStore:
        """Open all arrays below a group; FormatError if `inner` is an array, or nothing.

        Arrays that the format cannot read at all are tables with a reason in `why`; they are listed, never dropped.
        """

    def adapt_tree(self, tree: Tree, asked: Collection[str]) -> Tree:
        """The nearest tree that this format can hold; `asked` as for `adapt`. No I/O.

        A table that it cannot hold stays, with the reason in `why`, and an array whose type it cannot hold becomes such
        a table. A name that it cannot hold is a UsageError.
        """

    def create_tree(self, path: str, inner: str, tree: Tree, *, medium: Medium = ...) -> None:
        """Make a new dataset at a path that does not exist yet: all groups, and all arrays and tables without elements.

        The tree is adapted; tables with a reason in `why` are left out. Everything is durable when this returns, and
        every array can be continued with `reopen`.
        """

    def write_rows(
        self, path: str, inner: str, name: str, tree: Tree, start: int, rows: npt.NDArray[Any], *, medium: Medium = ...
    ) -> None:
        """Write rows of a table, durably; the same rows may be written again. No array is being written meanwhile."""

    def commit_tree(
        self,
        path: str,
        inner: str,
        tree: Tree,
        records: Mapping[str, Record],
        record: Record = NO_RECORD,
        *,
        medium: Medium = ...,
    ) -> None:
        """Finish a dataset all of whose arrays are committed: what readers look for first, such as a joint index.

        `records` are those of the arrays and tables, `record` is that of the whole. May be called again after a kill.
        """

    def tree_strangers(self, path: str, tree: Tree, *, medium: Medium = ...) -> Sequence[str]:
        """What at a path does not belong to the dataset there, in words; it may be replaced if there is nothing."""


@runtime_checkable
class GroupFormat(Protocol):
    """A format whose groups are folders, in which an array can be added while others are read."""

    def group_format(self, path: str, *, medium: Medium = ...) -> Format | None:
        """The format for new arrays of the group at a path; None if there is no group."""

    def announce(self, path: str, *, medium: Medium = ...) -> None:
        """Add what was published at a path to the joint index of the groups above, if there is one."""
