"""Make a NetCDF-4 file without elements: groups, dimensions, variables and attributes, in the order of the tree."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from reblock.errors import DiskError, StorageError, TargetExistsError
from reblock.model.dataset import TableSchema, Tree
from reblock.model.schema import Schema
from reblock.storage.hdf5.create import make_dataset
from reblock.storage.hdf5.file import failures, library, open_file, parts_of
from reblock.storage.media.files import disk_errors
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import exists
from reblock.storage.netcdf.marks import (
    SharedAxis,
    attach,
    dataset_name,
    find_dimension,
    is_coordinate,
    make_phantom,
    make_scale,
    number_dimensions,
    write_coordinates,
    write_number,
    write_properties,
    write_values,
)

#: What the hidden attribute of a file says about its writer.
_PROGRAM = "reblock=1"


def create_file(path: str, inner: str, tree: Tree) -> None:
    """Make the file, durably; a failure leaves nothing."""
    if exists(LOCAL, path):
        raise TargetExistsError(f"{path} exists already")
    with failures("create", path, StorageError):
        file: Any = None
        try:
            file = open_file(path, "x", ordered=True)
            _fill_file(file, inner, tree)
            file.close()
        except BaseException:
            with suppress(Exception):
                file.close()
            with suppress(DiskError):
                LOCAL.remove(path)
            raise
    with disk_errors("write", path):
        LOCAL.sync(path)
        LOCAL.sync_name(path)


def _fill_file(file: Any, inner: str, tree: Tree) -> None:
    write_properties(file, _PROGRAM)
    top = file["/"]
    for part in parts_of(inner):
        top = new_group(top, part)
    groups: dict[str, Any] = {"": top}
    for name in tree.groups:
        if name:
            parent, _, last = name.rpartition("/")
            groups[name] = new_group(groups[parent], last)
    places = number_dimensions(tree)
    variables: dict[str, Schema | TableSchema] = {
        **tree.arrays,
        **{name: table for name, table in tree.tables.items() if not table.why},
    }
    coordinates = {name for name, schema in variables.items() if is_coordinate(places, name, schema)}
    scales: dict[str, Any] = {
        path: make_phantom(groups[place.group], place) for path, place in places.items() if path not in coordinates
    }
    made: dict[str, Any] = {}
    for name, schema in variables.items():
        group = name.rpartition("/")[0]
        found = [_found(places, group, axis) for axis in schema.axes or ()]
        last = dataset_name(places, name, schema).rpartition("/")[2]
        made[name] = new_variable(groups[group], last, schema, tuple(one.dimension.unlimited for one in found))
        if name in coordinates:
            make_scale(made[name], places[name])
            scales[name] = made[name]
            if len(found) > 1:
                write_coordinates(made[name], [place.number for place in found])
    for path, scale in scales.items():
        write_number(scale, places[path])
    for name, schema in variables.items():
        if name not in coordinates:
            group = name.rpartition("/")[0]
            attach(made[name], [scales[_found(places, group, axis).path] for axis in schema.axes or ()])
    for name, one in tree.groups.items():
        write_values(groups[name], one.attributes)
    for name, schema in variables.items():
        write_values(made[name], schema.attributes)


def new_variable(group: Any, name: str, schema: Schema | TableSchema, unlimited: tuple[bool, ...]) -> Any:
    """The dataset of a variable; that of text is made by h5py, since HDF5 writes it anyway."""
    if isinstance(schema, Schema):
        return make_dataset(group, name, schema, unlimited=unlimited, ordered=True)[0]
    chunks = schema.chunks
    if any(unlimited) and chunks is None:
        chunks = tuple(max(length, 1) for length in schema.shape)
    limits = tuple(None if free else length for free, length in zip(unlimited, schema.shape, strict=True))
    return group.create_dataset(
        name,
        shape=schema.shape,
        dtype=library().string_dtype(),
        chunks=chunks,
        maxshape=limits if any(unlimited) else None,
        track_times=False,
        track_order=True,
    )


def _found(places: dict[str, SharedAxis], group: str, axis: str) -> SharedAxis:
    place = find_dimension(places, group, axis)
    assert place is not None, "adapt_tree gives each axis a dimension"
    return place


def new_group(parent: Any, name: str) -> Any:
    """A group that remembers the order of its members and attributes."""
    h5py = library()
    gcpl = h5py.h5p.create(h5py.h5p.GROUP_CREATE)
    ordered = h5py.h5p.CRT_ORDER_TRACKED | h5py.h5p.CRT_ORDER_INDEXED
    gcpl.set_link_creation_order(ordered)
    gcpl.set_attr_creation_order(ordered)
    return h5py.Group(h5py.h5g.create(parent.id, name.encode(), None, gcpl))
