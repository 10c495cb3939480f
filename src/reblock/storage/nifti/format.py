"""The NIfTI formats: volumes in .nii files and pairs of files, and in .nii.gz files.

Indices are those of nibabel (x, y, z, t, ...), and the first axis is the fastest on disk. Elements are the stored ones:
slope and intercept stay in the header, which is kept byte by byte.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reblock.errors import CorruptError, DiskError, FormatError, StorageError, UsageError, option
from reblock.model.codec import Codec
from reblock.model.layout import Layout
from reblock.model.medium import LINK, Medium
from reblock.model.roots import Roots
from reblock.model.schema import Schema
from reblock.model.store import ChunkLimits, Format, Store
from reblock.storage.library import LibraryArray
from reblock.storage.media.files import disk_errors
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import exists, is_file, read_head
from reblock.storage.nifti.adapt import adapt_schema, preamble_of
from reblock.storage.nifti.compressed import (
    LAYER_BYTES,
    USUAL,
    NiftiGzStore,
    Spool,
    check_first_member,
    codec_in,
    compressed_layout,
    first_member,
    layers_of,
    spool_of,
)
from reblock.storage.nifti.header import (
    AXES,
    MAX_EXTENSIONS,
    SIZES,
    NiftiHeader,
    attributes_of,
    fields_of,
    parse_header,
    version_of,
)
from reblock.storage.nifti.inflate import GZIP_MAGIC, check_ratio, index_bytes, read_beginning
from reblock.storage.nifti.library import open_with_nibabel
from reblock.storage.nifti.moving import moved_head
from reblock.storage.nifti.store import NiftiStore, layout_of
from reblock.units import format_size

_LONGEST = max(SIZES.values())


class NiftiFormat:
    """Opens .nii files and pairs of .hdr and .img files, and creates .nii files."""

    name = "nifti"
    suffixes = (".nii",)
    checksum = ""
    single_file = True

    def probe(self, path: str, *, medium: Medium = LOCAL) -> bool:
        if not is_file(medium, path):
            return False
        if version_of(read_head(medium, path, _LONGEST)[0]) is not None:
            return True
        header = _other(path, ".img", ".hdr")
        return header is not None and is_file(medium, header) and self.probe(header, medium=medium)

    def open(self, path: str, inner: str, allow: Sequence[str] = (), *, medium: Medium = LOCAL) -> Store:
        _refuse_inner(path, inner)
        named = _other(path, ".img", ".hdr")
        if named is not None and is_file(medium, named):
            path = _beside(path, named, medium, allow)
        head, size = read_head(medium, path, _LONGEST)
        header = parse_header(head, path)
        image = _image_of(path) if header.paired else path
        roots = medium.roots(_beside(path, image, medium, allow), allow)
        # What follows the header of a pair ends with its file.
        stop = size if header.paired else header.offset
        follows = read_head(medium, path, min(stop, len(header.fixed) + MAX_EXTENSIONS))[0][len(header.fixed) :]
        schema = _schema(header, follows, stop - len(header.fixed), Codec(), _one_chunk(header.shape))
        store = NiftiStore(path, schema, header.offset, image if header.paired else "", roots, medium)
        store.check_size()
        return store

    def strangers(self, path: str, *, medium: Medium = LOCAL) -> Iterator[str]:
        store = self.open(path, "", medium=medium)
        place = store.place(())
        if place.path != path or _other(path, ".img", ".hdr") is not None:
            yield "the other file of a pair"
        more = read_head(medium, path, 0)[1] - place.offset - (place.length or 0)
        if more:
            yield f"{more:,} bytes after the array"

    def open_with_library(self, path: str, inner: str, allow: Sequence[str] = ()) -> LibraryArray:  # noqa: ARG002 - a single file
        _refuse_inner(path, inner)
        return open_with_nibabel(path)

    def adapt(self, schema: Schema, asked: Collection[str]) -> Schema:
        if schema.codec and "codec" in asked:
            raise UsageError(f"NIfTI is not encoded: codec {schema.codec} is not possible; end the name in .nii.gz")
        return adapt_schema(schema, asked, Codec(), _one_chunk(schema.shape))

    def layout(self, schema: Schema) -> Layout:
        return layout_of(schema)

    def chunk_limits(self, codec: Codec) -> ChunkLimits:  # noqa: ARG002 - there are no codecs
        return ChunkLimits(chunked=False)

    def foresee(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> None:  # noqa: ARG002 - as the protocol says
        """One file."""
        _refuse_inner(path, inner)
        if path.lower().endswith((".hdr", ".img")):
            raise UsageError(
                f"{path}: two files cannot be published at once, so pairs are only read; write a .nii file"
            )

    def moved_head(self, head: bytes, origin: Sequence[int]) -> bytes:
        """The head of a block, with its own place in space."""
        return moved_head(head, origin)

    def create(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        _refuse_inner(path, inner)
        preamble = preamble_of(schema)
        store = NiftiStore(path, schema, len(preamble), medium=medium)
        with disk_errors("create", path):
            medium.create(path, preamble, size=len(preamble) + store.layout.nbytes)
        return store

    def reopen(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        _refuse_inner(path, inner)
        preamble = preamble_of(schema)
        if read_head(medium, path, len(preamble))[0] != preamble:
            raise CorruptError(f"{path}: not the header of the array that was being written")
        store = NiftiStore(path, schema, len(preamble), medium=medium)
        store.check_size()
        return store


@dataclass(frozen=True)
class NiftiGzFormat:
    """Opens and creates .nii.gz files."""

    layer_bytes: int = LAYER_BYTES
    """Bytes of a layer, about."""
    name = "nifti_gz"
    suffixes = (".nii.gz",)
    checksum = ""
    single_file = True

    def probe(self, path: str, *, medium: Medium = LOCAL) -> bool:
        if not is_file(medium, path) or read_head(medium, path, 2)[0] != GZIP_MAGIC:
            return False
        if path.lower().endswith(self.suffixes):
            # Opening it gives a better error message.
            return True
        try:
            return version_of(read_beginning(medium, path, _LONGEST)[0]) is not None
        except (FormatError, CorruptError):
            return False

    def open(self, path: str, inner: str, allow: Sequence[str] = (), *, medium: Medium = LOCAL) -> Store:
        _refuse_inner(path, inner)
        roots = medium.roots(path, allow)
        head, first, stored = read_beginning(medium, path, _LONGEST, roots)
        header = parse_header(head, path)
        if header.paired:
            raise FormatError(f"{path}: the compressed header of a pair of files; `gunzip` both to read them")
        layers = layers_of(header.shape, header.dtype.itemsize, self.layer_bytes)
        size = header.offset + _nbytes(header)
        check_ratio(path, stored, size)
        kept = min(header.offset, len(header.fixed) + MAX_EXTENSIONS)
        start = read_beginning(medium, path, kept, roots)[0]
        if len(start) < kept:
            raise CorruptError(f"{path}: the gzip stream ends after {len(start):,} bytes, {size:,} are promised")
        schema = _schema(header, start[len(header.fixed) :], header.offset - len(header.fixed), codec_in(first), layers)
        note = (
            f"the gzip stream is read through an index, made on the way ({format_size(index_bytes(size))} of memory): "
            f"reading in file order decodes {format_size(size)} once, any other order some MiB more for each layer"
        )
        schema = _noted(schema, note)
        return NiftiGzStore(path, schema, header.offset, self.layer_bytes, roots, medium)

    def strangers(self, path: str, *, medium: Medium = LOCAL) -> Iterator[str]:
        """Nothing is told from the array behind its end, which is not read."""
        self.open(path, "", medium=medium)
        yield from ()

    def open_with_library(self, path: str, inner: str, allow: Sequence[str] = ()) -> LibraryArray:  # noqa: ARG002 - a single file
        _refuse_inner(path, inner)
        return open_with_nibabel(path)

    def adapt(self, schema: Schema, asked: Collection[str]) -> Schema:
        layers = layers_of(schema.shape, schema.dtype.itemsize, self.layer_bytes)
        adapted = adapt_schema(schema, asked, _codec(schema, asked), layers)
        return _noted(adapted, "layers are put in order at the end, which takes the space of the file twice")

    def layout(self, schema: Schema) -> Layout:
        return compressed_layout(schema, self.layer_bytes)

    def chunk_limits(self, codec: Codec) -> ChunkLimits:  # noqa: ARG002 - layers are given
        return ChunkLimits(chunked=False)

    def foresee(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> None:  # noqa: ARG002 - as the protocol says
        """One file."""
        _refuse_inner(path, inner)

    def create(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        _refuse_inner(path, inner)
        with disk_errors("create", path):
            medium.create(path, first_member(schema))
            try:
                medium.create(spool_of(path), b"")
            except (OSError, DiskError):
                medium.remove(path)
                raise
        return self._new(path, schema, Spool(path, medium, schema.ndim), medium)

    def reopen(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        _refuse_inner(path, inner)
        check_first_member(medium, path, schema)
        if not exists(medium, spool_of(path)):
            raise StorageError(f"{path}: its layers are gone")
        spool = Spool(path, medium, schema.ndim)
        spool.find()
        return self._new(path, schema, spool, medium)

    def _new(self, path: str, schema: Schema, spool: Spool, medium: Medium) -> Store:
        return NiftiGzStore(path, schema, len(preamble_of(schema)), self.layer_bytes, None, medium, spool)


# ---------------------------------------------------------------- parts of a pair
def _other(path: str, ending: str, other: str) -> str | None:
    """The same name with another ending, in the same case; None if it has not this ending."""
    if not path.lower().endswith(ending):
        return None
    return path[: -len(ending)] + (other.upper() if path.endswith(ending.upper()) else other)


def _image_of(path: str) -> str:
    image = _other(path, ".hdr", ".img")
    if image is None:
        raise FormatError(f"{path}: its elements are in another file, which has the same name if this ends in .hdr")
    return image


def _beside(path: str, other: str, medium: Medium, allow: Sequence[str]) -> str:
    """The other file of a pair; ExternalError if it is a link that leads out of the roots."""
    if other == path:
        return other
    with disk_errors("open", other):
        found = medium.status(other, follow=False)
    roots: Roots | None = medium.roots(path, allow)
    if found.kind == LINK and roots is not None:
        return roots.resolve(other)
    return other


# ---------------------------------------------------------------- schemas
def _schema(header: NiftiHeader, follows: bytes, expected: int, codec: Codec, chunks: tuple[int, ...]) -> Schema:
    """The schema of an array; `follows` are the bytes between header and elements, of which `expected` exist."""
    notes = list(header.notes)
    if len(follows) < expected:
        notes.append(
            f"{expected:,} bytes of header extensions are not kept: the limit is {format_size(MAX_EXTENSIONS)}"
        )
        follows = bytes(4)
    preamble = header.fixed + follows.ljust(4, b"\0")
    return Schema(
        header.shape,
        header.dtype,
        chunks,
        order=tuple(reversed(range(len(header.shape)))),
        codec=codec,
        attributes=attributes_of(preamble, fields_of(header.fixed, header.version)),
        axes=AXES[: len(header.shape)],
        notes=tuple(notes),
    )


def _codec(schema: Schema, asked: Collection[str]) -> Codec:
    stages: Any = schema.codec.stages
    if len(stages) == 1 and stages[0].name in ("gzip", "zlib"):
        level = stages[0].get("level", 6)
        if level in range(10):
            return Codec.parse(f"gzip:{level}")
    if "codec" in asked:
        raise UsageError(
            f"a .nii.gz file has the codec gzip:LEVEL, with a level from 0 to 9, not {schema.codec or 'none'}; "
            f"{option('codec', 'gzip:6')} is the usual one, and a .nii file is not encoded"
        )
    return USUAL


def _nbytes(header: NiftiHeader) -> int:
    size = header.dtype.itemsize
    for length in header.shape:
        size *= length
    return size


def _noted(schema: Schema, note: str) -> Schema:
    return schema if note in schema.notes else replace(schema, notes=(*schema.notes, note))


def _one_chunk(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(max(n, 1) for n in shape)


def _refuse_inner(path: str, inner: str) -> None:
    if inner:
        raise UsageError(f"{path}: NIfTI holds one array; leave out ::{inner}")


#: Found by the registry.
FORMAT: Format = NiftiFormat()
FORMAT_GZ: Format = NiftiGzFormat()
