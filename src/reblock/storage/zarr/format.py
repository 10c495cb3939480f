"""The zarr formats: open and create v2 and v3 arrays."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy.typing as npt

from reblock.errors import FormatError, TargetExistsError
from reblock.model.codec import Codec
from reblock.model.dataset import Tree, TreeFormat
from reblock.model.layout import Layout
from reblock.model.medium import Medium
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.model.store import ChunkLimits, Store
from reblock.storage.library import LibraryArray
from reblock.storage.location import Location
from reblock.storage.media.files import disk_errors
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import check_folder, is_file, new_folder
from reblock.storage.trees import adapt_arrays, check_names, join
from reblock.storage.zarr import inside
from reblock.storage.zarr import shards as zarr_shards
from reblock.storage.zarr.contents import strangers, tree_strangers
from reblock.storage.zarr.files import describe
from reblock.storage.zarr.library import open_with_zarr_python
from reblock.storage.zarr.meta import Meta, in_chunk_order
from reblock.storage.zarr.nodes import arrays_below, is_group, parts_of, read_array
from reblock.storage.zarr.schema import adapt, chunk_limits
from reblock.storage.zarr.store import ZarrStore
from reblock.storage.zarr.table_files import adapt_table, meta_of
from reblock.storage.zarr.table_rows import write_rows
from reblock.storage.zarr.tree import ZarrTree, open_tree
from reblock.storage.zarr.tree_writing import RESERVED, adapt_groups, commit_tree, create_tree

#: Described schemas by their id and version; the schema is kept so that its id stays unique.
_DESCRIBED: dict[tuple[int, int], tuple[Schema, Meta]] = {}
_MAX_DESCRIBED = 128


@dataclass(frozen=True)
class ZarrFormat:
    """Opens zarr arrays of both versions, and creates those of one."""

    name: str
    """As in `--to`."""
    version: int
    """Version of new arrays."""
    suffixes: tuple[str, ...] = (".zarr",)
    """File name endings."""
    checksum: str = "crc32c"
    """The codec that adds a checksum to a chunk."""

    def probe(self, path: str, *, medium: Medium = LOCAL) -> bool:
        names = ("zarr.json", ".zarray", ".zgroup")[self.version == 2 :]
        return any(is_file(medium, os.path.join(path, name)) for name in names)

    def open(self, path: str, inner: str, allow: Sequence[str] = (), *, medium: Medium = LOCAL) -> Store:
        folder = os.path.join(path, *parts_of(path, inner))
        roots = medium.roots(path, allow)
        meta = read_array(medium, folder, roots)
        if meta is not None:
            return ZarrStore(path, "/".join(parts_of(path, inner)), meta, roots, medium=medium)
        if not is_group(medium, folder):
            with disk_errors("open", folder):
                medium.entries(folder)
            raise FormatError(f"{folder}: not a zarr array or group, there is no zarr.json, .zarray or .zgroup")
        found = list(islice(arrays_below(medium, folder, roots), 21))
        if len(found) == 1:
            return self.open(path, "/".join([*parts_of(path, inner), found[0]]), allow, medium=medium)
        there = ", ".join(found[:20]) + (", …" if len(found) > 20 else "")
        advice = f"name one of its arrays after '::': {there}" if found else "there is no array in it"
        raise FormatError(f"{folder}: a zarr group; {advice}")

    def strangers(self, path: str, *, medium: Medium = LOCAL) -> Iterator[str]:
        found, roots = self.open(path, "", medium=medium), medium.roots(path)
        if isinstance(found, ZarrStore):
            yield from strangers(medium, path, parts_of(path, found.inner), found.meta, roots)

    # ---------------------------------------------------------------- datasets
    def open_tree(self, path: str, inner: str, allow: Sequence[str] = (), *, medium: Medium = LOCAL) -> ZarrTree:
        return open_tree(path, inner, allow, medium)

    def adapt_tree(self, tree: Tree, asked: Collection[str]) -> Tree:
        check_names(tree, self.name, refused=lambda part: "zarr uses it itself" if part in RESERVED else "")
        arrays, refused = adapt_arrays(tree, self.adapt, asked)
        groups, notes = adapt_groups(tree, self.version)
        tables = {name: adapt_table(table, self.version) for name, table in tree.tables.items()}
        return Tree(groups, arrays, {**refused, **tables}, (*tree.notes, *notes))

    def create_tree(self, path: str, inner: str, tree: Tree, *, medium: Medium = LOCAL) -> None:
        create_tree(path, inner, tree, medium)

    def write_rows(
        self,
        path: str,
        inner: str,
        name: str,
        tree: Tree,
        start: int,
        rows: npt.NDArray[Any],
        *,
        medium: Medium = LOCAL,
    ) -> None:
        folder = os.path.join(path, *parts_of(path, join(inner, name)))
        write_rows(meta_of(tree.tables[name], self.version), medium, folder, start, rows)

    def commit_tree(
        self,
        path: str,
        inner: str,
        tree: Tree,
        records: Mapping[str, Record],
        record: Record = NO_RECORD,
        *,
        medium: Medium = LOCAL,
    ) -> None:
        commit_tree(path, inner, tree, records, record, self.version, medium)

    def tree_strangers(self, path: str, tree: Tree, *, medium: Medium = LOCAL) -> Sequence[str]:
        return list(tree_strangers(medium, path, tree, medium.roots(path)))

    def group_format(self, path: str, *, medium: Medium = LOCAL) -> TreeFormat | None:
        version = inside.group_version(path, medium)
        return None if version is None else FORMAT if version == 3 else FORMAT2

    def announce(self, path: str, *, medium: Medium = LOCAL) -> None:
        inside.announce(path, medium)

    # ---------------------------------------------------------------- arrays
    def open_with_library(self, path: str, inner: str, allow: Sequence[str] = ()) -> LibraryArray:  # noqa: ARG002 - links are followed anyway
        return open_with_zarr_python(Location(path, inner))

    def adapt(self, schema: Schema, asked: Collection[str]) -> Schema:
        return adapt(schema, asked, self.version)

    def layout(self, schema: Schema) -> Layout:
        return self._describe(schema).layout

    def _describe(self, schema: Schema) -> Meta:
        # The same schema is described many times in a run, for its layout, its place and its store.
        key = id(schema), self.version
        found = _DESCRIBED.get(key)
        if found is not None and found[0] is schema:
            return found[1]
        made = in_chunk_order(describe(schema, self.version), schema.chunk_order)
        made = made if schema.whole_objects else zarr_shards.by_chunk(made)
        if len(_DESCRIBED) >= _MAX_DESCRIBED:
            _DESCRIBED.clear()
        _DESCRIBED[key] = schema, made
        return made

    def chunk_limits(self, codec: Codec) -> ChunkLimits:
        return chunk_limits(codec, self.version)

    def create(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        store = self.foresee(path, inner, schema, medium=medium)
        try:
            new_folder(medium, path)
        except FileExistsError:
            raise TargetExistsError(f"{path} exists already") from None
        folder = path
        for part in parts_of(path, inner):
            folder = os.path.join(folder, part)
            medium.make_folder(folder)
        return store

    def reopen(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        store = self.foresee(path, inner, schema, medium=medium)
        check_folder(medium, store.folder)
        return store

    def foresee(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> ZarrStore:
        """A file for each chunk or shard."""
        inside = "/".join(parts_of(path, inner))
        return ZarrStore(path, inside, self._describe(schema), made_of=schema, medium=medium)


#: Found by the registry: new arrays are v3.
FORMAT: TreeFormat = ZarrFormat("zarr", 3)
#: Found by the registry: new arrays are v2.
FORMAT2: TreeFormat = ZarrFormat("zarr2", 2)
