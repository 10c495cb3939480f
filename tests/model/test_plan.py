"""Plans and passes through JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from reblock.cost import PRESETS
from reblock.errors import InfeasibleError, UsageError
from reblock.geometry import Axis, Grid
from reblock.model import Access, Layout, Pass, Plan, Problem, Traffic
from reblock.passes.family import fit
from reblock.planner import choose
from reblock.planner.tune import fill_execution
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


@given(problems(), st.sampled_from(["time", "memory"]))
def test_a_chosen_plan_survives_json_with_its_execution(problem: Problem, objective: str) -> None:
    try:
        plan = choose(problem, objective=objective).plan
    except InfeasibleError:
        return
    again = Plan.from_json(json.loads(json.dumps(plan.to_json())))
    assert [made.execution for made in again.passes] == [made.execution for made in plan.passes]
    assert (again.divided, again.memory_bytes, again.coders) == (plan.divided, plan.memory_bytes, plan.coders)
    assert Plan.from_json(again.to_json()) == again


def spots(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to every value of a document."""
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from spots(inner, (*path, key))


def spoiled(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of a document with another value in one place."""
    if not path:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[path[0]] = spoiled(document[path[0]], path[1:], value)
    return copy


def a_plan() -> Plan:
    """A plan of two passes with every kind of grid in it."""
    shape = (100_000, 70)
    first, last = Layout.raw("<f8", Grid.of(shape, (9, 70))), Layout.raw("<f8", Grid.of(shape, (60, 7)))
    middle = Layout.raw("<f8", Grid.of(shape, (600, (30, 40))))
    cuts = first.objects.refine(last.objects)
    made = [Pass(cuts, b.objects, Grid.whole(shape), (1, 0), Access.RUNS, Access.UNITS) for b in (middle, last)]
    problem = Problem(first, last, 1 << 30, PRESETS["nvme"])
    return fill_execution(fit(Plan("mine", shape, tuple(made), (middle,)), problem), problem)


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from(
        [2**62, 2**64, 10**80, 1 << 20_000, 1.5, float("nan"), "", "runs", "<f4", "O", "V0", "[x", "i4,i4"]
    ),
    st.lists(st.integers(-1, 100), max_size=3),
    st.just({}),
    st.just({"head": [], "pattern": [], "repeats": 7, "tail": [1]}),
)


@given(st.data())
def test_a_plan_with_anything_else_in_it_is_refused(data: st.DataObject) -> None:
    """A hostile document is a UsageError, or a plan that says the same when it is written again."""
    document = json.loads(json.dumps(a_plan().to_json()))
    path = data.draw(st.sampled_from(list(spots(document))))
    changed = spoiled(document, path, data.draw(JUNK))
    try:
        plan = Plan.from_json(changed)
    except UsageError:
        return
    assert Plan.from_json(plan.to_json()) == plan


def keyed(document: Any) -> Iterator[tuple[Any, ...]]:
    return (path for path in spots(document) if path and isinstance(path[-1], str))


def test_a_plan_that_lacks_a_value_or_has_another_is_refused() -> None:
    document = json.loads(json.dumps(a_plan().to_json()))
    assert Plan.from_json(document) == a_plan()
    for path in keyed(document):
        outer = document
        for key in path[:-1]:
            outer = outer[key]
        for changed in ({k: v for k, v in outer.items() if k != path[-1]}, {**outer, "more": 1}):
            with pytest.raises(UsageError, match=rf"lacks {path[-1]}|unknown keys: \['more'\]"):
                Plan.from_json(spoiled(document, path[:-1], changed))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("passes", 0, "execution", "readers"), 0, "execution.readers must be at least 1, not 0"),
        (("passes", 0, "execution", "readers"), 1 << 20, "execution.readers must be at most 4096"),
        (("passes", 0, "execution", "coders"), "2", "execution.coders must be an integer, not '2'"),
        (("passes", 0, "execution", "buffer_bytes"), -1, "execution.buffer_bytes must be at least 0"),
        (("passes", 0, "execution", "slab_axes"), [2], r"execution.slab_axes\[0\] must be at most 1, not 2"),
        (("passes", 0, "execution", "slab_axes"), [1, 1], "names an axis twice"),
        (("passes", 0, "order"), [0, 2], "order must be a permutation of 2 axes"),
        (("passes", 0, "read_access"), "bits", "read_access must be one of runs, units, not 'bits'"),
        (("passes", 0, "coalesced"), 3, "coalesced must be at most 2, not 3"),
        (("passes", 0, "read_chunks", 1), 0, "a block length must be at least 1, not 0"),
        (("passes", 0, "read_chunks", 1), [60, 9], "add up to 69, not 70"),
        (("passes", 0, "read_chunks"), [70], "chunks must be a list of 2 values"),
        (("scratch", 0, "dtype"), "O", "scratch.dtype must be the text of a plain type"),
        (("divided",), 1, "divided must be true or false, not 1"),
        (("shape", 0), 10**30, r"shape\[0\] must be at most"),
        ((), [], r"a plan must be an object, not \[\]"),
    ],
)
def test_a_wrong_value_is_named(path: tuple[Any, ...], value: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Plan.from_json(spoiled(json.loads(json.dumps(a_plan().to_json())), path, value))


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
