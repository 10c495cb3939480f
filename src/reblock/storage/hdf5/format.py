"""The HDF5 format: opens and creates datasets, outside the library's global lock where possible.

::

    contiguous          one object, one run of bytes             pread, pwrite
    chunked, no filter  objects = chunks, places from the index  pread, pwrite (allocated when created)
    deflate, shuffle,   the same, decoded here                   pread; encoded here, placed by HDF5
    fletcher32
    lzf, szip, ...,     through h5py                             lzf through h5py, others not written
    compact, odd types

A chunk is always stored whole, so the last one of an axis may extend beyond the array.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

import numpy.typing as npt

from reblock.errors import CorruptError, DiskError, StorageError, TargetExistsError, UsageError
from reblock.model.codec import Codec
from reblock.model.dataset import Tree
from reblock.model.layout import Layout
from reblock.model.medium import Medium
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.model.store import ChunkLimits
from reblock.storage.hdf5.adapt import CHUNK_LIMIT, adapt_schema
from reblock.storage.hdf5.create import create_dataset
from reblock.storage.hdf5.file import failures, open_file, parts_of, resolve, signature_offset
from reblock.storage.hdf5.filters import pipeline_of
from reblock.storage.hdf5.fingerprint import check_fingerprint, save_fingerprint
from reblock.storage.hdf5.foreign import find, roots_of
from reblock.storage.hdf5.library import open_with_h5py
from reblock.storage.hdf5.metadata import describe_own
from reblock.storage.hdf5.redo import CheckpointFile, open_checkpoint_file, raise_disk_errors, recover, remove_redo
from reblock.storage.hdf5.sandbox.reader import Reader
from reblock.storage.hdf5.store import Hdf5Store, layout_of
from reblock.storage.hdf5.tree import Hdf5Tree, open_tree, tree_strangers
from reblock.storage.hdf5.tree_writing import adapt_tree, commit_tree, create_tree, write_rows
from reblock.storage.library import LibraryArray
from reblock.storage.location import Location
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import exists
from reblock.storage.trees import is_new_name

#: Name of a new dataset if none was given.
_NAME = "data"


class Hdf5Format:
    """Datasets in HDF5 files."""

    name = "hdf5"
    suffixes = (".h5", ".hdf5", ".he5")
    checksum = "fletcher32"
    single_file = True

    def probe(self, path: str, *, medium: Medium = LOCAL) -> bool:
        """Whether there is an HDF5 signature, possibly after a user block."""
        try:
            return signature_offset(path, medium) is not None
        except DiskError:
            return False

    def open(self, path: str, inner: str, allow: Sequence[str] = (), *, medium: Medium = LOCAL) -> Hdf5Store:
        """Open a dataset, or the only one of the file."""
        roots = roots_of(path, allow, medium)
        return Hdf5Store(*find(path, inner, roots, medium), roots=roots, medium=medium)

    def strangers(self, path: str, *, medium: Medium = LOCAL) -> Iterator[str]:
        """Attributes and members of groups, and a user block, beside the one dataset."""
        with closing(Reader(path, medium)) as reader:
            yield from reader.strangers()

    # ---------------------------------------------------------------- datasets
    def open_tree(self, path: str, inner: str, allow: Sequence[str] = (), *, medium: Medium = LOCAL) -> Hdf5Tree:
        """Open all datasets below a group."""
        return open_tree(path, inner, allow, medium)

    def adapt_tree(self, tree: Tree, asked: Collection[str]) -> Tree:
        """The nearest tree that a file can hold."""
        return adapt_tree(tree, asked)

    def create_tree(self, path: str, inner: str, tree: Tree, *, medium: Medium = LOCAL) -> None:
        """Make a new file with everything but elements."""
        _require_local(path, medium)
        create_tree(path, inner, tree)

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
        """Write rows of a table."""
        _require_local(path, medium)
        write_rows(path, inner, name, tree, start, rows)

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
        """Write the records of tables and of the whole."""
        _require_local(path, medium)
        commit_tree(path, inner, tree, records, record)

    def tree_strangers(self, path: str, tree: Tree, *, medium: Medium = LOCAL) -> Sequence[str]:
        """A user block, links, named types, and objects that the tree lacks."""
        return tree_strangers(path, tree, medium)

    # ---------------------------------------------------------------- arrays
    def open_with_library(self, path: str, inner: str, allow: Sequence[str] = ()) -> LibraryArray:
        """Open a dataset with h5py."""
        return open_with_h5py(Location(path, inner), allow)

    def adapt(self, schema: Schema, asked: Collection[str]) -> Schema:
        """The nearest schema that a dataset can have."""
        return adapt_schema(schema, asked)

    def layout(self, schema: Schema) -> Layout:
        """Chunks are objects, and the last ones are padded."""
        return layout_of(schema)

    def chunk_limits(self, codec: Codec) -> ChunkLimits:  # noqa: ARG002 - the limit is that of the file
        """HDF5 counts the bytes of a chunk with 32 bits."""
        return ChunkLimits(most_bytes=CHUNK_LIMIT)

    def foresee(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> None:  # noqa: ARG002
        """One file."""
        _require_local(path, medium)
        parts_of(inner)

    def create(
        self,
        path: str,
        inner: str,
        schema: Schema,
        *,
        medium: Medium = LOCAL,
        furnish: Callable[[Any], None] | None = None,
    ) -> Hdf5Store:
        """Make a new file with one dataset; without filters all its bytes are allocated at once, without writing.

        `furnish` adds what a format on top of HDF5 keeps beside the dataset.
        """
        _require_local(path, medium)
        name = "/".join(parts_of(inner)) or _NAME
        if exists(LOCAL, path):
            raise TargetExistsError(f"{path} exists already")
        return self._create(path, name, schema, furnish, new=True)

    def can_add(self, path: str, inner: str, schema: Schema | None) -> bool:  # noqa: ARG002 - any array fits
        """Whether a name is new in a file."""
        tree, name = self.open_tree(path, "").tree, "/".join(parts_of(inner))
        return is_new_name(path, name, [*tree.arrays, *tree.tables], tree.groups)

    def add(self, path: str, inner: str, schema: Schema) -> Hdf5Store:
        """Make a dataset in an existing file, which must be a copy: a kill may damage everything in it."""
        return self._create(path, "/".join(parts_of(inner)), schema, None, new=False)

    def _create(
        self, path: str, name: str, schema: Schema, furnish: Callable[[Any], None] | None, *, new: bool
    ) -> Hdf5Store:
        with failures("create" if new else "add to", path, StorageError):
            checkpoint_file = (
                CheckpointFile(path, new=new) if pipeline_of(schema.codec, schema.dtype.itemsize) else None
            )
            file: Any = None
            try:
                with raise_disk_errors(lambda: checkpoint_file):
                    if checkpoint_file is not None:
                        file = open_checkpoint_file(checkpoint_file)
                    else:
                        file = open_file(path, "x" if new else "r+")
                    if name in file:
                        raise TargetExistsError(f"{path} already has {name}")
                    stored = create_dataset(file, name, schema, unlimited=schema.unlimited)
                    if furnish is not None:
                        furnish(file)
                if checkpoint_file is None:
                    # The engine writes into the file, so HDF5 must have closed it.
                    file.close()
                    file = None
            except BaseException:
                with suppress(Exception):
                    file.close()
                if checkpoint_file is not None:
                    checkpoint_file.close()
                with suppress(DiskError):
                    LOCAL.remove(path)
                raise
        store = Hdf5Store(path, name, schema, stored, checkpoint_file, file)
        if checkpoint_file is None:
            save_fingerprint(path, _places(store))
        return store

    def reopen(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Hdf5Store:
        """Continue a dataset as the last checkpoint left it."""
        _require_local(path, medium)
        name = "/".join(parts_of(inner)) or _NAME
        if not pipeline_of(schema.codec, schema.dtype.itemsize):
            recover(path)
            remove_redo(path)
            found = self.open(path, name)
            _check_same(found, schema)
            check_fingerprint(path, _places(found))
            return Hdf5Store(path, name, schema, found.stored)
        with failures("open", path):
            checkpoint_file = CheckpointFile(path, new=False)
            file: Any = None
            try:
                with raise_disk_errors(lambda: checkpoint_file):
                    file = open_checkpoint_file(checkpoint_file)
                    dataset = resolve(file, path, parts_of(name))
                    found = Hdf5Store(
                        path, name, *describe_own(dataset, path, name, checkpoint_file.size), checkpoint_file, file
                    )
                _check_same(found, schema)
            except BaseException:
                with suppress(Exception):
                    file.close()
                checkpoint_file.close()
                raise
        return Hdf5Store(path, name, schema, found.stored, checkpoint_file, file)


def _require_local(path: str, medium: Medium) -> None:
    if not medium.is_local:
        raise UsageError(f"{path}: HDF5 needs a local file, which is not to be had in {medium.name}; zarr would do")


def _places(store: Hdf5Store) -> Iterator[tuple[int, int]]:
    """The positions of the elements of a dataset without filters."""
    for index in store.layout.objects.indices():
        extent = store.extents(index, [index], lambda _: b"")[0]
        if extent is not None:
            yield extent.offset, extent.length or 0


def _check_same(found: Hdf5Store, schema: Schema) -> None:
    # HDF5 adds settings to some filters.
    wanted, there = (
        [one.code for one in some] for some in (pipeline_of(schema.codec, schema.dtype.itemsize), found.stored.pipeline)
    )
    if found.layout != layout_of(schema) or wanted != there:
        raise CorruptError(f"{found.location} is not the dataset that was being written")


FORMAT = Hdf5Format()
