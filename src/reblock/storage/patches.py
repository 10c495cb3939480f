"""Patch: the format of a part of an existing array, which is made like a new array and then moved into that one."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from typing import NoReturn

from reblock.errors import TargetExistsError, UsageError
from reblock.geometry.grid import Cut
from reblock.model.change import Change, Mover, Patchable
from reblock.model.layout import Layout
from reblock.model.medium import Medium
from reblock.model.schema import NO_RECORD, Schema
from reblock.model.store import Store
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import check_folder, new_folder

#: Objects that are moved before their new names are made durable.
_GROUP = 4096


@dataclass(frozen=True)
class Patch:
    """The format of the objects of a change."""

    base: Patchable
    """The array that is changed."""
    change: Change
    """The part of it that is written."""
    refusal: str = ""
    """Why the change is impossible, unless an earlier run has made it; "" = it is possible."""
    suffixes: tuple[str, ...] = ()
    """None: nobody names a patch."""
    checksum: str = ""
    """None of its own: the codec of the array is kept."""

    @property
    def name(self) -> str:
        return self.base.format

    def probe(self, path: str, *, medium: Medium = LOCAL) -> bool:  # noqa: ARG002 - never called
        return False

    def open(self, path: str, inner: str, allow: Sequence[str] = (), *, medium: Medium = LOCAL) -> Store:  # noqa: ARG002 - never called
        _not_needed()

    def adapt(self, schema: Schema, asked: Collection[str]) -> Schema:  # noqa: ARG002 - the array decides
        return schema

    def layout(self, schema: Schema) -> Layout:  # noqa: ARG002 - the array decides
        return self.base.part("", self.change).layout

    def foresee(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Patchable:  # noqa: ARG002 - the array decides
        """A file for each object."""
        return self.base.part(path, self.change)

    def create(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        store = self.foresee(path, inner, schema, medium=medium)
        try:
            new_folder(medium, path)
        except FileExistsError:
            raise TargetExistsError(f"{path} exists already") from None
        return store

    def reopen(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        store = self.foresee(path, inner, schema, medium=medium)
        check_folder(medium, path)
        return store

    # ---------------------------------------------------------------- the end
    def move_objects(self, path: str) -> None:
        """Move the finished objects of a patch into the array; may be repeated after it was interrupted."""
        medium = self.base.medium
        if not isinstance(medium, Mover):
            raise no_mover(self.base.location, medium)
        pairs, target = self._pairs(path), os.path.dirname(self.base.described_by[0])
        while some := list(islice(pairs, _GROUP)):
            medium.move(some, target)

    def _pairs(self, path: str) -> Iterator[tuple[str, str]]:
        """The file of each object in the patch, and in the array."""
        part, whole = self.base.part(path, self.change), self.base.grown(self.change.after)
        first = self.change.first(whole.object_grid)
        for index in part.object_grid.indices():
            there = tuple(a + b for a, b in zip(index, first, strict=True))
            yield part.object_path(index), whole.object_path(there)


def part_schema(schema: Schema, change: Change) -> Schema:
    """The schema of the blocks of a change, whose lengths may be irregular along an axis."""
    chunks: list[Cut] = []
    for cut, start, stop in zip(schema.chunks, change.box.start, change.box.stop, strict=True):
        if isinstance(cut, int):
            chunks.append(cut)
        else:
            ends = accumulate(cut)
            chunks.append(tuple(length for length, end in zip(cut, ends, strict=True) if start < end <= stop) or 1)
    return replace(schema, shape=change.box.shape, chunks=tuple(chunks), record=NO_RECORD)


def no_mover(location: str, medium: Medium) -> UsageError:
    """An error for an array on a medium whose objects cannot be renamed."""
    return UsageError(
        f"{location}: {medium.name} cannot rename chunks, so that no part of an array can be replaced there safely: "
        "write a new array"
    )


def _not_needed() -> NoReturn:
    raise UsageError("a patch is never opened by itself")
