"""Make a zarr hierarchy: folders first, then the arrays one by one, and the metadata of groups last.

::

    create_tree   folders of all nodes, and a mark in the top one, so that arrays do not publish the groups above them
    commit        of each array: its chunks are there, now its own metadata
    commit_tree   metadata of the groups, that of the top last, with a copy of all others (consolidated metadata)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from reblock.errors import FormatError, TargetExistsError
from reblock.model.dataset import GroupSchema, Tree
from reblock.model.medium import Medium
from reblock.model.schema import NO_RECORD, Record
from reblock.storage.attributes import is_text
from reblock.storage.checks import load_json, parse_json
from reblock.storage.media.files import disk_errors
from reblock.storage.media.small import exists, new_folder
from reblock.storage.records import MEMBER, RECORD_FILE, record_to_json
from reblock.storage.trees import join, parent_of, parents, with_parents
from reblock.storage.typed_attributes import encode_attributes
from reblock.storage.zarr.files import encode_json
from reblock.storage.zarr.nodes import UNFINISHED, parts_of
from reblock.storage.zarr.table_files import table_files
from reblock.storage.zarr.tree import CONSOLIDATED, ZMETADATA, hidden_group

#: Names of files and of the document's members that zarr gives a meaning.
RESERVED = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ZMETADATA, RECORD_FILE, UNFINISHED)


def create_tree(path: str, inner: str, tree: Tree, medium: Medium) -> None:
    """Make the folders of all nodes."""
    try:
        new_folder(medium, path)
    except FileExistsError:
        raise TargetExistsError(f"{path} exists already") from None
    inside, folders = parts_of(path, inner), {""}
    above = ["/".join(inside[: count + 1]) for count in range(len(inside))]
    top = "/".join(inside)
    nodes = [*tree.groups, *tree.arrays, *(name for name, table in tree.tables.items() if not table.why)]
    with disk_errors("create", path):
        for name in (*above, *(join(top, name) for name in nodes if name)):
            for folder in (*parents(name), name):
                if folder not in folders:
                    medium.make_folder(os.path.join(path, folder))
                    folders.add(folder)
        medium.create(os.path.join(path, top, UNFINISHED), b"{}")
        for folder in folders:
            medium.sync(os.path.join(path, folder) if folder else path)
        medium.sync_name(path)


def commit_tree(
    path: str,
    inner: str,
    tree: Tree,
    records: Mapping[str, Record],
    record: Record,
    version: int,
    medium: Medium,
) -> None:
    """Write the metadata of all groups; the top's own comes last, with that of all nodes below it."""
    inside = parts_of(path, inner)
    top = os.path.join(path, *inside)
    kept = [name for name, table in tree.tables.items() if not table.why]
    for name in kept:
        for file, document in table_files(tree.tables[name], version, records.get(name, NO_RECORD)).items():
            medium.replace(os.path.join(top, name, file), encode_json(document))
    documents = _Documents(version, tree, record)
    for name in _in_order(tree, kept):
        if name in tree.groups:
            for file, data in documents.of_group(name):
                medium.replace(os.path.join(top, name, file), data)
        else:
            documents.add(name, _read(medium, os.path.join(top, name), version))
    for count in range(len(inside)):
        folder = os.path.join(path, *inside[:count])
        name = "zarr.json" if version == 3 else ".zgroup"
        if not exists(medium, os.path.join(folder, name)):
            medium.replace(os.path.join(folder, name), _plain_group(version))
    for file, data in documents.of_top():
        medium.replace(os.path.join(top, file), data)
    medium.remove(os.path.join(top, UNFINISHED))
    medium.sync(top)
    medium.sync_name(path)


def _plain_group(version: int) -> bytes:
    return encode_json(_group_v3({}) if version == 3 else {"zarr_format": 2})


def _group_v3(attributes: dict[str, Any]) -> dict[str, Any]:
    return {"zarr_format": 3, "node_type": "group", "attributes": attributes}


def _in_order(tree: Tree, tables: Sequence[str]) -> Iterator[str]:
    """All nodes but the top: level by level, those of one group together, since zarr-python needs them so."""
    children: dict[str, list[str]] = {}
    for name in (*tree.groups, *tree.arrays, *tables):
        if name:
            children.setdefault(parent_of(name), []).append(name)
    level = [""]
    while level:
        level = [child for group in level for child in children.get(group, ())]
        yield from level


