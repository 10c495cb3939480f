"""Changing: turn `append_along` and `into_region` into a patch of an existing array, or refuse them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.engine import View
from reblock.errors import UsageError, option
from reblock.geometry import Axis, Box
from reblock.geometry.grid import chunk_text
from reblock.geometry.notation import Chunks, Ranges, parse_axis, parse_chunks, parse_region
from reblock.model import NO_RECORD, Schema
from reblock.model.change import Change, Mover, Patchable
from reblock.runs.inside import place_inside
from reblock.runs.installing import changes_of
from reblock.runs.staging import Staging
from reblock.storage import registry
from reblock.storage.conventions import FILL_VALUE, fill_attribute
from reblock.storage.location import Location, Where
from reblock.storage.media.registry import medium_of
from reblock.storage.media.small import exists
from reblock.storage.patches import Patch, no_mover

#: Attributes of packed elements.
_PACKING = ("scale_factor", "add_offset")
#: Attributes that give elements their meaning, in the conventions of CF.
_MEANING = (*_PACKING, "units", "calendar", "_FillValue", "missing_value")
#: Options of a new array, which an existing array already decides.
DECIDED = ("shards", "chunk_order", "access", "codec", "checksum", "fill_value", "placement")


def find_base(target: Where | None, to_format: str | None) -> tuple[Location, Patchable]:
    """The array that is changed, as a target of its own; UsageError if it cannot be changed."""
    if target is None:
        raise UsageError(f"{option('append_along')} and {option('into_region')} need an array to change")
    where = registry.locate(target)
    if not exists(medium_of(where.path), where.path):
        raise UsageError(
            f"{where} does not exist: {option('append_along')} and {option('into_region')} change an existing array, "
            "leave them out to make a new one"
        )
    found = registry.open(target, to_format)
    # An array in a group is a target of its own.
    inside = Location.parse(found.location)
    where, _ = place_inside(inside, registry.get(found.format)) if inside.inner else (inside, None)
    store = found if where == inside else registry.open(str(where), found.format)
    if not isinstance(store, Patchable) or where.inner:
        raise UsageError(
            f"{found.location}: an array of {found.format} cannot be changed in place, zarr arrays and block folders "
            f"can; {option('concat')} writes old and new elements into a new array"
        )
    if not isinstance(store.medium, Mover):
        raise no_mover(store.location, store.medium)
    store.check_patchable()
    return where, store


def find_patch(
    base: Patchable,
    view: View,
    append_along: str | int | None,
    into_region: Ranges | None,
    chunks: Chunks | None,
    place: tuple[str, str] = ("", ""),
) -> tuple[Patch, Schema]:
    """The patch made from a source, and its schema; `place` is the group that is changed and a name in it."""
    if append_along is not None and into_region is not None:
        raise UsageError(
            f"{option('append_along')} and {option('into_region')} do not go together: leave one of them out"
        )
    schema = base.schema
    if chunks is not None and parse_chunks(chunks, schema.shape, schema.chunks, schema.axes) != schema.chunks:
        raise UsageError(
            f"{option('chunks')}: {base.location} has chunks of {chunk_text(schema.chunks)}, which stay: leave it out"
        )
    _check_axes(base, view)
    _check_meaning(base, view)
    refusal = ""
    if append_along is not None:
        change, notes, refusal = _append(base, view, append_along, place)
    else:
        change, notes = _replace(base, view, into_region)
    if schema.record.digest is not None:
        notes.append(f"the digest stored with {base.location} is removed: it belongs to the old elements")
    made = replace(schema, shape=change.box.shape, attributes={}, record=NO_RECORD, notes=tuple(notes))
    return Patch(base, change, refusal), made


def check_type(base: Patchable, dtype: npt.DTypeLike) -> None:
    """Raise UsageError if the source has elements of another type."""
    ours, theirs = (np.dtype(one).newbyteorder("=") for one in (dtype, base.schema.dtype))
    if ours != theirs:
        raise UsageError(
            f"the source has elements of {ours}, {base.location} of {theirs}: "
            f"{option('dtype', theirs.str.lstrip('<>=|'))} converts them"
        )


def _check_axes(base: Patchable, view: View) -> None:
    ours, theirs = view.layout.ndim, base.layout.ndim
    if ours != theirs:
        raise UsageError(f"the source has {_axes(ours)}, {base.location} has {_axes(theirs)}")
    given, there = view.store.schema.axes, base.schema.axes
    names = None if given is None else tuple(given[axis] for axis in view.axes)
    if names and there and names != there and sorted(names) == sorted(there):
        raise UsageError(
            f"the axes of the source are {', '.join(names)}, those of {base.location} are {', '.join(there)}: "
            f"{option('transpose', ','.join(there))} brings them into that order"
        )


def _check_meaning(base: Patchable, view: View) -> None:
    """Raise UsageError if the same elements would mean different values in the target: nothing is converted."""
    ours, theirs = (_plain_fill(schema) for schema in (view.store.schema, base.schema))
    for name in _MEANING:
        one, two = (_shown(side.get(name)) for side in (ours, theirs))
        if one != two and (name in _PACKING or "none" not in (one, two)) and ours and theirs:
            raise UsageError(
                f"the attribute {name} of the source is {one}, that of {base.location} is {two}: the elements would "
                "mean different values there; convert the source first"
            )


def _plain_fill(schema: Schema) -> dict[str, Any]:
    """Attributes with `_FillValue` as a number: some formats have it as text."""
    found = dict(schema.attributes)
    fill = fill_attribute(found[FILL_VALUE], schema.dtype) if FILL_VALUE in found else None
    return found if fill is None else {**found, FILL_VALUE: fill}


def _shown(value: Any) -> str:
    """The value of an attribute; a list of one equals its item, and NaN equals NaN."""
    items = [] if value is None else np.asarray(value).ravel().tolist()
    texts = (one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in items)
    return ", ".join(map(repr, texts)) or "none"


def _append(base: Patchable, view: View, along: str | int, place: tuple[str, str]) -> tuple[Change, list[str], str]:
    """The change that appends the source along an axis, notes, and why only a repeated append can be accepted."""
    schema, before, added = base.schema, base.layout.shape, view.layout.shape
    if not before:
        raise UsageError(f"{option('append_along')}: {base.location} has no axes; {option('into_region')} replaces it")
    axis = parse_axis(along, len(before), schema.axes)
    for other, (ours, theirs) in enumerate(zip(added, before, strict=True)):
        if other != axis and ours != theirs:
            raise UsageError(
                f"the source has length {ours:,} along {_named(schema, other)}, {base.location} has {theirs:,}: "
                f"only {_named(schema, axis)} may differ"
            )
    length, kind = (schema.shards or schema.chunks)[axis], _kind(base)
    if not isinstance(length, int):
        raise UsageError(f"{base.location} has {kind}s of different lengths along {_named(schema, axis)}: {_way_out()}")
    refusal, begun = "", _begun(base, axis, added[axis], *place)
    if begun is not None:
        before = begun.before
    elif before[axis] % length:
        low = before[axis] // length * length
        refusal = (
            f"{base.location} has length {before[axis]:,} along {_named(schema, axis)}, inside a {kind} of {length:,}: "
            f"an append may begin at {low:,} or {low + length:,}; {_way_out()}"
        )
        # Once the source is known, the record tells whether this very append gave the array its length.
        before = tuple(n - (added[axis] if d == axis else 0) for d, n in enumerate(before))
        if schema.record.job is None or before[axis] < 0 or before[axis] % length:
            raise UsageError(refusal)
    after = tuple(n + (added[axis] if d == axis else 0) for d, n in enumerate(before))
    start = tuple(n if d == axis else 0 for d, n in enumerate(before))
    grows = f"appended along {_named(schema, axis)}, whose length becomes {after[axis]:,} instead of {before[axis]:,}"
    notes = [grows]
    if after[axis] % length:
        notes.append(f"the last {kind} will be partly empty, so nothing more can be appended after this")
    return Change(Box(start, after), before, after, axis), notes, refusal


def _begun(base: Patchable, axis: int, added: int, group: str, name: str) -> Change | None:
    """The append of an unfinished run, which may be this one: its last steps may have changed the array's length."""
    staging = Staging(group or Location.parse(base.location).path)
    with staging.looking() as journal:
        found = {} if journal is None or staging.is_published(journal) else changes_of(journal)
    change = found[name][0] if name in found else None
    if change is None or change.along != axis or len(change.after) != base.layout.ndim:
        return None
    return change if change.after[axis] - change.before[axis] == added else None


