"""What holds for every strategy of the thesis and the drafts, on problems of every kind."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from reblock.cost import PRESETS, estimate
from reblock.cost.flight import flight_bytes
from reblock.errors import Refused
from reblock.geometry import Box, Grid
from reblock.model import Access, Layout, Plan, Problem
from reblock.passes.family import needed_bytes
from reblock.strategies import strategies
from reblock.testing.problems import problems

NAMES = ("baseline", "clustered", "multiple", "keep", "keep-printed", "stretch")


def propose(name: str, problem: Problem) -> Plan:
    return strategies()[name].propose(problem)


def attempt(name: str, problem: Problem) -> Plan | Refused:
    try:
        return propose(name, problem)
    except Refused as refusal:
        return refusal


def raw(shape, source, target, memory, *, held=False, dtype="u2"):
    layouts = [Layout.raw(dtype, Grid.of(shape, chunks)) for chunks in (source, target)]
    return Problem(*layouts, memory, PRESETS["nvme"], held=held)


def encoded(layout: Layout) -> Layout:
    return replace(layout, codec="zstd:3", partial_reads=False, partial_writes=False)


@pytest.mark.parametrize("name", NAMES)
@given(problem=problems(), held=st.booleans())
def test_a_plan_solves_the_problem_within_the_budget_or_says_what_would_do(name, problem, held):
    problem = replace(problem, held=held)
    plan = attempt(name, problem)
    if isinstance(plan, Refused):
        needs = plan.needs_memory_bytes
        if needs is None:
            assert "whole" in str(plan)
            assert name == "baseline"  # every other one has a way to write whole chunks
            assert not problem.target.partial_writes
            return
        assert needs > problem.memory_bytes
        assert str(needs) in str(plan)
        problem = replace(problem, memory_bytes=needs)
        plan = propose(name, problem)
    (made,) = plan.passes
    assert (plan.strategy, plan.shape) == (name, problem.shape)
    whole = made.write_access is Access.UNITS
    seen = oracle.sweep(made, problem.target if whole else None)  # each element read and written once
    if whole:
        assert made.writes.counts == problem.target.objects.counts
        assert problem.target.objects.clipped().covers(made.writes)
    else:
        assert problem.target.partial_writes
        assert problem.target.objects.clipped().covers(made.writes)
    flight = flight_bytes(made, problem.source, problem.target, plan.depth, plan.coders)
    used = seen.held * problem.target.itemsize if held else seen.buffers * problem.target.itemsize + flight
    assert used <= problem.memory_bytes
    assert needed_bytes(plan, problem) <= problem.memory_bytes


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_cost_is_what_happens(name, data):
    problem = data.draw(problems(max_ndim=3, max_side=7))
    plan = attempt(name, replace(problem, memory_bytes=1 << 30))
    if isinstance(plan, Refused):
        return
    (made,) = plan.passes
    reads = oracle.traffic(made.reads.axes, problem.source, str(made.read_access))
    writes = oracle.traffic(made.writes.axes, problem.target, str(made.write_access), writing=True)
    cost = estimate(plan, problem)
    assert (cost.opens, cost.runs, cost.seeks) == tuple(a + b for a, b in zip(reads[:3], writes[:3], strict=True))
    assert (cost.bytes_read, cost.bytes_written) == (reads[3], writes[3])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(), (0,), (4, 0, 3), (1,), (1, 1, 1)])
def test_arrays_of_no_or_one_element(name, shape):
    chunks = [max(n - 1, 1) for n in shape]
    plan = propose(name, raw(shape, chunks, [2] * len(shape), 1 << 20))
    assert plan.passes[0].reads.shape == shape


SIDE = 100_000
MANY = {
    "growing": raw((SIDE,) * 3, (100,) * 3, (160,) * 3, 4 << 30),
    "nothing in common": raw((SIDE,) * 3, (100,) * 3, (97, 101, 103), 64 << 20),
    "small memory": raw((SIDE,) * 3, (100,) * 3, (160,) * 3, 8 << 20),
    "one axis": raw((10**12,), (1000,), (1536,), 1 << 20),
    "one axis, ample": raw((10**12,), (1000,), (1536,), 4 << 30),
    "five axes": raw((87600, 37, 721, 1440, 2), (1, 37, 721, 1440, 2), (8760, 1, 103, 90, 1), 4 << 30, dtype="f4"),
    "one big file": raw((50_000, 40_000, 3001), (50_000, 40_000, 3001), (64, 64, 64), 4 << 30, dtype="f4"),
}
MANY["encoded"] = replace(
    MANY["growing"], source=encoded(MANY["growing"].source), target=encoded(MANY["growing"].target)
)
MANY["crop, transposed"] = replace(
    MANY["growing"],
    source=Layout.raw("u2", Grid.of((SIDE + 100,) * 3, (100,) * 3)).view(
        Box((37, 41, 3), (SIDE + 37, SIDE + 41, SIDE + 3)), (2, 0, 1)
    ),
)
MANY["one axis, crop"] = replace(
    MANY["one axis"],
    source=Layout.raw("u2", Grid.of((10**12 + 5000,), (1000,))).view(Box((777,), (10**12 + 777,)), (0,)),
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", MANY)
def test_a_billion_chunks_make_a_small_plan(name, kind):
    problem = MANY[kind]
    plan = attempt(name, problem)
    if isinstance(plan, Refused):
        assert plan.needs_memory_bytes or "whole" in str(plan)
        assert name in ("baseline", "multiple")
        return
    assert len(json.dumps(plan.to_json())) < 64_000
    cost = estimate(plan, problem)
    assert cost.peak_bytes <= problem.memory_bytes
    assert cost.seeks >= problem.lower_bound_seeks
    if kind != "encoded":
        assert cost.read_amplification == pytest.approx(1, rel=0.01)  # whole units at the edges of a crop


@pytest.mark.parametrize("name", ["clustered", "multiple", "keep", "keep-printed", "stretch"])
def test_whole_target_chunks_are_written_whole(name):
    problem = raw((40, 30), (8, 8), (10, 6), 4000)
    problem = replace(problem, source=encoded(problem.source), target=encoded(problem.target), memory_bytes=200_000)
    (made,) = propose(name, problem).passes
    assert (made.read_access, made.write_access) == (Access.UNITS, Access.UNITS)
    assert made.writes == problem.target.objects
