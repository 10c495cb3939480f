"""Ends of a job on a dataset: its arrays as they will be read, and the tree that they become.

An option that names axes applies to each array that has one of them: `--chunks time=-1,lat=32` gives chunks to arrays
with a time or a latitude, and leaves the others as they are. `--transpose lat,lon,time` brings these axes into this
order wherever an array has several of them; other axes keep their places.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reblock.api.array import REPLICAS
from reblock.api.dataset import Dataset
from reblock.api.dataset_types import fills_of, listed, matches, types_of
from reblock.api.ends import Ends, Request, check_stored, ends_of, find_target
from reblock.errors import FormatError, UsageError, option, options
from reblock.geometry.notation import AUTO, Order, Ranges, items_by_name, order_by_name, parse_region, reorder
from reblock.model import Dimension, Format, GroupSchema, TableSchema, Tree, TreeFormat, TreeStore
from reblock.runs.source import Files, look
from reblock.runs.work import TableWork
from reblock.storage import registry
from reblock.storage.joined.trees import joins_datasets
from reblock.storage.location import Location, Where
from reblock.storage.media.postgres_url import is_database

#: Options that need one array, and what they are for.
_ONE_ARRAY = (
    *("chunk_order", "access", "disks"),
    "into_region",
)
#: Options that may name axes, and the notation of their items.
_BY_AXIS = {"chunks": "CHUNK", "shards": "SHARD", "region": "START:STOP"}
#: Options that an array takes by its axes.
_NARROWED = (*_BY_AXIS, "transpose")


@dataclass(frozen=True)
class DatasetEnds:
    """Source and target of a job on a dataset."""

    source: TreeStore
    """The source."""
    parts: Mapping[str, Ends]
    """Source and target of each array."""
    requests: Mapping[str, Request]
    """What is asked of each array."""
    tree: Tree
    """What the target will be."""
    tables: tuple[TableWork, ...]
    """Tables that are copied."""
    location: Location | None
    """Where the target goes; None where that is not said."""
    format: Format
    """The target's format."""
    files: Files
    """Status of the files that describe groups and tables, taken when they were opened."""


@dataclass(frozen=True)
class DatasetRequest:
    """Which arrays of a dataset are taken, and which part of them."""

    include: str | Sequence[str] = ()
    """Patterns of names that are taken; none = all."""
    exclude: str | Sequence[str] = ()
    """Patterns of names that are left out."""
    region: Ranges | None = None
    """The part of each array, by names of axes."""
    transpose: Order | None = None
    """The order of the axes of each array, by name."""
    dtype: Any = None
    """The types that arrays of the first dataset are converted to, for all or by name."""
    append_along: str | None = None
    """The axis along which the first dataset was appended to the second."""
    strict: bool = True
    """Whether a pattern that matches no name is an error."""


def find_tree(
    source: Any, format: str | None, allow_external: Sequence[Where], *, require: bool = False
) -> TreeStore | None:
    """The dataset that a source is, or None; an error instead if one is required."""
    if isinstance(source, TreeStore):
        return source
    if isinstance(source, Dataset):
        where = Location.parse(source.store.location)
        inner = "/".join(filter(None, (where.inner, source.group)))
        if not source.group:
            return source.store
        source, format = str(Location(where.path, inner)), source.store.format
    is_path = isinstance(source, str | os.PathLike) and not is_database(os.fspath(source))
    if not is_path or str(source).startswith(REPLICAS):
        if require:
            raise UsageError(
                f"{options('include', 'exclude')} and values by name are for datasets, and the source is one array"
            )
        return None
    try:
        return registry.open_tree(source, format, tuple(os.fspath(folder) for folder in allow_external))
    except (FormatError, UsageError):
        if require or (registry.is_joined(source) and joins_datasets(str(source), format)):
            raise
        return None


