"""The drafts' experiments on Dask IO: split, merge and resplit an array like BigBrain with dask, Python and buffers.

The drafts describe three experiments and print no results: their sections on them are empty. They do print how many
seeks there must be ::

    naive      a box of shape C in a row-major file takes C_i · C_j seeks
    least      one seek for each input file and one for each output file: n_I + n_O

and which buffers to try: one row, one slice, a whole input aggregate Λ. A task of dask needs its whole chunk, so that
the smallest buffer here is a row of aggregates; then come a slice of them, and the whole array. Blocks are files of an
uncompressed Zarr array, and the big file is one contiguous HDF5 dataset.

Guédon, Hayot-Sasson and Glatard, "Dask IO" (drafts A and B), section IV.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from reblock.bench.papers.figures import ITEM_BYTES, Shape

SIDE = 3500
WHOLE: Shape = (SIDE, SIDE, SIDE)
#: Strategies of buffers, the planner's choice first.
STRATEGIES = ("auto", "naive", "clustered", "multiple", "keep")
#: Programs without buffers: dask on one thread, dask on all, and a loop.
PLAIN = ("dask-1", "dask", "python")
#: A reader's own memory is this share of a budget; buffers get the rest.
_STAGING_PART = 8


@dataclass(frozen=True)
class DraftCase:
    """One experiment."""

    name: str
    """Its short name."""
    text: str
    """What it does, in words."""
    source: Shape
    """I; the shape of the array for one file."""
    target: Shape
    """O; the same."""
    buffers: tuple[str, ...]
    """The budgets to try: `row`, `slice`, `whole`."""
    shape: Shape = WHOLE
    """R, the array."""

    def scaled(self, scale: int) -> DraftCase:
        """The case with all lengths divided."""
        lengths = [tuple(n // scale for n in some) for some in (self.source, self.target, self.shape)]
        source, target, shape = lengths
        return DraftCase(self.name, self.text, source, target, self.buffers, shape)  # type: ignore[arg-type]

    @property
    def chunks(self) -> Shape:
        """The chunks of dask: the blocks of the side that has blocks, the target's if both have."""
        return self.source if self.target == self.shape else self.target

    @property
    def aggregate(self) -> Shape:
        """Λ: the fewest input blocks that cover one output block, or one chunk where one side is a single file."""
        if self.shape in (self.source, self.target):
            return self.chunks
        i, j, k = (a * ceil(b / a) for a, b in zip(self.source, self.target, strict=True))
        return (i, j, k)

    def buffer_bytes(self, name: str) -> int:
        """Bytes of a buffer: a row of aggregates, a slice of them, or the array."""
        kept = {"row": 2, "slice": 1, "whole": 0}[name]
        sides = [min(a, n) for a, n in zip(self.aggregate[:kept], self.shape, strict=False)] + list(self.shape[kept:])
        return prod(sides) * ITEM_BYTES

    def budget(self, name: str) -> int:
        """The memory that has room for such a buffer."""
        return ceil(self.buffer_bytes(name) * _STAGING_PART / (_STAGING_PART - 1)) + (64 << 10)

    @property
    def least(self) -> int:
        """n_I + n_O."""
        return sum(prod(ceil(n / c) for n, c in zip(self.shape, some, strict=True)) for some in self.sides)

    @property
    def sides(self) -> tuple[Shape, Shape]:
        """I and O."""
        return self.source, self.target

    @property
    def naive(self) -> int:
        """Seeks of both sides when one chunk after the other is moved, by the drafts' formula."""
        return sum(self._runs(blocks) for blocks in self.sides)

    def _runs(self, blocks: Shape) -> int:
        """Contiguous runs of all chunks in files of one shape: C_i · C_j for each piece, one for a whole file."""
        axes = list(zip(self.shape, self.chunks, blocks, strict=True))
        pieces = [_pieces(n, c, b) for n, c, b in axes]
        if all(count == ceil(n / b) for count, (n, _, b) in zip(pieces, axes, strict=True)):
            return prod(pieces)
        return self.shape[0] * self.shape[1] * pieces[2]


def _pieces(length: int, *steps: int) -> int:
    """Pieces of an axis that is cut at the multiples of some lengths."""
    return len({cut for step in steps for cut in range(0, length, step)})


CASES = (
    DraftCase("split", "one file into blocks", WHOLE, (875, 875, 875), ("row", "slice", "whole")),
    DraftCase("merge", "blocks into one file", (875, 875, 875), WHOLE, ("row", "slice", "whole")),
    DraftCase("resplit", "blocks into others", (350, 350, 350), (500, 500, 500), ("row", "slice", "whole")),
    DraftCase("equal", "O = I", (350, 350, 350), (350, 350, 350), ("row",)),
    DraftCase("larger", "O much larger than I", (350, 350, 350), (1750, 1750, 1750), ("row",)),
    DraftCase("smaller", "O much smaller than I", (1750, 1750, 1750), (350, 350, 350), ("row",)),
)
