"""Nodes of a zarr hierarchy: the metadata files of a folder, and the arrays below it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from reblock.errors import DiskError, UsageError
from reblock.model.medium import FOLDER, Medium
from reblock.model.roots import Roots
from reblock.storage.checks import load_json, show
from reblock.storage.media.files import disk_errors
from reblock.storage.media.small import has_object
from reblock.storage.records import RECORD_FILE
from reblock.storage.zarr.meta import Meta, parse_v2, parse_v3

#: File in the top folder of a hierarchy that is not complete: until it is removed, arrays write no metadata of groups.
UNFINISHED = ".reblock-unfinished"
#: The most folders that are searched for the arrays of a group; a folder with a long document counts for more.
_MANY_FOLDERS = 10_000
_LONG_BYTES = 1024


def read_array(medium: Medium, folder: str, roots: Roots | None) -> Meta | None:
    """The array in a folder, or None."""
    path = os.path.join(folder, "zarr.json")
    if has_object(medium, path):
        document = load_json(path, roots, medium=medium)
        if document.get("node_type") == "group" and document.get("zarr_format") == 3:
            return None
        return parse_v3(document, where=path)
    path = os.path.join(folder, ".zarray")
    if not has_object(medium, path):
        return None
    attributes, record = (
        load_json(beside, roots, medium=medium) if has_object(medium, beside) else {}
        for beside in (os.path.join(folder, name) for name in (".zattrs", RECORD_FILE))
    )
    return parse_v2(load_json(path, roots, medium=medium), attributes, where=path, record=record)


def is_group(medium: Medium, folder: str) -> bool:
    """Whether a folder has the metadata of a group, or of an array of v3."""
    return any(has_object(medium, os.path.join(folder, name)) for name in ("zarr.json", ".zgroup"))


def _is_array(medium: Medium, folder: str, roots: Roots | None) -> bool:
    if has_object(medium, os.path.join(folder, ".zarray")):
        return True
    path = os.path.join(folder, "zarr.json")
    return has_object(medium, path) and load_json(path, roots, medium=medium).get("node_type") == "array"


def arrays_below(medium: Medium, folder: str, roots: Roots | None) -> Iterator[str]:
    """Paths of the arrays below a group, nearest first; links are not followed."""
    waiting, seen = [""], 0
    while waiting:
        here = waiting.pop(0)
        with disk_errors("list", folder):
            found = sorted(name for name, kind in medium.entries(os.path.join(folder, here)) if kind == FOLDER)
        for name in found:
            path = f"{here}/{name}".lstrip("/")
            seen += 1 + _size(medium, os.path.join(folder, path, "zarr.json")) // _LONG_BYTES
            if seen > _MANY_FOLDERS:
                return
            if _is_array(medium, os.path.join(folder, path), roots):
                yield path
            else:
                waiting.append(path)


def _size(medium: Medium, path: str) -> int:
    try:
        return medium.status(path, follow=False).size
    except (FileNotFoundError, DiskError):
        return 0


def parts_of(path: str, inner: str) -> list[str]:
    """The names of an inner path; UsageError if one of them leads elsewhere."""
    parts = [part for part in inner.split("/") if part]
    if any(part in (".", "..") or "\0" in part for part in parts):
        raise UsageError(f"{path}: inner path {show(inner)} must name arrays and groups, without '.' and '..'")
    return parts
