"""Make an HDF5 file with many datasets, all of them up front, so that each can be continued by itself.

::

    create_tree   groups, attributes, every dataset without elements, scales of shared axes; one checkpoint
    reopen        of each array in turn: raw ones by their extents, encoded ones through the checkpoint file
    commit_tree   the record of the whole

An axis that a group defines is a dimension scale: the array of that name if there is one, else a dataset without
elements that NetCDF's tools and xarray take as an axis without coordinates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import DiskError, StorageError, TargetExistsError
from reblock.model.dataset import GroupSchema, TableSchema, Tree
from reblock.model.schema import Record, Schema
from reblock.storage.hdf5.adapt import adapt_attributes, adapt_schema, can_grow
from reblock.storage.hdf5.create import create_dataset
from reblock.storage.hdf5.file import failures, library, parts_of
from reblock.storage.hdf5.metadata import write_attributes, write_record
from reblock.storage.hdf5.redo import CheckpointFile, open_checkpoint_file, raise_disk_errors, remove_redo
from reblock.storage.hdf5.tree_facts import NOT_A_VARIABLE
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import exists
from reblock.storage.trees import adapt_arrays, check_names, join, parent_of, parents, with_dimensions, with_parents


def adapt_tree(tree: Tree, asked: Collection[str]) -> Tree:
    """The nearest tree that an HDF5 file can hold."""
    check_names(tree, "hdf5")
    arrays, refused = adapt_arrays(tree, adapt_schema, asked)
    tables = {name: _adapt_table(table) for name, table in tree.tables.items()}
    notes = list(tree.notes)
    groups: dict[str, GroupSchema] = {}
    for name, group in with_parents(tree.groups, [*arrays, *tables, *refused]).items():
        mine: list[str] = []
        groups[name] = replace(group, attributes=adapt_attributes(group.attributes, mine))
        notes += [f"group /{name}: {note}" for note in mine]
    groups = with_dimensions(groups, {**arrays, **tables})
    adapted = Tree(groups, arrays, {**refused, **tables})
    fixed = sorted(
        name
        for name, schema in arrays.items()
        if any(_free(adapted, name, schema)) and not can_grow(schema.chunks, schema.dtype.itemsize)
    )
    notes += [f"{name} cannot grow along its unlimited axes: HDF5 would need chunks of at most 4 GiB" for name in fixed]
    return replace(adapted, notes=tuple(notes))


def _free(tree: Tree, name: str, schema: Schema | TableSchema) -> tuple[bool, ...]:
    """Per axis, whether it is unlimited."""
    if schema.axes is None and isinstance(schema, Schema):
        return schema.unlimited
    found = []
    for axis, length in zip(schema.axes or (), schema.shape, strict=False):
        places = (tree.groups[group].dimensions.get(axis) for group in reversed(list(parents(name))))
        place = next(filter(None, places), None)
        found.append(place is not None and place.unlimited and place.length == length)
    return tuple(found)


def _unlimited(tree: Tree, name: str) -> tuple[bool, ...]:
    schema = tree.arrays[name]
    free = _free(tree, name, schema)
    return free if any(free) and can_grow(schema.chunks, schema.dtype.itemsize) else ()


def _adapt_table(table: TableSchema) -> TableSchema:
    why = table.why
    if not why and table.kind not in ("text", "record", "enum"):
        why = f"HDF5 files of reblock hold no tables of {table.kind}"
    notes: list[str] = []
    chunks = None if not table.shape else table.chunks
    if chunks is not None:
        chunks = tuple(min(c, max(n, 1)) for c, n in zip(chunks, table.shape, strict=True))
    return replace(table, attributes=adapt_attributes(table.attributes, notes), chunks=chunks, why=why)


# ---------------------------------------------------------------- creating
def create_tree(path: str, inner: str, tree: Tree) -> None:
    """Make a new file with everything but elements."""
    if exists(LOCAL, path):
        raise TargetExistsError(f"{path} exists already")
    top = "/".join(parts_of(inner))
    with failures("create", path, StorageError):
        checkpoint_file = CheckpointFile(path, new=True)
        try:
            with _changing(checkpoint_file, track_order=True) as file:
                _make_nodes(file, top, tree)
        except BaseException:
            checkpoint_file.close()
            with suppress(DiskError):
                LOCAL.remove(path)
            remove_redo(path)
            raise
    LOCAL.sync(path)
    LOCAL.sync_name(path)


@contextmanager
def _changing(checkpoint_file: CheckpointFile, **options: Any) -> Iterator[Any]:
    """An open file whose changes are durable at the end, all of them or none."""
    file: Any = None
    with raise_disk_errors(lambda: checkpoint_file):
        try:
            file = open_checkpoint_file(checkpoint_file, **options)
            yield file
            file.close()
            checkpoint_file.checkpoint()
            checkpoint_file.close()
        except BaseException:
            with suppress(Exception):
                file.close()
            checkpoint_file.close()
            raise
    remove_redo(checkpoint_file.path)


def _make_nodes(file: Any, top: str, tree: Tree) -> None:
    groups = {join(top, name): group for name, group in tree.groups.items()}
    for name in [*parents(top), *groups]:
        group = file.create_group(name, track_order=True) if name and name not in file else file[name or "/"]
        if name in groups:
            write_attributes(group, groups[name].attributes)
    scales, made = _scales(tree), _made(tree)
    for name, schema in made.items():
        axes = _axes_without_scales(tree, name, schema, scales)
        if isinstance(schema, TableSchema):
            _create_table(file, join(top, name), replace(schema, axes=axes), _free(tree, name, schema))
        else:
            create_dataset(file, join(top, name), replace(schema, axes=axes), unlimited=_unlimited(tree, name))
    for name, length in scales.items():
        group, _, axis = name.rpartition("/")
        unlimited = tree.groups[group].dimensions[axis].unlimited
        _make_scale(file, join(top, name), length, exists=name in made, unlimited=unlimited)
    for name, schema in made.items():
        _attach_scales(file, top, tree, name, schema, scales)


def _made(tree: Tree) -> dict[str, Schema | TableSchema]:
    """The arrays and tables that become datasets."""
    return {**tree.arrays, **{name: table for name, table in tree.tables.items() if not table.why}}


def _create_table(file: Any, name: str, table: TableSchema, free: tuple[bool, ...]) -> None:
    h5py = library()
    if table.kind == "text":
        encoding = table.details.get("encoding")
        dtype = h5py.string_dtype(encoding if encoding == "ascii" else "utf-8")
    elif table.kind == "enum":
        dtype = h5py.enum_dtype(dict(table.details["names"]), basetype=table.dtype)
    else:
        dtype = table.dtype
    limits = tuple(None if one else n for one, n in zip(free, table.shape, strict=True)) if any(free) else None
    # h5py refuses chunks that are longer than a fixed axis, and an axis may have length 0.
    chunks = table.chunks if limits or 0 not in table.shape else None
    chunks = chunks or (tuple(max(n, 1) for n in table.shape) if limits else None)
    dataset = file.create_dataset(
        name, shape=table.shape, dtype=dtype, chunks=chunks, maxshape=limits, track_times=False
    )
    write_attributes(dataset, table.attributes)
    for dim, label in zip(dataset.dims, table.axes or (), strict=False):
        dim.label = label


# ---------------------------------------------------------------- shared axes
def _scales(tree: Tree) -> dict[str, int]:
    """Paths and lengths of the scales: arrays and tables of an axis' name, and those of axes without coordinates."""
    made = _made(tree)
    found: dict[str, int] = {}
    for group, schema in tree.groups.items():
        for axis, one in schema.dimensions.items():
            name = join(group, axis)
            there = made.get(name)
            if (
                "/" in axis
                or name in tree.groups
                or (there is not None and (there.shape, there.axes) != ((one.length,), (axis,)))
            ):
                continue
            found[name] = one.length
    return found


