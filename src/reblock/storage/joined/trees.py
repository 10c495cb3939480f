"""JoinedTree: many datasets as one, in which every array that has an axis is concatenated along it.

Arrays without the axis are those of the first dataset, and must be equal in all others. An array that does not fit
together is listed with the reason, as those that cannot be read, so that a run is refused or leaves it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import FormatError, ReblockError, UsageError, option
from reblock.model.dataset import GroupSchema, TableSchema, Tree, TreeStore
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.model.store import Store
from reblock.storage import registry
from reblock.storage.joined.fitting import JoinedMember, in_order, same
from reblock.storage.joined.opening import coordinate_of, join, open_joined
from reblock.storage.joined.pattern import STACK, JoinedLocation
from reblock.storage.joined.reading import read_values
from reblock.storage.joined.roots import JoinedRoots
from reblock.storage.location import Location

#: Elements that are compared at a time, in bytes.
_PIECE_BYTES = 1 << 24


def open_joined_text(location: str, format: str | None = None, allow: Sequence[str] = ()) -> Store:
    """The array of a location of many arrays."""
    return open_joined(_parse(location), format, allow)


def open_joined_tree(location: str, format: str | None = None, allow: Sequence[str] = ()) -> JoinedTree:
    """The dataset of a location of many datasets; FormatError if they cannot be brought into order."""
    where = _parse(location)
    if where.how == STACK:
        raise UsageError(f"{option('stack')} is for single arrays: name one after '::', or use {option('concat')}")
    paths = where.paths()
    trees = [registry.open_tree(str(Location(path, where.inner)), format, allow) for path in paths]
    named = [name for name, schema in trees[0].tree.arrays.items() if where.axis in (schema.axes or ())]
    if not named:
        raise FormatError(f"{paths[0]}: no array has an axis {where.axis!r}")
    order = ordered(paths, trees, named, where.axis)
    return JoinedTree(str(where), where, tuple(paths[n] for n in order), tuple(trees[n] for n in order), tuple(allow))


def joins_datasets(location: str, format: str | None = None) -> bool:
    """Whether a location of many is one of datasets, so that its errors are about these."""
    where = _parse(location)
    try:
        registry.open_tree(str(Location(where.paths()[0], where.inner)), format)
    except ReblockError:
        return False
    return True


def _parse(location: str) -> JoinedLocation:
    where = JoinedLocation.parse(location)
    if where is None:
        raise UsageError(f"{location}: not a location of many arrays")
    return where


def ordered(paths: Sequence[str], trees: Sequence[TreeStore], named: Sequence[str], axis: str) -> list[int]:
    """Numbers of the datasets, in the order of a coordinate if there is one; FormatError as from `in_order`."""
    everywhere = [name for name in named if all(name in tree.tree.arrays for tree in trees)]
    for path, tree in zip(paths, trees, strict=True):
        if not everywhere and (missing := next((name for name in named if name not in tree.tree.arrays), None)):
            raise FormatError(f"{path}: there is no array {missing!r}, which {paths[0]} has")
    members = [_coordinate(path, tree, everywhere, axis) for path, tree in zip(paths, trees, strict=True)]
    places = {id(member.store): number for number, member in enumerate(members)}
    return [places[id(member.store)] for member in in_order(members, axis)]


def _coordinate(path: str, tree: TreeStore, named: Sequence[str], axis: str) -> JoinedMember:
    """The coordinate along the axis: its own, or another one of the dataset that has units."""
    schemas = tree.tree.arrays
    own = [name for name in named if name.rpartition("/")[2] == axis]
    others = [name for name in named if name not in own and schemas[name].ndim == 1 and _is_time(schemas[name])]
    bare: JoinedMember | None = None
    for name in (*own, *others):
        found = coordinate_of(JoinedMember(path, tree.array(name)), tree.array(name), name.rpartition("/")[2])
        if found.units is not None:
            return found
        bare = bare or found
    return bare or JoinedMember(path, tree.array(named[0]))


def _is_time(schema: Schema) -> bool:
    """Whether an array is a coordinate by its attributes."""
    text = schema.attributes.get("standard_name", schema.attributes.get("axis"))
    return (text.decode("utf-8", "replace") if isinstance(text, bytes) else text) in ("time", "T")


@dataclass(frozen=True, eq=False)
class JoinedTree:
    """Many datasets as one."""

    location: str
    """Where they are, as a pattern."""
    where: JoinedLocation
    """The same, parsed."""
    member_paths: tuple[str, ...]
    """Their files and folders, in order."""
    members: tuple[TreeStore, ...]
    """The datasets."""
    allow: tuple[str, ...] = ()
    """Other folders that the user trusts."""

    @property
    def format(self) -> str:
        return self.members[0].format

    @property
    def medium(self) -> Medium:
        return self.members[0].medium

    @cached_property
    def roots(self) -> Roots | None:
        known = {
            path: one.roots for path, one in zip(self.member_paths, self.members, strict=True) if one.roots is not None
        }
        return JoinedRoots(known, self.allow) if len(known) == len(self.members) else None

    @property
    def described_by(self) -> Sequence[str]:
        return list(dict.fromkeys(path for member in self.members for path in member.described_by))

    @property
    def record(self) -> Record:
        return NO_RECORD

    # ---------------------------------------------------------------- what it holds
    def _is_joined(self, schema: Schema | TableSchema) -> bool:
        return self.where.axis in (schema.axes or ())

    @cached_property
    def tree(self) -> Tree:
        first = self.members[0].tree
        arrays: dict[str, Schema] = {}
        tables = {
            name: replace(table, why=table.why or f"tables cannot be concatenated along {self.where.axis}")
            if self._is_joined(table)
            else table
            for name, table in first.tables.items()
        }
        every = {name: schema for member in self.members for name, schema in member.tree.arrays.items()}
        for name, schema in {**first.arrays, **every}.items():
            try:
                self._check(name)
                arrays[name] = self.array(name).schema
            except FormatError as error:
                tables[name] = TableSchema(schema.shape, schema.dtype, "array", axes=schema.axes, why=error.message)
        return Tree(self._groups(first.groups), arrays, tables, (*first.notes, *self._lost()))

    def _groups(self, groups: Mapping[str, GroupSchema]) -> dict[str, GroupSchema]:
        """Groups with the new length of the axis."""
        found: dict[str, GroupSchema] = {}
        for name, group in groups.items():
            axis, dimensions = self.where.axis, dict(group.dimensions)
            if axis in dimensions:
                there = [one.tree.groups[name].dimensions for one in self.members if name in one.tree.groups]
                length = sum(one[axis].length for one in there if axis in one)
                dimensions[axis] = replace(dimensions[axis], length=length)
            found[name] = replace(group, dimensions=dimensions)
        return found

    def _lost(self) -> list[str]:
        """A note on attributes of groups that differ."""
        lost: dict[str, None] = {}
        for name, group in self.members[0].tree.groups.items():
            for other in self.members[1:]:
                theirs = other.tree.groups[name].attributes if name in other.tree.groups else {}
                keys = dict.fromkeys([*group.attributes, *theirs])
                lost |= {key: None for key in keys if not same(group.attributes.get(key), theirs.get(key))}
        if not lost:
            return []
        return [f"attributes {', '.join(lost)} of groups differ: those of the first file are kept"]

    def array(self, name: str) -> Store:
        """One of the arrays: joined if it has the axis, else that of the first dataset."""
        stores = [member.array(name) for member in self.members]
        if not self._is_joined(self.members[0].tree.arrays[name]):
            return stores[0]
        inner = "/".join(filter(None, (self.where.inner, name)))
        members = [JoinedMember(path, store) for path, store in zip(self.member_paths, stores, strict=True)]
        return join(replace(self.where, inner=inner), members, self.allow)

    def rows(self, name: str, start: int, stop: int, limit_bytes: int) -> npt.NDArray[Any]:
        """Rows of a table of the first dataset."""
        return self.members[0].rows(name, start, stop, limit_bytes)

    # ---------------------------------------------------------------- do they fit?
    def _check(self, name: str) -> None:
        """FormatError if a dataset lacks an array, or if it has no such axis and differs."""
        has = [name in member.tree.arrays for member in self.members]
        if not all(has):
            other, path = self.member_paths[has.index(True)], self.member_paths[has.index(False)]
            raise FormatError(f"{path}: there is no array {name!r}, which {other} has")
        one = self.members[0].array(name)
        if self._is_joined(one.schema):
            return
        for path, member in zip(self.member_paths[1:], self.members[1:], strict=True):
            if not _equal(one, member.array(name)):
                raise FormatError(
                    f"{path}: {name!r} has no axis {self.where.axis!r} and differs from that in "
                    f"{self.member_paths[0]}: the files are on different grids"
                )


def _equal(one: Store, other: Store) -> bool:
    """Whether two arrays have the same elements, compared in pieces."""
    if one.schema.shape != other.schema.shape or one.schema.dtype != other.schema.dtype:
        return False
    if not one.schema.shape:
        return bool(read_values(one).tobytes() == read_values(other).tobytes())
    length = one.schema.shape[0]
    step = max(_PIECE_BYTES * length // max(one.layout.nbytes, 1), 1)
    return all(
        np.array_equal(
            read_values(one, slice(start, min(start + step, length))).view(np.uint8),
            read_values(other, slice(start, min(start + step, length))).view(np.uint8),
        )
        for start in range(0, length, step)
    )
