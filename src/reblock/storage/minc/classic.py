"""MINC1: volumes in classic NetCDF files, which are read, not written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from reblock.errors import CorruptError, FormatError
from reblock.geometry import Grid
from reblock.model.layout import Layout
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.model.store import Bytes, Extent, Index, Read
from reblock.storage.by_extent import RawByExtent
from reblock.storage.media.files import disk_errors
from reblock.storage.media.local import LOCAL
from reblock.storage.minc.variables import IMAGE, IMAGE_MAX, IMAGE_MIN, Variables, check_axes, plain, text_of
from reblock.storage.netcdf.classic import ClassicHeader, ClassicVariable, read_classic

#: The most bytes of small variables that are read.
_MANY_BYTES = 4 << 20


@dataclass(frozen=True)
class MincClassicStore(RawByExtent):
    """The image of a MINC1 file."""

    path: str
    """The file."""
    schema: Schema
    """Its schema."""
    offset: int
    """Offset of the first element."""
    step: int = 0
    """Bytes from one record to the next; 0 = the image is one run of bytes."""
    roots: Roots | None = None
    """The real file."""
    medium: Medium = LOCAL
    """The medium of the file."""

    @property
    def format(self) -> str:
        return "minc"

    @cached_property
    def layout(self) -> Layout:
        return Layout.raw(self.schema.dtype, Grid.of(self.schema.shape, self.schema.chunks))

    @property
    def described_by(self) -> Sequence[str]:
        return (self.path,)

    def extents(self, index: Index, units: Sequence[Index], read: Read) -> Sequence[Extent | None]:  # noqa: ARG002 - nothing to read
        return [self.place(index) for _ in units]

    def place(self, index: Index) -> Extent:
        size = self.layout.objects.box(index).size * self.layout.itemsize
        return Extent(self.path, self.offset + (index[0] * self.step if self.step else 0), size)

    def preamble(self, index: Index) -> Bytes:  # noqa: ARG002 - it is never written
        return b""

    def checkpoint(self) -> None:
        """Never written."""

    def commit(self, record: Record = NO_RECORD) -> None:
        """Never written."""


def open_classic(path: str, roots: Roots | None, medium: Medium) -> MincClassicStore:
    """The image of a MINC1 file."""
    header = read_classic(path, roots, medium=medium)
    image = header.variables.get(IMAGE)
    if image is None:
        known = ", ".join(list(header.variables)[:10])
        raise FormatError(f"{path}: not a MINC1 file: it has no variable image, but {known or 'none'}")
    variables = _read_variables(header, path, roots, medium)
    shape = header.shape(image)
    axes = check_axes(image.axes, len(shape), path)
    for name in (IMAGE_MIN, IMAGE_MAX):
        if name not in header.variables or variables.of(name).value is None:
            raise FormatError(f"{path}: {name} is missing: the real range of its slices is unknown")
        found = header.variables[name].axes
        if found != axes[: len(found)]:
            raise FormatError(f"{path}: {name} is along {','.join(found)}, not along the slowest axes of the image")
    for name, length in zip(axes, shape, strict=True):
        variables.of(name).attributes["length"] = np.uint32(length)
    variables.of(IMAGE).attributes["dimorder"] = ",".join(axes)
    dtype = _dtype(image, variables)
    records = header.is_record(image)
    chunks = tuple(max(n, 1) for n in shape)
    schema = Schema(
        shape,
        dtype,
        (1, *chunks[1:]) if records else chunks,
        attributes=variables.flat(),
        axes=axes,
        notes=header.notes,
    )
    return MincClassicStore(path, schema, image.begin, header.record_bytes if records else 0, roots, medium)


def _dtype(image: ClassicVariable, variables: Variables) -> np.dtype[Any]:
    """The type of an element: whether it has a sign is told by an attribute; bytes have none by default."""
    sign = text_of(variables.of(IMAGE).attributes.pop("signtype", ""))
    if image.dtype.kind not in "if":
        raise FormatError(f"the image has elements of {image.dtype}, which MINC does not define")
    if image.dtype.kind == "f":
        return image.dtype
    unsigned = sign.startswith("unsigned") or (not sign and image.dtype.itemsize == 1)
    return np.dtype(image.dtype.str.replace("i", "u")) if unsigned else image.dtype


def _read_variables(header: ClassicHeader, path: str, roots: Roots | None, medium: Medium) -> Variables:
    made = Variables({name: plain(value) for name, value in header.attributes.items()})
    room = _MANY_BYTES
    with disk_errors("read", path), medium.reader(path, roots=roots) as handle:
        for name, variable in header.variables.items():
            one = made.of(name)
            one.attributes = {key: plain(value) for key, value in variable.attributes.items()}
            shape = header.shape(variable)
            size = prod(shape) * variable.dtype.itemsize
            wanted = name in (IMAGE_MIN, IMAGE_MAX) or (len(shape) == 1 and name != IMAGE)
            if not wanted or variable.dtype.kind not in "if" or size > room:
                continue
            room -= size
            data = bytearray(size)
            for begin, part in _parts(header, variable, memoryview(data)):
                if handle.read(part, begin) != len(part):
                    raise CorruptError(f"{path}: {name} ends beyond the file")
            one.value = np.frombuffer(data, variable.dtype).astype(np.float64).reshape(shape)
    return made


def _parts(header: ClassicHeader, variable: ClassicVariable, data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Where the parts of a variable are in the file, and their places in its elements."""
    if not header.is_record(variable):
        yield variable.begin, data
        return
    length = header.part_bytes(variable)
    for record in range(header.records if length else 0):
        yield variable.begin + record * header.record_bytes, data[record * length : (record + 1) * length]
