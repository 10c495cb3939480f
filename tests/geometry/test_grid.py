"""Grid against arrays of labels."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from reblock.errors import UsageError
from reblock.geometry import Axis, Box, Grid
from reblock.geometry.grid import chunk_text, inverse
from reblock.testing.arrays import orders
from reblock.testing.problems import grids, regions, shapes

any_grid = shapes().flatmap(lambda shape: grids(shape, overhang=True))
two_grids = shapes().flatmap(lambda shape: st.tuples(grids(shape, overhang=True), grids(shape, overhang=True)))


def labels(grid: Grid) -> np.ndarray:
    """For each element the index of its box, as one number per axis."""
    owners = [np.array(oracle.owners(axis)) for axis in grid.axes]
    return np.stack(np.meshgrid(*owners, indexing="ij"), -1)


@given(any_grid)
def test_boxes(grid: Grid) -> None:
    spans = list(itertools.product(*(oracle.blocks(axis) for axis in grid.axes)))
    whole = list(itertools.product(*(oracle.stored(axis) for axis in grid.axes)))
    indices = list(grid.indices())
    assert len(indices) == grid.count == len(spans)
    assert grid.counts == tuple(len(oracle.blocks(axis)) for axis in grid.axes)
    for index, span, stored in zip(indices, spans, whole, strict=True):
        assert grid.box(index) == Box(tuple(a for a, _ in span), tuple(b for _, b in span))
        assert grid.stored(index) == Box(tuple(a for a, _ in stored), tuple(b for _, b in stored))
    assert grid.largest == tuple(max(b - a for a, b in oracle.blocks(axis)) for axis in grid.axes)
    assert [grid.index(number) for number in range(grid.count)] == list(grid.indices())
    assert grid.largest_stored == tuple(max(b - a for a, b in oracle.stored(axis)) for axis in grid.axes)
    assert grid.overhangs == any(axis.lead or axis.trail for axis in grid.axes)


@given(any_grid)
def test_sizes_add_up_in_the_order_of_numbers(grid: Grid) -> None:
    found = 0
    for number, index in enumerate(grid.indices()):
        assert grid.size_before(number) == found
        found += grid.box(index).size
    assert grid.size_before(grid.count) == found


@given(any_grid, st.data())
def test_touching_and_indices_in_any_order(grid: Grid, data: st.DataObject) -> None:
    box = data.draw(regions(grid.shape))
    order = data.draw(orders(grid.ndim))
    seen = {tuple(index) for index in labels(grid)[box.slices].reshape(-1, grid.ndim).tolist()}
    in_order = sorted(seen, key=lambda index: [index[axis] for axis in order])
    assert list(grid.touching(box)) == sorted(seen)
    assert list(grid.touching(box, order)) == in_order
    everything = list(itertools.product(*map(range, grid.counts)))
    assert list(grid.indices(order)) == sorted(everything, key=lambda index: [index[axis] for axis in order])


@given(two_grids)
def test_refine_and_covers(two: tuple[Grid, Grid]) -> None:
    one, other = two
    made = one.refine(other)
    for axis, a, b in zip(made.axes, one.axes, other.axes, strict=True):
        assert oracle.edges(axis) == oracle.union(a, b)
        assert (axis.lead, axis.trail) == (0, 0)
    coarse = all(set(oracle.edges(a)) <= set(oracle.edges(b)) for a, b in zip(one.axes, other.axes, strict=True))
    assert one.covers(other) == coarse
    assert one.covers(made)
    assert other.covers(made)


@given(any_grid, st.data())
def test_crop_and_permute(grid: Grid, data: st.DataObject) -> None:
    """Cropping and transposing the grid is cropping and transposing the labels."""
    box, axes = data.draw(regions(grid.shape)), data.draw(orders(grid.ndim))
    made = grid.crop(box).permute(axes)
    wanted = labels(grid)[box.slices].transpose(*axes, grid.ndim)[..., list(axes)]
    assert made.shape == wanted.shape[:-1]
    first = wanted.reshape(-1, grid.ndim).min(axis=0)
    assert (labels(made) == wanted - first).all()
    for index in made.indices():
        origin = tuple(int(index[place] + first[place]) for place in inverse(axes))
        assert made.stored(index).permute(inverse(axes)).shift(box.start) == grid.stored(origin)


@given(any_grid)
def test_json_and_clipped(grid: Grid) -> None:
    again = Grid.from_json(grid.to_json(), grid.shape)
    assert [oracle.edges(axis) for axis in again.axes] == [oracle.edges(axis) for axis in grid.axes]
    assert not grid.clipped().overhangs
    assert [oracle.edges(axis) for axis in grid.clipped().axes] == [oracle.edges(axis) for axis in grid.axes]


def test_of() -> None:
    grid = Grid.of((10, 7, 5), (3, (2, 5), 8), padded=True)
    assert [axis.lengths() for axis in grid.axes] == [[3, 3, 3, 1], [2, 5], [5]]
    assert [axis.trail for axis in grid.axes] == [2, 0, 3]
    assert str(grid) == "3,2+5,5"
    assert Grid.whole((4, 0)).counts == (1, 0)
    assert list(Grid.whole((4, 0)).indices()) == []
    assert list(Grid.whole(()).indices()) == [()]


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ((3,), "chunks 3 have 1 axes, the array has 2"),
        ((0, 3), "at least 1, not 0"),
        ((3, -1), "at least 1, not -1"),
        ((3, (1, 2)), "must be positive and add up to 7"),
        ((3, (0, 7)), "must be positive and add up to 7"),
    ],
)
def test_bad_chunks(chunks: tuple[int | tuple[int, ...], ...], message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("+", r"\+")):
        Grid.of((10, 7), chunks)


def test_text() -> None:
    assert chunk_text([3, (1, 2), "x"]) == "3,1+2,x"
    assert chunk_text([]) == "()"
    assert str(Grid((Axis.of([1, 2] * 50), Axis()))) == "100 blocks of 2 or less,0"


@given(two_grids, st.data())
def test_blocks_that_meet_chosen_blocks(both: tuple[Grid, Grid], data: st.DataObject) -> None:
    one, two = both
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=two.count, max_size=two.count)), bool)
    found = one.meeting(two, chosen.reshape(two.counts))
    picked = [two.box(index) for index in two.indices() if chosen[two.number(index)]]
    for index in one.indices():
        assert found[index] == any(one.box(index).intersect(box) is not None for box in picked)
