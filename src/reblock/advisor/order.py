"""The order of chunks on disk: which one keeps the chunks of an access close together.

With the axes in an order, outermost first, an access that touches z chunks of d along each axis spans ::

    (z₁ − 1)·d₂·d₃ … dₙ + … + (zₙ₋₁ − 1)·dₙ + zₙ      chunks from the first to the last     (Lemma 1)

The average over a pattern is least if (a − 1) / (d − 1) grows from the outermost axis to the innermost, where a is the
average of z (Lemma 2; Sarawagi & Stonebraker 1994). Hilbert and Morton curves are priced by the same span, which is
counted on the grid.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, prod

import numpy as np

from reblock.advisor.expect import axis_blocks
from reblock.geometry.chunk_order import CURVES, Ranks, chunk_ranks
from reblock.model.pattern import AccessPattern

#: The most chunks of a grid on which curves are priced, and boxes of it that are looked at for each class.
_MAX_CHUNKS, _MAX_BOXES = 1 << 18, 256
#: The most chunks that are looked at for each class.
_MAX_LOOKS = 1 << 20


@dataclass(frozen=True)
class OrderPrice:
    """An order of chunks, and how far apart it puts the chunks of an average access."""

    order: str
    """Axes from the outermost to the innermost, or the name of a curve."""
    span: float
    """Chunks from the first to the last that an access touches, those between included."""
    runs: float | None = None
    """Groups of neighbours that these chunks form; None if they were not counted."""


@dataclass(frozen=True)
class ChunkGrid:
    """A grid of chunks, and how many of them the classes of a pattern touch along each axis."""

    counts: tuple[int, ...]
    """Chunks along each axis: of a shard, or of the array."""
    touched: tuple[tuple[float, ...], ...]
    """For each class, chunks that it touches along each axis."""
    weights: tuple[float, ...]
    """Probability of each class."""

    @classmethod
    def of(
        cls,
        pattern: AccessPattern,
        shape: Sequence[int],
        chunks: Sequence[int],
        shards: Sequence[int] | None = None,
    ) -> ChunkGrid:
        """The grid of chunks inside a shard, or in the array if there are no shards."""
        outer = shape if shards is None else shards
        counts = tuple(-(-max(n, 1) // c) for n, c in zip(outer, chunks, strict=True))
        touched = tuple(
            tuple(
                min(float(axis_blocks(one, axis, shape[axis], np.array([chunks[axis]]))[0]), float(counts[axis]))
                for axis in range(len(shape))
            )
            for one in pattern.classes
        )
        return cls(counts, touched, tuple(map(float, pattern.weights)))

    @property
    def means(self) -> list[float]:
        """Chunks that an average access touches along each axis."""
        return [sum(w * z[axis] for w, z in zip(self.weights, self.touched, strict=True)) for axis in self._axes]

    @property
    def _axes(self) -> range:
        return range(len(self.counts))

    def best_axes(self) -> tuple[int, ...]:
        """The order of axes with the least span, outermost first (Lemma 2)."""
        means = self.means
        ratios = [0.0 if d == 1 else (a - 1) / (d - 1) for a, d in zip(means, self.counts, strict=True)]
        return tuple(sorted(self._axes, key=lambda axis: (round(ratios[axis], 12), axis)))

    def span(self, order: Sequence[int]) -> float:
        """Chunks from the first to the last of an average access, with the axes in an order (Lemma 1)."""
        means, total = self.means, 0.0
        for axis in order:
            total = total * self.counts[axis] + means[axis] - 1
        return total + 1

    # ---------------------------------------------------------------- curves
    def prices(self) -> list[OrderPrice]:
        """The usual order, the best one of axes, and curves, each with its span; the best first."""
        orders = dict.fromkeys((tuple(self._axes), self.best_axes()))
        if prod(self.counts) > _MAX_CHUNKS:
            found = [OrderPrice(_text(order), self.span(order)) for order in orders]
        else:
            found = [self._counted(_text(order), self.span(order)) for order in orders]
            found += [self._counted(curve) for curve in CURVES if sum(n > 1 for n in self.counts) > 1]
        return sorted(found, key=lambda one: one.span)

    def _counted(self, order: str, span: float | None = None) -> OrderPrice:
        ranks = chunk_ranks(self.counts, order)
        spans = runs = 0.0
        for weight, touched in zip(self.weights, self.touched, strict=True):
            boxes = list(
                self._boxes(ranks, [min(ceil(z - 1e-9), d) for z, d in zip(touched, self.counts, strict=True)])
            )
            spans += weight * float(np.mean([box.max() - box.min() + 1 for box in boxes]))
            runs += weight * float(np.mean([1 + np.count_nonzero(np.diff(np.sort(box)) > 1) for box in boxes]))
        return OrderPrice(order, spans if span is None else span, runs)

    def _boxes(self, ranks: Ranks, sides: Sequence[int]) -> Iterator[Ranks]:
        """Ranks of the chunks in boxes of some sides, evenly spread over the grid."""
        starts = [range(d - z + 1) for d, z in zip(self.counts, sides, strict=True)]
        most = max(min(_MAX_BOXES, _MAX_LOOKS // prod(sides)), 1)
        total = prod(map(len, starts))
        if total <= most:
            places = list(product(*starts))
        else:
            chosen = np.random.default_rng(0).integers(0, total, most)
            places = list(zip(*np.unravel_index(chosen, [len(one) for one in starts]), strict=True))
        for place in places:
            yield ranks[tuple(slice(a, a + z) for a, z in zip(place, sides, strict=True))].ravel()


def _text(order: Sequence[int]) -> str:
    return ",".join(map(str, order))
