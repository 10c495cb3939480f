"""Add a variable to a NetCDF-4 file: it uses the dimensions that exist there, and creates the others."""

from __future__ import annotations

from typing import Any

from reblock.errors import StorageError, UsageError
from reblock.model.dataset import Dimension, Tree
from reblock.model.schema import Schema
from reblock.storage.hdf5.file import failures, library, open_file
from reblock.storage.media.files import disk_errors
from reblock.storage.media.local import LOCAL
from reblock.storage.netcdf.marks import (
    DIMENSION_NUMBER,
    NOT_A_SCALE,
    SharedAxis,
    attach,
    find_dimension,
    make_phantom,
    make_scale,
    number_dimensions,
    write_number,
    write_values,
)
from reblock.storage.netcdf.nc4_create import new_group, new_variable

#: The number of a dimension that does not exist yet.
_NEW = -1


def places_in_file(path: str, tree: Tree, name: str, schema: Schema) -> list[SharedAxis]:
    """The dimension of each axis; UsageError if one of the same name has another length."""
    group, _, last = name.rpartition("/")
    known, found = number_dimensions(tree), []
    if name in known:
        raise UsageError(f"{path}: {name} is already a dimension without a variable: choose another name")
    free = schema.unlimited or (False,) * schema.ndim
    for axis, length, unlimited in zip(schema.axes or (), schema.shape, free, strict=True):
        place = find_dimension(known, group, axis)
        if place is not None and place.dimension.length == length:
            found.append(place)
        elif place is None or place.group != group:
            found.append(SharedAxis(group, axis, _NEW, Dimension(length, unlimited)))
        else:
            raise UsageError(
                f"{path}: dimension {axis} has {place.dimension.length} elements there, and axis {axis} of {last} has "
                f"{length}: add it to a group of its own, such as ::{last}/{last}"
            )
    return found


def add_variable(path: str, name: str, schema: Schema, places: list[SharedAxis]) -> None:
    """Make the variable without its elements, durably; the file is a copy, which a kill may damage."""
    with failures("add to", path, StorageError):
        file: Any = open_file(path, "r+")
        try:
            _add(file, name, schema, places)
        finally:
            file.close()
    with disk_errors("write", path):
        LOCAL.sync(path)


def _add(file: Any, name: str, schema: Schema, places: list[SharedAxis]) -> None:
    above, _, last = name.rpartition("/")
    group = file["/"]
    for part in above.split("/") if above else ():
        group = group[part] if part in group else new_group(group, part)
    numbers = _numbers(file)
    scales: dict[str, Any] = {}
    is_scale = len(places) == 1 and places[0].number == _NEW and places[0].path == name
    for place in {place.path: place for place in places}.values():
        if place.number != _NEW:
            scales[place.path] = file[place.path]
        elif not (is_scale and place.path == name):
            scales[place.path] = make_phantom(group, place)
            _number(scales[place.path], place, numbers)
    # A variable that only has the name of a dimension would take the place of its scale.
    stored = f"{NOT_A_SCALE}{last}" if name in scales else last
    made = new_variable(group, stored, schema, tuple(place.dimension.unlimited for place in places))
    if is_scale:
        make_scale(made, places[0])
        _number(made, places[0], numbers)
    if not is_scale:
        attach(made, [scales[place.path] for place in places])
    write_values(made, schema.attributes)


def _numbers(file: Any) -> list[int] | None:
    """The numbers of the dimensions of a file; None if it has dimensions without numbers."""
    h5py, found, missing = library(), list[int](), list[str]()

    def look(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset) and h5py.h5ds.is_scale(node.id):
            if DIMENSION_NUMBER in node.attrs:
                found.append(int(node.attrs[DIMENSION_NUMBER]))
            else:
                missing.append(name)

    file.visititems(look)
    return None if missing else found


def _number(scale: Any, place: SharedAxis, numbers: list[int] | None) -> None:
    """Give a new dimension the next number, if all others have one."""
    if numbers is not None:
        numbers.append(max(numbers, default=-1) + 1)
        write_number(scale, SharedAxis(place.group, place.name, numbers[-1], place.dimension))
