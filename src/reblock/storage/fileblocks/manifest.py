"""The manifest of a folder of files, `reblock.json`: reads it with every value checked, and writes it.

::

    {
      "reblock": 2,                     version of the manifest; 1 is that of `blocks` and `rawblocks`
      "shape": [100, 90],
      "dtype": "<f4",
      "chunks": [40, [30, 60]],         a length per axis, or all lengths
      "order": [1, 0],                  axes inside a block, outermost first
      "block_format": "nifti",          format of the files; "raw" = elements and nothing else
      "files": "b_{0}_{1}.nii",         pattern of their names
      "offsets": [[[40, 30], 352], …],  for each shape of a block, the bytes before its elements
      "fill_value": null,               or the element's bytes in hexadecimal
      "axes": null,                     or a name per axis
      "attributes": {},
      "reblock_digest": "rb1-…",        digest of the elements, if one was computed
      "reblock_job": "…"                the job that made the folder, if known
    }
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reblock.errors import FormatError, UsageError
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.schema import Schema, element
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
from reblock.storage.fileblocks.pattern import NamePattern
from reblock.storage.media.local import LOCAL
from reblock.storage.records import record_from_json, record_to_json

#: Name of the manifest in its folder.
MANIFEST = "reblock.json"
#: The block format whose files are elements and nothing else.
RAW = "raw"
_VERSION = 2
#: Prefix of the names of a record's members.
_RECORD = "reblock_"


@dataclass(frozen=True)
class FileManifest:
    """The description of a folder of files."""

    schema: Schema
    """The array's schema."""
    kind: str
    """Format of the files, by its name in the registry, or `raw`."""
    pattern: NamePattern
    """Names of the files."""
    offsets: Mapping[tuple[int, ...], int] = field(default_factory=dict)
    """For each shape of a block, the bytes before its elements."""


def is_file_manifest(folder: str, roots: Roots | None, medium: Medium) -> bool:
    """Whether a folder has a manifest of such files."""
    try:
        return load_json(os.path.join(folder, MANIFEST), roots, medium=medium).get("block_format") is not None
    except FormatError:
        return False


def read_manifest(folder: str, roots: Roots | None = None, *, medium: Medium = LOCAL) -> FileManifest:
    """The manifest of a folder, checked."""
    path = os.path.join(folder, MANIFEST)
    found = load_json(path, roots, medium=medium)
    check_keys(found, ("reblock", "shape", "dtype", "chunks", "block_format", "files"), where=path)
    if found["reblock"] != _VERSION:
        raise FormatError(f"{path}: version {show(found['reblock'])} is not supported; {_VERSION} is")
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
    kind = found["block_format"]
    if not isinstance(kind, str) or not kind.isidentifier():
        raise FormatError(f"{path}: block_format must be the name of a format, not {show(kind)}")
    try:
        pattern = NamePattern(str(found["files"]))
        pattern.check_axes(len(shape))
    except UsageError as error:
        raise FormatError(f"{path}: {error}") from None
    return FileManifest(schema, kind, pattern, _check_offsets(found.get("offsets", []), len(shape), path))


def write_manifest(folder: str, manifest: FileManifest, medium: Medium = LOCAL) -> None:
    """Put the manifest into its folder, durable; a commit can be repeated after a crash."""
    schema = manifest.schema
    fill = schema.fill_value
    document = {
        "reblock": _VERSION,
        "shape": list(schema.shape),
        "dtype": schema.dtype.str,
        "chunks": [cut if isinstance(cut, int) else list(cut) for cut in schema.chunks],
        "order": list(schema.order),
        "block_format": manifest.kind,
        "files": manifest.pattern.text,
        "offsets": [[list(shape), offset] for shape, offset in sorted(manifest.offsets.items())],
        "fill_value": None if fill is None else element(fill, schema.dtype).tobytes().hex(),
        "axes": None if schema.axes is None else list(schema.axes),
        "attributes": dict(schema.attributes),
    }
    document |= {_RECORD + key: text for key, text in record_to_json(schema.record).items()}
    lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in document.items())
    medium.replace(os.path.join(folder, MANIFEST), f"{{\n{lines}\n}}\n".encode())


def _check_offsets(value: Any, ndim: int, path: str) -> dict[tuple[int, ...], int]:
    if not isinstance(value, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        raise FormatError(f"{path}: offsets must be pairs of a shape and a number, not {show(value)}")
    offsets = {}
    for shape, offset in value:
        lengths = check_shape(shape, where=path)
        if len(lengths) != ndim:
            raise FormatError(f"{path}: offsets for a block of {show(shape)} in an array of {ndim} axes")
        offsets[lengths] = check_integer(offset, what="an offset", where=path)
    return offsets


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