def _replace(base: Patchable, view: View, region: Ranges | None) -> tuple[Change, list[str]]:
    """The change that replaces a region."""
    shape, schema = base.layout.shape, base.schema
    box = parse_region(region, shape, schema.axes)
    if view.layout.shape != box.shape:
        raise UsageError(
            f"the source has shape {_text(view.layout.shape)}, the region {_ranges(box)} of {base.location} has "
            f"{_text(box.shape)}"
        )
    inner, outer = [], []
    for axis, start, stop in zip(base.object_grid.axes, box.start, box.stop, strict=True):
        (low, up), (down, high) = (_around(axis, position) for position in (start, stop))
        inner.append((up, max(down, up)))
        outer.append((low, high))
    if box.size and outer != list(zip(box.start, box.stop, strict=True)):
        nearest = [_pairs(outer)] + ([_pairs(inner)] if all(a < b for a, b in inner) else [])
        lengths = chunk_text(schema.shards or schema.chunks)
        raise UsageError(
            f"the region {_ranges(box)} cuts through {_kind(base)}s of {base.location}, which are {lengths}: "
            f"the nearest regions of whole ones are {' and '.join(nearest)}"
        )
    return Change(box, shape, shape), [f"replaces the region {_ranges(box)}; everything else stays"]


def _around(axis: Axis, position: int) -> tuple[int, int]:
    """The nearest ends of objects at or before a position, and at or after it."""
    if position >= axis.length:
        return axis.length, axis.length
    low, high = axis.interval(axis.index(position))
    return low, low if low == position else high


def _kind(base: Patchable) -> str:
    return "shard" if base.schema.shards else "chunk" if base.format.startswith("zarr") else "block"


def _named(schema: Schema, axis: int) -> str:
    return f"axis {axis} ({schema.axes[axis]})" if schema.axes else f"axis {axis}"


def _axes(count: int) -> str:
    return f"{count} axis" if count == 1 else f"{count} axes"


def _text(shape: Sequence[int]) -> str:
    return ",".join(map(str, shape)) or "()"


def _ranges(box: Box) -> str:
    return _pairs(list(zip(box.start, box.stop, strict=True)))


def _pairs(pairs: Sequence[tuple[int, int]]) -> str:
    return ",".join(f"{start}:{stop}" for start, stop in pairs) or "()"


def _way_out() -> str:
    return f"{option('concat')} writes old and new elements into a new array"
