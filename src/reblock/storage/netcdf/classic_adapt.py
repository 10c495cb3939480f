"""Adapt arrays and datasets to NetCDF-3: the nearest that a file without chunks, codecs and groups can hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from reblock.errors import UsageError
from reblock.geometry import Grid
from reblock.geometry.grid import chunk_text
from reblock.model.codec import Codec
from reblock.model.dataset import Dimension, GroupSchema, TableSchema, Tree
from reblock.model.schema import Schema
from reblock.storage.checks import MAX_RANK, show
from reblock.storage.conventions import FILL_VALUE, fill_attribute
from reblock.storage.netcdf.attributes import adapt_attributes
from reblock.storage.netcdf.classic import ClassicHeader, ClassicVariable
from reblock.storage.netcdf.classic_writer import lay_out, type_code
from reblock.storage.netcdf.dimensions import name_axes, usable_axes
from reblock.storage.netcdf.names import part_problem
from reblock.storage.netcdf.times import times_as_integers
from reblock.storage.trees import adapt_arrays, check_names
from reblock.storage.unencoded import refuse_encoding

_HELD = "integers of 1 to 8 bytes, floats of 4 and 8 bytes, and single characters (S1)"


# ---------------------------------------------------------------- one array
def adapt_classic(schema: Schema, asked: Collection[str]) -> Schema:
    """The nearest schema that a variable of a file of its own can have."""
    adapted = _adapt_variable(schema, asked)
    if 0 in schema.shape[1:]:
        raise UsageError(f"NetCDF-3 cannot hold shape {list(schema.shape)}: only the first axis may have length 0")
    axes, notes = name_axes(adapted, {})
    if any(schema.unlimited[1:]):
        notes.append("only the first axis is unlimited, if any: NetCDF-3 has no other such axis")
    return replace(adapted, axes=axes, notes=tuple(dict.fromkeys((*adapted.notes, *notes))))


def _adapt_variable(schema: Schema, asked: Collection[str]) -> Schema:
    """The nearest schema, apart from the names of its axes and the records."""
    schema = times_as_integers(schema, asked, "NetCDF-3")
    dtype = schema.dtype
    if type_code(dtype) is None:
        raise UsageError(f"NetCDF-3 cannot hold this type: {dtype} is not one of {_HELD}")
    if schema.ndim > MAX_RANK:
        raise UsageError(f"NetCDF-3 files of reblock have at most {MAX_RANK} axes, not {schema.ndim}")
    straight = tuple(range(schema.ndim))
    refuse_encoding(schema, asked, "NetCDF-3 holds raw arrays", "netcdf")
    if "order" in asked and schema.order != straight:
        raise UsageError(f"NetCDF-3 stores the last axis fastest: not in axis order {schema.order}; transpose instead")
    attributes, notes = adapt_attributes(schema.attributes, dtype, classic=True)
    if "chunks" in asked and Grid.of(schema.shape, schema.chunks).count > 1:
        notes.append(f"chunks {chunk_text(schema.chunks)} are ignored: NetCDF-3 has none")
    if schema.order != straight:
        notes.append(f"axes are in C order, not {list(schema.order)}: NetCDF-3 stores the last axis fastest")
    if schema.codec:
        notes.append(f"codec {schema.codec} is not kept: NetCDF-3 is not encoded")
    if dtype.newbyteorder(">") != dtype:
        notes.append(f"byte order of {dtype} became big-endian, as in all NetCDF-3 files")
    if "fill_value" in asked and schema.fill_value is not None:
        attributes = {**attributes, FILL_VALUE: schema.fill_value}
    fill = fill_attribute(attributes[FILL_VALUE], dtype) if FILL_VALUE in attributes else None
    if schema.fill_value is not None and not _same_bits(schema.fill_value, fill, dtype):
        told = "there is no attribute" if fill is None else f"{fill} is the attribute"
        notes.append(
            f"fill value {schema.fill_value!s} is not kept: NetCDF-3 stores every element, and {told} {FILL_VALUE}"
        )
    return replace(
        schema,
        dtype=dtype.newbyteorder(">"),
        chunks=tuple(max(length, 1) for length in schema.shape),
        shards=None,
        order=straight,
        codec=Codec(),
        fill_value=fill,
        attributes=attributes,
        netcdf=True,
        chunk_order="",
        notes=(*schema.notes, *notes),
    )


def _same_bits(one: Any, other: Any, dtype: np.dtype[Any]) -> bool:
    """Whether a fill value needs no note: it is that of the attribute, or the usual zero."""
    first = np.array(one, dtype).tobytes()
    return first == (bytes(dtype.itemsize) if other is None else np.array(other, dtype).tobytes())


def single_tree(name: str, schema: Schema) -> Tree:
    """A dataset of one adapted array."""
    lengths = dict(zip(schema.axes or (), schema.shape, strict=True))
    axes = schema.axes or ()
    free = axes[:1] if any(schema.unlimited[:1]) and axes[0] not in axes[1:] else ()
    dimensions = {axis: Dimension(length, length == 0 or axis in free) for axis, length in lengths.items()}
    return Tree({"": GroupSchema({}, dimensions)}, {name: schema})


# ---------------------------------------------------------------- datasets
def adapt_classic_tree(tree: Tree, asked: Collection[str]) -> Tree:
    """The nearest tree that a NetCDF-3 file can hold."""
    check_names(tree, "NetCDF-3", refused=part_problem)
    if inside := [name for name in (*tree.groups, *tree.arrays, *tree.tables) if "/" in name or name in tree.groups]:
        deep = [name for name in inside if name]
        if deep:
            raise UsageError(f"NetCDF-3 has no groups, such as that of {show(deep[0])}: use netcdf, or one group alone")
    notes = list(tree.notes)
    arrays, refused = adapt_arrays(tree, _adapt_variable, asked)
    top = tree.groups.get("", GroupSchema())
    dimensions = {name: one for name, one in top.dimensions.items() if _is_usable(name, one, notes)}
    named: dict[str, Schema] = {}
    for name, schema in arrays.items():
        axes, more = name_axes(schema, dimensions)
        named[name] = replace(schema, axes=axes, notes=tuple(dict.fromkeys((*schema.notes, *more))))
        for axis, length in zip(axes or (), schema.shape, strict=True):
            dimensions.setdefault(axis, Dimension(length))
    record = _record_axis(dimensions, named, notes)
    for name, schema in list(named.items()):
        empty = [axis for axis, n in zip(schema.axes or (), schema.shape, strict=True) if n == 0 and axis != record]
        if empty:
            why = f"NetCDF-3 has one axis of length 0, the record dimension; {empty[0]!r} has that length too"
            refused[name] = TableSchema(schema.shape, schema.dtype, "array", axes=schema.axes, why=why)
            del named[name]
    dimensions = {
        name: Dimension(one.length, unlimited=name == record)
        for name, one in dimensions.items()
        if one.length or name == record
    }
    attributes, more = adapt_attributes(top.attributes, None, classic=True)
    tables = {
        name: table if table.why else replace(table, why=f"NetCDF-3 has no type for {table.kind}")
        for name, table in tree.tables.items()
    }
    adapted = Tree(
        {"": GroupSchema(attributes, dimensions)},
        _with_records(named, record),
        {**tables, **refused},
        tuple(dict.fromkeys((*notes, *more))),
    )
    header_of_tree(adapted)
    return adapted


def _is_usable(name: str, one: Dimension, notes: list[str]) -> bool:
    if usable_axes((name,)):
        return True
    notes.append(f"dimension {show(name)} of length {one.length} is not kept: NetCDF needs another name")
    return False


def _record_axis(dimensions: Mapping[str, Dimension], arrays: Mapping[str, Schema], notes: list[str]) -> str | None:
    """The dimension that becomes the record dimension: one of length 0, or an unlimited one."""
    inside = {axis for schema in arrays.values() for axis in (schema.axes or ())[1:]}
    possible = [name for name in dimensions if name not in inside]
    empty = [name for name in possible if dimensions[name].length == 0]
    open_ended = [name for name in possible if dimensions[name].unlimited]
    record = next(iter([*empty, *open_ended]), None)
    others = [name for name, one in dimensions.items() if one.unlimited and name != record]
    notes.extend(
        f"dimension {name!r} is not unlimited any more: NetCDF-3 has one such dimension, which is the first axis"
        for name in others
    )
    notes.extend(
        f"dimension {name!r} is unlimited: only such a dimension has length 0 in NetCDF-3"
        for name in empty
        if name == record and not dimensions[name].unlimited
    )
    return record


def _with_records(arrays: Mapping[str, Schema], record: str | None) -> dict[str, Schema]:
    """Arrays of the record dimension have one chunk for each record, unless there is only one such array."""
    those = [name for name, schema in arrays.items() if schema.axes and schema.axes[0] == record]
    if len(those) < 2:
        return dict(arrays)
    return {
        name: replace(schema, chunks=(1, *schema.chunks[1:])) if name in those else schema
        for name, schema in arrays.items()
    }


def header_of_tree(tree: Tree) -> ClassicHeader:
    """The header of a new file with the arrays of an adapted tree."""
    top = tree.groups[""]
    record = next((name for name, one in top.dimensions.items() if one.unlimited), None)
    variables = [
        ClassicVariable(name, schema.axes or (), schema.dtype, schema.attributes, 0)
        for name, schema in tree.arrays.items()
    ]
    lengths = {name: one.length for name, one in top.dimensions.items()}
    return lay_out(lengths, record, top.attributes, variables)
