"""The groups of a MINC2 file: read from a survey of the file, and written around a new image."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from reblock.errors import CorruptError, FormatError
from reblock.geometry import Box
from reblock.model.medium import Medium
from reblock.storage.hdf5.file import library
from reblock.storage.hdf5.foreign import Foreign
from reblock.storage.hdf5.metadata import write_attributes
from reblock.storage.hdf5.sandbox.reader import Reader
from reblock.storage.hdf5.sandbox.wire import unpack
from reblock.storage.minc.variables import (
    IMAGE,
    IMAGE_MAX,
    IMAGE_MIN,
    Variables,
    check_axes,
    order_of,
    plain,
)

ROOT = "minc-2.0"
FOLDER = f"{ROOT}/image/0"
#: The dataset with the elements.
IMAGE_PATH = f"{FOLDER}/{IMAGE}"
_DIMENSIONS, _INFO = f"{ROOT}/dimensions/", f"{ROOT}/info/"
#: The most bytes of small datasets that are read, and the longest axis that the attribute `length` can state.
_MANY_BYTES, _MANY_LENGTH = 4 << 20, (1 << 32) - 1


@dataclass(frozen=True)
class Node:
    """A group or a dataset beside the image."""

    shape: tuple[int, ...] | None
    """Lengths of the axes of a dataset of numbers; None for anything else."""
    attributes: Mapping[str, Any]
    """Its attributes."""
    notes: tuple[str, ...]
    """Remarks on attributes that could not be read."""


def read_nodes(path: str, medium: Medium) -> dict[str, Node]:
    """All groups and datasets of a file, by path inside it; the file itself is ""."""
    with closing(Reader(path, medium)) as reader:
        nodes = reader.survey("")
    try:
        return {str(one["name"]): _node(one) for one in nodes if one["kind"] in ("group", "dataset")}
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise CorruptError(f"{path}: HDF5 cannot interpret its metadata: {error!r:.80}") from None


def _node(facts: Mapping[str, Any]) -> Node:
    shape = None if facts.get("facts") is None else tuple(int(n) for n in facts["facts"]["shape"])
    if shape is not None and np.dtype(facts["facts"]["dtype"]).kind not in "iuf":
        shape = None
    problems = tuple(f"attribute {name!r} is not kept: {why}" for name, why in facts["problems"].items())
    attributes = {str(name): plain(unpack(value)) for name, value in facts["attributes"].items()}
    return Node(shape, attributes, (*map(str, facts["notes"]), *problems))


def read_tree(path: str, medium: Medium) -> tuple[Variables, tuple[str, ...], list[str]]:
    """The variables of a file, the names of the image's axes, and notes; FormatError if one is missing."""
    found = read_nodes(path, medium)
    if ROOT not in found or IMAGE_PATH not in found or found[IMAGE_PATH].shape is None:
        raise FormatError(f"{path}: not a MINC2 file: it has no dataset {IMAGE_PATH} of numbers")
    made, room = Variables(dict(found[ROOT].attributes)), _MANY_BYTES
    notes: list[str] = []
    for inner, node in found.items():
        name = next((inner.removeprefix(at) for at in (f"{FOLDER}/", _DIMENSIONS, _INFO) if inner.startswith(at)), "")
        if not name:
            continue
        notes += node.notes
        # Groups of variables may be nested.
        variable = made.of(name.replace("/", "."))
        variable.attributes = dict(node.attributes)
        wanted = node.shape is not None and (node.shape != () or name in (IMAGE_MIN, IMAGE_MAX)) and name != IMAGE
        if wanted and node.shape is not None and prod(node.shape) * 8 <= room:
            room -= prod(node.shape) * 8
            variable.value = _read_value(path, inner, node.shape, medium)
    shape = found[IMAGE_PATH].shape or ()
    axes = check_axes(order_of(made.of(IMAGE)), len(shape), f"{path}::{IMAGE_PATH}")
    for name, length in zip(axes, shape, strict=True):
        if f"{_DIMENSIONS}{name}" not in found:
            raise FormatError(f"{path}: image:dimorder names {name}, and there is no {_DIMENSIONS}{name}")
        stated = made.of(name).attributes.get("length", length)
        if isinstance(stated, int | np.integer) and int(stated) != length:
            notes.append(f"{name}:length is {int(stated):,}, the image has {length:,}, which counts")
        made.of(name).attributes["length"] = np.uint32(min(length, _MANY_LENGTH))
    for name in (IMAGE_MIN, IMAGE_MAX):
        value = made.of(name).value
        if value is None:
            raise FormatError(f"{path}: {FOLDER}/{name} is missing, or holds no numbers: the real range is unknown")
        if np.shape(value) != shape[: np.ndim(value)]:
            raise FormatError(f"{path}: {name} has shape {list(np.shape(value))}, the image {list(shape)}")
    return made, axes, notes


def _read_value(path: str, inner: str, shape: tuple[int, ...], medium: Medium) -> Any:
    """The elements of a small dataset, as floats."""
    out = np.empty(shape, np.float64)
    with closing(Foreign(path, inner, medium)) as dataset:
        dataset.read(Box.whole(shape), out, out.nbytes)
    return out


def write_tree(file: Any, variables: Variables, axes: tuple[str, ...]) -> None:
    """Write all variables into a file that holds the image."""
    h5py = library()
    root = file[ROOT]
    _write(root, variables.attributes)
    for group in (_DIMENSIONS, _INFO):
        file.require_group(group)
    for name, variable in variables.variables.items():
        if name == IMAGE:
            _write(file[IMAGE_PATH], variable.attributes)
            continue
        value: Any = np.int32(0)
        if name in (IMAGE_MIN, IMAGE_MAX):
            value, path = np.asarray(variable.value, "<f8"), f"{FOLDER}/{name}"
        elif variables.is_dimension(name, axes):
            path = _DIMENSIONS + name
            if variable.value is not None:
                value = np.asarray(variable.value, "<f8")
        else:
            path = _INFO + name
        dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        dcpl.set_obj_track_times(False)
        array = np.asarray(value)
        space = h5py.h5s.create_simple(array.shape) if array.shape else h5py.h5s.create(h5py.h5s.SCALAR)
        made = h5py.Dataset(h5py.h5d.create(file.id, None, h5py.h5t.py_create(array.dtype), space, dcpl))
        if array.size:
            made[...] = array
        parent, _, last = path.rpartition("/")
        file.require_group(parent)[last] = made
        _write(made, variable.attributes)


def _write(node: Any, attributes: Mapping[str, Any]) -> None:
    """Write attributes: text of a fixed length that ends in NUL, as libminc does."""
    h5py = library()
    for name, value in attributes.items():
        if not isinstance(value, str):
            write_attributes(node, {name: value})
            continue
        data = value.encode() + b"\0"
        kind = h5py.h5t.C_S1.copy()
        kind.set_size(len(data))
        made = h5py.h5a.create(node.id, name.encode(), kind, h5py.h5s.create(h5py.h5s.SCALAR))
        made.write(np.array(data, f"S{len(data)}"), mtype=kind)
