"""The tree of a NetCDF-4 file from its HDF5 objects: dimensions are no variables, marks are no attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from operator import le
from typing import Any

import numpy as np

from reblock.errors import FormatError, ReblockError
from reblock.model.dataset import Dimension, GroupSchema, TableSchema, Tree
from reblock.model.roots import Roots
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.storage.checks import check_chunks, check_shape
from reblock.storage.conventions import FILL_VALUE, fill_attribute, is_tie, tie_note
from reblock.storage.hdf5.metadata import Stored, describe
from reblock.storage.hdf5.sandbox.wire import unpack
from reblock.storage.hdf5.tree import dtype_of
from reblock.storage.netcdf.marks import (
    COORDINATES,
    DIMENSION_NUMBER,
    NOT_A_SCALE,
    PHANTOM,
    SharedAxis,
    find_dimension,
)
from reblock.storage.netcdf.nc4_adapt import DEFAULT_FILL
from reblock.storage.records import record_from_json

_SCALE = b"DIMENSION_SCALE"
#: Why a variable that is shorter than its dimension cannot be read.
_SHORT = (
    "its axis {axis!r} has {found:,} of {length:,} elements, the rest is fill: `nccopy` makes a file with all of them"
)

#: Why a variable that is longer than its dimension cannot be read, and one whose dimension was removed.
_LONG = "its axis {axis!r} has {found:,} elements, and the dimension {length:,}: the file is damaged"
_LOST = "an axis lies along a dimension that is not in the file: opened as hdf5, its elements can be read"


@dataclass(frozen=True)
class Survey:
    """A NetCDF-4 file, or a group of it, as it was surveyed."""

    tree: Tree
    """What it holds."""
    datasets: Mapping[str, str] = field(repr=False)
    """Paths of the datasets of variables, from the top of the file."""
    record: Record
    """The record of the run that made it."""
    stored: Mapping[str, tuple[Schema, Stored]] = field(default_factory=dict, repr=False)
    """What HDF5 says of the datasets of variables whose bytes are read without it."""
    unwritten: frozenset[str] = frozenset()
    """Names of the variables along unlimited dimensions of which nothing was ever written."""


class _Scale:
    """A dataset that is a dimension scale."""

    def __init__(self, node: Mapping[str, Any], values: Mapping[str, Any], number: int) -> None:
        self.path = str(node["name"])
        self.group, _, self.name = self.path.rpartition("/")
        self.address = int(node["address"])
        name = values.get("NAME", b"")
        self.phantom = _text(name).startswith(PHANTOM)
        found = values.get(DIMENSION_NUMBER)
        self.number = int(found) if isinstance(found, np.integer) else number
        shape = check_shape(node["shape"] or [0], where=self.path)
        self.length = shape[0] if shape else 1
        self.unlimited = bool(node["unlimited"] and node["unlimited"][0])


def read_survey(nodes: Sequence[Mapping[str, Any]], path: str, inner: str, size: int, roots: Roots) -> Survey:
    """The tree of surveyed nodes; `size` is the file's bytes."""
    values = {str(node["name"]): _values(node) for node in nodes if "attributes" in node}
    datasets = [node for node in nodes if node["kind"] == "dataset"]
    scales = [
        _Scale(node, values[node["name"]], 1 << 40 | number)
        for number, node in enumerate(datasets)
        if _text(values[node["name"]].get("CLASS", b"")).rstrip("\0") == _SCALE.decode() and node["shape"]
    ]
    phantoms = {scale.path for scale in scales if scale.phantom}
    names = {node["name"]: _variable_name(node["name"], phantoms) for node in datasets if node["name"] not in phantoms}
    axes = {node["name"]: _axes(node, values[node["name"]], scales) for node in datasets if node["name"] in names}
    places = _places(scales, datasets, names, axes)
    notes = [
        f"{node['name']} is a link or a second name, which is not followed"
        for node in nodes
        if node["kind"] in ("link", "again")
    ]
    arrays: dict[str, Schema] = {}
    tables: dict[str, TableSchema] = {}
    stored: dict[str, tuple[Schema, Stored]] = {}
    unwritten: set[str] = set()
    for node in datasets:
        if node["name"] not in names:
            continue
        name = names[node["name"]]
        told, why = _told(node, path, inner, size, roots)
        if told is not None and told[1].direct and told[1].parts is None:
            stored[name] = told
        schema = _schema(node, values[node["name"]], axes[node["name"]], places, path, told, why)
        if isinstance(schema, Schema):
            arrays[name] = schema
            if schema.shape != tuple(node["shape"]):
                unwritten.add(name)
        else:
            tables[name] = schema
    ordered = sorted(places.values(), key=lambda one: one.number)
    groups = {
        name: GroupSchema(
            without_marks(values[name]), {place.name: place.dimension for place in ordered if place.group == name}
        )
        for name in (str(node["name"]) for node in nodes if node["kind"] == "group")
    }
    for node in nodes:
        if node["kind"] == "group":
            notes += _notes(node)
    prefix = f"{inner}/" if inner else ""
    return Survey(
        Tree(groups, arrays, tables, tuple(notes)),
        {name: f"{prefix}{stored}" for stored, name in names.items()},
        next((record_from_json(node["record"]) for node in nodes if node["name"] == ""), NO_RECORD),
        stored,
        frozenset(unwritten),
    )