def _scale_of(tree: Tree, name: str, axis: str, length: int, scales: Mapping[str, int]) -> str | None:
    """The scale of an axis of an array: that of the nearest group that defines the axis."""
    for group in reversed(list(parents(name))):
        if axis in tree.groups[group].dimensions:
            found = join(group, axis)
            return found if scales.get(found) == length else None
    return None


def _axes_without_scales(
    tree: Tree, name: str, schema: Schema | TableSchema, scales: Mapping[str, int]
) -> tuple[str, ...] | None:
    """Axis names, for labels, if an axis has no scale."""
    if schema.axes is None or name in scales:
        return None
    found = [_scale_of(tree, name, *pair, scales) for pair in zip(schema.axes, schema.shape, strict=True)]
    return None if all(found) else schema.axes


def _make_scale(file: Any, name: str, length: int, *, exists: bool, unlimited: bool) -> None:
    h5py = library()
    if exists:
        h5py.h5ds.set_scale(file[name].id, name.rpartition("/")[2].encode())
        return
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    dcpl.set_obj_track_times(False)
    if unlimited:
        dcpl.set_chunk((max(min(length, 1024), 1),))
    space = h5py.h5s.create_simple((length,), (h5py.h5s.UNLIMITED,) if unlimited else None)
    dataset = h5py.Dataset(h5py.h5d.create(file.id, None, h5py.h5t.py_create(np.dtype(">f4")), space, dcpl))
    file[parent_of(name) or "/"][name.rpartition("/")[2]] = dataset
    h5py.h5ds.set_scale(dataset.id, NOT_A_VARIABLE + f". {length:9d}".encode())


def _attach_scales(
    file: Any, top: str, tree: Tree, name: str, schema: Schema | TableSchema, scales: Mapping[str, int]
) -> None:
    if schema.axes is None or name in scales:
        return
    dataset = file[join(top, name)]
    for number, (axis, length) in enumerate(zip(schema.axes, schema.shape, strict=True)):
        scale = _scale_of(tree, name, axis, length, scales)
        if scale is not None:
            library().h5ds.attach_scale(dataset.id, file[join(top, scale)].id, number)


# ---------------------------------------------------------------- tables and the end
def write_rows(path: str, inner: str, name: str, tree: Tree, start: int, rows: npt.NDArray[Any]) -> None:
    """Write rows of a table through the checkpoint file."""
    table, where = tree.tables[name], join("/".join(parts_of(inner)), name)
    with failures("write", f"{path}::{where}", StorageError), _changing(CheckpointFile(path, new=False)) as file:
        dataset = file[where]
        if table.shape:
            dataset[start : start + len(rows)] = rows
        else:
            dataset[()] = rows[()]


def commit_tree(path: str, inner: str, tree: Tree, records: Mapping[str, Record], record: Record) -> None:
    """Write the records of tables and of the whole."""
    top = "/".join(parts_of(inner))
    with failures("close", path, StorageError), _changing(CheckpointFile(path, new=False)) as file:
        for name, table in tree.tables.items():
            if not table.why and records.get(name):
                write_record(file[join(top, name)], records[name])
        if record:
            write_record(file[top or "/"], record)
    LOCAL.sync(path)
