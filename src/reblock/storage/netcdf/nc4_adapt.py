"""Adapt arrays and datasets to NetCDF-4: what HDF5 can hold, with named axes and the attributes of NetCDF."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from reblock.errors import UsageError
from reblock.geometry.grid import Cut
from reblock.model.codec import Codec
from reblock.model.dataset import Dimension, GroupSchema, TableSchema, Tree
from reblock.model.schema import Schema
from reblock.storage.conventions import FILL_VALUE, fill_attribute
from reblock.storage.hdf5.adapt import USUAL, adapt_schema
from reblock.storage.netcdf.attributes import adapt_attributes
from reblock.storage.netcdf.classic_writer import type_code
from reblock.storage.netcdf.dimensions import name_axes, usable_axes
from reblock.storage.netcdf.marks import NOT_A_SCALE
from reblock.storage.netcdf.names import name_problem, part_problem
from reblock.storage.netcdf.times import times_as_integers
from reblock.storage.trees import adapt_arrays, check_names, parents, with_parents

#: The library's value of elements that nobody wrote.
DEFAULT_FILL: dict[str, Any] = {
    "i1": -127,
    "S1": b"\0",
    "i2": -32767,
    "i4": -2147483647,
    "f4": 9.969209968386869e36,
    "f8": 9.969209968386869e36,
    "u1": 255,
    "u2": 65535,
    "u4": 4294967295,
    "i8": -9223372036854775806,
    "u8": 18446744073709551614,
}
#: The largest chunk that may be longer than its array.
_GROWING_BYTES = 16 << 20
_HELD = "integers of 1 to 8 bytes, floats of 4 and 8 bytes, and single characters (S1)"


def adapt_array(schema: Schema, asked: Collection[str]) -> Schema:
    """The nearest schema that a variable of a file of its own can have."""
    adapted = adapt_variable(schema, asked)
    axes, notes = name_axes(adapted, {})
    return replace(adapted, axes=axes, notes=tuple(dict.fromkeys((*adapted.notes, *notes))))


def adapt_variable(schema: Schema, asked: Collection[str]) -> Schema:
    """The nearest schema, apart from the names of its axes."""
    schema = times_as_integers(schema, asked, "NetCDF")
    dtype = schema.dtype
    if type_code(dtype) is None:
        raise UsageError(f"NetCDF cannot hold this type: {dtype} is not one of {_HELD}")
    attributes, notes = adapt_attributes(schema.attributes, dtype, classic=False)
    if schema.netcdf and not (schema.hdf5 or schema.codec) and dtype.newbyteorder("<") != dtype:
        # NetCDF-3 has no other byte order, so nobody has chosen it.
        dtype = dtype.newbyteorder("<")
        schema = replace(schema, dtype=dtype)
        notes.append(f"byte order became little-endian: in NetCDF-3, {dtype} is always big-endian")
    if "fill_value" in asked and schema.fill_value is not None:
        attributes = {**attributes, FILL_VALUE: schema.fill_value}
    fill = fill_attribute(attributes[FILL_VALUE], dtype) if FILL_VALUE in attributes else None
    if fill is None:
        fill = schema.fill_value
    if fill is None:
        fill = np.array(DEFAULT_FILL[dtype.str[1:]], dtype.newbyteorder("="))[()]
    codec, more = _codec(schema.codec, asked)
    held = adapt_schema(replace(schema, attributes={}, axes=None, codec=codec, fill_value=fill), asked)
    if schema.fill_value is not None and not _same(held.fill_value, schema.fill_value, dtype):
        notes.append(f"fill value {schema.fill_value!s} became {held.fill_value!s}, as attribute {FILL_VALUE} says")
    return replace(
        held,
        attributes=attributes,
        axes=schema.axes,
        notes=tuple(dict.fromkeys((*held.notes, *notes, *more))),
    )


def _same(one: Any, other: Any, dtype: np.dtype[Any]) -> bool:
    return np.array(one, dtype).tobytes() == np.array(other, dtype).tobytes()


def _codec(codec: Codec, asked: Collection[str]) -> tuple[Codec, list[str]]:
    """HDF5's own filters; the NetCDF library has no LZF."""
    if "lzf" not in codec.names:
        return codec, []
    if "codec" in asked:
        raise UsageError(f"NetCDF cannot hold codec {codec}: its library has no lzf; use {USUAL}")
    return USUAL, [f"codec {codec} became {USUAL}: the NetCDF library has no lzf"]


