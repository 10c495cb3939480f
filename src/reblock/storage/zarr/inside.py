"""Arrays that are added to an existing zarr group: the group's version, and its consolidated metadata."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from reblock.model.medium import FOLDER, Medium
from reblock.storage.checks import load_json
from reblock.storage.media.files import disk_errors
from reblock.storage.media.small import has_object
from reblock.storage.records import MEMBER
from reblock.storage.zarr.files import encode_json
from reblock.storage.zarr.tree import CONSOLIDATED, ZMETADATA

_V2_FILES = (".zgroup", ".zarray", ".zattrs")


def group_version(path: str, medium: Medium) -> int | None:
    """The version of the zarr group at a path; None if there is none."""
    if has_object(medium, os.path.join(path, "zarr.json")):
        return 3 if load_json(os.path.join(path, "zarr.json"), medium=medium).get("node_type") == "group" else None
    return 2 if has_object(medium, os.path.join(path, ".zgroup")) else None


def announce(path: str, medium: Medium) -> None:
    """Add the nodes at and below a path to the consolidated metadata of all groups above."""
    name, folder = os.path.basename(path), os.path.dirname(path)
    while folder and folder != os.path.dirname(folder) and (version := group_version(folder, medium)) is not None:
        file = os.path.join(folder, "zarr.json" if version == 3 else ZMETADATA)
        if has_object(medium, file):
            document = load_json(file, medium=medium)
            copy = document.get(CONSOLIDATED) if version == 3 else document
            if isinstance(copy, dict) and isinstance(copy.get("metadata"), dict):
                _add(copy, name, path, version, medium)
                medium.replace(file, encode_json(document))
                medium.sync(folder)
        name, folder = f"{os.path.basename(folder)}/{name}", os.path.dirname(folder)


def _add(copy: dict[str, Any], name: str, path: str, version: int, medium: Medium) -> None:
    metadata = copy["metadata"]
    if isinstance(ours := copy.get(MEMBER), dict):
        # The digest and the job were those of the group without this array.
        for key in ("digest", "job"):
            ours.pop(key, None)
    for node in _nodes(name, path, medium):
        for file, document in _documents(os.path.join(path, os.path.relpath(node, name)), version, medium):
            if version == 2:
                metadata[f"{node}/{file}"] = document
            elif document.get("node_type") == "group":
                empty = {"kind": "inline", "must_understand": False, "metadata": {}}
                metadata[node] = {**document, CONSOLIDATED: empty}
            else:
                metadata[node] = {key: value for key, value in document.items() if key != MEMBER}
                _set_lengths(ours, os.path.dirname(node), document)


def _set_lengths(ours: Any, group: str, document: dict[str, Any]) -> None:
    """Give shared axes of a group the lengths that an array has now; an unlimited one stays unlimited."""
    stored = ours.get("groups") if isinstance(ours, dict) else None
    found = stored.get(group) if isinstance(stored, dict) else None
    known = found.get("dimensions") if isinstance(found, dict) else None
    for axis, length in zip(document.get("dimension_names") or (), document.get("shape") or (), strict=False):
        if isinstance(known, dict) and axis in known:
            known[axis] = [length] if isinstance(known[axis], list) else length


def _nodes(name: str, path: str, medium: Medium) -> Iterator[str]:
    """The groups from a path down, and the arrays in them."""
    yield name
    if group_version(path, medium) is None:
        return
    with disk_errors("list", path):
        found = sorted(one for one, kind in medium.entries(path) if kind == FOLDER and not one.startswith("."))
    for one in found:
        yield from _nodes(f"{name}/{one}", os.path.join(path, one), medium)


def _documents(folder: str, version: int, medium: Medium) -> Iterator[tuple[str, dict[str, Any]]]:
    for file in ("zarr.json",) if version == 3 else _V2_FILES:
        path = os.path.join(folder, file)
        if has_object(medium, path):
            yield file, load_json(path, medium=medium)
