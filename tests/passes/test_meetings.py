"""Runs of regular blocks are said at once, and are those that counting finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reblock.geometry import Axis
from reblock.passes.meetings import _select, grouped, most_blocks


@given(st.integers(1, 400), st.integers(1, 5), st.integers(2, 9), st.integers(2, 7), st.booleans())
def test_runs_of_regular_blocks(length: int, step: int, per: int, count: int, padded: bool) -> None:
    blocks, meet = Axis.regular(length, step, padded=padded), Axis.regular(length, step * per)
    if meet.count <= 1 or count >= most_blocks(blocks, meet):
        return
    counted = _select(
        blocks, meet, lambda cuts: (blocks.indices(cuts) - blocks.indices(meet.floors(cuts))) % count == 0
    )
    assert grouped(blocks, meet, count) == counted
