"""Choosing chunks, shards and their order for the accesses that a target is to serve: what `auto` means with a pattern.

The device is the one that was named, or the usual preset: the same command must choose the same chunks again, whatever
earlier runs have measured, so that it can resume a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from reblock.advisor.document import ArrayAxes
from reblock.advisor.order import ChunkGrid
from reblock.advisor.price import Pricing
from reblock.advisor.proportional import dividing, proportional
from reblock.advisor.search import MAX_SHAPES, choose_shape, find_chunks, thinned
from reblock.advisor.shards import SHARD_BYTES, choose_shards
from reblock.api.access import find_pattern
from reblock.api.advice import chunk_bounds, limits_of
from reblock.api.devices import find_device
from reblock.api.request import AccessGiven
from reblock.errors import UsageError, option
from reblock.geometry.grid import Cut, chunk_text
from reblock.geometry.notation import AUTO
from reblock.model import AccessPattern, ChunkLimits, Codec, Device, Format

#: What chunks are ranked by.
_GOAL = "time"


@dataclass(frozen=True)
class ChunkChooser:
    """Chooses the chunks, shards and order of a target where the caller left them to us."""

    pattern: AccessPattern | None
    """The accesses; None = chunks have the proportions of the array."""
    shape: tuple[int, ...]
    """Shape of the target."""
    itemsize: int
    """Bytes of an element."""
    limits: ChunkLimits
    """Limits of its format."""
    device: Device
    """Where it will be stored."""
    codec: str
    """Text of its codec."""

    @classmethod
    def of(
        cls,
        access: AccessGiven | None,
        axes: ArrayAxes,
        itemsize: int,
        format: Format | None,
        codec: Codec,
        device: str | Device,
    ) -> ChunkChooser:
        """The chooser for a target of a format, with its axes and codec."""
        limits = ChunkLimits() if format is None else limits_of(format, codec)
        # Without elements there is nothing to read.
        pattern = find_pattern(access, None, axes) if prod(axes.shape) else None
        return cls(pattern, axes.shape, itemsize, limits, find_device(device), str(codec or ""))

    def chunks(self, cuts: Sequence[Cut | str], shards: Sequence[int] | None) -> tuple[tuple[Cut, ...], str]:
        """Chunks with `auto` filled in, and a remark on them; shards are made of whole chunks."""
        if not self.shape or not prod(self.shape):
            whole = zip(cuts, self.shape, strict=True)
            return tuple(max(n, 1) if isinstance(cut, str) else cut for cut, n in whole), "there is nothing to choose"
        if self.pattern is None:
            raise UsageError(f"chunks are chosen for accesses: give {option('access')}")
        if AUTO not in cuts:
            raise UsageError(
                f"{option('access')} chooses chunks that are auto: {chunk_text(cuts)} leave nothing to choose"
            )
        fixed = [None if isinstance(cut, str) else cut if isinstance(cut, int) else max(cut) for cut in cuts]
        bounds = chunk_bounds(self.shape, self.itemsize, self.limits, None, fixed)
        pricing = self._pricing(self.pattern)
        if shards is None:
            found = find_chunks(pricing, bounds, _GOAL)
            best, cost = found.best.chunks, pricing.chunks(np.array([found.best.chunks], np.int64))
            how = "every shape was tried" if found.exhaustive else f"by {found.best.method}"
        else:
            best = self._inside(pricing, shards, fixed, bounds.most)
            cost, how = pricing.chunks(np.array([best], np.int64)), "every divisor of the shards was tried"
        blocks = float(cost.mean(self.pattern.weights).blocks[0, 0])
        kept = tuple(length if isinstance(cut, str) else cut for cut, length in zip(cuts, best, strict=True))
        return kept, f"chunks {chunk_text(kept)} are chosen for the accesses: {blocks:,.2f} chunks per access, {how}"

    def _inside(
        self, pricing: Pricing, shards: Sequence[int], fixed: Sequence[int | None], most: int
    ) -> tuple[int, ...]:
        """The best chunk of which a shard is made."""
        sides = [[one] if one is not None else _divisors(side) for side, one in zip(shards, fixed, strict=True)]
        if prod(map(len, sides)) > MAX_SHAPES:
            return dividing(shards, self.itemsize)
        fitting = [one for one in product(*sides) if prod(one) <= most]
        shapes = np.array(fitting or [(1,) * len(shards)], np.int64)
        return tuple(map(int, shapes[choose_shape(shapes, thinned(pricing).score(shapes, _GOAL))]))

    def shards(self, chunks: Sequence[int]) -> tuple[int, ...]:
        """Shards around chunks."""
        if not self.limits.shard_chunks:
            raise UsageError(f"{option('shards', AUTO)}: the target's format has no shards")
        if self.pattern is not None:
            found = choose_shards(self._pricing(self.pattern), chunks, _GOAL, self.limits.shard_chunks)
            return tuple(chunks) if found is None else found
        counts = [-(-max(n, 1) // c) for n, c in zip(self.shape, chunks, strict=True)]
        size = prod(chunks) * self.itemsize
        most = max(min(SHARD_BYTES // max(size, 1), self.limits.shard_chunks), 1)
        return tuple(m * c for m, c in zip(proportional(counts, 1, most), chunks, strict=True))

    def order(self, chunks: Sequence[int], shards: Sequence[int] | None) -> str:
        """The order of chunks with the least span (Lemma 2), as text; "" for the usual one."""
        if not prod(self.shape):
            return ""
        if self.pattern is None:
            raise UsageError(f"{option('chunk_order', AUTO)} is chosen for accesses: give {option('access')}")
        best = ChunkGrid.of(self.pattern, self.shape, chunks, shards).best_axes()
        return "" if best == tuple(range(len(best))) else ",".join(map(str, best))

    def _pricing(self, pattern: AccessPattern) -> Pricing:
        return Pricing(pattern, self.shape, self.itemsize, self.device, self.codec)


def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, min(int(number**0.5), 1 << 16) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})
