"""Box against sets of points."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reblock.geometry import Box
from reblock.testing.arrays import orders
from reblock.testing.problems import regions, shapes

two_boxes = shapes(max_ndim=3, max_side=6).flatmap(lambda shape: st.tuples(regions(shape), regions(shape)))


@given(two_boxes)
def test_intersect_and_contains(two: tuple[Box, Box]) -> None:
    one, other = two
    points, others = set(one.points()), set(other.points())
    common = one.intersect(other)
    assert (set(common.points()) if common else set()) == points & others
    assert one.contains(other) == (others <= points)
    assert len(points) == one.size == np.prod(one.shape)


@given(two_boxes)
def test_within_and_shift(two: tuple[Box, Box]) -> None:
    one, other = two
    moved = one.within(other)
    assert set(moved.points()) == {
        tuple(x - a for x, a in zip(point, other.start, strict=True)) for point in one.points()
    }
    assert moved.shift(other.start) == one


@given(shapes().flatmap(lambda shape: st.tuples(st.just(shape), regions(shape), orders(len(shape)))))
def test_slices_and_permute(case: tuple[tuple[int, ...], Box, tuple[int, ...]]) -> None:
    shape, box, axes = case
    array = np.arange(np.prod(shape)).reshape(shape)
    assert array[box.slices].shape == box.shape
    assert (array[box.slices].transpose(axes) == array.transpose(axes)[box.permute(axes).slices]).all()
    assert [int(array[point]) for point in box.points()] == array[box.slices].ravel().tolist()


def test_whole_and_text() -> None:
    box = Box.whole((3, 4))
    assert (box.start, box.stop, box.ndim, str(box)) == ((0, 0), (3, 4), 2, "[0:3, 0:4]")
    assert Box.whole(()).size == 1
    assert list(Box.whole(()).points()) == [()]
    assert Box.whole((3, 0)).size == 0
