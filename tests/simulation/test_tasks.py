"""Counts of runs of tasks are the sums of what each task does, however many there are."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reblock.cost import traffic
from reblock.errors import Refused
from reblock.geometry import Axis, Box, Grid
from reblock.model import Access, Layout, Pass, Problem, Traffic
from reblock.simulation.tasks import TaskCounts, Tasks
from reblock.testing.problems import passes, problems


def cropped(sweep: Pass, problem: Problem, box: Box) -> TaskCounts:
    """What one task does: the counts of the part of every grid that lies in it."""
    axes = tuple(range(problem.source.ndim))
    source, target = (layout.view(box, axes) for layout in (problem.source, problem.target))
    reads, writes = sweep.reads.crop(box), sweep.writes.crop(box)
    starts = [axis.touching(a, b) for axis, a, b in zip(problem.target.objects.axes, box.start, box.stop, strict=True)]
    firsts = [
        [i for i in some if axis.start(i) >= a]
        for some, axis, a in zip(starts, problem.target.objects.axes, box.start, strict=True)
    ]
    return TaskCounts(
        1,
        reads.count,
        traffic(reads, source, sweep.read_access, coalesced=sweep.coalesced),
        traffic(writes, target, sweep.write_access, writing=True),
        prod(map(len, firsts)),
    )


def added(loads: list[TaskCounts]) -> TaskCounts:
    return TaskCounts(
        sum(one.tasks for one in loads),
        sum(one.steps for one in loads),
        sum((one.reads for one in loads), Traffic()),
        sum((one.writes for one in loads), Traffic()),
        sum(one.made for one in loads),
    )


@given(st.data())
def test_any_run_of_tasks_is_the_sum_of_its_tasks(data: st.DataObject) -> None:
    problem = data.draw(problems())
    sweep = data.draw(passes(problem))
    tasks = Tasks(sweep, problem.source, problem.target)
    each = [cropped(sweep, problem, sweep.tasks.box(index)) for index in sweep.tasks.indices()]
    start = data.draw(st.integers(0, tasks.count))
    stop = data.draw(st.integers(start, tasks.count))
    if start < stop:
        assert tasks.load(start, stop) == added(each[start:stop])
    everything = tasks.load(0, tasks.count)
    assert everything.reads == traffic(sweep.reads, problem.source, sweep.read_access, coalesced=sweep.coalesced)
    assert everything.writes == traffic(sweep.writes, problem.target, sweep.write_access, writing=True)
    assert everything.made == problem.target.objects.count
    one_of_each = tasks.one_of_each(10**6)
    assert one_of_each is not None
    assert {*map(str, each)} == {*map(str, one_of_each)}
    assert len({*map(str, each)}) <= tasks.classes == len(one_of_each) <= tasks.count


def long_pass(length: int, read: int, write: int, task: int, source: int) -> tuple[Pass, Layout, Layout]:
    grids = [Grid((Axis.regular(length, one),)) for one in (read, write, task, source)]
    before, after = Layout.raw("<u2", grids[3]), Layout.raw("<u2", grids[1])
    return Pass(grids[0], grids[1], grids[2], (0,), Access.RUNS, Access.UNITS), before, after


@pytest.mark.parametrize("length", [10**7 + 13, 10**13 + 13])
def test_an_axis_of_very_many_tasks_is_kept_as_one_period(length: int) -> None:
    """Ten trillion elements take no more than ten million, whose tasks can be listed."""
    sweep, source, target = long_pass(length, 10, 15, 30, 7)
    tasks = Tasks(sweep, source, target)
    assert tasks.load(0, tasks.count).reads == traffic(sweep.reads, source, Access.RUNS)
    axis = sweep.tasks.axes[0]
    for start in (0, 5, tasks.count // 2, tasks.count // 3 + 1, tasks.count - 40):
        box = Box((axis.start(start),), (axis.start(start + 40),))
        part = Pass(
            *(grid.crop(box) for grid in (sweep.read, sweep.write, sweep.tasks)), (0,), Access.RUNS, Access.UNITS
        )
        found = tasks.load(start, start + 40)
        assert found.reads == traffic(part.reads, source.view(box, (0,)), Access.RUNS)
        assert found.writes == traffic(part.writes, target.view(box, (0,)), Access.UNITS, writing=True)
        assert found.steps == part.reads.count
    assert tasks.classes < 20


def test_a_single_task_of_very_many_boxes() -> None:
    sweep, source, target = long_pass(10**12, 10, 15, 10**12, 7)
    tasks = Tasks(sweep, source, target)
    assert tasks.load(0, 1).reads == traffic(sweep.reads, source, Access.RUNS)
    assert tasks.load(0, 1).steps == 10**11


def test_what_cannot_be_summed_is_refused() -> None:
    sweep, source, target = long_pass(10**15, 10, 999_983, 999_983, 999_979)
    with pytest.raises(Refused, match="too irregular"):
        Tasks(sweep, source, target)


def test_sums_beyond_64_bits() -> None:
    """Each of many tasks touches all of a huge object."""
    length = 2**40
    objects = Grid((Axis((), (length,), 1, (), 0, 2**61),))
    source = Layout(np.dtype("<u2"), objects, objects, (0,), "zstd", partial_reads=False)
    tasks = Grid((Axis.regular(length, 2**24),))
    sweep = Pass(tasks, tasks, tasks, (0,), Access.UNITS, Access.UNITS)
    made = Tasks(sweep, source, Layout.raw("<u2", tasks))
    assert made.load(0, made.count).reads.bytes == 2**16 * (2**40 + 2**61) * 2


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1)])
def test_odd_shapes(shape: tuple[int, ...]) -> None:
    grid = Grid.of(shape, [1] * len(shape))
    layout, order = Layout.raw("u1", grid), tuple(range(len(shape)))
    tasks = Tasks(Pass(grid, grid, grid, order, Access.UNITS, Access.UNITS), layout, layout)
    assert tasks.count == grid.count
    if grid.count:
        assert tasks.load(0, tasks.count).writes.opens == grid.count
    else:
        assert tasks.one_of_each(10) == []
