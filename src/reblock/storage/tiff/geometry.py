"""Pages of a new file: which axes are pages, rows, columns and samples, and how a page is cut.

::

    (T, Z, Y, X)      T × Z pages of Y rows and X columns
    (Y, X, S)         one page whose pixels have S samples, if the last axis is called S
    (X,), ()          one page of one row
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from reblock.geometry import Grid
from reblock.model.layout import Layout
from reblock.model.schema import Schema
from reblock.storage.tiff.store import layout_of

#: Lengths and widths of tiles are multiples of this.
TILE_STEP = 16
#: The name of the axis of samples, and the most of them.
SAMPLES, MAX_SAMPLES = "S", 65535


def has_samples(schema: Schema) -> bool:
    """Whether the last axis are samples of a pixel."""
    names = schema.axes
    return schema.ndim > 2 and names is not None and names[-1] == SAMPLES and schema.shape[-1] <= MAX_SAMPLES


@dataclass(frozen=True)
class TiffPages:
    """The pages of an adapted schema."""

    schema: Schema
    """The schema."""

    @property
    def samples(self) -> int:
        """Samples of a pixel."""
        return self.schema.shape[-1] if has_samples(self.schema) else 1

    @property
    def _inner(self) -> tuple[int, ...]:
        """Axes of rows and columns."""
        last = self.schema.ndim - has_samples(self.schema)
        return tuple(range(max(last - 2, 0), last))

    def _pair(self, lengths: tuple[int, ...]) -> tuple[int, int]:
        found = [lengths[axis] for axis in self._inner]
        height, width = [1] * (2 - len(found)) + found
        return height, width

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of a page."""
        return self._pair(self.schema.shape)

    @property
    def segment(self) -> tuple[int, int]:
        """Rows and columns of a strip or tile."""
        return self._pair(tuple(cut if isinstance(cut, int) else max(cut) for cut in self.schema.chunks))

    @property
    def tiled(self) -> bool:
        """Whether pages are cut into tiles; strips are as wide as the page."""
        return self.segment[1] != self.size[1]

    @property
    def count(self) -> int:
        """Number of pages."""
        return prod(self.schema.shape[: self._inner[0]] if self._inner else ())

    @property
    def row(self) -> tuple[int, int]:
        """Pixels in a row of a segment, and elements of a pixel."""
        return self.segment[1], self.samples

    @cached_property
    def grid(self) -> Grid:
        """The grid of segments."""
        return Grid.of(self.schema.shape, self.schema.chunks, padded=self.tiled)

    @property
    def per_page(self) -> int:
        """Segments of a page."""
        return self.grid.count // max(self.count, 1)

    @cached_property
    def layout(self) -> Layout:
        """The layout: raw strips follow each other, so that the array is one run of bytes."""
        if not self.schema.codec and not self.tiled:
            return Layout.raw(self.schema.dtype, Grid.whole(self.schema.shape))
        return layout_of(self.schema.dtype, self.grid, self.schema.codec, self.row)
