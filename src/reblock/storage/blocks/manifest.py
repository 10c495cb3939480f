"""The manifest of a block folder: reads it with every value checked, and writes it.

::

    {
      "reblock": 1,                     version of the manifest; 2 = the blocks are on several disks
      "shape": [100, 90],
      "dtype": "<f4",
      "chunks": [40, [30, 60]],         a length per axis, or all lengths
      "order": [0, 1],                  axes inside a block, outermost first
      "files": "{index}.npy",           {index} is the block's index joined by _, or 0 without axes
      "offset": 128,                    bytes before the elements in each block file
      "fill_value": null,               or the element's bytes in hexadecimal
      "axes": null,                     or a name per axis
      "attributes": {},
      "disks": {…},                     only in version 2, see `disks`
      "reblock_digest": "rb1-…",        digest of the elements, if one was computed
      "reblock_job": "…"                the job that made the folder, if known
    }
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reblock.errors import FormatError
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.schema import Schema, element
from reblock.model.store import Index
from reblock.storage.blocks.disks import BlockPlaces, check_places
from reblock.storage.checks import (
    check_chunks,
    check_dtype,
    check_integer,
    check_keys,
    check_order,
    check_shape,
    load_json,
    show,
)
from reblock.storage.media.files import disk_errors, is_number_below
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import exists
from reblock.storage.records import record_from_json, record_to_json

#: Name of the manifest in its folder.
MANIFEST = "reblock.json"
#: Versions of the manifest: without disks and with them. Older programs must not look for blocks in the folder.
_VERSION, _WITH_DISKS = 1, 2
#: Prefix of the names of a record's members.
_RECORD = "reblock_"
#: Headers of blocks are shorter than this, see `npy_header`.
_MAX_OFFSET = 1 << 16


@dataclass(frozen=True)
class Manifest:
    """The description of a block folder."""

    schema: Schema
    """The array's schema."""
    suffix: str
    """Kind of the block files: npy or bin."""
    files: str
    """Name of a block file, with {index}."""
    offset: int
    """Bytes before the elements in each block file."""
    places: BlockPlaces | None = None
    """Where the blocks are, if they are on several disks."""

    def file_name(self, index: Index) -> str:
        """Name of a block's file."""
        return self.files.replace("{index}", "_".join(map(str, index)) or "0")

    def is_block(self, name: str, counts: Sequence[int]) -> bool:
        """Whether a file name is that of a block, in a grid with `counts` blocks along each axis."""
        before, _, after = self.files.partition("{index}")
        if len(name) <= len(before) + len(after) or not (name.startswith(before) and name.endswith(after)):
            return False
        parts = name[len(before) : len(name) - len(after)].split("_")
        counts = counts or (1,)
        return len(parts) == len(counts) and all(map(is_number_below, parts, counts))


def names_files(folder: str, roots: Roots | None, medium: Medium) -> bool:
    """Whether a folder's manifest is that of `fileblocks`, which names the format of its files."""
    return "block_format" in load_json(os.path.join(folder, MANIFEST), roots, medium=medium)


def read_manifest(folder: str, roots: Roots | None = None, *, medium: Medium = LOCAL) -> Manifest:
    """The manifest of a folder, checked."""
    path = os.path.join(folder, MANIFEST)
    if not exists(medium, path):
        with disk_errors("open", folder):
            count = len(medium.entries(folder))
        raise FormatError(f"{folder}: {MANIFEST} is missing, so the shape of a folder of {count} files is unknown")
    found = load_json(path, roots, medium=medium)
    check_keys(found, ("reblock", "shape", "dtype", "chunks", "files"), where=path)
    if found["reblock"] not in (_VERSION, _WITH_DISKS) or found["reblock"] is True:
        raise FormatError(
            f"{path}: version {show(found['reblock'])} is not supported; {_VERSION} and {_WITH_DISKS} are"
        )
    places = check_places(found.get("disks"), path) if found["reblock"] == _WITH_DISKS else None
    dtype = check_dtype(found["dtype"], where=path)
    shape = check_shape(found["shape"], where=path, itemsize=dtype.itemsize)
    order = found.get("order")
    schema = Schema(
        shape,
        dtype,
        check_chunks(found["chunks"], shape, dtype.itemsize, where=path, irregular=True),
        order=tuple(range(len(shape))) if order is None else check_order(order, len(shape), where=path),
        fill_value=_fill_from(found.get("fill_value"), dtype, path),
        attributes=_check_attributes(found.get("attributes"), path),
        axes=_check_axes(found.get("axes"), len(shape), path),
        record=record_from_json({key: found.get(_RECORD + key) for key in ("digest", "job")}),
    )
    suffix, files = _check_files(found["files"], path)
    offset = check_integer(found.get("offset", 0), what="the offset", where=path)
    if offset > _MAX_OFFSET or (suffix == "bin" and offset):
        raise FormatError(f"{path}: offset {offset} in .{suffix} blocks; 0 in .bin and at most {_MAX_OFFSET} in .npy")
    straight = tuple(range(len(shape)))
    if suffix == "npy" and schema.order not in (straight, straight[::-1]):
        raise FormatError(f"{path}: order {list(schema.order)} in .npy blocks, which are in C or Fortran order")
    return Manifest(schema, suffix, files, offset, places)


def write_manifest(folder: str, manifest: Manifest, medium: Medium = LOCAL) -> None:
    """Put the manifest into its folder, durable; a commit can be repeated after a crash."""
    schema = manifest.schema
    fill = schema.fill_value
    document = {
        "reblock": _VERSION if manifest.places is None else _WITH_DISKS,
        "shape": list(schema.shape),
        "dtype": schema.dtype.str,
        "chunks": [cut if isinstance(cut, int) else list(cut) for cut in schema.chunks],
        "order": list(schema.order),
        "files": manifest.files,
        "offset": manifest.offset,
        "fill_value": None if fill is None else element(fill, schema.dtype).tobytes().hex(),
        "axes": None if schema.axes is None else list(schema.axes),
        "attributes": dict(schema.attributes),
    }
    if manifest.places is not None:
        document["disks"] = manifest.places.to_json()
    document |= {_RECORD + key: text for key, text in record_to_json(schema.record).items()}
    lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in document.items())
    medium.replace(os.path.join(folder, MANIFEST), f"{{\n{lines}\n}}\n".encode())


def _check_files(value: Any, path: str) -> tuple[str, str]:
    """Kind and pattern of the block files; the pattern must stay inside the folder."""
    if not isinstance(value, str) or value.count("{index}") != 1 or set(value) & set("/\\\0"):
        raise FormatError(f"{path}: files must be a file name with one {{index}}, not {show(value)}")
    for suffix in ("npy", "bin"):
        if value.endswith(f".{suffix}"):
            return suffix, value
    raise FormatError(f"{path}: block files must end in .npy or .bin, not {show(value)}")


def _fill_from(value: Any, dtype: np.dtype[Any], path: str) -> Any:
    if value is None:
        return None
    try:
        data = bytes.fromhex(value)
    except (TypeError, ValueError):
        data = b""
    if len(data) != dtype.itemsize:
        raise FormatError(
            f"{path}: the fill value must be null or {dtype.itemsize} bytes in hexadecimal, not {show(value)}"
        )
    return np.frombuffer(data, dtype)[0]


def _check_attributes(value: Any, path: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FormatError(f"{path}: attributes must be a JSON object, not {show(value)}")
    return value


def _check_axes(value: Any, ndim: int, path: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != ndim or not all(isinstance(name, str) for name in value):
        raise FormatError(f"{path}: axes must be null or {ndim} names, not {show(value)}")
    return tuple(value)
