"""The order of chunks: Lemma 1 by counting, Lemma 2 by trying every order."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from access_cases import PAPER_SHAPE, paper, patterns
from reblock.advisor.order import ChunkGrid
from reblock.geometry.chunk_order import chunk_ranks
from reblock.model import AccessClass, AccessPattern, Alignment


def test_the_papers_example() -> None:
    grid = ChunkGrid.of(paper(), PAPER_SHAPE, (20, 20, 20))
    assert grid.counts == (5, 100, 400)
    assert grid.best_axes() == (0, 2, 1)
    # 60 blocks in a cylinder: 63.5 and 16.0 tracks by the paper's own formula.
    assert grid.span((0, 1, 2)) / 60 == pytest.approx(63.5, abs=0.01)
    assert grid.span((0, 2, 1)) / 60 == pytest.approx(16.0, abs=0.01)


@given(st.data())
def test_no_order_of_axes_is_better(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=4).map(tuple))
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    grid = ChunkGrid.of(data.draw(patterns(shape)), shape, chunks)
    best = grid.span(grid.best_axes())
    assert best <= min(grid.span(order) for order in permutations(range(len(shape)))) + 1e-9


@given(st.data())
def test_the_span_is_what_is_between_the_first_and_the_last(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple))
    box = tuple(data.draw(st.integers(1, n)) for n in shape)
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    pattern = AccessPattern((AccessClass(box, alignment=Alignment.ALIGNED),))
    grid = ChunkGrid.of(pattern, shape, (1,) * len(shape))
    ranks = chunk_ranks(shape, ",".join(map(str, order)))[tuple(map(slice, box))]
    assert grid.span(order) == pytest.approx(ranks.max() - ranks.min() + 1)


def test_curves_are_priced_beside_axes() -> None:
    """Squares anywhere are nearer together on a curve than in rows; runs are fewer."""
    grid = ChunkGrid.of(AccessPattern((AccessClass((4, 4), alignment=Alignment.ALIGNED),)), (64, 64), (1, 1))
    prices = {one.order: one for one in grid.prices()}
    assert set(prices) == {"0,1", "hilbert", "morton"}
    assert prices["0,1"].runs == 4
    assert prices["hilbert"].runs is not None
    assert prices["hilbert"].runs < 4
    assert prices["0,1"].span == grid.span((0, 1)) == 3 * 64 + 4


def test_large_grids_are_priced_by_the_formula() -> None:
    grid = ChunkGrid.of(AccessPattern((AccessClass((1, 9)),)), (10**6, 10**6), (1, 1))
    assert [(one.order, one.runs) for one in grid.prices()] == [("0,1", None)]


def test_inside_a_shard() -> None:
    grid = ChunkGrid.of(
        AccessPattern((AccessClass((100, 1), alignment=Alignment.ALIGNED),)), (100, 100), (5, 5), (20, 10)
    )
    assert (grid.counts, grid.means) == ((4, 2), [4, 1])
    assert grid.best_axes() == (1, 0)
