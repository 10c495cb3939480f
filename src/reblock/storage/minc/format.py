"""The MINC format: opens MINC2 and MINC1 files, and creates MINC2 files.

::

    MINC2    an HDF5 file          minc-2.0/image/0/image is the array, read and written like any dataset
    MINC1    a classic NetCDF file image is the array, one run of bytes or one run for each record

Elements are the stored ones: the real range of each slice stays in `image-min` and `image-max`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from reblock.errors import CorruptError, FormatError, UsageError
from reblock.model.codec import Codec
from reblock.model.layout import Layout
from reblock.model.medium import Medium
from reblock.model.schema import Schema
from reblock.model.store import ChunkLimits, Format, Store
from reblock.storage.hdf5.file import parts_of, signature_offset
from reblock.storage.hdf5.format import FORMAT as HDF5
from reblock.storage.hdf5.library import open_with_h5py
from reblock.storage.hdf5.store import Hdf5Store
from reblock.storage.library import LibraryArray
from reblock.storage.location import Location
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import is_file, read_head
from reblock.storage.minc.adapt import adapt_schema
from reblock.storage.minc.classic import open_classic
from reblock.storage.minc.library import open_with_nibabel
from reblock.storage.minc.tree import FOLDER, IMAGE_PATH, ROOT, read_nodes, read_tree, write_tree
from reblock.storage.minc.variables import IMAGE, Variables
from reblock.storage.netcdf.classic import is_classic, read_classic

#: Bytes in which the names of the first groups and variables are.
_HEAD_BYTES = 64 << 10
#: A word in the attributes of every MINC1 file.
_WORD = b"MINC standard variable"


class MincFormat:
    """Volumes in MINC files."""

    name = "minc"
    suffixes = (".mnc",)
    checksum = "fletcher32"
    single_file = True

    def probe(self, path: str, *, medium: Medium = LOCAL) -> bool:
        """Whether a file has the signature of HDF5 or NetCDF, and the name or a word of MINC."""
        if not is_file(medium, path):
            return False
        head, _ = read_head(medium, path, _HEAD_BYTES)
        named = path.lower().endswith(self.suffixes)
        if is_classic(head):
            return named or (_WORD in head and _has_image(path, medium))
        return (named or ROOT.encode() in head) and signature_offset(path, medium) is not None

    def open(self, path: str, inner: str, allow: Sequence[str] = (), *, medium: Medium = LOCAL) -> Store:
        """Open the image."""
        _check_inner(path, inner)
        if is_classic(read_head(medium, path, 4)[0]):
            return open_classic(path, medium.roots(path, allow), medium)
        if signature_offset(path, medium) is None:
            raise FormatError(f"{path}: not a MINC file: it has neither the signature of HDF5 nor that of NetCDF")
        variables, axes, notes = read_tree(path, medium)
        store = HDF5.open(path, IMAGE_PATH, allow, medium=medium)
        found = store.schema
        schema = replace(
            found,
            attributes=variables.flat(),
            axes=axes,
            notes=tuple(dict.fromkeys((*found.notes, *notes))),
        )
        return _as_minc(store, schema)

    def strangers(self, path: str, *, medium: Medium = LOCAL) -> Iterator[str]:
        """Groups beside those of MINC, and other resolutions of the image."""
        self.open(path, "", medium=medium)
        if is_classic(read_head(medium, path, 4)[0]):
            return
        known = (ROOT, f"{ROOT}/dimensions", f"{ROOT}/info", f"{ROOT}/image")
        found = read_nodes(path, medium)
        for name in found:
            inside = any(name.startswith(f"{one}/") for one in (known[1], known[2], FOLDER))
            if name not in ("", *known, FOLDER) and not inside:
                yield name
        if found[""].attributes:
            yield "attributes of /"

    def open_with_library(self, path: str, inner: str, allow: Sequence[str] = ()) -> LibraryArray:
        """Open the image with h5py, or with nibabel's reader of NetCDF."""
        _check_inner(path, inner)
        if is_classic(read_head(LOCAL, path, 4)[0]):
            return open_with_nibabel(path)
        return open_with_h5py(Location(path, IMAGE_PATH), allow)

    def adapt(self, schema: Schema, asked: Collection[str]) -> Schema:
        """The nearest schema that a MINC2 file can have."""
        return adapt_schema(schema, asked)

    def layout(self, schema: Schema) -> Layout:
        """That of the dataset."""
        return HDF5.layout(schema)

    def chunk_limits(self, codec: Codec) -> ChunkLimits:
        """Those of HDF5."""
        return HDF5.chunk_limits(codec)

    def foresee(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> None:  # noqa: ARG002 - as the protocol says
        """One file."""
        _require_local(path, medium)
        _check_inner(path, inner)

    def create(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        """Make a new MINC2 file."""
        _require_local(path, medium)
        _check_inner(path, inner)
        variables, axes = Variables.from_flat(schema.attributes), schema.axes or ()
        store = HDF5.create(path, IMAGE_PATH, _bare(schema), furnish=lambda file: write_tree(file, variables, axes))
        return _as_minc(store, schema)

    def reopen(self, path: str, inner: str, schema: Schema, *, medium: Medium = LOCAL) -> Store:
        """Continue a MINC2 file as the last checkpoint left it."""
        _require_local(path, medium)
        _check_inner(path, inner)
        return _as_minc(HDF5.reopen(path, IMAGE_PATH, _bare(schema)), schema)


def _has_image(path: str, medium: Medium) -> bool:
    """Whether a NetCDF-3 file has a variable of this name; copies of MINC files in NetCDF have the same attributes."""
    try:
        return IMAGE in read_classic(path, medium=medium).variables
    except (FormatError, CorruptError):
        return False


def _bare(schema: Schema) -> Schema:
    """The schema of the dataset, whose attributes are written with the other variables."""
    return replace(schema, attributes={}, axes=None)


def _as_minc(store: Hdf5Store, schema: Schema) -> Hdf5Store:
    """The store of the dataset as that of the file."""
    store.schema, store.format, store.location = schema, "minc", store.path
    return store


def _check_inner(path: str, inner: str) -> None:
    if inner and "/".join(parts_of(inner)) != IMAGE_PATH:
        raise UsageError(f"{path}: MINC holds one image; leave out ::{inner}, or open the file as hdf5 or netcdf")


def _require_local(path: str, medium: Medium) -> None:
    if not medium.is_local:
        raise UsageError(f"{path}: MINC2 needs a local file, which is not to be had in {medium.name}; zarr would do")


#: Found by the registry.
FORMAT: Format = MincFormat()
