"""Orders of chunks: every chunk has its own rank, curves go from neighbour to neighbour."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reblock.errors import UsageError
from reblock.geometry.chunk_order import CURVES, chunk_ranks, parse_chunk_order

COUNTS = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple)


@given(COUNTS, st.data())
def test_ranks_are_a_permutation(counts: tuple[int, ...], data: st.DataObject) -> None:
    axes = data.draw(st.permutations(range(len(counts))))
    for order in (*CURVES, ",".join(map(str, axes)), ""):
        ranks = chunk_ranks(counts, order)
        assert ranks.shape == counts
        assert sorted(ranks.ravel().tolist()) == list(range(prod(counts)))


@given(COUNTS, st.data())
def test_axes_from_the_outermost_to_the_innermost(counts: tuple[int, ...], data: st.DataObject) -> None:
    axes = data.draw(st.permutations(range(len(counts))))
    ranks = chunk_ranks(counts, ",".join(map(str, axes)))
    listed = sorted(np.ndindex(*counts), key=lambda index: [index[axis] for axis in axes])
    assert [ranks[index] for index in listed] == list(range(prod(counts)))


@pytest.mark.parametrize("counts", [(8, 8), (4, 4, 4), (16, 16), (2, 2, 2, 2)])
def test_a_hilbert_curve_steps_to_neighbours(counts: tuple[int, ...]) -> None:
    path = np.argwhere(np.ones(counts, bool))[np.argsort(chunk_ranks(counts, "hilbert").ravel())]
    assert (np.abs(np.diff(path, axis=0)).sum(axis=1) == 1).all()


def test_a_morton_curve_interleaves_bits() -> None:
    assert chunk_ranks((4, 4), "morton")[2:, :2].tolist() == [[8, 9], [10, 11]]
    # Axes of one chunk take no part.
    assert chunk_ranks((4, 1, 4), "morton")[:, 0].tolist() == chunk_ranks((4, 4), "morton").tolist()


def test_a_curve_of_a_long_thin_grid() -> None:
    """More bits than a machine word has."""
    assert sorted(chunk_ranks((1 << 17, 2, 2, 1, 2), "hilbert").ravel().tolist()) == list(range(1 << 20))


@pytest.mark.parametrize(
    ("given_order", "found"),
    [
        ("0,1,2", ""),
        ((0, 1, 2), ""),
        ("0,2,1", "0,2,1"),
        ("z,x,y", "0,2,1"),
        ("hilbert", "hilbert"),
        ("-1,0,1", "2,0,1"),
    ],
)
def test_notation(given_order: str, found: str) -> None:
    assert parse_chunk_order(given_order, 3, ("z", "y", "x")) == found


@pytest.mark.parametrize("wrong", ["0,1", "peano", "0,1,1", "0,1,2,3"])
def test_nonsense(wrong: str) -> None:
    with pytest.raises(UsageError, match="the order of chunks is hilbert or morton, or a list of axes"):
        parse_chunk_order(wrong, 3)
