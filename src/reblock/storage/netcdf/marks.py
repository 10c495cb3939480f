"""The marks by which NetCDF-4 files are more than HDF5: dimension scales, their numbers, and hidden attributes.

::

    dimension with a variable of its name    the variable is a scale: CLASS, NAME, _Netcdf4Dimid
    dimension without                        an empty dataset is the scale, with a NAME that says so
    variable that only shares the name       its dataset is called _nc4_non_coord_NAME
    axes of a variable                       DIMENSION_LIST refers to the scales, REFERENCE_LIST back to it
    variable with two axes that is a scale   _Netcdf4Coordinates: numbers of its dimensions, since a scale has no scales
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from reblock.model.dataset import Dimension, TableSchema, Tree
from reblock.model.schema import Schema
from reblock.storage.hdf5.file import library

#: Beginning of the NAME of a scale that is no variable; its length follows.
PHANTOM = "This is a netCDF dimension but not a netCDF variable."
#: Prefix of a dataset whose variable has the name of a dimension, but is not its scale.
NOT_A_SCALE = "_nc4_non_coord_"
#: Attributes of the NetCDF library that are no attributes of its users.
DIMENSION_NUMBER, COORDINATES, PROPERTIES = "_Netcdf4Dimid", "_Netcdf4Coordinates", "_NCProperties"


@dataclass(frozen=True)
class SharedAxis:
    """Where a dimension is defined."""

    group: str
    """Path of its group."""
    name: str
    """Its name."""
    number: int
    """Its number in the file."""
    dimension: Dimension
    """Its length, and whether it is unlimited."""

    @property
    def path(self) -> str:
        return f"{self.group}/{self.name}" if self.group else self.name


def number_dimensions(tree: Tree) -> dict[str, SharedAxis]:
    """All dimensions of an adapted tree by their path, numbered in order."""
    places: dict[str, SharedAxis] = {}
    for group, schema in tree.groups.items():
        for name, dimension in schema.dimensions.items():
            place = SharedAxis(group, name, len(places), dimension)
            places[place.path] = place
    return places


def find_dimension(places: Mapping[str, SharedAxis], group: str, axis: str) -> SharedAxis | None:
    """The dimension that a name means in a group: the nearest one there or above."""
    while True:
        found = places.get(f"{group}/{axis}" if group else axis)
        if found is not None or not group:
            return found
        group = group.rpartition("/")[0]


def is_coordinate(places: Mapping[str, SharedAxis], name: str, schema: Schema | TableSchema) -> bool:
    """Whether a variable is the scale of the dimension of its own name."""
    group, _, last = name.rpartition("/")
    return (
        name in places
        and bool(schema.axes)
        and schema.axes is not None
        and schema.axes[0] == last
        and places[name].group == group
    )


def dataset_name(places: Mapping[str, SharedAxis], name: str, schema: Schema | TableSchema) -> str:
    """The path of a variable's dataset."""
    if name not in places or is_coordinate(places, name, schema):
        return name
    group, _, last = name.rpartition("/")
    return f"{group}/{NOT_A_SCALE}{last}" if group else NOT_A_SCALE + last


# ---------------------------------------------------------------- writing
def make_phantom(group: Any, place: SharedAxis) -> Any:
    """The empty dataset of a dimension without a variable, as the NetCDF library makes it."""
    h5py = library()
    length = place.dimension.length
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    dcpl.set_obj_track_times(False)
    dcpl.set_attr_creation_order(h5py.h5p.CRT_ORDER_TRACKED | h5py.h5p.CRT_ORDER_INDEXED)
    if place.dimension.unlimited:
        dcpl.set_chunk((max(min(length, 1024), 1),))
        space = h5py.h5s.create_simple((length,), (h5py.h5s.UNLIMITED,))
    else:
        space = h5py.h5s.create_simple((length,))
    identifier = h5py.h5d.create(group.id, place.name.encode(), h5py.h5t.IEEE_F32BE, space, dcpl)
    h5py.h5ds.set_scale(identifier, f"{PHANTOM}{length:10d}".encode())
    return h5py.Dataset(identifier)


def make_scale(dataset: Any, place: SharedAxis) -> None:
    """Turn the dataset of a coordinate variable into a scale."""
    library().h5ds.set_scale(dataset.id, place.name.encode())


def write_number(dataset: Any, place: SharedAxis) -> None:
    """Write the number of a scale's dimension."""
    dataset.attrs.create(DIMENSION_NUMBER, np.int32(place.number))


def write_coordinates(dataset: Any, numbers: list[int]) -> None:
    """Write the numbers of the dimensions of a scale with several axes."""
    dataset.attrs.create(COORDINATES, np.array(numbers, np.int32))


def attach(dataset: Any, scales: list[Any]) -> None:
    """Refer to the scales of a variable's axes."""
    h5py = library()
    for axis, scale in enumerate(scales):
        h5py.h5ds.attach_scale(dataset.id, scale.id, axis)


def write_properties(file: Any, program: str) -> None:
    """Write which programs have made the file."""
    h5py = library()
    text = f"version=2,{program},hdf5={h5py.version.hdf5_version},h5py={h5py.__version__}"
    file.attrs.create(PROPERTIES, np.bytes_(text))


def write_values(node: Any, attributes: Mapping[str, Any]) -> None:
    """Write attributes in the forms of `attributes` as the NetCDF library writes them."""
    h5py = library()
    for name, value in attributes.items():
        if isinstance(value, bytes):
            _write_text(node, name, value)
        elif isinstance(value, list):
            node.attrs.create(name, np.array(value, object), dtype=h5py.string_dtype())
        elif value.size:
            node.attrs.create(name, value)
        else:
            kind = h5py.h5t.py_create(value.dtype, logical=True)
            h5py.h5a.create(node.id, name.encode(), kind, h5py.h5s.create(h5py.h5s.NULL))


def _write_text(node: Any, name: str, value: bytes) -> None:
    h5py = library()
    kind = h5py.h5t.C_S1.copy()
    kind.set_size(max(len(value), 1))
    kind.set_strpad(h5py.h5t.STR_NULLTERM)
    if not value.isascii():
        kind.set_cset(h5py.h5t.CSET_UTF8)
    space = h5py.h5s.create(h5py.h5s.SCALAR if value else h5py.h5s.NULL)
    identifier = h5py.h5a.create(node.id, name.encode(), kind, space)
    if value:
        # The same type in memory: a conversion would end the text at its first NUL, and drop its last character.
        identifier.write(np.array(value, f"S{len(value)}"), mtype=kind)
