"""The greedy buffer path of draft A: every buffer once, the cache as small as it says, and an order of axes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reblock.cost import held_elements
from reblock.geometry import Axis, Grid
from reblock.model import Access, Pass
from reblock.passes.buffer_path import greedy_order, greedy_path
from reblock.testing.problems import grids, shapes


def simulate(reads: Grid, writes: Grid, path: list[tuple[int, ...]]) -> int:
    """The largest cache on a path, by marking elements."""
    seen, written = np.zeros(reads.shape, bool), np.zeros(reads.shape, bool)
    peak = 0
    for buffer in path:
        seen[reads.box(buffer).slices] = True
        peak = max(peak, int((seen & ~written).sum()))
        for block in writes.touching(reads.box(buffer)):
            box = writes.box(block).slices
            written[box] |= seen[box].all()
    assert written.all()
    return peak


@given(st.data())
def test_a_path_visits_every_buffer_once_and_holds_what_it_says(data: st.DataObject) -> None:
    shape = data.draw(shapes(max_ndim=3, max_side=8, max_size=200))
    reads, writes = data.draw(grids(shape)), data.draw(grids(shape))
    path, peak = greedy_path(reads, writes)
    assert sorted(path) == sorted(reads.indices())
    assert simulate(reads, writes, path) == peak
    assert sorted(greedy_order(reads, writes)) == list(range(len(shape)))


def test_the_path_goes_where_blocks_are_completed() -> None:
    """Target blocks straddle reads along axis 0 only, so the path goes along axis 0 first."""
    reads, writes = Grid.of((12, 12), (4, 4)), Grid.of((12, 12), (6, 4))
    path, peak = greedy_path(reads, writes)
    assert path[:3] == [(0, 0), (1, 0), (2, 0)]
    assert greedy_order(reads, writes) == (1, 0)
    held = {
        order: held_elements(Pass(reads, writes, Grid.whole((12, 12)), order, Access.RUNS, Access.RUNS))
        for order in ((0, 1), (1, 0))
    }
    assert peak == held[1, 0] < held[0, 1]


def test_long_axes_are_seen_by_their_first_blocks() -> None:
    axes = [Axis.regular(10**9, n) for n in (100, 150, 70, 90, 110)]
    assert sorted(greedy_order(Grid(tuple(axes)), Grid(tuple(reversed(axes))))) == list(range(5))