# ---------------------------------------------------------------- dimensions
def _places(
    scales: Sequence[_Scale],
    datasets: Sequence[Mapping[str, Any]],
    names: Mapping[str, str],
    axes: Mapping[str, Sequence[_Scale | None]],
) -> dict[str, SharedAxis]:
    """The dimensions; an unlimited one is as long as the longest variable that has it."""
    lengths = {scale.path: scale.length for scale in scales}
    for node in datasets:
        if node["name"] not in names:
            continue
        for scale, length in zip(axes[node["name"]], node["shape"] or (), strict=False):
            if scale is not None and scale.unlimited:
                lengths[scale.path] = max(lengths[scale.path], int(length))
    return {
        scale.path: SharedAxis(scale.group, scale.name, scale.number, Dimension(lengths[scale.path], scale.unlimited))
        for scale in scales
    }


def _axes(node: Mapping[str, Any], values: Mapping[str, Any], scales: Sequence[_Scale]) -> list[_Scale | None]:
    """The scale of each axis of a dataset."""
    rank = len(node["shape"] or ())
    own = next((scale for scale in scales if scale.path == node["name"]), None)
    numbers = values.get(COORDINATES)
    if own is not None:
        if rank > 1 and isinstance(numbers, np.ndarray) and numbers.shape == (rank,):
            numbered = {scale.number: scale for scale in scales}
            return [numbered.get(int(number)) for number in numbers]
        return [own, *[None] * (rank - 1)]
    addresses = node["scales"]
    if not isinstance(addresses, list) or len(addresses) != rank:
        return [None] * rank
    # Dimensions are visible in their own group and below.
    found = {scale.address: scale for scale in scales if _is_below(node["name"], scale.group)}
    return [found.get(address) for address in addresses]


def _is_below(name: str, group: str) -> bool:
    return not group or name.startswith(f"{group}/")


def _variable_name(name: str, phantoms: set[str]) -> str:
    group, _, last = name.rpartition("/")
    if not last.startswith(NOT_A_SCALE):
        return name
    plain = last.removeprefix(NOT_A_SCALE)
    full = f"{group}/{plain}" if group else plain
    return full if full in phantoms else name


# ---------------------------------------------------------------- variables
def _told(
    node: Mapping[str, Any], path: str, inner: str, size: int, roots: Roots
) -> tuple[tuple[Schema, Stored] | None, str]:
    """What HDF5 says of a dataset, or why it cannot be read as an array."""
    if node["facts"] is None:
        return None, str(node["why"])
    try:
        name = f"{inner}/{node['name']}" if inner else node["name"]
        return describe(node["facts"], path, name, size, roots), str(node["why"])
    except ReblockError as error:
        return None, error.message