# ---------------------------------------------------------------- datasets
def adapt_tree(tree: Tree, asked: Collection[str]) -> Tree:
    """The nearest tree that a NetCDF-4 file can hold."""
    check_names(tree, "NetCDF", refused=_refused)
    notes = list(tree.notes)
    arrays, refused = adapt_arrays(tree, adapt_variable, asked)
    groups = with_parents(tree.groups, [*arrays, *(name for name, table in tree.tables.items() if not table.why)])
    dimensions: dict[str, dict[str, Dimension]] = {}
    for name, group in groups.items():
        dimensions[name] = {axis: one for axis, one in group.dimensions.items() if usable_axes((axis,))}
        lost = [axis for axis in group.dimensions if axis not in dimensions[name]]
        notes += [f"dimension {axis!r} is not kept: NetCDF needs a name {name_problem(axis)}" for axis in lost]
    tables = {name: _adapt_table(table, notes) for name, table in tree.tables.items()}
    held = {name: table for name, table in tables.items() if not table.why}
    named = {name: _named(name, schema, tree.arrays[name].chunks, dimensions) for name, schema in arrays.items()}
    for name, table in held.items():
        tables[name] = replace(table, axes=_axes(name, table, dimensions)[0])
    kept: dict[str, GroupSchema] = {}
    for name, group in groups.items():
        attributes, more = adapt_attributes(group.attributes, None, classic=False)
        kept[name] = GroupSchema(attributes, dimensions[name])
        notes += more
    return Tree(kept, named, {**tables, **refused}, tuple(dict.fromkeys(notes)))


def _named(name: str, schema: Schema, wanted: tuple[Cut, ...], dimensions: dict[str, dict[str, Dimension]]) -> Schema:
    """The array with a dimension for each axis; those that are not there yet are added to its group."""
    axes, notes, visible = _axes(name, schema, dimensions)
    # Chunks may be longer than an axis that will grow.
    chunks = tuple(
        cut if visible[axis].unlimited and isinstance(cut, int) and cut > length else chunk
        for axis, length, cut, chunk in zip(axes or (), schema.shape, wanted, schema.chunks, strict=True)
    )
    if prod(chunk for chunk in chunks if isinstance(chunk, int)) * schema.dtype.itemsize <= _GROWING_BYTES:
        schema = replace(schema, chunks=chunks)
    # The dimensions tell which axes are unlimited.
    return replace(schema, axes=axes, unlimited=(), notes=tuple(dict.fromkeys((*schema.notes, *notes))))


def _axes(
    name: str, schema: Schema | TableSchema, dimensions: dict[str, dict[str, Dimension]]
) -> tuple[tuple[str, ...] | None, list[str], dict[str, Dimension]]:
    """Names for the axes of an array, notes, and all dimensions that it sees."""
    visible: dict[str, Dimension] = {}
    for above in parents(name):
        visible.update(dimensions[above])
    axes, notes = name_axes(schema, visible)
    for axis, length in zip(axes or (), schema.shape, strict=True):
        if axis not in visible:
            dimensions[name.rpartition("/")[0]][axis] = visible[axis] = Dimension(length)
    return axes, notes, visible


def _adapt_table(table: TableSchema, notes: list[str]) -> TableSchema:
    """Text, which NetCDF-4 calls string; other types of users are not written."""
    attributes, more = adapt_attributes(table.attributes, None, classic=False)
    if table.why:
        return table
    notes += more
    if table.kind != "text":
        return replace(table, why=f"NetCDF files of reblock have no variables of type {table.kind}")
    chunks = table.chunks if table.shape else None
    if chunks is not None:
        chunks = tuple(min(cut, max(length, 1)) for cut, length in zip(chunks, table.shape, strict=True))
    return replace(table, attributes=attributes, chunks=chunks)


def _refused(part: str) -> str:
    if part.startswith(NOT_A_SCALE):
        return f"names that begin with {NOT_A_SCALE} belong to the NetCDF library"
    return part_problem(part)
