"""Tuning: larger steps and coalesced gaps where they cost nothing, and all numbers that the engine follows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import check_run, fill, make
from reblock.cost import PRESETS, estimate
from reblock.cost.estimate import estimate_passes
from reblock.engine import View
from reblock.errors import InfeasibleError, UsageError
from reblock.geometry import Grid
from reblock.model import PIECE_BYTES, Access, Layout, Plan, Problem
from reblock.model.accounting import with_records
from reblock.passes.family import fit, one_pass
from reblock.planner import OBJECTIVES, check, choose
from reblock.planner.tune import QUEUED, coalesce, coarsen, fill_execution
from reblock.testing.problems import passes, problems

SHAPE = (64, 64)


def raw(chunks: tuple[int, int]) -> Layout:
    return Layout.raw("u1", Grid.of(SHAPE, chunks))


def by_hand(problem: Problem, read: tuple[int, int], tasks: tuple[int, int] | None = None) -> Plan:
    cut = Grid.whole(problem.shape) if tasks is None else Grid.of(problem.shape, tasks)
    grids = {"read": Grid.of(problem.shape, read), "write": problem.target.objects.clipped(), "tasks": cut}
    return fit(one_pass("by hand", problem, **grids), problem)


def test_small_steps_are_joined() -> None:
    problem = Problem(raw((4, 64)), raw((64, 64)), 1 << 20, PRESETS["nvme"])
    plan = by_hand(problem, (4, 64))
    tuned = coarsen(plan, problem)
    assert plan.passes[0].reads.count == 16
    assert tuned.passes[0].reads.count == 1
    assert estimate(tuned, problem).seeks == estimate(plan, problem).seeks


def test_steps_that_would_take_much_more_memory_are_not_joined() -> None:
    problem = Problem(raw((4, 64)), raw((4, 64)), 1 << 12, PRESETS["nvme"])
    tuned = coarsen(by_hand(problem, (4, 64), (4, 64)), problem)
    # A quarter of the budget: 1 KiB.
    assert tuned.passes[0].reads.largest == (16, 64)


@pytest.mark.parametrize("why", ["held", "interleaved"])
def test_a_plan_that_is_not_to_change(why: str) -> None:
    problem = Problem(raw((4, 64)), raw((64, 64)), 1 << 20, PRESETS["nvme"], held=why == "held")
    plan = replace(by_hand(problem, (4, 64)), interleaved=why == "interleaved")
    assert coarsen(plan, problem) is plan


@pytest.mark.parametrize(("device", "coalesced"), [("nvme", 1), ("hdd", 1)])
def test_small_gaps_are_read_over(device: str, coalesced: int) -> None:
    problem = Problem(raw((64, 64)), raw((64, 32)), 1 << 20, PRESETS[device])
    plan = by_hand(problem, (64, 32))
    tuned = coalesce(plan, problem)
    assert (plan.passes[0].coalesced, tuned.passes[0].coalesced) == (0, coalesced)
    assert estimate(tuned, problem).seconds < estimate(plan, problem).seconds


def test_large_gaps_are_not() -> None:
    shape = (64, 64 << 20)
    source, target = (Layout.raw("u1", Grid.of(shape, cut)) for cut in ((64, 64 << 20), (64, 1 << 20)))
    problem = Problem(source, target, 1 << 30, PRESETS["nvme"])
    assert coalesce(by_hand(problem, (64, 1 << 20)), problem).passes[0].coalesced == 0


@given(problems(), st.sampled_from(sorted(OBJECTIVES)), st.booleans())
def test_a_chosen_plan_says_how_it_runs_in_the_predicted_memory(problem: Problem, objective: str, held: bool) -> None:
    problem = replace(problem, held=held)
    try:
        plan = choose(problem, objective=objective).plan
    except InfeasibleError:
        return
    check(plan, problem)
    sides = plan.sides(problem.source, problem.target)
    for (made, source, target), predicted in zip(sides, estimate_passes(plan, problem), strict=True):
        how = made.execution
        assert how is not None
        assert how.memory_bytes == predicted.peak_bytes
        assert with_records(how.buffer_bytes, made.writes.count, target) + how.flight_bytes == how.memory_bytes
        assert how.units_in_flight in (how.readers * how.batch_size, source.units.count)
        assert (how.coders, how.queued, how.piece_bytes) == (plan.coders, QUEUED * plan.depth, PIECE_BYTES)
    # By the papers' count a plan may have less memory than the engine allocates.
    assert held or plan.memory_bytes == max(one.execution.memory_bytes for one in plan.passes) <= problem.memory_bytes


@given(st.data())
def test_every_pass_of_a_plan_by_hand_is_filled(data: st.DataObject) -> None:
    problem = replace(data.draw(problems()), memory_bytes=1 << 30)
    middle = Layout.raw(problem.target.dtype, problem.target.objects.clipped())
    legs = replace(problem, target=middle), replace(problem, source=middle)
    plan = fit(Plan("by hand", problem.shape, tuple(data.draw(passes(leg)) for leg in legs), (middle,)), problem)
    assert [made.execution for made in plan.passes] == [None, None]
    filled = fill_execution(plan, problem)
    check(filled, problem)
    assert [replace(made, execution=None) for made in filled.passes] == list(plan.passes)


@pytest.mark.parametrize(("cores", "writers", "coders"), [(1, 10, 1), (2, 10, 2), (12, 12, 12), (64, 12, 12)])
def test_threads_follow_cores_and_the_device(cores: int, writers: int, coders: int) -> None:
    grid = Grid.of((1000, 1000), (10, 10))
    encoded = Layout("u1", grid, grid, (0, 1), "zstd:3", partial_reads=False, partial_writes=False)
    encoded = replace(encoded, dtype=raw((1, 1)).dtype)
    problem = Problem(encoded, encoded, 1 << 30, PRESETS["nvme"], cores=cores)
    assert PRESETS["nvme"].depth == 12
    (made,) = choose(problem).plan.passes
    assert made.read_access is Access.UNITS
    assert (made.execution.writers, made.execution.coders, made.execution.readers) == (writers, coders, 12)


def test_parts_of_chunks_are_noted() -> None:
    grid, parts = Grid.of(SHAPE, (64, 64)), Grid.of(SHAPE, (8, 64))
    whole = Layout(raw((1, 1)).dtype, grid, grid, (0, 1), "blosc", partial_reads=False)
    divided = replace(whole, units=parts, indexed=True, divided=True)
    problem = Problem(whole, raw((8, 8)), 1 << 20, PRESETS["nvme"])
    assert not choose(problem).plan.divided
    assert choose(replace(problem, source=divided)).plan.divided


@pytest.mark.parametrize("strategy", ["multiple", "clustered"])
def test_pieces_shrink_where_memory_is_short(strategy: str, tmp_path: Path) -> None:
    """A file in one block is read in pieces that fit beside the write boxes, and every count is as predicted."""
    array = np.arange(40 * 200 * 200, dtype="u2").reshape(40, 200, 200)
    source = make(tmp_path, "source", "rawblocks", array.shape, array.shape)
    fill(source, array)
    target = make(tmp_path, "target", "rawblocks", array.shape, (10, 50, 50))
    problem = Problem(source.layout, target.layout, 1 << 20, PRESETS["nvme"])
    plan = choose(problem, strategy=strategy).plan
    how = plan.passes[0].execution
    assert how
    assert how.piece_bytes < PIECE_BYTES
    assert how.piece_bytes <= how.flight_bytes
    assert how.memory_bytes <= problem.memory_bytes
    assert how.memory_bytes > 0.9 * problem.memory_bytes
    check_run(plan, problem, View.whole(source), target, array, tmp_path)
    spoiled = replace(plan.passes[0], execution=replace(how, piece_bytes=PIECE_BYTES))
    with pytest.raises(UsageError, match="units in flight need"):
        check(replace(plan, passes=(spoiled,)), problem)
