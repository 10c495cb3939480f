"""Plans and passes through JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from reblock.cost import PRESETS
from reblock.errors import UsageError
from reblock.geometry import Axis, Grid
from reblock.model import Access, Layout, Pass, Plan, Problem, Traffic
from reblock.testing.problems import passes, problems, shapes, sweeps


def edges(grid: Grid) -> list[list[int]]:
    return [oracle.edges(axis) for axis in grid.axes]


@given(shapes().flatmap(sweeps))
def test_pass_survives_json(made: Pass) -> None:
    again = Pass.from_json(json.loads(json.dumps(made.to_json())), made.read.shape)
    for one, other in ((made.read, again.read), (made.write, again.write), (made.tasks, again.tasks)):
        assert edges(one) == edges(other)
    assert (made.order, made.read_access, made.write_access) == (again.order, again.read_access, again.write_access)
    assert again == Pass.from_json(again.to_json(), made.read.shape)


@given(shapes().flatmap(sweeps))
def test_reads_and_writes_are_refinements(made: Pass) -> None:
    assert edges(made.reads) == [oracle.union(a, t) for a, t in zip(made.read.axes, made.tasks.axes, strict=True)]
    assert edges(made.writes) == [oracle.union(a, t) for a, t in zip(made.write.axes, made.tasks.axes, strict=True)]


@given(problems(), st.data())
def test_plan_survives_json(problem: Problem, data: st.DataObject) -> None:
    made = data.draw(passes(problem))
    made = Pass.from_json(made.to_json(), problem.shape)
    scratch = (Layout.raw(problem.target.dtype, made.writes, tuple(reversed(range(problem.target.ndim)))),)
    plan = Plan("mine", problem.shape, (made, made), scratch, interleaved=data.draw(st.booleans()), depth=3)
    again = Plan.from_json(json.loads(json.dumps(plan.to_json())))
    assert (again.strategy, again.shape, again.interleaved, again.depth) == ("mine", problem.shape, plan.interleaved, 3)
    assert again.passes == plan.passes
    assert again == plan


def test_a_plan_of_regular_grids_is_equal_after_json() -> None:
    shape = (100, 70, 9)
    read, write = Grid.of(shape, (8, 9, 100)), Grid.of(shape, (12, (30, 40), 4))
    made = Pass(read, read.refine(write), Grid.whole(shape), (2, 0, 1), Access.RUNS, Access.UNITS)
    plan = Plan("keep", shape, (made,))
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


@pytest.mark.parametrize("shape", [(10**6,) * 3, (10**12,), (10**3, 10**9, 7, 10**5)])
def test_json_of_very_many_chunks_is_small(shape: tuple[int, ...]) -> None:
    read, write = Grid.of(shape, [100] * len(shape)), Grid.of(shape, [150] * len(shape))
    assert read.count >= 10**9
    made = Pass(read, read.refine(write), Grid.of(shape, [900] * len(shape)), tuple(range(len(shape))), "runs", "runs")
    plan = Plan("baseline", shape, (made, made), (Layout.raw("f8", made.writes),))
    text = json.dumps(plan.to_json())
    assert len(text) < 10_000
    assert Plan.from_json(json.loads(text)) == plan


def test_json_stays_small_between_few_and_many() -> None:
    """A thousand chunks per axis in a grid that is not regular: parts, not lists."""
    shape = (100_000,) * 3
    grid = Grid.of(shape, (90,) * 3).refine(Grid.of(shape, (60,) * 3))
    assert grid.count > 10**9
    assert len(json.dumps(grid.to_json())) < 500
    assert Grid.from_json(grid.to_json(), shape) == grid


def test_sides() -> None:
    grid = Grid.whole((4,))
    made = Pass(grid, grid, grid, (0,), Access.RUNS, Access.RUNS)
    a, b, c = (Layout.raw(dtype, grid) for dtype in ("u1", "u2", "u4"))
    assert Plan("x", (4,), (made,)).sides(a, c) == [(made, a, c)]
    assert Plan("x", (4,), (made, made), (b,)).sides(a, c) == [(made, a, b), (made, b, c)]


def test_traffic_json() -> None:
    assert Traffic(1, 2, 3, 4).to_json() == {"opens": 1, "runs": 2, "seeks": 3, "bytes": 4}


@given(problems())
def test_problem(problem: Problem) -> None:
    counts = [len(oracle.boxes(*layout.objects.axes)) for layout in (problem.source, problem.target)]
    assert problem.lower_bound_seeks == sum(counts)
    assert json.loads(json.dumps(problem.to_json()))["memory_bytes"] == problem.memory_bytes


@given(problems(), st.data())
def test_generated_passes_are_allowed(problem: Problem, data: st.DataObject) -> None:
    """What the shipped generator draws keeps the rules: encoded units whole, no write box over two objects."""
    made = data.draw(passes(problem))
    for write, stored in zip(made.writes.axes, problem.target.objects.axes, strict=True):
        assert set(oracle.edges(stored)) <= set(oracle.edges(write))
    if not problem.target.partial_writes:
        assert made.write_access is Access.UNITS
    if made.write_access is Access.UNITS:
        assert edges(made.writes) == edges(problem.target.objects)
    if not problem.source.partial_reads:
        assert made.read_access is Access.UNITS


def test_bad_problems() -> None:
    a, b = Layout.raw("u1", Grid((Axis.single(3),))), Layout.raw("u1", Grid((Axis.single(4),)))
    with pytest.raises(UsageError, match="differ in shape"):
        Problem(a, b, 100, PRESETS["ssd"])
    with pytest.raises(UsageError, match="at least 1 byte"):
        Problem(a, a, 0, PRESETS["ssd"])