def find_dataset_ends(request: Request, source: TreeStore) -> DatasetEnds:
    """Choose arrays of a dataset and describe the target; nothing is written."""
    check_stored(request)
    if given := [option(name) for name in _ONE_ARRAY if getattr(request, name) not in (None, (), [])]:
        raise UsageError(
            f"{given[0]} is for one array, and {source.location} is a dataset of {len(source.tree.arrays)}: "
            f"name one of its arrays after '::', such as {next(iter(source.tree.arrays), 'NAME')}"
        )
    files = look(source.described_by)
    location, kind = find_target(request, source.format)
    if not isinstance(kind, TreeFormat):
        raise UsageError(
            f"{location or kind.name}: {kind.name} holds one array, and {source.location} is a dataset of "
            f"{len(source.tree.arrays)}: choose one of {', '.join(tree_formats())}, or name one array after '::'"
        )
    chosen = chosen_tree(source.tree, request, source.location)
    inner = "" if location is None else location.inner
    requests, parts, unsupported = {}, {}, dict[str, TableSchema]()
    named = any(schema.axes for schema in chosen.arrays.values())
    by_axis = narrowing({name: getattr(request, name) for name in _NARROWED}, chosen)

    types, kept = types_of(request.dtype, chosen, source.location)
    fills = fills_of(request.fill_value, chosen, source.location)

    def narrow(axes: Sequence[str] | None) -> Request:
        return replace(request, **by_axis(axes))

    for name, schema in chosen.arrays.items():
        requests[name] = replace(narrow(schema.axes), dtype=types.get(name), fill_value=fills.get(name))
        if schema.shape == () and request.codec is not None:
            # A single element is not worth a codec, and HDF5 has none for it.
            requests[name] = replace(requests[name], codec="none")
        where = None if location is None else Location(location.path, f"{inner}/{name}")
        found = _ends(requests[name], source, name, where, kind)
        if isinstance(found, Ends):
            parts[name] = _with_axes(found) if named else found
        else:
            unsupported[name] = TableSchema(schema.shape, schema.dtype, "array", why=found)
    whole = Tree(
        _cropped_groups(chosen, request),
        {name: ends.schema for name, ends in parts.items()},
        {name: _cropped_table(table, narrow(table.axes)) for name, table in chosen.tables.items()},
        chosen.notes,
    )
    lost = {name: table.why for name, table in chosen.tables.items() if table.why}
    tree, skipped = _supported(kind.adapt_tree(whole, ()), unsupported, lost, request, kind)
    parts = {
        name: replace(parts[name], schema=schema, target=kind.layout(schema)) for name, schema in tree.arrays.items()
    }
    if not parts and not tree.tables:
        raise UsageError(f"{source.location}: nothing is left to write")
    for name in tree.tables:
        check_table(name, by_axis(chosen.tables[name].axes)["transpose"])
    tables = tuple(
        TableWork(name, _table_ranges(chosen.tables[name], narrow(chosen.tables[name].axes))) for name in tree.tables
    )
    tree = replace(tree, notes=(*tree.notes, *kept, *skipped))
    return DatasetEnds(source, parts, requests, tree, tables, location, kind, files)


def tree_formats() -> list[str]:
    """Names of the formats that hold datasets."""
    found = []
    for name in registry.file_formats():
        try:
            if isinstance(registry.get(name), TreeFormat):
                found.append(name)
        except UsageError:
            continue  # its library is missing
    return found


def _ends(request: Request, source: TreeStore, name: str, where: Location | None, kind: Format) -> Ends | str:
    """Source and target of one array, or why the target cannot hold it, whatever its chunks and codec."""
    store = source.array(name)
    try:
        return ends_of(request, store, look(store.described_by), where, kind)
    except UsageError as error:
        try:
            kind.adapt(store.schema, ())
        except UsageError as why:
            return why.message
        raise UsageError(f"{name}: {error.message}") from error


def _with_axes(ends: Ends) -> Ends:
    """An array without axes among others with names has all the names that it can have."""
    return replace(ends, schema=replace(ends.schema, axes=())) if ends.schema.shape == () else ends


def _supported(
    tree: Tree, unsupported: Mapping[str, TableSchema], unread: Mapping[str, str], request: Request, kind: Format
) -> tuple[Tree, list[str]]:
    """The tree without what cannot be read or held, and a note on each; UsageError if that is not to be left out."""
    held = {name: table.why for name, table in (*tree.tables.items(), *unsupported.items()) if table.why}
    lost = {**held, **unread}
    if lost and not request.skip_unsupported:
        whys: dict[str, list[str]] = {}
        for name, why in lost.items():
            whys.setdefault(why, []).append(name)
        words = "; ".join(f"{listed(names)} ({why})" for why, names in whys.items())
        cannot = "cannot copy" if unread else f"{kind.name} cannot hold"
        raise UsageError(
            f"{cannot} {words}: {option('skip_unsupported', True)} leaves "
            f"{'it' if len(lost) == 1 else 'them'} out, so does {option('exclude')}"
        )
    kept = {name: table for name, table in tree.tables.items() if not table.why}
    return replace(tree, tables=kept), [f"{name} is left out: {why}" for name, why in lost.items()]


