"""Stretch: buffers of source blocks that grow as far as memory goes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reblock.cost import PRESETS, estimate
from reblock.errors import Refused
from reblock.geometry import Grid
from reblock.model import Layout, Problem
from reblock.strategies import keep, stretch
from reblock.testing.problems import problems

CONFIGS = [
    ((875, 875, 875), (875, 1750, 875)),
    ((875, 875, 875), (700, 875, 700)),
    ((350, 350, 350), (500, 500, 500)),
    ((350, 350, 350), (250, 250, 250)),
    ((175, 175, 175), (250, 250, 250)),
    ((350, 875, 350), (500, 875, 500)),
    ((350, 875, 350), (350, 500, 350)),
]


def raw(shape, source, target, memory, *, dtype="u2", held=True):
    layouts = [Layout.raw(dtype, Grid.of(shape, chunks)) for chunks in (source, target)]
    return Problem(*layouts, memory, PRESETS["nvme"], held=held)


def small(config, memory):
    return raw((3500,) * 3, *CONFIGS[config], memory)


@pytest.mark.parametrize(("config", "seeks"), list(enumerate([96, 260, 1637, 3744, 10_744, 596, 1100])))
def test_under_4_gb_it_finds_what_brute_force_over_shapes_and_orders_found(config, seeks):
    problem = small(config, 4 * 10**9)
    cost = estimate(stretch.propose(problem), problem)
    assert cost.seeks == seeks
    assert cost.held_bytes <= 4 * 10**9


@pytest.mark.parametrize(("config", "gigabytes"), list(enumerate([2.68, 4.931, 10.614, 2.8875, 2.45, 3.185, 0.30625])))
def test_the_least_memory_that_moves_every_block_whole(config, gigabytes):
    problem = small(config, 256 * 10**9)
    cost = estimate(stretch.propose(problem), problem)
    assert cost.seeks == problem.lower_bound_seeks
    assert cost.held_bytes / 1e9 == pytest.approx(gigabytes, rel=1e-3)


def test_buffers_follow_the_largest_overlap():
    """Only axis 0 has an overlap: along it buffers complete each other's target blocks at once."""
    problem = raw((30, 8, 8), (4, 2, 2), (6, 2, 2), 10**6)
    (made,) = stretch.propose(problem).passes
    assert made.order[-1] == 0
    assert estimate(stretch.propose(problem), problem).held_bytes == 2 * (6 + 2) * 2 * 2


def test_buffers_may_be_broken_into_single_source_blocks():
    problem = small(5, 4 * 10**9)
    (made,) = stretch.propose(problem).passes
    assert made.read == problem.source.objects
    assert made.write == problem.target.objects


def test_buffers_may_go_beyond_the_aggregate():
    (made,) = stretch.propose(small(1, 4 * 10**9)).passes
    assert made.read.largest[0] > 875


def test_what_does_not_fit_is_not_kept():
    problem = small(2, 4 * 10**9)
    (made,) = stretch.propose(problem).passes
    kept = [write == target for write, target in zip(made.write.axes, problem.target.objects.axes, strict=True)]
    assert kept == [False, True, True]


def test_a_small_budget_stretches_the_fastest_axis_first():
    (made,) = stretch.propose(raw((20, 20, 20), (5, 5, 5), (4, 4, 4), 2 * 30)).passes
    shape = made.read.largest
    assert shape[0] <= shape[1] <= shape[2]
    assert shape[2] >= 5


@given(problem=problems(source_kinds=["raw"], target_kinds=["raw"]), held=st.booleans())
def test_ample_memory_reaches_the_lower_bound(problem, held):
    problem = replace(problem, held=held, memory_bytes=1 << 30)
    plan = stretch.propose(problem)
    (made,) = plan.passes
    assert made.writes == problem.target.objects.clipped()
    assert estimate(plan, problem).seeks <= estimate(keep.propose(problem), problem).seeks


def test_encoded_targets_keep_every_axis():
    problem = raw((60, 60), (7, 9), (10, 6), 30_000, held=False)
    target = replace(problem.target, codec="gzip:4", partial_reads=False, partial_writes=False)
    (made,) = stretch.propose(replace(problem, target=target)).passes
    assert made.writes == target.objects
    assert made.tasks == Grid.whole((60, 60))


def test_refused_where_not_one_element_fits():
    with pytest.raises(Refused, match="2 bytes") as refusal:
        stretch.propose(raw((8, 8), (3, 4), (5, 4), 1))
    assert refusal.value.needs_memory_bytes == 2
