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

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from reblock.errors import FormatError, UsageError
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.schema import Schema
from reblock.storage.checks import check_integer, check_shape, load_json, show
from reblock.storage.descriptions import check_members, describe, parse_description, to_lines
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
    check_members(found, ("block_format", "files"), (_VERSION,), path)
    record = record_from_json({key: found.get(_RECORD + key) for key in ("digest", "job")})
    schema = replace(parse_description(found, path), record=record)
    kind = found["block_format"]
    if not isinstance(kind, str) or not kind.isidentifier():
        raise FormatError(f"{path}: block_format must be the name of a format, not {show(kind)}")
    try:
        pattern = NamePattern(str(found["files"]))
        pattern.check_axes(schema.ndim)
    except UsageError as error:
        raise FormatError(f"{path}: {error}") from None
    return FileManifest(schema, kind, pattern, _check_offsets(found.get("offsets", []), schema.ndim, path))


def write_manifest(folder: str, manifest: FileManifest, medium: Medium = LOCAL) -> None:
    """Put the manifest into its folder, durable; a commit can be repeated after a crash."""
    schema = manifest.schema
    document = {
        "reblock": _VERSION,
        **describe(schema),
        "block_format": manifest.kind,
        "files": manifest.pattern.text,
        "offsets": [[list(shape), offset] for shape, offset in sorted(manifest.offsets.items())],
    }
    document |= {_RECORD + key: text for key, text in record_to_json(schema.record).items()}
    medium.replace(os.path.join(folder, MANIFEST), to_lines(document))


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
