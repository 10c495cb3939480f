"""The search finds a pass as good as the best of all passes that a loop over every grid finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product

import pytest

from reblock.cost import PRESETS, estimate
from reblock.errors import Refused
from reblock.geometry import Grid
from reblock.model import Layout, Plan, Problem
from reblock.passes.family import fit, one_pass
from reblock.planner import OBJECTIVES, check
from reblock.planner.search import search
from reblock.planner.thrift import least_memory


def problem(shape: tuple[int, ...], source: tuple[int, ...], target: tuple[int, ...], *, whole: bool) -> Problem:
    """A problem of eight-byte elements, so that write boxes count in full; `whole` chunks are written at once."""
    one, two = (Layout.raw("<f8", Grid.of(shape, cut)) for cut in (source, target))
    return Problem(one, replace(two, partial_writes=not whole), 1, PRESETS["hdd"], held=True)


def every_plan(problem: Problem) -> Iterator[Plan]:
    """Single passes of every read length, with target blocks kept or cut along each axis, in one task or in many."""
    shape, objects = problem.shape, problem.target.objects
    axes = range(len(shape))
    for lengths in product(*(range(1, n + 1) for n in shape)):
        read = Grid.of(shape, lengths)
        for kept, tasks in product(product((True, False), repeat=len(shape)), (Grid.whole(shape), read, objects)):
            cut = read.refine(objects)
            write = Grid(tuple((objects if kept[axis] else cut).axes[axis] for axis in axes))
            for order in permutations(axes):
                try:
                    yield fit(one_pass("any", problem, read=read, write=write, tasks=tasks, order=order), problem)
                except Refused:
                    continue


@pytest.mark.parametrize("objective", ["seeks", "bytes"])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(
    ("shape", "source", "target"), [((24,), (4,), (6,)), ((6, 8), (2, 8), (6, 2)), ((6, 6), (2, 3), (3, 2))]
)
@pytest.mark.parametrize("times", [1, 1.5, 3, 8])
def test_no_pass_is_better(
    shape: tuple[int, ...],
    source: tuple[int, ...],
    target: tuple[int, ...],
    whole: bool,
    times: float,
    objective: str,
) -> None:
    wanted = problem(shape, source, target, whole=whole)
    wanted = replace(wanted, memory_bytes=int(least_memory(wanted) * times))
    key = OBJECTIVES[objective]
    plan, _ = search(wanted, key)
    check(plan, wanted)
    found = key(estimate(plan, wanted))[0]
    best = min(key(estimate(other, wanted))[0] for other in every_plan(wanted))
    assert found <= best


def test_least_memory_is_the_least_of_any_pass() -> None:
    wanted = problem((6, 6), (2, 3), (3, 2), whole=True)
    least = least_memory(wanted)
    assert not list(every_plan(replace(wanted, memory_bytes=least - 1)))
    assert list(every_plan(replace(wanted, memory_bytes=least)))


def test_too_little_memory_is_refused_with_what_would_do() -> None:
    wanted = replace(problem((6, 8), (2, 8), (6, 2), whole=True), held=False)
    least = least_memory(wanted)
    with pytest.raises(Refused, match=f"needs at least .*{least} bytes") as refusal:
        search(replace(wanted, memory_bytes=least - 1), OBJECTIVES["time"])
    assert refusal.value.needs_memory_bytes == least
    plan, _ = search(replace(wanted, memory_bytes=least), OBJECTIVES["time"])
    assert estimate(plan, wanted).peak_bytes <= least


def test_frugal_plans_take_the_least_memory() -> None:
    wanted = replace(problem((6, 8), (2, 8), (6, 2), whole=True), held=False, memory_bytes=1 << 20)
    plan, _ = search(wanted, OBJECTIVES["memory"], frugal=True)
    assert (plan.depth, plan.coders, plan.memory_bytes) == (1, 1, least_memory(wanted))
