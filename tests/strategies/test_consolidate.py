"""Consolidation: rechunker's chunks on its own examples, and plans that hold on any problem."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reblock.cost import PRESETS, estimate
from reblock.errors import Refused
from reblock.geometry import Grid
from reblock.model import Layout, Plan, Problem
from reblock.passes.family import needed_bytes
from reblock.planner.check import check
from reblock.strategies.consolidate import merge, propose
from reblock.testing.problems import problems

NVME = PRESETS["nvme"]


def encoded(shape: tuple[int, ...], chunks: tuple[int, ...]) -> Layout:
    grid = Grid.of(shape, chunks, padded=True)
    order = tuple(range(len(shape)))
    return Layout(np.dtype("f4"), grid, grid, order, "zstd:3", partial_reads=False, partial_writes=False)


def attempt(problem: Problem) -> Plan | Refused:
    try:
        return propose(problem)
    except Refused as refusal:
        return refusal


@pytest.mark.parametrize(
    ("shape", "chunks", "elements", "limits", "merged"),
    [
        ((8, 8), (1, 2), 4, (8, 8), "1,4"),
        ((8, 8), (1, 2), 16, (8, 8), "2,8"),
        ((8, 8), (1, 2), 10**6, (8, 8), "8,8"),
        ((8, 8), (4, 4), 1, (8, 8), "4,4"),  # never less than a chunk
        ((8, 8), (1, 2), 10**6, (5, 2), "5,2"),
        ((10, 10), (3, 3), 10**6, (7, 10), "6,10"),  # whole chunks up to a limit, or the whole axis
    ],
)
def test_merging(
    shape: tuple[int, ...], chunks: tuple[int, ...], elements: int, limits: tuple[int, ...], merged: str
) -> None:
    assert str(merge(Grid.of(shape, chunks), elements, limits)) == merged


def test_equal_merged_chunks_need_no_intermediate_array() -> None:
    problem = Problem(encoded((64, 64), (64, 1)), encoded((64, 64), (64, 8)), 1 << 20, NVME)
    plan = propose(problem)
    (made,) = plan.passes
    assert made.read == made.tasks
    assert estimate(plan, problem).read_amplification == 1


def test_slices_to_pencils_goes_through_the_shorter_chunks() -> None:
    shape = (2048, 512, 512)
    problem = Problem(encoded(shape, (1, 512, 512)), encoded(shape, (2048, 32, 32)), 64 << 20, NVME)
    plan = propose(problem)
    push, pull = plan.passes
    assert push.read == push.tasks
    assert pull.read == pull.tasks
    for axis in range(3):
        assert plan.scratch[0].objects.largest[axis] == min(push.read.largest[axis], pull.read.largest[axis])
    cost = estimate(plan, problem)
    assert cost.bytes_read + cost.bytes_written == 4 * problem.target.nbytes


@pytest.mark.parametrize(
    ("limits", "reason"),
    [({"scratch_bytes": 1 << 30}, "takes 2.00 GiB, the limit is 1.00 GiB"), ({"scratch_objects": 7}, "the limit is 7")],
)
def test_limits_of_scratch(limits: dict[str, int], reason: str) -> None:
    shape = (2048, 512, 512)
    problem = Problem(encoded(shape, (1, 512, 512)), encoded(shape, (2048, 32, 32)), 64 << 20, NVME, **limits)
    with pytest.raises(Refused, match=reason):
        propose(problem)


@given(problems(), st.booleans())
def test_any_problem_is_served_or_refused_with_what_would_do(problem: Problem, held: bool) -> None:
    problem = replace(problem, held=held)
    plan = attempt(problem)
    if isinstance(plan, Refused):
        assert plan.needs_memory_bytes is not None
        problem = replace(problem, memory_bytes=plan.needs_memory_bytes)
        plan = propose(problem)
    check(plan, problem)
    assert needed_bytes(plan, problem) <= problem.memory_bytes
    again = Plan.from_json(plan.to_json())
    for one, other in zip(plan.passes, again.passes, strict=True):
        assert one.read == one.tasks
        for left, right in ((one.read, other.read), (one.write, other.write), (one.tasks, other.tasks)):
            assert [axis.lengths() for axis in left.axes] == [axis.lengths() for axis in right.axes]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1, 1)])
def test_arrays_without_room(shape: tuple[int, ...]) -> None:
    problem = Problem(encoded(shape, tuple(2 for _ in shape)), encoded(shape, tuple(1 for _ in shape)), 10**6, NVME)
    check(propose(problem), problem)
