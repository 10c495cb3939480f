"""From a log to classes: near-equal shapes are merged, heavy ones kept apart, and the rest is told."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from reblock.advisor.reads import Accesses, classify
from reblock.errors import UsageError

SHAPE = (1000, 1000)


def accesses(*groups: tuple[int, Sequence[int]], writes: Sequence[int] = ()) -> Accesses:
    """So many accesses of each shape, each at another start."""
    starts, stops = [], []
    for count, box in groups:
        for number in range(count):
            start = [number % (n - side + 1) for n, side in zip(SHAPE, box, strict=True)]
            starts.append(start)
            stops.append([a + side for a, side in zip(start, box, strict=True)])
    written = np.zeros(len(starts), bool)
    written[list(writes)] = True
    return Accesses(np.array(starts).reshape(-1, 2), np.array(stops).reshape(-1, 2), written)


def test_heavy_shapes_are_kept_apart() -> None:
    pattern = classify(accesses((50, (10, 100)), (40, (11, 100)), (10, (1, 1000))), SHAPE)
    assert sorted(one.shape for one in pattern.classes) == [(1, 1000), (10, 100), (11, 100)]
    assert pattern.weights.tolist() == [0.5, 0.4, 0.1]
    assert (pattern.explained, pattern.accesses, pattern.model) == (1, 100, "positions")


def test_near_equal_shapes_are_merged() -> None:
    pattern = classify(accesses((96, (10, 100)), (2, (11, 90)), (2, (9, 120))), SHAPE)
    assert [one.shape for one in pattern.classes] == [(10, 100)]
    (one,) = pattern.classes
    assert one.weight == 100
    assert one.positions is not None
    assert sorted(set(map(tuple, one.positions.lengths.tolist()))) == [(9, 120), (10, 100), (11, 90)]
    assert one.positions.counts.sum() == 100


def test_what_is_left_out_is_told() -> None:
    """Twenty classes at the most: of 25 shapes that differ much, the heaviest."""
    sides = (1, 6, 36, 216, 1000)
    groups = [(60 - 5 * row - column, (sides[row], sides[column])) for row in range(5) for column in range(5)]
    pattern = classify(accesses(*groups), SHAPE)
    heaviest = sorted((count for count, _ in groups), reverse=True)
    assert len(pattern.classes) == 20
    assert 0.7 < pattern.explained < 1
    assert pattern.explained >= sum(heaviest[:20]) / sum(heaviest)


def test_writes_are_classes_of_their_own() -> None:
    pattern = classify(accesses((4, (10, 10)), writes=[0]), SHAPE)
    assert sorted((one.writes, one.weight) for one in pattern.classes) == [(False, 3), (True, 1)]


def test_the_same_box_again_is_counted() -> None:
    pattern = classify(Accesses(np.zeros((5, 2), np.int64), np.full((5, 2), 7, np.int64), np.zeros(5, bool)), SHAPE)
    assert pattern.classes[0].positions is not None
    assert pattern.classes[0].positions.counts.tolist() == [5]


def test_an_empty_log() -> None:
    with pytest.raises(UsageError, match="no accesses"):
        classify(accesses(), SHAPE)


def test_shapes_that_differ_more_are_merged_where_there_are_many() -> None:
    groups = [(10, (rows, columns)) for rows in range(1, 10) for columns in range(1, 10)]
    pattern = classify(accesses(*groups), SHAPE)
    assert len(pattern.classes) <= 20
    assert pattern.explained >= 0.95
