"""Shards around chunks: enough chunks in one file that an access opens few files.

The search is that of chunks once more, with chunks for elements: a shard of m chunks along each axis holds at most a
number of chunks and of bytes, and an access costs a request for each shard that it touches.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from reblock.advisor.expect import Numbers, Shapes
from reblock.advisor.price import Pricing
from reblock.advisor.search import Bounds, choose_shape, climb, is_monotone, powers_of_two, thinned

#: The most bytes of a shard, unless one chunk has more.
SHARD_BYTES = 128 << 20


def choose_shards(pricing: Pricing, chunks: Sequence[int], goal: str, most_chunks: int) -> tuple[int, ...] | None:
    """The best shard with at most `most_chunks` chunks; None if shards are not wanted."""
    if most_chunks < 1 or not chunks:
        return None
    counts = [-(-max(n, 1) // c) for n, c in zip(pricing.shape, chunks, strict=True)]
    size = prod(chunks) * pricing.itemsize
    bounds = Bounds.of(counts, max(min(SHARD_BYTES // size, most_chunks), 1))
    unit, thin = np.array(chunks, np.int64), thinned(pricing)

    def score(multiples: Shapes) -> Numbers:
        inner = np.repeat(unit[None, :], len(multiples), axis=0)
        prices = thin.chunks(inner, multiples * unit)
        return thin.pattern.weights @ (prices.requests if goal in ("blocks", "bytes") else prices.of(goal))

    monotone = is_monotone(pricing, "requests")
    starts = powers_of_two(bounds, monotone=monotone)
    costs = score(starts)
    lengths = [np.array(sorted({1, count}), np.int64) for count in counts]
    ends = [
        climb(one, bounds, score, lengths, monotone=monotone) for one in starts[np.argsort(costs, kind="stable")[:4]]
    ]
    shapes = np.array(ends, np.int64)
    best = shapes[choose_shape(shapes, score(shapes))]
    return tuple(int(n) for n in best * unit)
