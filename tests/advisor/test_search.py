"""The search for chunk shapes, against trying every shape."""

from __future__ import annotations

from itertools import product
from math import prod
from time import process_time
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from access_cases import PAPER_BLOCK, PAPER_SHAPE, logarithmic, paper, patterns, priced
from reblock.advisor import search as searching
from reblock.advisor.price import GOALS
from reblock.advisor.search import Bounds, all_shapes, find_chunks, maximal_shapes, powers_of_two
from reblock.errors import UsageError
from reblock.model import AccessClass, AccessPattern, Alignment

MODELS = [Alignment.ALIGNED, Alignment.ANYWHERE]


@pytest.fixture
def only_heuristic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "_MAX_NUMBERS", 0)


def test_the_papers_example() -> None:
    found = find_chunks(priced(paper(), PAPER_SHAPE), Bounds.of(PAPER_SHAPE, PAPER_BLOCK), "blocks")
    assert found.exhaustive
    assert (found.best.method, found.best.chunks, found.best.cost) == ("exhaustive", (20, 20, 20), 20)
    by_method = {one.method: (one.chunks, one.cost) for one in found.found}
    assert by_method["powers of two"] == ((16, 16, 16), 37.5)
    assert by_method["neighbourhood"] == ((20, 20, 20), 20)
    anywhere = find_chunks(
        priced(paper(Alignment.ANYWHERE), PAPER_SHAPE), Bounds.of(PAPER_SHAPE, PAPER_BLOCK), "blocks"
    )
    assert anywhere.best.chunks == (11, 22, 33)
    assert anywhere.best.cost == pytest.approx(43.24, abs=0.005)


def test_the_papers_maximal_shapes() -> None:
    found = maximal_shapes(Bounds.of((99, 99), 15), 1000)
    assert found is not None
    assert found.tolist() == [[1, 15], [2, 7], [3, 5], [5, 3], [7, 2], [15, 1]]


def every_shape(shape: tuple[int, ...], least: int, most: int) -> list[tuple[int, ...]]:
    return [c for c in product(*(range(1, n + 1) for n in shape)) if least <= prod(c) <= most]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple), st.integers(1, 60), st.integers(1, 60))
def test_shapes_are_all_listed(shape: tuple[int, ...], most: int, least: int) -> None:
    bounds = Bounds.of(shape, most, least)
    every = every_shape(shape, bounds.least, most)
    listed = all_shapes(bounds, 10**6)
    assert listed is not None
    if every:
        assert sorted(map(tuple, listed.tolist())) == every
        assert bounds.contains(listed).all()
    maximal = maximal_shapes(bounds, 10**6)
    assert maximal is not None
    fitting = set(every_shape(shape, 1, most))
    grown = [
        chunk
        for chunk in fitting
        if not any((*chunk[:d], chunk[d] + 1, *chunk[d + 1 :]) in fitting for d in range(len(shape)))
    ]
    assert sorted(map(tuple, maximal.tolist())) == sorted(grown)


@settings(max_examples=max(settings.default.max_examples, 60))
@given(st.data())
def test_exhaustive_is_brute_force(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=3).map(tuple))
    goal, model = data.draw(st.sampled_from(GOALS)), data.draw(st.sampled_from(list(Alignment)))
    pricing = priced(data.draw(patterns(shape, alignments=[model])), shape, data.draw(st.sampled_from([1, 8])))
    bounds = Bounds.of(shape, data.draw(st.integers(1, 80)), data.draw(st.integers(1, 40)))
    found = find_chunks(pricing, bounds, goal)
    assert found.exhaustive
    monotone = goal in ("blocks", "requests") and model is not Alignment.POSITIONS
    every = every_shape(shape, 1 if monotone else bounds.least, bounds.most)
    assume(every)
    costs = [pricing.score(np.array([chunk], np.int64), goal).item() for chunk in every]
    assert found.best.cost == pytest.approx(min(costs), rel=1e-9)
    assert found.best.chunks in every


