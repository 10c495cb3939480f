"""Append a dataset to a group: source and target of a job on all arrays that have the axis.

::

    source     t2m(time, lat)  time(time)  lat(lat)
    target     t2m(time, lat)  time(time)  lat(lat)      lat has no time: it must be the same, and stays
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from reblock.api.changing import find_base
from reblock.api.dataset import Dataset
from reblock.api.dataset_ends import DatasetEnds, chosen_tree, find_dataset_ends, narrowing
from reblock.api.dataset_types import listed, types_of
from reblock.api.ends import Ends, Request, check_decided, check_stored, patch_ends
from reblock.errors import FormatError, UsageError, option
from reblock.model import Tree, TreeStore
from reblock.runs.source import look
from reblock.storage import registry
from reblock.storage.joined.trees import ordered
from reblock.storage.location import Location
from reblock.storage.media.registry import medium_of
from reblock.storage.media.small import exists
from reblock.storage.patches import Patch, PatchTree
from reblock.units import format_size

#: Arrays without the axis are compared up to this size.
_COMPARED_BYTES = 64 << 20


def dataset_ends(request: Request, source: TreeStore) -> DatasetEnds:
    """Source and target of a job that makes a dataset or appends to one; nothing is written."""
    return find_dataset_ends(request, source) if request.append_along is None else _appended(request, source)


def _appended(request: Request, source: TreeStore) -> DatasetEnds:
    check_stored(request)
    check_decided(request)
    axis = str(request.append_along)
    one_array = [name for name in ("into_region", "chunks", "disks") if getattr(request, name)]
    if one_array:
        raise UsageError(f"{option(one_array[0])} does not go with {option('append_along')} of a dataset")
    files = look(source.described_by)
    path, tree = _target(request)
    chosen = chosen_tree(source.tree, request, source.location)
    names = [name for name, schema in chosen.arrays.items() if axis in (schema.axes or ())]
    _check_names(source, chosen, path, tree.tree, names, axis)
    narrow = narrowing({"region": request.region, "transpose": request.transpose}, chosen)
    views = {name: narrow(schema.axes) for name, schema in chosen.arrays.items()}
    notes = _compare_others(source, views, tree, [name for name in chosen.arrays if name not in names])
    if request.region is None:
        notes += _compare_places(source, tree, names, axis)
    along = replace(chosen, arrays={name: chosen.arrays[name] for name in names})
    types, kept = types_of(request.dtype, along, source.location)
    requests, parts = {}, dict[str, Ends]()
    for name in names:
        requests[name] = replace(request, dtype=types.get(name), **views[name])
        where = Location(path, name)
        _, base = find_base(os.path.join(path, name), tree.format)
        store = source.array(name)
        try:
            parts[name] = patch_ends(requests[name], store, look(store.described_by), where, base, (path, name))
        except UsageError as error:
            raise UsageError(f"{name}: {error.message}") from error
    patches = {name: one.format for name, one in parts.items() if isinstance(one.format, Patch)}
    made = Tree({}, {name: one.schema for name, one in parts.items()}, {}, (*notes, *kept))
    return DatasetEnds(source, parts, requests, made, (), Location(path), PatchTree(patches), files)


def _target(request: Request) -> tuple[str, TreeStore]:
    """The folder of the group that is changed, and the group."""
    if request.target is None:
        raise UsageError(f"{option('append_along')} needs a dataset to change")
    where = registry.locate(request.target)
    if not exists(medium_of(where.path), where.path):
        raise UsageError(f"{where} does not exist: leave out {option('append_along')} to make it")
    tree = registry.open_tree(request.target, request.to_format)
    if not tree.format.startswith("zarr"):
        raise UsageError(
            f"{where}: a dataset of {tree.format} cannot be changed in place, zarr groups can; {option('concat')} "
            "writes old and new elements into a new dataset"
        )
    return os.path.join(where.path, where.inner) if where.inner else where.path, tree


def _check_names(source: TreeStore, chosen: Tree, path: str, there: Tree, names: Sequence[str], axis: str) -> None:
    """Raise UsageError if the two sides do not have the same arrays along the axis."""
    if not names:
        known = sorted({one for schema in chosen.arrays.values() for one in schema.axes or ()})
        raise UsageError(f"no array of {source.location} has the axis {axis!r}: there are {listed(known)}")
    theirs = [name for name, schema in there.arrays.items() if axis in (schema.axes or ())]
    if missing := [name for name in names if name not in theirs]:
        raise UsageError(
            f"{path} has no {listed(missing)} with the axis {axis}: {option('exclude')} leaves such arrays out"
        )
    if missing := [name for name in theirs if name not in names]:
        raise UsageError(f"{source.location} has no {listed(missing)}, which {path} has along {axis}")
    tables = [name for one in (chosen, there) for name, table in one.tables.items() if axis in (table.axes or ())]
    if tables:
        raise UsageError(f"{listed(tables)} cannot be cut into chunks, so nothing can be appended to it along {axis}")


def _compare_places(source: TreeStore, target: TreeStore, names: Sequence[str], axis: str) -> list[str]:
    """A note if the coordinate along the axis says that the elements do not follow those that are there."""
    paths = target.location, source.location
    try:
        follows = ordered(paths, (target, source), names, axis) == [0, 1]
    except FormatError as error:
        return [error.message]
    return [] if follows else [f"{paths[1]}: by {axis}, it comes before {paths[0]}"]


def _compare_others(
    source: TreeStore, views: Mapping[str, Mapping[str, Any]], target: TreeStore, names: Sequence[str]
) -> list[str]:
    """Notes on arrays without the axis; UsageError if one of them differs, because the grids do not match."""
    notes, same = [], []
    for name in names:
        size = source.array(name).layout.nbytes
        if name not in target.tree.arrays:
            notes.append(f"{name} is left out: the target does not have it")
        elif size > _COMPARED_BYTES:
            notes.append(f"{name} stays as it is: with {format_size(size)}, it is too large to be compared")
        else:
            ours, theirs = Dataset(source)[name], Dataset(target)[name]
            # Loaded here, because few runs need it.
            verdict = import_module("reblock.api.compare").verify(ours, theirs, **views[name])
            if not verdict:
                raise UsageError(
                    f"{name} of {source.location} differs from that of {target.location}: "
                    f"{option('exclude')} leaves it out"
                )
            same.append(name)
    return [*notes, *([f"{listed(same)}: the same in both"] if same else [])]
