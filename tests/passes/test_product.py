"""The product of points: its counts are those of the passes, and its bounds on memory hold."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reblock.cost import PRESETS
from reblock.cost.flight import flight_bytes
from reblock.cost.memory import buffer_bytes, held_elements
from reblock.cost.seeks import traffic
from reblock.geometry import Grid
from reblock.model import Access, Layout, Pass, Problem
from reblock.passes.points import Point, make_point, rules_of, sides_of
from reblock.passes.product import Product
from reblock.testing.problems import axes, problems


@st.composite
def points(draw: st.DrawFn, problem: Problem, axis: int) -> Point:
    """A point of an axis: any reads, target blocks kept or not, tasks that the target allows."""
    length, target = problem.shape[axis], problem.target.objects.axes[axis].clipped()
    read = draw(axes(length))
    tasks = draw(axes(length)) if problem.target.partial_writes else target.multiple(draw(st.integers(1, 3)))
    write = read.refine(target) if problem.target.partial_writes and draw(st.booleans()) else target
    return make_point(sides_of(problem, axis), rules_of(problem), read, write, tasks)


def allocated(sweep: Pass, problem: Problem) -> int:
    if problem.held:
        return held_elements(sweep) * problem.target.itemsize
    return flight_bytes(sweep, problem.source, problem.target) + buffer_bytes(sweep, problem.target)


@given(st.data())
def test_counts_and_bounds(data: st.DataObject) -> None:
    problem = replace(data.draw(problems(max_ndim=3)), held=data.draw(st.booleans()))
    ndim = len(problem.shape)
    lists = [[data.draw(points(problem, axis)) for _ in range(2)] for axis in range(ndim)]
    found = Product(problem, lists)
    reads = {Access.UNITS: found.by_units}
    if found.by_runs is not None:
        reads[Access.RUNS] = found.by_runs

    def at(values: np.ndarray, place: tuple[int, ...]) -> float:
        return float(np.broadcast_to(values, found.shape)[place])

    for place in product(range(2), repeat=ndim):
        for access, side in reads.items():
            made = found.make(place, range(ndim), by_units=access is Access.UNITS)
            counted = traffic(made.reads, problem.source, access)
            assert [at(side.opens, place), at(side.seeks, place), at(side.bytes, place)] == [
                counted.opens,
                counted.seeks,
                counted.bytes,
            ]
        counted = traffic(made.writes, problem.target, made.write_access, writing=True)
        assert [at(found.writes.seeks, place), at(found.writes.bytes, place)] == [counted.seeks, counted.bytes]
        for order in permutations(range(ndim)):
            need = allocated(replace(made, order=order), problem)
            assert at(found.least, place) <= at(found.least_in(order), place) * (1 + 1e-6) <= need * (1 + 2e-6)


def test_an_array_without_axes_has_one_combination() -> None:
    scalar = Layout.raw("u2", Grid(()))
    problem = Problem(scalar, scalar, 100, PRESETS["nvme"])
    found = Product(problem, [])
    assert found.shape == ()
    assert found.make((), (), by_units=False).reads.count == 1
    assert float(found.least) <= allocated(found.make((), (), by_units=False), problem)