def _schema(
    node: Mapping[str, Any],
    values: Mapping[str, Any],
    scales: Sequence[_Scale | None],
    places: Mapping[str, SharedAxis],
    path: str,
    told: tuple[Schema, Stored] | None,
    why: str,
) -> Schema | TableSchema:
    """A variable; a table with the reason if it cannot be read as an array."""
    shape = tuple(int(n) for n in node["shape"] or ())
    group = node["name"].rpartition("/")[0]
    named = None
    if scales and all(scale is not None for scale in scales):
        named = tuple(scale.name for scale in scales if scale is not None)
    attributes = without_marks(values)
    schema = None if told is None else told[0]
    if named and not why:
        shared = [find_dimension(places, group, axis) for axis in named]
        lengths = tuple(n if one is None else one.dimension.length for n, one in zip(shape, shared, strict=True))
        if schema is not None and not prod(shape) and all(map(le, shape, lengths)):
            schema = _unwritten(schema, attributes, lengths)
            shape = lengths
        for axis, found, length in zip(named, shape, lengths, strict=True):
            if length != found:
                why = (_SHORT if found < length else _LONG).format(axis=axis, found=found, length=length)
    if node["lost"] and not why:
        why = _LOST
    if schema is None or why:
        return _table(node, shape, attributes, named, why, f"{path}::{node['name']}")
    # Dimensions of groups above the one that was opened are known to HDF5 only.
    axes = named or schema.axes
    return replace(schema, attributes=attributes, axes=axes, netcdf=True, notes=_kept_notes(schema.notes))


def _unwritten(schema: Schema, attributes: Mapping[str, Any], shape: tuple[int, ...]) -> Schema:
    """A variable without elements, with the lengths that its dimensions have: the library reads fill everywhere."""
    if schema.shape == shape:
        return schema
    dtype = schema.dtype
    fill = fill_attribute(attributes[FILL_VALUE], dtype) if FILL_VALUE in attributes else None
    if fill is None:
        fill = np.array(DEFAULT_FILL[dtype.str[1:]], dtype.newbyteorder("="))[()]
    chunks = tuple(
        min(cut, max(n, 1)) if isinstance(cut, int) else cut for cut, n in zip(schema.chunks, shape, strict=True)
    )
    return replace(schema, shape=shape, chunks=chunks, fill_value=fill)


def _table(
    node: Mapping[str, Any],
    shape: tuple[int, ...],
    attributes: Mapping[str, Any],
    axes: tuple[str, ...] | None,
    why: str,
    where: str,
) -> TableSchema:
    """A variable whose elements cannot be cut; with a reason, it cannot be read either."""
    facts = node["table"]
    if facts is None or why:
        return TableSchema(shape, np.dtype("O"), "unknown", attributes=attributes, axes=axes, why=why or "unknown type")
    kind = str(facts["kind"])
    dtype = np.dtype("O") if kind == "text" else dtype_of(facts["dtype"], where)
    shape = check_shape(shape, where=where, itemsize=dtype.itemsize)
    cut = None if node["chunks"] is None else check_chunks(node["chunks"], shape, 1, where=where)
    chunks = None if cut is None else tuple(int(n) for n in cut if isinstance(n, int))
    return TableSchema(shape, dtype, kind, dict(facts["details"]), chunks, attributes, axes)


def _kept_notes(notes: Sequence[str]) -> tuple[str, ...]:
    """Notes without those on marks, which are kept in other ways."""
    ties = {
        tie_note(name)
        for name in ("DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS", COORDINATES, DIMENSION_NUMBER)
    }
    return tuple(note for note in notes if note not in ties)


def _notes(node: Mapping[str, Any]) -> list[str]:
    where = f" of group {node['name']}" if node["name"] else ""
    found = [
        f"attribute {name!r}{where} is not kept: {why}" for name, why in node["problems"].items() if not is_tie(name)
    ]
    return [*map(str, node["notes"]), *found]


# ---------------------------------------------------------------- attributes
def _values(node: Mapping[str, Any]) -> dict[str, Any]:
    found = node["attributes"]
    if not isinstance(found, Mapping):
        raise FormatError(f"{node['name']}: attributes must be an object")
    return {str(name): unpack(value) for name, value in found.items()}


def without_marks(values: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that NetCDF shows, in its forms."""
    scale = ("CLASS", "NAME") if _text(values.get("CLASS", b"")).rstrip("\0") == _SCALE.decode() else ()
    return {name: _form(value) for name, value in values.items() if not is_tie(name) and name not in scale}


def _form(value: Any) -> Any:
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, str):
        return [value]
    if isinstance(value, np.generic):
        return np.array([value])
    if isinstance(value, np.ndarray) and value.dtype.kind in "SU":
        return [one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in value.ravel().tolist()]
    return value


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