def random_problem(rng: Any, model: Alignment) -> tuple[Any, Bounds, str]:
    ndim = int(rng.integers(2, 5))
    shape = logarithmic(rng, 8, 1000, ndim)
    classes = []
    for _ in range(int(rng.integers(1, 7))):
        box = tuple(min(max(logarithmic(rng, 1, n + 1, 1)[0], 1), n) for n in shape)
        classes.append(AccessClass(box, float(rng.random() + 0.05), model))
    goal = str(rng.choice(["blocks", "blocks", "time", "bytes"]))
    most = logarithmic(rng, 60, 20_000 if goal == "blocks" else 3000, 1)[0]
    return priced(AccessPattern(tuple(classes)), shape, 4), Bounds.of(shape, most, max(most // 8, 1)), goal


def compare(count: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> float:
    rng, worst, compared = np.random.default_rng(seed), 1.0, 0
    while compared < count:
        pricing, bounds, goal = random_problem(rng, MODELS[compared % 2])
        monkeypatch.setattr(searching, "_MAX_NUMBERS", 10**9)
        exact = find_chunks(pricing, bounds, goal)
        if not exact.exhaustive:
            continue
        monkeypatch.setattr(searching, "_MAX_NUMBERS", 0)
        quick = find_chunks(pricing, bounds, goal)
        assert not quick.exhaustive
        assert bounds.contains(np.array([quick.best.chunks], np.int64)).all() or goal == "blocks"
        worst = max(worst, quick.best.cost / exact.best.cost)
        compared += 1
    return worst


def test_the_heuristic_is_near_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare(30, 1, monkeypatch) <= 1.03


@pytest.mark.slow
@pytest.mark.skipif(settings.default.max_examples < 500, reason="make fuzz compares 500 problems")
def test_the_heuristic_is_near_the_best_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare(500, 2, monkeypatch) <= 1.03


@pytest.mark.parametrize("goal", ["blocks", "time"])
@pytest.mark.parametrize("model", MODELS)
def test_large_problems_are_quick(goal: str, model: Alignment) -> None:
    """Six axes and 10⁸ elements in a chunk, in at most a second of this process."""
    rng = np.random.default_rng(5)
    shape = (300,) * 6
    classes = [AccessClass(tuple(int(n) for n in rng.integers(1, 300, 6)), 1.0, model) for _ in range(6)]
    pricing = priced(AccessPattern(tuple(classes)), shape, 4)
    began = process_time()
    found = find_chunks(pricing, Bounds.of(shape, 10**8, 10**6), goal)
    assert process_time() - began < 1
    assert not found.exhaustive
    assert prod(found.best.chunks) <= 10**8
    first = next(one for one in found.found if one.method == "powers of two")
    assert found.best.cost <= first.cost


@pytest.mark.usefixtures("only_heuristic")
def test_the_heuristic_finds_the_papers_chunk() -> None:
    found = find_chunks(priced(paper(), PAPER_SHAPE), Bounds.of(PAPER_SHAPE, PAPER_BLOCK), "blocks")
    assert (found.exhaustive, found.best.chunks, found.best.cost) == (False, (20, 20, 20), 20)


def test_axes_can_be_fixed() -> None:
    bounds = Bounds.of(PAPER_SHAPE, PAPER_BLOCK, fixed=[None, 50, None])
    assert find_chunks(priced(paper(), PAPER_SHAPE), bounds, "blocks").best.chunks[1] == 50
    with pytest.raises(UsageError, match=r"chunks of 100,2000,1 have 200,000 elements, more than the limit of 8,000"):
        Bounds.of(PAPER_SHAPE, PAPER_BLOCK, fixed=[100, 2000, None])


def test_an_array_without_axes_and_of_one_element() -> None:
    for shape in ((), (1,), (1, 1)):
        pricing = priced(AccessPattern((AccessClass(shape),)), shape)
        assert find_chunks(pricing, Bounds.of(shape, 1), "time").best.chunks == shape


def test_sizes_that_no_chunk_has() -> None:
    """No chunk of 4 × 4 has seven elements."""
    pricing = priced(AccessPattern((AccessClass((2, 2)),)), (4, 4))
    assert prod(find_chunks(pricing, Bounds.of((4, 4), 7, 7), "time").best.chunks) <= 7


def test_powers_of_two_are_coarser_where_there_are_many() -> None:
    few = powers_of_two(Bounds.of((1 << 40,) * 12, 1 << 40), monotone=False)
    assert 0 < len(few) <= searching.MAX_SHAPES
