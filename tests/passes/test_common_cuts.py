"""Common cuts, groups and lazy reads are those that listing every block finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reblock.geometry import Axis
from reblock.passes.common_cuts import _select, common_cuts, grouped, lazy, most_blocks
from reblock.testing.problems import axes


@given(st.data())
def test_common_cuts_and_groups_and_lazy_reads_by_listing(data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 60))
    one, two = data.draw(axes(length)), data.draw(axes(length))
    common = sorted(set(one.cuts().tolist()) & set(two.cuts().tolist()))
    meet = common_cuts(one, two)
    assert meet.cuts().tolist() == common

    count = data.draw(st.integers(1, 6))
    starts = two.cuts().tolist()
    kept, since = [], 0
    for cut in starts:
        since = 0 if cut in common else since + 1
        if since % count == 0:
            kept.append(cut)
    assert grouped(two, meet, count).cuts().tolist() == kept
    ends = [*common[1:], length]
    assert most_blocks(two, meet) == max(sum(a <= c < b for c in starts) for a, b in zip(common, ends, strict=True))

    edges = [*one.cuts().tolist(), length]
    enough = {min(e for e in edges if e >= cut) for cut in [*starts, length]}
    assert [*lazy(one, two).cuts().tolist(), length] == sorted(enough | {0})


def test_axes_of_very_many_blocks_are_described() -> None:
    source, target = Axis.regular(10**12, 350), Axis.regular(10**12, 250)
    assert common_cuts(source, target) == Axis.regular(10**12, 1750)
    assert grouped(target, Axis.regular(10**12, 1750), 3).pattern == (750, 750, 250)
    assert len(lazy(target, source).pattern) == 5
    cropped = Axis.regular(10**12, 350).crop(100, 10**12 - 100)
    # Cuts of the crop lie at 250 + 350k: at 250 and then every 1750 they meet.
    assert common_cuts(cropped, Axis.regular(10**12 - 200, 250)).start(1) == 250


def test_axes_too_irregular_to_compare_have_no_common_cut() -> None:
    one, two = Axis.regular(10**12, 99_991).crop(7, 10**12), Axis.regular(10**12, 100_003).crop(7, 10**12)
    assert common_cuts(one, two) == Axis.single(10**12 - 7)


@given(st.integers(1, 400), st.integers(1, 5), st.integers(2, 9), st.integers(2, 7), st.booleans())
def test_groups_of_regular_blocks(length: int, step: int, per: int, count: int, padded: bool) -> None:
    blocks, outer = Axis.regular(length, step, padded=padded), Axis.regular(length, step * per)
    if outer.count <= 1 or count >= most_blocks(blocks, outer):
        return
    counted = _select(
        blocks, outer, lambda cuts: (blocks.indices(cuts) - blocks.indices(outer.floors(cuts))) % count == 0
    )
    assert grouped(blocks, outer, count) == counted
