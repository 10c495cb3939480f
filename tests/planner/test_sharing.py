"""Sharing: every worker gets tasks, cut where objects of the target end, at a price that stays low."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reblock
from reblock.cost.estimate import estimate
from reblock.errors import InfeasibleError, Refused
from reblock.model import Problem
from reblock.planner import check, choose, share
from reblock.testing.problems import problems


@pytest.mark.parametrize("shape", [(0,), (4, 0), ()])
def test_tasks_of_nothing_are_not_cut(shape: tuple[int, ...]) -> None:
    chunks = tuple(max(length, 1) for length in shape)
    job = reblock.plan(shape=shape, dtype="u2", source_chunks=chunks, chunks=chunks, codec="zstd:1")
    assert share(job.plan, job.decision.problem, 8).passes[-1].tasks.count == (0 if shape else 1)


@pytest.mark.parametrize("workers", [2, 3, 7, 64])
@pytest.mark.parametrize(("before", "after"), [((70, 70), (50, 50)), ((128, 1), (1, 128)), ((200, 200), (10, 10))])
def test_tasks_are_cut_for_workers(workers: int, before: tuple[int, ...], after: tuple[int, ...]) -> None:
    job = reblock.plan(shape=(700, 700), dtype="u2", source_chunks=before, chunks=after, memory="2MiB", codec="zstd:1")
    problem = job.decision.problem
    plan = share(job.plan, problem, workers)
    tasks = plan.passes[-1].tasks
    # The busiest of them does at most twice its even share: less than all may be worth it, if that reads less twice.
    rounds = -(-tasks.count // workers)
    assert rounds * prod(tasks.largest) <= 2.5 * 700 * 700 / min(workers, problem.target.objects.count)
    assert problem.target.objects.clipped().covers(tasks) or tasks.covers(problem.target.objects.clipped())
    check(plan, problem)
    assert plan.memory_bytes <= problem.memory_bytes


def test_one_worker_keeps_the_plan() -> None:
    job = reblock.plan(shape=(64, 64), dtype="u2", source_chunks=(8, 64), chunks=(64, 8))
    assert share(job.plan, job.decision.problem, 1) is job.plan


def test_cuts_that_source_and_target_share_read_nothing_twice() -> None:
    job = reblock.plan(shape=(1200, 100), dtype="u2", source_chunks=(40, 100), chunks=(60, 100), codec="zstd:1")
    problem = job.decision.problem
    plan = share(job.plan, problem, 5)
    assert plan.passes[-1].tasks.count >= 5
    assert estimate(plan, problem).bytes_read == estimate(job.plan, problem).bytes_read == problem.source.nbytes


@given(problems(max_side=12), st.integers(2, 9))
def test_any_problem(problem: Problem, workers: int) -> None:
    """The result solves the same problem, and every object that is written whole has one writer."""
    try:
        plan = choose(problem).plan
    except (InfeasibleError, Refused):
        return
    found = share(plan, problem, workers)
    check(found, problem)
    assert found.passes[-1].tasks.count >= plan.passes[-1].tasks.count
    if not problem.target.partial_writes:
        assert found.passes[-1].tasks.covers(problem.target.objects.clipped())