def _read(medium: Medium, folder: str, version: int) -> dict[str, Any]:
    """The metadata of a committed array as it is stored."""
    names = ("zarr.json",) if version == 3 else (".zarray", ".zattrs")
    return {
        name: load_json(os.path.join(folder, name), medium=medium)
        for name in names
        if name != ".zattrs" or exists(medium, os.path.join(folder, name))
    }


class _Documents:
    """The documents of a hierarchy, and the copy of all of them."""

    def __init__(self, version: int, tree: Tree, record: Record) -> None:
        self._version, self._tree, self._record = version, tree, record
        self._members: dict[str, Any] = {}
        self._hidden: dict[str, Any] = {}

    def add(self, name: str, documents: Mapping[str, Any]) -> None:
        """Copy the documents of an array."""
        if self._version == 3:
            self._members[name] = {key: value for key, value in documents["zarr.json"].items() if key != MEMBER}
        else:
            self._members |= {f"{name}/{file}": document for file, document in documents.items()}

    def of_group(self, name: str) -> list[tuple[str, bytes]]:
        """Files of a group below the top."""
        attributes = self._attributes(name, self._tree.groups[name])
        if self._version == 3:
            group = _group_v3(attributes)
            # As zarr-python has it: the nodes below are listed at the top.
            empty = {"kind": "inline", "must_understand": False, "metadata": {}}
            self._members[name] = {**group, CONSOLIDATED: empty}
            return [("zarr.json", encode_json(group))]
        files = {".zattrs": attributes} if attributes else {}
        files[".zgroup"] = {"zarr_format": 2}
        self._members |= {f"{name}/{file}": document for file, document in files.items()}
        return [(file, encode_json(document)) for file, document in files.items()]

    def of_top(self) -> list[tuple[str, bytes]]:
        """Files of the top group, the one by which it is found last."""
        attributes = self._attributes("", self._tree.groups[""])
        hidden = {**record_to_json(self._record), **({"groups": self._hidden} if self._hidden else {})}
        ours = {MEMBER: hidden} if hidden else {}
        if self._version == 3:
            group = _group_v3(attributes)
            copy = {"kind": "inline", "must_understand": False, "metadata": self._members, **ours}
            data = _within_limits({**group, CONSOLIDATED: copy})
            return [("zarr.json", encode_json(group) if data is None else data)]
        files = {".zattrs": attributes} if attributes else {}
        files[".zgroup"] = {"zarr_format": 2}
        copied = {**{name: files[name] for name in files}, **self._members}
        data = _within_limits({"zarr_consolidated_format": 1, "metadata": copied, **ours})
        joint = [] if data is None else [(ZMETADATA, data)]
        first, last = [encode_json(files[name]) for name in files if name == ".zattrs"], encode_json(files[".zgroup"])
        return [*((".zattrs", one) for one in first), *joint, (".zgroup", last)]

    def _attributes(self, name: str, group: GroupSchema) -> dict[str, Any]:
        encoded = encode_attributes(group.attributes, netcdf=_is_netcdf(self._tree), version=self._version)
        if hidden := hidden_group(encoded.types, group.dimensions):
            self._hidden[name] = hidden
        return encoded.values


def _within_limits(document: dict[str, Any]) -> bytes | None:
    """A document as bytes; None if it is longer than we would read."""
    data = encode_json(document)
    try:
        parse_json(data, where="")
    except FormatError:
        return None
    return data


def _is_netcdf(tree: Tree) -> bool:
    """Whether the groups come from a NetCDF file, in which single attribute values are arrays of length one."""
    return any(schema.netcdf for schema in tree.arrays.values())


def adapt_groups(tree: Tree, version: int) -> tuple[dict[str, GroupSchema], list[str]]:
    """The groups as zarr can hold them, and notes."""
    notes: list[str] = []
    groups: dict[str, GroupSchema] = {}
    for name, group in with_parents(tree.groups, [*tree.arrays, *tree.tables]).items():
        encoded = encode_attributes(group.attributes, netcdf=_is_netcdf(tree), version=version)
        notes += [f"group /{name}: {note}" for note in encoded.notes]
        attributes = {key: group.attributes[key] for key in encoded.values}
        dimensions = {axis: one for axis, one in group.dimensions.items() if is_text(axis)}
        groups[name] = replace(group, attributes=attributes, dimensions=dimensions)
    return groups, notes
