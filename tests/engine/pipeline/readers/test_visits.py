"""Visits: they read each wanted element once, in pieces that fit, and cost what the seek model says."""

from __future__ import annotations

import random

import numpy as np
import pytest

from cases import make
from reblock.cost.seeks import traffic
from reblock.engine import View
from reblock.engine.pipeline.readers.visits import full_axes, visits
from reblock.geometry import Box, Grid
from reblock.model import Access, Codec, Traffic

SHAPE = (7, 9, 8)


@pytest.mark.parametrize("access", list(Access))
@pytest.mark.parametrize("seed", range(20))
def test_each_element_is_read_once_at_the_predicted_cost(memory_folder: str, seed: int, access: Access) -> None:
    rng = random.Random(seed)
    chunks, boxes = (tuple(rng.randint(1, n) for n in SHAPE) for _ in range(2))
    order = tuple(rng.sample(range(3), 3))
    view = View.whole(make(memory_folder, "x", "blocks", SHAPE, chunks, order))
    reads, coalesced = Grid.of(SHAPE, boxes), rng.randint(0, 3) if access is Access.RUNS else 0
    piece_bytes = rng.randint(2, 200)
    seen, total = np.zeros(SHAPE, int), Traffic()
    for index in reads.indices():
        for visit in visits(view, reads.box(index), full_axes(view.layout, access, coalesced), piece_bytes):
            total += visit.traffic
            for piece in visit.pieces:
                seen[piece.wanted.slices] += 1
                assert piece.offsets is not None
                assert len(piece.offsets) * piece.length == piece.box.size
                assert piece.box.size * 2 <= piece_bytes
    assert (seen == 1).all()
    assert total == traffic(reads, view.layout, access, coalesced=coalesced)


def test_a_visit_to_a_shard_decodes_some_units_at_a_time(memory_folder: str) -> None:
    store = make(memory_folder, "x.zarr", "zarr", (8, 8), (2, 2), shards=(8, 8), codec=Codec.parse("zstd:1"))
    found = list(visits(View.whole(store), Box((0, 0), (4, 8)), range(2), 1 << 20, 3))
    assert [len(visit.pieces) for visit in found] == [3, 3, 2]
    # The index is one more.
    assert [visit.runs for visit in found] == [4, 4, 3]
    assert not any(visit.raw or visit.whole for visit in found)
