"""The tiff formats: open TIFF, BigTIFF and OME-TIFF files, and create them with a description in JSON or OME-XML."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from reblock.errors import UsageError
from reblock.model.codec import Codec
from reblock.model.layout import Layout
from reblock.model.medium import Medium
from reblock.model.schema import Schema
from reblock.model.store import ChunkLimits, Format, Store
from reblock.storage.library import LibraryArray
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import is_file, read_head
from reblock.storage.tiff import writer
from reblock.storage.tiff.adapt import MAX_SEGMENT_BYTES, adapt_schema
from reblock.storage.tiff.geometry import TiffPages
from reblock.storage.tiff.handle import MAGIC
from reblock.storage.tiff.library import open_with_tifffile
from reblock.storage.tiff.store import TiffStore
from reblock.storage.tiff.structure import read_structure


@dataclass(frozen=True)
class TiffFormat:
    """Opens TIFF files of all kinds, and creates those of one."""

    name: str
    """As in `--to`."""
    suffixes: tuple[str, ...]
    """File name endings."""
    ome: bool = False
    """Whether new files have OME-XML."""
    checksum: str = ""
    """TIFF has no place for checksums."""
    single_file: bool = True
    """A file holds one array."""

    def probe(self, path: str, *, medium: Medium = LOCAL) -> bool:
        return is_file(medium, path) and read_head(medium, path, 4)[0] in MAGIC

    def open(self, path: str, inner: str, allow: Sequence[str] = (), *, medium: Medium = LOCAL) -> Store:
        roots = medium.roots(path, allow)
        inner = inner.strip("/")
        return TiffStore(path, inner, read_structure(path, inner, medium, roots), roots, medium)

    def strangers(self, path: str, *, medium: Medium = LOCAL) -> Iterator[str]:
        self.open(path, "", medium=medium)
        yield from ()

    def open_with_library(self, path: str, inner: str, allow: Sequence[str] = ()) -> LibraryArray:  # noqa: ARG002 - a single file
        return open_with_tifffile(path, inner.strip("/"))

    def adapt(self, schema: Schema, asked: Collection[str]) -> Schema:
        return adapt_schema(schema, asked, ome=self.ome)

    def layout(self, schema: Schema) -> Layout:
        return TiffPages(schema).layout

    def chunk_limits(self, codec: Codec) -> ChunkLimits:  # noqa: ARG002 - the same for all
        return ChunkLimits(most_bytes=MAX_SEGMENT_BYTES)

    def foresee(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> None:  # noqa: ARG002 - as the protocol says
        """One file."""
        _refuse_inner(path, inner)

    def create(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        _refuse_inner(path, inner)
        return writer.create(path, schema, medium, ome=self.ome)

    def reopen(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        _refuse_inner(path, inner)
        return writer.reopen(path, schema, medium, ome=self.ome)


def _refuse_inner(path: str, inner: str) -> None:
    if inner:
        raise UsageError(f"{path}: a new TIFF file holds one array; leave out ::{inner}")


#: Found by the registry: new files describe themselves in JSON, as those of tifffile.
FORMAT: Format = TiffFormat("tiff", (".tif", ".tiff"))
#: Found by the registry: new files have OME-XML.
FORMAT_OME: Format = TiffFormat("ometiff", (".ome.tif", ".ome.tiff"), ome=True)