# ---------------------------------------------------------------- which arrays
def chosen_tree(tree: Tree, request: Request | DatasetRequest, where: str) -> Tree:
    """The arrays and tables that are included and not excluded, with their groups."""
    include, exclude = _patterns(request.include), _patterns(request.exclude)
    if not include and not exclude:
        return tree
    names = [*tree.arrays, *tree.tables]
    strict = not isinstance(request, DatasetRequest) or request.strict
    for pattern in (*include, *exclude) if strict else ():
        if not any(matches(name, [pattern]) for name in names):
            raise UsageError(f"{pattern!r} matches none of the arrays of {where}: {listed(names)}")
    taken = {name for name in names if (not include or matches(name, include)) and not matches(name, exclude)}
    if not taken and strict:
        raise UsageError(f"{option('include')} and {option('exclude')} leave no array of {where}: {listed(names)}")
    above = {"/".join(name.split("/")[:count]) for name in taken for count in range(name.count("/") + 1)}
    return Tree(
        {name: group for name, group in tree.groups.items() if not include or name in above or not name},
        {name: schema for name, schema in tree.arrays.items() if name in taken},
        {name: table for name, table in tree.tables.items() if name in taken},
        tree.notes,
    )


def _patterns(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


# ---------------------------------------------------------------- options by the names of axes
def narrowing(given: Mapping[str, Any], tree: Tree) -> Callable[[Sequence[str] | None], dict[str, Any]]:
    """Returns what options by axis mean for an array with axes of some names.

    A transpose becomes a permutation of its axes, or None if they stay as they are.
    """
    items: dict[str, dict[Any, Any]] = {}
    axes = [one.axes for one in tree.arrays.values()] + [one.axes for one in tree.tables.values()]
    known = {axis for some in axes for axis in some or ()}
    for name, value in given.items():
        if value is None or name not in _BY_AXIS:
            continue
        found = items_by_name(value, _BY_AXIS[name])
        if found is None:
            _check_for_all(name, value, known)
            continue
        for axis in found:
            if axis not in known:
                names = f"the axes are {listed(sorted(known))}" if known else "its axes have no names"
                raise UsageError(f"{option(name)}: no array has the axis {axis!r}: {names}")
        items[name] = found
    order = () if given.get("transpose") is None else order_by_name(given["transpose"], known)

    def narrow(axes: Sequence[str] | None) -> dict[str, Any]:
        own = {
            name: {axis: item for axis, item in found.items() if axis in (axes or ())} or None
            for name, found in items.items()
        }
        moved = reorder(axes or (), order)
        return {**given, **own, "transpose": moved if moved != tuple(sorted(moved)) else None}

    return narrow


def _check_for_all(name: str, value: Any, known: Iterable[str]) -> None:
    """Raise UsageError if a value without names of axes does not mean the same for every array."""
    text = value.strip() if isinstance(value, str) else value
    one = isinstance(text, int) or (isinstance(text, str) and "," not in text and "+" not in text.lstrip("+"))
    if name == "region" or not (one or text in ([AUTO], (AUTO,))):
        example = ",".join(f"{axis}=…" for axis in sorted(known)[:2]) or "NAME=…"
        raise UsageError(f"{option(name)} {value!r}: the arrays of a dataset differ, so name axes: {example}")


def _cropped_groups(tree: Tree, request: Request) -> dict[str, GroupSchema]:
    """The groups with the lengths that axes have in the region."""
    region = {} if request.region is None else items_by_name(request.region, _BY_AXIS["region"]) or {}

    def cropped(name: str, one: Dimension) -> Dimension:
        if name not in region:
            return one
        return replace(one, length=parse_region({name: region[name]}, (one.length,), (name,)).shape[0])

    return {
        path: replace(group, dimensions={name: cropped(name, one) for name, one in group.dimensions.items()})
        for path, group in tree.groups.items()
    }


def check_table(name: str, transpose: Sequence[int] | None) -> None:
    """Raise UsageError if the axes of a table are to be reordered: its rows are copied one after the other."""
    if transpose is not None:
        raise UsageError(
            f"{name} cannot be transposed, because its elements are of any length or type: "
            f"{option('exclude')} leaves it out"
        )


def _table_ranges(table: TableSchema, request: Request) -> list[tuple[int, int]]:
    box = parse_region(request.region, table.shape, table.axes)
    return list(zip(box.start, box.stop, strict=True))


def _cropped_table(table: TableSchema, request: Request) -> TableSchema:
    return replace(table, shape=tuple(stop - start for start, stop in _table_ranges(table, request)))
