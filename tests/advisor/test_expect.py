"""The expected number of chunks, against counting them at every start."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from access_cases import PAPER_SHAPE, paper, patterns, priced
from reblock.advisor.expect import axis_blocks, class_blocks, expected_blocks, grid_blocks
from reblock.advisor.price import linear_chunk
from reblock.geometry import Box, Grid
from reblock.model import AccessClass, AccessPattern, Alignment
from reblock.model.pattern import Positions

SHAPES = st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple)


def one_shape(*chunks: int) -> np.ndarray:
    return np.array([chunks], np.int64)


def test_the_papers_example() -> None:
    aligned, anywhere = (priced(paper(alignment), PAPER_SHAPE) for alignment in (Alignment.ALIGNED, Alignment.ANYWHERE))
    linear = aligned.linear(8000)
    assert linear.blocks.tolist() == [[4000], [100]]
    assert linear.mean(aligned.pattern.weights).blocks.item() == 2050
    cube, wide = one_shape(20, 20, 20), one_shape(11, 22, 33)
    assert aligned.score(cube, "blocks").item() == 20
    assert aligned.score(one_shape(10, 20, 40), "blocks").item() == 20
    assert aligned.score(one_shape(16, 16, 16), "blocks").item() == 37.5
    assert aligned.score(one_shape(32, 8, 16), "blocks").item() == 37.5
    assert anywhere.score(cube, "blocks").item() == pytest.approx(46.54, abs=0.005)
    assert anywhere.score(wide, "blocks").item() == pytest.approx(43.24, abs=0.005)
    useful = [prod(one.shape) / 8000 for one in aligned.pattern.classes]
    assert float(np.mean(useful)) == 5


@given(st.data())
def test_known_positions_are_exact(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    pattern = data.draw(patterns(shape, alignments=[Alignment.POSITIONS]))
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    grid = Grid.of(shape, chunks)
    for number, one in enumerate(pattern.classes):
        assert one.positions is not None
        boxes = [
            Box(tuple(start), tuple(a + n for a, n in zip(start, one.shape, strict=True)))
            for start in one.positions.starts.tolist()
        ]
        touched = [set(grid.touching(box)) for box in boxes]
        covered = [
            sum(box.intersect(grid.box(index)) == grid.box(index) for index in some)
            for box, some in zip(boxes, touched, strict=True)
        ]
        expected = np.mean([len(some) for some in touched])
        assert class_blocks(one, shape, one_shape(*chunks)).item() == pytest.approx(expected)
        assert class_blocks(one, shape, one_shape(*chunks), covered=True).item() == pytest.approx(np.mean(covered))
        assert grid_blocks(pattern, grid)[number] == pytest.approx(expected)


@given(st.data())
def test_anywhere_is_the_mean_over_all_phases(data: st.DataObject) -> None:
    """On an axis so long that its ends do not matter."""
    length, cut = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 9))
    one = AccessClass((length,))
    whole = cut * 40
    mean = np.mean([(start + length - 1) // cut - start // cut + 1 for start in range(cut)])
    assert class_blocks(one, (whole,), one_shape(cut)).item() == pytest.approx(mean)
    assert axis_blocks(one, 0, whole, np.array([cut])).item() == pytest.approx(mean)
    inside = [max((start + length) // cut - -(-start // cut), 0) for start in range(cut)]
    assert class_blocks(one, (whole,), one_shape(cut), covered=True).item() == pytest.approx(np.mean(inside))


@given(SHAPES, st.data())
def test_a_whole_axis_has_one_start(shape: tuple[int, ...], data: st.DataObject) -> None:
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    for alignment in (Alignment.ALIGNED, Alignment.ANYWHERE):
        found = class_blocks(AccessClass(shape, alignment=alignment), shape, one_shape(*chunks))
        assert found.item() == Grid.of(shape, chunks).count


@given(st.data())
def test_larger_chunks_never_cost_more_blocks(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    pattern = data.draw(patterns(shape, alignments=[Alignment.ALIGNED, Alignment.ANYWHERE]))
    small = tuple(data.draw(st.integers(1, n)) for n in shape)
    large = tuple(data.draw(st.integers(c, n)) for c, n in zip(small, shape, strict=True))
    found = expected_blocks(pattern, shape, np.array([small, large], np.int64))
    assert (found[:, 1] <= found[:, 0] + 1e-12).all()


def test_irregular_grids() -> None:
    grid = Grid.of((10,), ((2, 3, 5),))
    one = AccessClass((4,), alignment=Alignment.POSITIONS, positions=Positions.of([[0], [1], [6]], (4,)))
    assert grid_blocks(AccessPattern((one,)), grid).item() == pytest.approx((2 + 2 + 1) / 3)
    # The mean length is 10/3.
    assert grid_blocks(AccessPattern((AccessClass((4,)),)), grid).item() == pytest.approx(1 + 3 / (10 / 3))


@pytest.mark.parametrize(
    ("elements", "order", "chunk"),
    [
        (1, (0, 1), (1, 1)),
        (5, (0, 1), (1, 5)),
        (7, (0, 1), (1, 7)),
        (15, (0, 1), (2, 7)),
        (99, (0, 1), (4, 7)),
        (9, (1, 0), (4, 2)),
    ],
)
def test_blocks_of_an_array_without_chunks(elements: int, order: tuple[int, ...], chunk: tuple[int, ...]) -> None:
    assert linear_chunk((4, 7), elements, order) == chunk


def test_every_start_of_a_small_array() -> None:
    """The model of `anywhere` beside the truth, ends included: never less than the smallest count possible."""
    for whole, length, cut in product(range(1, 9), range(1, 9), range(1, 9)):
        if max(length, cut) <= whole:
            counts = [(s + length - 1) // cut - s // cut + 1 for s in range(whole - length + 1)]
            found = class_blocks(AccessClass((length,)), (whole,), one_shape(cut)).item()
            assert min(counts) <= found <= -(-whole // cut)
