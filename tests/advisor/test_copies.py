"""Copies: every division of a few classes, and clusters of more."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from access_cases import PAPER_BLOCK, PAPER_SHAPE, paper, patterns, priced
from reblock.advisor import copies as module
from reblock.advisor.copies import divide, route
from reblock.advisor.search import Bounds, all_shapes
from reblock.errors import UsageError
from reblock.model import AccessClass, AccessPattern, Alignment


def test_two_copies_of_the_papers_example() -> None:
    """Each class has a copy of its own, and fetches as few blocks as its bytes fill."""
    found = divide(priced(paper(), PAPER_SHAPE), Bounds.of(PAPER_SHAPE, PAPER_BLOCK), "blocks", 2)
    assert [one.classes for one in found.copies] == [(0,), (1,)]
    assert (found.cost, found.exhaustive) == (5, True)


@settings(max_examples=max(settings.default.max_examples // 4, 10))
@given(st.data())
def test_every_division_is_tried(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(2, 8), min_size=1, max_size=2).map(tuple))
    pattern = data.draw(patterns(shape, most=4))
    classes, bounds = len(pattern.classes), Bounds.of(shape, data.draw(st.integers(1, 20)))
    count = data.draw(st.integers(1, classes))
    pricing = priced(pattern, shape)
    found = divide(pricing, bounds, "blocks", count)
    assert sorted(one for copy in found.copies for one in copy.classes) == list(range(classes))
    shapes = all_shapes(bounds, 10**6)
    assert shapes is not None
    costs = pricing.chunks(shapes).blocks * pattern.weights[:, None]
    best = min(
        sum(
            float(costs[[one for one in range(classes) if owners[one] == copy]].sum(axis=0).min())
            for copy in set(owners)
        )
        for owners in product(range(count), repeat=classes)
    )
    assert found.cost == pytest.approx(best)


def test_classes_go_to_the_cheapest_copy() -> None:
    found = divide(priced(paper(), PAPER_SHAPE), Bounds.of(PAPER_SHAPE, PAPER_BLOCK), "blocks", 2)
    costs = route(priced(paper(), PAPER_SHAPE), np.array([one.chunks for one in found.copies], np.int64), "blocks")
    for number, copy in enumerate(found.copies):
        for one in copy.classes:
            assert costs[number, one] == costs[:, one].min()


def test_many_classes_are_clustered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and columns of all lengths: each copy serves one kind."""
    rows = [AccessClass((1, n), 1.0, Alignment.ALIGNED) for n in range(60, 160, 10)]
    columns = [AccessClass((n, 1), 1.0, Alignment.ALIGNED) for n in range(60, 160, 10)]
    pricing = priced(AccessPattern((*rows, *columns)), (200, 200))
    bounds = Bounds.of((200, 200), 100)
    found = divide(pricing, bounds, "blocks", 2)
    assert not found.exhaustive
    assert sorted(one.classes for one in found.copies) == [tuple(range(10)), tuple(range(10, 20))]
    few = priced(AccessPattern((*rows[:4], *columns[:4])), (200, 200))
    exact = divide(few, bounds, "blocks", 3).cost
    monkeypatch.setattr(module, "MAX_BRUTE_FORCE", 1)
    assert divide(few, bounds, "blocks", 3).cost <= exact * 1.1


@pytest.mark.parametrize(("count", "message"), [(3, "3 copies for 2 classes"), (0, "at least 1, not 0")])
def test_impossible_numbers(count: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        divide(priced(paper(), PAPER_SHAPE), Bounds.of(PAPER_SHAPE, PAPER_BLOCK), "blocks", count)
