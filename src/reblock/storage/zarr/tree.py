"""A zarr group with everything below it, opened for reading.

The metadata of each node is read from its own file. Consolidated metadata is a copy that may be out of date, so only
the order of nodes, and what reblock stores with groups, are taken from it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import DiskError, FormatError, UsageError
from reblock.model.dataset import Dimension, GroupSchema, TableSchema, Tree
from reblock.model.medium import FOLDER, LINK, Medium
from reblock.model.roots import Roots
from reblock.model.schema import Record
from reblock.model.store import Store
from reblock.storage.checks import check_shape, load_json, show
from reblock.storage.media.files import disk_errors
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import exists
from reblock.storage.records import MEMBER, RECORD_FILE, record_from_json
from reblock.storage.trees import check_nodes, join, with_dimensions, with_parents
from reblock.storage.typed_attributes import decode_attributes
from reblock.storage.zarr.hidden import TYPES
from reblock.storage.zarr.meta import Meta, parse_v2, parse_v3
from reblock.storage.zarr.nodes import is_group, parts_of
from reblock.storage.zarr.store import ZarrStore
from reblock.storage.zarr.table_rows import read_rows
from reblock.storage.zarr.tables import TableMeta, table_of_meta, table_of_v2, table_of_v3

#: Member of a group of v3 with the metadata of all nodes below it.
CONSOLIDATED = "consolidated_metadata"
#: File of a group of v2 with the metadata of all nodes below it.
ZMETADATA = ".zmetadata"


@dataclass(frozen=True)
class ZarrNode:
    """A group or an array of a hierarchy."""

    name: str
    """Path from the top of the dataset."""
    version: int
    """2 or 3."""
    content: GroupSchema | Meta | TableMeta | TableSchema
    """What it is; a TableSchema is an array that cannot be read."""
    documents: Mapping[str, Any]
    """Its metadata by file name."""


@dataclass(frozen=True)
class ZarrTree:
    """All arrays below a zarr group."""

    path: str
    """Folder that the user named."""
    inner: str
    """Path of the group inside it."""
    tree: Tree
    """What it holds."""
    metas: Mapping[str, Meta] = field(repr=False)
    """The parsed metadata of the arrays."""
    files: tuple[str, ...] = field(repr=False)
    """Metadata files of groups and tables."""
    tables: Mapping[str, TableMeta] = field(default_factory=dict, repr=False)
    """The parsed metadata of the tables."""
    version: int = 3
    """Version of the top group."""
    record: Record = field(default_factory=Record)
    """The record of the run that made the dataset."""
    roots: Roots | None = None
    """The real folder, and other folders that are allowed."""
    medium: Medium = LOCAL
    """The medium of the folder."""

    @property
    def format(self) -> str:
        return "zarr" if self.version == 3 else "zarr2"

    @property
    def location(self) -> str:
        return f"{self.path}::{self.inner}" if self.inner else self.path

    @property
    def described_by(self) -> Sequence[str]:
        return self.files

    def array(self, name: str) -> Store:
        if name not in self.metas:
            raise UsageError(f"{self.location}: there is no array {show(name)} that can be cut")
        return ZarrStore(self.path, join(self.inner, name), self.metas[name], self.roots, medium=self.medium)

    def rows(self, name: str, start: int, stop: int, limit_bytes: int) -> npt.NDArray[Any]:
        if name not in self.tables:
            found = self.tree.tables.get(name)
            why = "there is no such table" if found is None else found.why
            raise UsageError(f"{self.location}: {show(name)} cannot be read: {why}")
        folder = os.path.join(self.path, join(self.inner, name))
        return read_rows(self.tables[name], self.medium, folder, self.roots, start, stop, limit_bytes)


def open_tree(path: str, inner: str, allow: Sequence[str], medium: Medium) -> ZarrTree:
    """Open all arrays below a group."""
    inside = "/".join(parts_of(path, inner))
    top, roots = os.path.join(path, inside) if inside else path, medium.roots(path, allow)
    if not is_group(medium, top):
        with disk_errors("open", top):
            medium.entries(top)
        raise FormatError(f"{top}: not a zarr group, there is no zarr.json or .zgroup")
    notes: list[str] = []
    nodes = {node.name: node for node in walk(medium, top, roots, notes)}
    first = nodes[""]
    if not isinstance(first.content, GroupSchema):
        raise FormatError(f"{top}: a zarr array, not a group")
    hidden, order = _consolidated(medium, top, roots, first)
    ranks = {name: rank for rank, name in enumerate(order)}
    ranked = sorted(nodes.values(), key=lambda node: ranks.get(node.name, len(ranks)) if node.name else -1)
    groups = {node.name: _with_hidden(node, hidden) for node in ranked if isinstance(node.content, GroupSchema)}
    metas = {node.name: node.content for node in ranked if isinstance(node.content, Meta)}
    known = {node.name: node.content for node in ranked if isinstance(node.content, TableMeta)}
    tables = {
        node.name: node.content.schema if isinstance(node.content, TableMeta) else node.content
        for node in ranked
        if isinstance(node.content, TableMeta | TableSchema)
    }
    arrays = {name: meta.schema for name, meta in metas.items()}
    groups = with_dimensions(with_parents(groups, [*arrays, *tables]), {**arrays, **tables})
    files = [file for node in ranked if not isinstance(node.content, Meta) for file in _files(top, node)]
    return ZarrTree(
        path,
        inside,
        Tree(groups, arrays, tables, tuple(notes)),
        metas,
        tuple(files),
        known,
        first.version,
        record_from_json(hidden),
        roots,
        medium,
    )


# ---------------------------------------------------------------- nodes
def walk(medium: Medium, top: str, roots: Roots | None, notes: list[str]) -> Iterator[ZarrNode]:
    """All nodes from a group down, level by level; links to folders are not followed but noted."""
    waiting, seen = deque([""]), 1
    while waiting:
        here = waiting.popleft()
        folder = os.path.join(top, here) if here else top
        node = read_node(medium, folder, here, roots)
        if node is not None:
            yield node
            if not isinstance(node.content, GroupSchema):
                continue
        with disk_errors("list", folder):
            found = sorted(medium.entries(folder))
        for name, kind in found:
            if kind == LINK and _leads_to_node(medium, os.path.join(folder, name)):
                notes.append(f"{join(here, name)} is a link, which is not followed; open it by its name")
            if kind != FOLDER or not name:
                continue
            seen += 1
            check_nodes(seen, here.count("/") + 2 if here else 1, top)
            waiting.append(join(here, name))


def _leads_to_node(medium: Medium, folder: str) -> bool:
    return is_group(medium, folder) or exists(medium, os.path.join(folder, ".zarray"))


def read_node(medium: Medium, folder: str, name: str, roots: Roots | None) -> ZarrNode | None:
    """The node in a folder, or None; an array that cannot be read is a table with the reason."""
    path = os.path.join(folder, "zarr.json")
    if exists(medium, path):
        return _node_v3(medium, path, name, roots)
    documents: dict[str, Any] = {}
    kind = next((one for one in (".zarray", ".zgroup") if exists(medium, os.path.join(folder, one))), None)
    if kind is None:
        return None
    where = os.path.join(folder, kind)
    try:
        for file in (kind, ".zattrs", *((RECORD_FILE,) if kind == ".zarray" else ())):
            if file == kind or exists(medium, os.path.join(folder, file)):
                documents[file] = load_json(os.path.join(folder, file), roots, medium=medium)
        attributes = documents.get(".zattrs", {})
        if kind == ".zgroup":
            return ZarrNode(name, 2, GroupSchema(attributes), documents)
        hidden = documents.get(RECORD_FILE)
        meta = parse_v2(documents[kind], attributes, where=where, record=hidden)
        return ZarrNode(name, 2, table_of_meta(meta, hidden) or meta, documents)
    except DiskError:
        raise
    except FormatError as error:
        if not name:
            raise
        with suppress(FormatError):
            beside = documents.get(".zattrs", {}), documents.get(RECORD_FILE)
            return ZarrNode(name, 2, table_of_v2(documents.get(kind, {}), *beside, where), documents)
        return ZarrNode(name, 2, _unreadable(documents.get(kind, {}), error), documents)


def _node_v3(medium: Medium, path: str, name: str, roots: Roots | None) -> ZarrNode:
    document: dict[str, Any] = {}
    try:
        document = load_json(path, roots, medium=medium)
        if document.get("node_type") == "group" and document.get("zarr_format") == 3:
            attributes = document.get("attributes") or {}
            if not isinstance(attributes, Mapping):
                raise FormatError(f"{path}: attributes must be an object, not {show(attributes)}")
            return ZarrNode(name, 3, GroupSchema(dict(attributes)), {"zarr.json": document})
        meta = parse_v3(document, where=path)
        return ZarrNode(name, 3, table_of_meta(meta, document.get(MEMBER)) or meta, {"zarr.json": document})
    except DiskError:
        raise
    except FormatError as error:
        if not name:
            raise
        with suppress(FormatError):
            return ZarrNode(name, 3, table_of_v3(document, path), {"zarr.json": document})
        return ZarrNode(name, 3, _unreadable(document, error), {"zarr.json": document})


def _unreadable(document: Mapping[str, Any], error: FormatError) -> TableSchema:
    """An array that is listed but cannot be read."""
    try:
        shape = check_shape(document.get("shape"), where="")
    except FormatError:
        shape = ()
    return TableSchema(shape, np.dtype("O"), "unknown", why=error.message)


def _files(top: str, node: ZarrNode) -> list[str]:
    """The metadata files of a group or table, including those that do not exist yet."""
    names = ["zarr.json"] if node.version == 3 else [*node.documents, ".zattrs", *(() if node.name else (ZMETADATA,))]
    return [os.path.join(top, node.name, name) for name in dict.fromkeys(names)]


# ---------------------------------------------------------------- consolidated metadata
def _consolidated(
    medium: Medium, top: str, roots: Roots | None, first: ZarrNode
) -> tuple[Mapping[str, Any], list[str]]:
    """What reblock has stored with the groups, and names of nodes in their order."""
    if first.version == 3:
        found = first.documents["zarr.json"].get(CONSOLIDATED)
    elif exists(medium, os.path.join(top, ZMETADATA)):
        try:
            found = load_json(os.path.join(top, ZMETADATA), roots, medium=medium)
        except FormatError:
            return {}, []
    else:
        return {}, []
    if not isinstance(found, Mapping):
        return {}, []
    members, hidden = found.get("metadata"), found.get(MEMBER)
    names = list(members) if isinstance(members, Mapping) else []
    if first.version == 2:
        names = [name.rpartition("/")[0] for name in names]
    return hidden if isinstance(hidden, Mapping) else {}, list(dict.fromkeys(map(str, names)))


def _with_hidden(node: ZarrNode, hidden: Mapping[str, Any]) -> GroupSchema:
    """A group with the types of its attributes, and its shared axes."""
    groups = hidden.get("groups")
    stored = groups.get(node.name) if isinstance(groups, Mapping) else None
    group = node.content
    if not isinstance(group, GroupSchema) or not isinstance(stored, Mapping):
        return group if isinstance(group, GroupSchema) else GroupSchema()
    attributes = decode_attributes(group.attributes, stored.get(TYPES))
    return replace(group, attributes=attributes, dimensions=_dimensions(stored.get("dimensions")))


def _dimensions(value: Any) -> dict[str, Dimension]:
    found: dict[str, Dimension] = {}
    for name, length in value.items() if isinstance(value, Mapping) else ():
        unlimited = isinstance(length, list)
        size = length[0] if isinstance(length, list) and len(length) == 1 else length
        if isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 1 << 63:
            found[str(name)] = Dimension(size, unlimited)
    return found


def hidden_group(attribute_types: Mapping[str, Any], dimensions: Mapping[str, Dimension]) -> dict[str, Any]:
    """What is stored with a group: a dimension is its length, in a list if it is unlimited."""
    lengths = {name: [one.length] if one.unlimited else one.length for name, one in dimensions.items()}
    return {
        **({TYPES: dict(attribute_types)} if attribute_types else {}),
        **({"dimensions": lengths} if lengths else {}),
    }
