"""Open many arrays as one: each with its coordinate, checked to fit the others, and brought into order."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from reblock.errors import ReblockError, StorageError, UsageError
from reblock.geometry.notation import parse_axis
from reblock.model.dataset import TreeFormat
from reblock.model.schema import NO_RECORD, Schema
from reblock.model.store import Format, Scattered, Store, is_single_file
from reblock.storage import registry
from reblock.storage.joined.fitting import JoinedMember, check_member, in_order, lost_attributes
from reblock.storage.joined.pattern import STACK, JoinedLocation
from reblock.storage.joined.reading import read_values
from reblock.storage.joined.roots import JoinedRoots
from reblock.storage.joined.store import JoinedStore, ScatteredJoinedStore
from reblock.storage.location import Location
from reblock.storage.media.registry import medium_of
from reblock.storage.space import stacked_in_space

#: The largest coordinate that is read to bring files into order, in bytes.
_MAX_COORDINATE_BYTES = 1 << 28
_FEW_NAMES = 5


def open_joined(where: JoinedLocation, format: str | None = None, allow: Sequence[str] = ()) -> JoinedStore:
    """All arrays of a location as one."""
    first, *others = where.paths()
    members = [find_member(first, where, format, allow)]
    kind = _single_format(members[0].store.format) if format is None else None
    for path in others:
        likely = kind.name if kind is not None and _has_format(path, first, kind) else format
        members.append(find_member(path, where, likely, allow))
    return join(where, members, allow)


def _single_format(name: str) -> Format | None:
    """The format of a name if its files hold one array; those with many resemble each other, whatever their format."""
    try:
        kind = registry.get(name)
    except UsageError:
        return None
    return kind if is_single_file(kind) and not isinstance(kind, TreeFormat) else None


def _has_format(path: str, first: str, kind: Format) -> bool:
    """Whether a file with the same ending as the first has its format, too: trying all formats takes longer."""
    if os.path.splitext(path)[1] != os.path.splitext(first)[1]:
        return False
    try:
        return kind.probe(path, **registry.elsewhere(medium_of(path)))
    except StorageError:
        return False


def axis_of(where: JoinedLocation, schema: Schema) -> int:
    """The axis along which arrays are joined."""
    if where.how == STACK:
        if schema.axes is not None and where.axis in schema.axes:
            raise UsageError(f"the arrays already have an axis {where.axis!r}: use concat, or another name")
        return 0
    return parse_axis(where.axis, schema.ndim, schema.axes)


def join(where: JoinedLocation, members: Sequence[JoinedMember], allow: Sequence[str]) -> JoinedStore:
    """One array; FormatError if members do not fit together, with the file named."""
    axis, stacked = axis_of(where, members[0].store.schema), where.how == STACK
    first = members[0]
    notes: dict[str, None] = {}
    for member in members[1:]:
        check_member(member, first, -1 if stacked else axis)
        notes |= dict.fromkeys(lost_attributes(member, first))
    ordered = members if stacked else in_order(members, where.axis)
    stores = tuple(member.store for member in ordered)
    paths = tuple(member.path for member in ordered)
    roots = [member.store.roots for member in ordered]
    known = {path: one for path, one in zip(paths, roots, strict=True) if one is not None}
    draft = JoinedStore(
        str(where),
        stores,
        axis,
        stacked,
        _schema(stores, axis, where.axis if stacked else None),
        paths,
        JoinedRoots(known, tuple(allow)) if len(known) == len(paths) else None,
    )
    chunks = tuple(_cut(one) for one in draft.layout.units.axes)
    found = replace(draft.schema, chunks=chunks, notes=(*draft.schema.notes, *_summed(notes)))
    # Shards that are cut have no row of files.
    scattered = all(isinstance(store, Scattered) for store in stores) and not draft.by_unit
    kind = ScatteredJoinedStore if scattered else JoinedStore
    return kind(draft.location, stores, axis, stacked, found, paths, draft.roots)


def _cut(axis: Any) -> Any:
    return axis.step or (tuple(axis.lengths()) if axis.count else 1)


def _schema(stores: Sequence[Store], axis: int, name: str | None) -> Schema:
    first = stores[0].schema
    if name is not None:
        names = first.axes or tuple(f"dim_{number}" for number in range(1, first.ndim + 1))
        shape = (len(stores), *first.shape)
        order = (0, *(one + 1 for one in first.order))
        attributes, lost = stacked_in_space(first.attributes, first.ndim)
        return replace(
            first,
            attributes=attributes,
            notes=(*first.notes, *lost),
            shape=shape,
            chunks=(1, *first.chunks),
            axes=(name, *names),
            order=order,
            record=NO_RECORD,
            shards=None,
            unlimited=(False, *first.unlimited) if first.unlimited else (),
        )
    length = sum(store.schema.shape[axis] for store in stores)
    shape = (*first.shape[:axis], length, *first.shape[axis + 1 :])
    return replace(first, shape=shape, record=NO_RECORD, shards=None)


def _summed(names: Mapping[str, None]) -> list[str]:
    if not names:
        return []
    some = ", ".join(list(names)[:_FEW_NAMES]) + (", …" if len(names) > _FEW_NAMES else "")
    return [f"attributes {some} differ between the arrays that are joined: those of the first are kept"]


# ---------------------------------------------------------------- coordinates
def find_member(path: str, where: JoinedLocation, format: str | None, allow: Sequence[str]) -> JoinedMember:
    """An array with its coordinate along the axis, if there is one."""
    store = registry.open(str(Location(path, where.inner)), format, allow)
    found = JoinedMember(path, store)
    if where.how == STACK or store.schema.axes is None:
        return found
    name = store.schema.axes[axis_of(where, store.schema)]
    bare: JoinedMember | None = None
    for one in (name, *_auxiliary(store)):
        coordinate = _beside(path, store, one, format, allow)
        if coordinate is None or not _is_along(coordinate, name, store):
            continue
        known = coordinate_of(found, coordinate, one)
        if coordinate is not store:
            coordinate.abort()
        if known.units is not None:
            return known
        bare = bare or (known if one == name else None)
    return bare or found


def coordinate_of(member: JoinedMember, coordinate: Store, name: str) -> JoinedMember:
    """A member with the values of a coordinate; without them if these are not numbers, or too many."""
    if coordinate.layout.dtype.kind not in "iuf" or coordinate.layout.nbytes > _MAX_COORDINATE_BYTES:
        return member
    units = coordinate.schema.attributes.get("units")
    return member._replace(coordinate=read_values(coordinate), named=name, units=units)


def _auxiliary(store: Store) -> list[str]:
    """Names of other coordinates, as CF lists them."""
    text = store.schema.attributes.get("coordinates")
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    own = Location.parse(store.location).inner.rpartition("/")[2]
    return [*(text.split() if isinstance(text, str) else ()), own]


def _is_along(coordinate: Store, name: str, store: Store) -> bool:
    """Whether an array has a number for each position along an axis of another."""
    schema = coordinate.schema
    length = store.schema.shape[(store.schema.axes or ()).index(name)]
    return schema.shape == (length,) and schema.axes in ((name,), None)


def _beside(path: str, store: Store, name: str, format: str | None, allow: Sequence[str]) -> Store | None:
    """The array of a name beside another, or above it; None if there is none."""
    inner = Location.parse(store.location).inner
    folder = inner.rpartition("/")[0]
    while inner:
        here = f"{folder}/{name}".lstrip("/")
        if here == inner:
            return store
        try:
            return registry.open(str(Location(path, here)), format, allow)
        except ReblockError:
            if not folder:
                break
        folder = folder.rpartition("/")[0]
    return None
