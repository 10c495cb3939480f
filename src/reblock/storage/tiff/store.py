"""One array of a TIFF file that exists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import nlargest
from math import prod
from typing import Any

import numpy as np

from reblock.errors import CorruptError, ReblockError
from reblock.geometry import Grid
from reblock.model.codec import Codec, Stage
from reblock.model.layout import Layout, most_stored_bytes
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.model.store import Bytes, Decoder, Extent, Flat, Index, Read, Scratch, fresh
from reblock.storage.by_extent import ByExtent
from reblock.storage.codecs.chain import Chain
from reblock.storage.codecs.coding import coding
from reblock.storage.codecs.predictor import usual_kind
from reblock.storage.codecs.registry import decoder
from reblock.storage.media.local import LOCAL
from reblock.storage.tiff.jpeg import check_jpeg
from reblock.storage.tiff.structure import RunOfBytes, Structure, choose_series, open_tifffile

#: Units whose stored sizes are kept, where one is larger than codecs make them.
_MOST_SIZES = 32


def full_codec(codec: Codec, dtype: np.dtype[Any], row: tuple[int, int]) -> Codec:
    """A codec with all settings of its predictor, which depend on the segments."""
    return Codec(tuple(_full(stage, dtype, row) for stage in codec.stages))


def _full(stage: Stage, dtype: np.dtype[Any], row: tuple[int, int]) -> Stage:
    if stage.name != "predictor":
        return stage
    return Stage.of("predictor", kind=stage.get("kind", usual_kind(dtype)), width=row[0], samples=row[1])


def layout_of(dtype: np.dtype[Any], grid: Grid, codec: Codec, row: tuple[int, int]) -> Layout:
    """The layout of segments, each of which is an object."""
    layout = Layout.raw(dtype, grid)
    if not codec:
        return layout
    taken = coding(full_codec(codec, dtype, row), dtype, layout.unit_bytes)
    return replace(layout, codec=str(codec), partial_reads=False, partial_writes=False, coding=taken)


@dataclass(frozen=True, eq=False)
class TiffStore(ByExtent):
    """One array of a file."""

    path: str
    """The file."""
    inner: str
    """Number of the array in the file, or ""."""
    structure: Structure
    """What the file says about it."""
    roots: Roots | None = None
    """The real file."""
    medium: Medium = LOCAL
    """The medium of the file."""

    @property
    def format(self) -> str:
        return "ometiff" if self.structure.ome else "tiff"

    @property
    def location(self) -> str:
        return f"{self.path}::{self.inner}" if self.inner else self.path

    @cached_property
    def schema(self) -> Schema:
        found = self.structure
        return Schema(
            found.shape,
            found.dtype,
            _page_cuts(found.shape, found.pages) if found.run is RunOfBytes.PAGE else found.cuts,
            codec=found.codec,
            fill_value=found.fill,
            attributes=found.attributes,
            axes=found.axes,
            record=found.record,
            notes=found.notes,
        )

    @cached_property
    def layout(self) -> Layout:
        found = self.structure
        if found.run is RunOfBytes.ARRAY:
            return Layout.raw(found.dtype, Grid.whole(found.shape))
        if found.run is RunOfBytes.PAGE:
            return Layout.raw(found.dtype, Grid.of(found.shape, self.schema.chunks))
        grid = Grid.of(found.shape, found.cuts, padded=found.tiled)
        layout = layout_of(found.dtype, grid, found.codec, found.row)
        largest = int(found.counts.max(initial=0))
        if layout.encoded and largest > most_stored_bytes(layout.unit_bytes):
            return replace(layout, stored_bytes=tuple(nlargest(_MOST_SIZES, found.counts.tolist())))
        return layout

    def measured(self) -> TiffStore:
        """The same store with the stored sizes of segments, which are known."""
        found = self.layout
        if found.is_measurable and not found.stored_bytes:
            # The dataclass is frozen; the property is computed once.
            vars(self)["layout"] = found.measured(map(int, self.structure.counts))
        return self

    @property
    def fills(self) -> bool:
        """Segments of length 0 are not stored."""
        return True

    @cached_property
    def _chain(self) -> Chain:
        found = self.structure
        return Chain(full_codec(found.codec, found.dtype, found.row), found.dtype)

    @property
    def encoding(self) -> str:
        if not self.structure.codec or self.structure.by_tifffile:
            return ""
        return encoding_of(self._chain)

    @property
    def decoder(self) -> Decoder | None:
        if not self.structure.codec or self.structure.by_tifffile:
            return None
        return decoder(self._chain.codec)

    @property
    def described_by(self) -> Sequence[str]:
        return (self.path,)

    # ---------------------------------------------------------------- where bytes lie
    def extents(self, index: Index, units: Sequence[Index], read: Read) -> Sequence[Extent | None]:  # noqa: ARG002 - the places are known
        if self.structure.run is not RunOfBytes.SEGMENT:
            place = self.place(index)
            return [place if place.offset else None for _ in units]
        return [self._extent(unit) for unit in units]

    def _extent(self, unit: Index) -> Extent | None:
        found, grid = self.structure, self.layout.units
        number = grid.number(unit)
        offset, length = int(found.offsets[number]), int(found.counts[number])
        if not offset or not length:
            return None
        if not found.codec:
            length = prod(grid.stored(unit).shape) * found.dtype.itemsize
        elif length > 2 * self.layout.unit_bytes + (1 << 16):
            raise CorruptError(
                f"{self.location}: strip or tile {unit} has {length:,} bytes, its elements take "
                f"{self.layout.unit_bytes:,}"
            )
        mask = number % self._per_page if found.by_tifffile else 0
        return Extent(self.path, offset, length, mask)

    @cached_property
    def _per_page(self) -> int:
        """Segments of a page, where tifffile decodes them."""
        return max(len(self.structure.offsets) // self.structure.pages, 1)

    def place(self, index: Index) -> Extent:
        layout = self.layout
        number = layout.objects.number(index)
        size = prod(layout.objects.stored(index).shape) * layout.itemsize
        return Extent(self.path, int(self.structure.offsets[number]), size)

    def preamble(self, index: Index) -> Bytes:  # noqa: ARG002 - objects share one file
        return b""

    # ---------------------------------------------------------------- what bytes mean
    def decode(self, data: Bytes, extent: Extent, out: Flat, scratch: Scratch = fresh) -> None:
        found = self.structure
        try:
            if found.by_tifffile:
                self._decode_by_tifffile(data, extent.mask, out)
            else:
                self._chain.decode(data, out, scratch)
        except CorruptError as error:
            where = f"{extent.length} bytes at {extent.offset}"
            raise CorruptError(f"{self.location}: {error} ({where})") from None

    def _decode_by_tifffile(self, data: Bytes, segment: int, out: Flat) -> None:
        found = self.structure
        if "jpeg" in found.codec.names:
            check_jpeg(data, found.row[0], out.size)
        function, more = self._function
        try:
            array, _, _ = function(bytes(data), segment, **more, _fullsize=found.tiled)
        except ReblockError:
            raise
        except Exception as error:  # imagecodecs raises anything
            raise CorruptError(" ".join(str(error).split()) or type(error).__name__) from error
        flat = np.ascontiguousarray(array, found.dtype).reshape(-1).view(np.uint8)
        if flat.size != out.size:
            raise CorruptError(f"{flat.size:,} bytes decoded, {out.size:,} expected")
        out[:] = flat

    @cached_property
    def _function(self) -> tuple[Any, dict[str, Any]]:
        """The function of tifffile that decodes segments, and its arguments."""
        with open_tifffile(self.path, self.medium, self.roots) as tif:
            page = choose_series(tif, self.inner, self.path).keyframe
            jpeg = {"jpegtables": page.jpegtables, "jpegheader": page.jpegheader} if page.compression == 7 else {}
            return page.decode, jpeg

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_function"}

    def encode(self, data: Flat, room: Flat | None = None, scratch: Scratch = fresh) -> Flat:  # noqa: ARG002 - only read
        return data

    # ---------------------------------------------------------------- life
    def checkpoint(self) -> None:
        """Nothing to do: it is only read."""

    def commit(self, record: Record = NO_RECORD) -> None:
        """Nothing to do: it is only read."""


def encoding_of(chain: Chain) -> str:
    """How segments are encoded, for stores whose segments can be copied."""
    return f"tiff {chain.codec} {chain.dtype.str}"


def _page_cuts(shape: tuple[int, ...], pages: int) -> tuple[int, ...]:
    """Chunks of one page each."""
    cuts, left = list(shape), pages
    for axis, length in enumerate(shape):
        if left <= 1:
            break
        cuts[axis], left = 1, left // length
    return tuple(cuts)
