"""ObjectStore: an array that is read through an object of another library, box by box."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn

import numpy.typing as npt

from reblock.errors import UsageError
from reblock.geometry import Box, Grid
from reblock.model.layout import Coding, Layout
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.schema import NO_RECORD, Record, Schema, clear_padding
from reblock.model.store import Bytes, Decoder, Extent, Flat, Index, Read, Scratch, TransferMode, fresh
from reblock.storage.library import LibraryArray, library_errors, stretches
from reblock.storage.media.local import LOCAL
from reblock.storage.objects.found import FoundObject

#: Copies of a chunk that a library may hold while it reads it, beside the stored bytes and the result.
_COPIES = 2
#: Bytes of a mapped file that are read before its pages are released.
_MAPPED_BYTES = 1 << 18


@dataclass(frozen=True)
class ObjectStore:
    """An object in the memory of this process; it has no path, so nothing can open it again."""

    found: FoundObject
    """The object."""
    schema: Schema
    """Its schema; the notes say that it is read through the object."""

    medium: Medium = LOCAL
    """Unused: the library reads the bytes."""
    roots: Roots | None = None
    """Unused: the library opens the files."""

    @property
    def format(self) -> str:
        return self.found.format

    @property
    def location(self) -> str:
        return self.found.name

    @property
    def backing(self) -> Sequence[str]:
        """Local files and folders that the library reads."""
        return self.found.backing

    @cached_property
    def layout(self) -> Layout:
        schema = self.schema
        if not self.found.whole_chunks:
            return Layout.raw(schema.dtype, Grid.whole(schema.shape), schema.order)
        chunks = Grid.of(schema.shape, schema.chunks, padded=True)
        codec = str(schema.codec) if schema.codec else self.found.library
        layout = Layout(schema.dtype, chunks, chunks, schema.order, codec, partial_reads=False, partial_writes=False)
        return replace(layout, coding=Coding(_COPIES * layout.unit_bytes, 0))

    @property
    def reads(self) -> TransferMode:
        return TransferMode.BOX

    @property
    def writes(self) -> TransferMode:
        return TransferMode.BOX

    @property
    def fills(self) -> bool:
        """Libraries return fill for chunks that are not stored, and do not say so."""
        return self.found.whole_chunks

    @property
    def encoding(self) -> str:
        """Stored bytes are not accessible."""
        return ""

    @property
    def decoder(self) -> Decoder | None:
        """Stored bytes are not accessible."""
        return None

    @property
    def described_by(self) -> Sequence[str]:
        """No file describes the object."""
        return ()

    def with_library(self) -> LibraryArray:
        """The array for a comparison that reads with libraries only."""
        found = self.found
        grid, whole = self.layout.units, found.whole_chunks
        return LibraryArray(found.name, found.library, self.schema.dtype, grid, whole, found.fetch, found.strides)

    def read_box(self, box: Box, out: npt.NDArray[Any]) -> bool:
        """Read a box through the object; it counts as stored."""
        with library_errors(self.found.library, self.location):
            for part in self._parts(box):
                # The ellipsis keeps an array without axes an array.
                here: Any = (*part.within(box).slices, ...)
                out[here] = self.found.fetch(part.slices)
                self.found.release()
        clear_padding(out)
        return True

    def _parts(self, box: Box) -> Iterable[Box]:
        """Parts of a box that touch few pages of a mapped file, which count as memory until they are released."""
        strides = self.found.strides
        if not strides or not box.size:
            return [box]
        order = sorted(range(box.ndim), key=lambda axis: -strides[axis])
        return stretches(box, strides, order, _MAPPED_BYTES)

    # ---------------------------------------------------------------- an object has no extents and is not written
    def extents(self, index: Index, units: Sequence[Index], read: Read) -> Sequence[Extent | None]:  # noqa: ARG002
        """No byte range is known."""
        return [None for _ in units]

    def place(self, index: Index) -> Extent:  # noqa: ARG002
        """Objects are only read."""
        self._refuse()

    def preamble(self, index: Index) -> Bytes:  # noqa: ARG002
        """Objects are only read."""
        self._refuse()

    def decode(self, data: Bytes, extent: Extent, out: Flat, scratch: Scratch = fresh) -> None:  # noqa: ARG002
        """The library decodes."""
        self._refuse()

    def encode(self, data: Flat, room: Flat | None = None, scratch: Scratch = fresh) -> Flat:  # noqa: ARG002
        """Objects are only read."""
        self._refuse()

    def write_box(self, box: Box, data: npt.NDArray[Any]) -> None:  # noqa: ARG002
        """Objects are only read."""
        self._refuse()

    def write_unit(self, index: Index, data: Bytes) -> None:  # noqa: ARG002
        """Objects are only read."""
        self._refuse()

    def checkpoint(self) -> None:
        """Objects are only read."""
        self._refuse()

    def commit(self, record: Record = NO_RECORD) -> None:  # noqa: ARG002
        """Objects are only read."""
        self._refuse()

    def abort(self) -> None:
        """The caller closes what it has opened."""

    def _refuse(self) -> NoReturn:
        raise UsageError(f"{self.location} is a source: reblock only reads it")
