"""Patch: the format of a part of an existing array, which is written like a new array and then moved into place."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from typing import Any

from reblock.errors import TargetExistsError, UsageError
from reblock.geometry.grid import Cut
from reblock.model.change import Change, Mover, Patchable
from reblock.model.layout import Layout
from reblock.model.medium import Medium
from reblock.model.schema import NO_RECORD, Schema
from reblock.model.store import Format, Store
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import check_folder, new_folder

#: Objects that are moved before their new names are made durable.
_GROUP = 4096


class _Unnamed:
    """A format that only a change of an array uses: nothing is opened by it or adapted to it."""

    def probe(self, path: str, *, medium: Medium = LOCAL) -> bool:  # noqa: ARG002 - never called
        """No: nothing on storage is a patch."""
        return False

    def open(self, path: str, inner: str, allow: Sequence[str] = (), *, medium: Medium = LOCAL) -> Store:  # noqa: ARG002 - never called
        """Never called."""
        raise UsageError("a patch is never opened by itself")

    def adapt(self, schema: Schema, asked: Collection[str]) -> Schema:  # noqa: ARG002 - the array decides
        """The schema as it is: the existing array decides it."""
        return schema


@dataclass(frozen=True)
class Patch(_Unnamed):
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
            raise TargetExistsError(f"{path} already exists") from None
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


@dataclass(frozen=True)
class PatchTree(_Unnamed):
    """The format of the patches of several arrays of a group, each in a folder of its own."""

    patches: Mapping[str, Patch]
    """The patch of each array, by its name in the group."""
    suffixes: tuple[str, ...] = ()
    """None: nobody names a patch."""
    checksum: str = ""
    """None of its own: the codecs of the arrays are kept."""

    @property
    def name(self) -> str:
        return next(iter(self.patches.values())).name

    def layout(self, schema: Schema) -> Layout:
        # Arrays with the same of these have the same layout.
        wanted = _layout_key(schema, schema.shape)
        for patch in self.patches.values():
            if _layout_key(patch.base.schema, patch.change.box.shape) == wanted:
                return patch.layout(schema)
        raise UsageError(f"none of the changed arrays has the shape {list(schema.shape)}")

    def foresee(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Patchable:
        """A file for each object."""
        return self.patches[inner].foresee(os.path.join(path, inner), "", schema, medium=medium)

    def create(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        folder = path
        for part in ("", *inner.split("/")[:-1]):
            folder = os.path.join(folder, part) if part else folder
            with suppress(FileExistsError):
                medium.make_folder(folder)
        return self.patches[inner].create(os.path.join(path, inner), "", schema, medium=medium)

    def reopen(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        return self.patches[inner].reopen(os.path.join(path, inner), "", schema, medium=medium)


def patches_of(format: Format) -> Mapping[str, Patch]:
    """The patches that a format makes, by the names of their arrays; empty for any other format."""
    if isinstance(format, Patch):
        return {"": format}
    return format.patches if isinstance(format, PatchTree) else {}


def _layout_key(schema: Schema, shape: Sequence[int]) -> tuple[Any, ...]:
    return tuple(shape), schema.dtype, schema.chunks, schema.shards, schema.order, schema.codec


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
        f"{location}: {medium.name} cannot rename chunks, so no part of an array can be replaced there safely: "
        "write a new array"
    )
