"""The least memory: a plan for it, none for a byte less, and no slow plan where a faster one does with as much."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reblock.cost import PRESETS
from reblock.errors import InfeasibleError, Refused
from reblock.geometry import Axis, Grid
from reblock.model import Layout, Plan, Problem
from reblock.passes.family import needed_bytes, sweep
from reblock.planner import OBJECTIVES, Decision, choose
from reblock.planner.thrift import least_memory
from reblock.strategies import strategies
from reblock.testing.problems import problems


@given(problems(max_ndim=3), st.booleans())
def test_no_strategy_has_a_plan_for_less(problem: Problem, held: bool) -> None:
    problem = replace(problem, held=held)
    least = least_memory(problem)
    less = replace(problem, memory_bytes=max(least - 1, 1))
    for name in strategies():
        try:
            plan = choose(less, strategy=name).plan
        except Refused:
            continue
        assert least == 1, (name, plan)
    if least == 1:
        return
    with pytest.raises(InfeasibleError) as refusal:
        choose(replace(problem, memory_bytes=least - 1))
    assert refusal.value.needs_memory_bytes == least


@given(problems(max_ndim=3), st.booleans(), st.sampled_from(sorted(OBJECTIVES)))
def test_the_least_is_enough_and_the_thriftiest_plan_takes_it(problem: Problem, held: bool, objective: str) -> None:
    problem = replace(problem, held=held)
    least = least_memory(problem)
    assert taken(choose(replace(problem, memory_bytes=least), objective=objective)) <= least
    ample = replace(problem, memory_bytes=max(problem.memory_bytes, least))
    thrifty = choose(ample, objective="memory")
    assert held or taken(thrifty) == least


@pytest.mark.parametrize("out", [1, 2])
def test_what_sticks_out_need_not_be_held(out: int) -> None:
    source = Layout.raw("u1", Grid((Axis.of((2,)),)))
    target = Layout.raw("u1", Grid((Axis((), (2,), 1, (), 0, out),)))
    problem = Problem(source, target, 100, PRESETS["hdd"])
    plans = [choose(problem, strategy=name, objective="memory").plan.memory_bytes for name in ("dra", "multipass")]
    assert least_memory(problem) <= min(plans)
    assert taken(choose(problem, objective="memory")) == least_memory(problem)


def taken(decision: Decision) -> int:
    """Memory by the problem's way of counting."""
    return decision.cost.held_bytes if decision.problem.held else decision.plan.memory_bytes


def lines(length: int) -> list[Axis]:
    """Every way to cut a short axis."""
    cuts = product((False, True), repeat=length - 1)
    return [Axis.of(tuple(map(len, "".join("|" * cut + "x" for cut in (False, *row)).split("|")))) for row in cuts]


@pytest.mark.parametrize("kinds", list(product(("raw", "encoded"), repeat=2)), ids="-".join)
@pytest.mark.parametrize(("source", "target"), [((2, 1), (1, 3)), ((1, 2), (3, 1)), ((3, 3), (2, 2))])
def test_no_pass_of_the_family_needs_less(
    source: tuple[int, ...], target: tuple[int, ...], kinds: tuple[str, str]
) -> None:
    """All read, write and task grids over 3 × 3 elements, in both orders; two passes aside."""
    shape = (3, 3)
    layouts = []
    for chunks, kind in ((source, kinds[0]), (target, kinds[1])):
        layout = Layout.raw("<f8", Grid.of(shape, chunks))
        encoded = replace(layout, codec="zstd:3", partial_reads=False, partial_writes=False)
        layouts.append(layout if kind == "raw" else encoded)
    problem = Problem(*layouts, 1 << 40, PRESETS["nvme"], scratch_bytes=0)
    objects = problem.target.objects
    grids = [Grid(axes) for axes in product(lines(3), repeat=2)]
    found = []
    for read, tasks, order in product(grids, grids, permutations(range(2))):
        for write in dict.fromkeys((objects, objects.refine(read))):
            try:
                made = sweep(*layouts, problem.device, read=read, write=write, tasks=tasks, order=order)
                found.append(needed_bytes(Plan("", shape, (made,)), problem, frugal=True))
            except Refused:
                continue
    assert len(found) > 100
    small = replace(problem, scratch_objects=0)
    assert least_memory(small) == min(found)


def test_objective_memory_reaches_what_two_passes_need() -> None:
    """One pass holds a source unit and a target object; two hold one after the other."""
    shape = (512, 512, 512)
    layouts = []
    for chunks in ((8, 512, 512), (512, 32, 64)):
        grid = Grid.of(shape, chunks)
        layouts.append(
            Layout(np.dtype("<f4"), grid, grid, (0, 1, 2), "gzip:4", partial_reads=False, partial_writes=False)
        )
    problem = Problem(*layouts, 1 << 30, PRESETS["nvme"])
    alone = choose(replace(problem, scratch_bytes=0), objective="memory")
    best = choose(problem, objective="memory")
    assert len(alone.plan.passes) == 1
    assert len(best.plan.passes) == 2
    assert best.cost.peak_bytes < 0.7 * alone.cost.peak_bytes
    assert best.cost.peak_bytes == least_memory(problem)


def test_a_raw_target_is_not_written_element_by_element() -> None:
    """The least memory has room for a page of elements on either side."""
    shape = (2048, 512, 512)
    layouts = [Layout.raw("<f4", Grid.of(shape, chunks)) for chunks in ((1, 512, 512), (2048, 32, 32))]
    decision = choose(Problem(*layouts, 1 << 30, PRESETS["nvme"]), objective="memory")
    assert decision.cost.peak_bytes == 8192
    assert decision.cost.seeks < 20_000_000


def test_a_little_more_memory_is_advised_where_it_saves_much() -> None:
    """Slices decoded into raw columns: at the least a page of a slice is written at a time."""
    shape = (256, 1024, 1024)
    slices, columns = Grid.of(shape, (1, 1024, 1024)), Grid.of(shape, (256, 64, 64))
    source = Layout(np.dtype("<f4"), slices, slices, (0, 1, 2), "gzip:4", partial_reads=False, partial_writes=False)
    problem = Problem(source, Layout.raw("<f4", columns), 1, PRESETS["nvme"], scratch_bytes=0)
    with pytest.raises(
        InfeasibleError, match=r"needs at least .*; with .* MiB it would take [\d,]+ seeks and .* instead of"
    ):
        choose(problem)
    least = least_memory(problem)
    tight = choose(replace(problem, memory_bytes=least))
    assert " instead of 786,432 and 28 min" in tight.advice
    assert choose(replace(problem, memory_bytes=int(1.25 * least))).cost.seconds * 10 < tight.cost.seconds
    assert choose(replace(problem, memory_bytes=4 * least)).advice == ""


@given(problems(max_ndim=3), st.floats(1, 20))
def test_twice_the_memory_is_hardly_slower(problem: Problem, times: float) -> None:
    """Plans for half of the memory are looked at too: what is left are predictions that differ by little."""
    memory = int(least_memory(problem) * times)
    less, more = (choose(replace(problem, memory_bytes=part * memory)) for part in (1, 2))
    assert more.cost.seconds <= 1.15 * less.cost.seconds
