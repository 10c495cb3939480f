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

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from reblock.errors import FormatError
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.schema import Schema
from reblock.model.store import Index
from reblock.storage.blocks.disks import BlockPlaces, check_places
from reblock.storage.checks import check_integer, load_json, show
from reblock.storage.descriptions import check_members, describe, parse_description, to_lines
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
    check_members(found, ("files",), (_VERSION, _WITH_DISKS), path)
    places = check_places(found.get("disks"), path) if found["reblock"] == _WITH_DISKS else None
    record = record_from_json({key: found.get(_RECORD + key) for key in ("digest", "job")})
    schema = replace(parse_description(found, path), record=record)
    suffix, files = _check_files(found["files"], path)
    offset = check_integer(found.get("offset", 0), what="the offset", where=path)
    if offset > _MAX_OFFSET or (suffix == "bin" and offset):
        raise FormatError(f"{path}: offset {offset} in .{suffix} blocks; 0 in .bin and at most {_MAX_OFFSET} in .npy")
    straight = tuple(range(schema.ndim))
    if suffix == "npy" and schema.order not in (straight, straight[::-1]):
        raise FormatError(f"{path}: order {list(schema.order)} in .npy blocks, which are in C or Fortran order")
    return Manifest(schema, suffix, files, offset, places)


def write_manifest(folder: str, manifest: Manifest, medium: Medium = LOCAL) -> None:
    """Put the manifest into its folder, durable; a commit can be repeated after a crash."""
    schema = manifest.schema
    document = {
        "reblock": _VERSION if manifest.places is None else _WITH_DISKS,
        **describe(schema),
        "files": manifest.files,
        "offset": manifest.offset,
    }
    if manifest.places is not None:
        document["disks"] = manifest.places.to_json()
    document |= {_RECORD + key: text for key, text in record_to_json(schema.record).items()}
    medium.replace(os.path.join(folder, MANIFEST), to_lines(document))


def _check_files(value: Any, path: str) -> tuple[str, str]:
    """Kind and pattern of the block files; the pattern must stay inside the folder."""
    if not isinstance(value, str) or value.count("{index}") != 1 or set(value) & set("/\\\0"):
        raise FormatError(f"{path}: files must be a file name with one {{index}}, not {show(value)}")
    for suffix in ("npy", "bin"):
        if value.endswith(f".{suffix}"):
            return suffix, value
    raise FormatError(f"{path}: block files must end in .npy or .bin, not {show(value)}")
