"""Held and allocated memory against sweeps that are really stepped through."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from reblock.cost import buffer_bytes, held_elements
from reblock.cost import memory as memory_module
from reblock.cost.flight import flight_bytes
from reblock.cost.memory import (
    allocated_bytes,
    buffer_elements,
    flight_depth,
    least_box_bytes,
    long_axes,
    slab_axes,
)
from reblock.errors import Refused
from reblock.geometry import Axis, Grid, overlap
from reblock.model import Access, Layout, Pass, Plan, Problem
from reblock.model.accounting import FEW_BOXES, with_records, without_records
from reblock.testing.problems import grids, passes, problems, shapes, split, sweeps

overlap_module = sys.modules[overlap.__module__]


def check(made: Pass, target: Layout | None = None) -> None:
    """Compare both counts; `target` with UNITS access makes buffers whole stored objects."""
    whole = target is not None and made.write_access is Access.UNITS
    target = target or Layout.raw("<u2", made.write)
    for slabs in (made.order[:1], made.order[1:], target.order[:2]):
        seen = oracle.sweep(made, target if whole else None, slabs)
        assert buffer_elements(made, target, slabs) == seen.slabs
    assert held_elements(made) == seen.held
    assert buffer_elements(made, target) == seen.buffers
    assert buffer_bytes(made, target) == max(seen.buffers * target.itemsize, least_box_bytes(target))
    assert (made.reads.count, made.writes.count) == (seen.steps, seen.written)


@given(shapes(max_ndim=4, max_side=9, max_size=500).flatmap(sweeps))
def test_any_sweep(made: Pass) -> None:
    check(made)


@given(problems(), st.data())
def test_passes_of_problems(problem: Problem, data: st.DataObject) -> None:
    check(data.draw(passes(problem)), problem.target)


@given(shapes(max_ndim=3, max_side=9), st.data())
def test_padded_objects_are_whole_buffers(shape: tuple[int, ...], data: st.DataObject) -> None:
    chunks = [data.draw(st.integers(1, n + 3)) for n in shape]
    target = Layout.raw("u1", Grid.of(shape, chunks, padded=True))
    blocks = target.objects.clipped()
    tasks = Grid(tuple(axis.multiple(data.draw(st.integers(1, axis.count))) for axis in blocks.axes))
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    made = Pass(data.draw(grids(shape)), blocks, tasks, order, Access.RUNS, Access.UNITS)
    check(made, target)


def test_slabs_are_taken_where_whole_boxes_find_no_room() -> None:
    read, write, tasks = (Grid.of((3500,) * 3, (side,) * 3) for side in (350, 250, 1750))
    target = Layout.raw("<f2", write)
    made = Pass(read, write, tasks, (0, 1, 2), Access.UNITS, Access.UNITS)
    whole, slabs = buffer_bytes(made, target), buffer_bytes(made, target, 0)
    assert held_elements(made) * 2 < slabs < 0.7 * whole
    assert slab_axes(made, target, whole) == ()
    assert buffer_bytes(made, target, whole) == whole
    assert slab_axes(made, target, whole - 1) == (0,)
    assert buffer_bytes(made, target, whole - 1) == slabs


@given(st.integers(1, 10**7), st.integers(1, 10**7), st.integers(0, 10**12))
def test_what_is_kept_of_many_boxes_counts(length: int, boxes: int, room: int) -> None:
    target = Layout.raw("u1", Grid.of((length,), (1,)))
    most = without_records(room, boxes, target)
    assert with_records(most, boxes, target) <= room < with_records(most + 1, boxes, target)
    if boxes <= FEW_BOXES:
        assert with_records(length, boxes, target) == length


@given(problems(), st.data(), st.integers(1, 12), st.integers(1, 4), st.integers(0, 10**5))
def test_who_carries_a_plan_out_has_as_many_units_in_flight_as_who_made_it(
    problem: Problem, data: st.DataObject, depth: int, coders: int, memory: int
) -> None:
    """The engine knows what was granted, not the budget that it was granted from."""
    made = data.draw(passes(problem))
    sides = (made, problem.source, problem.target)
    plan = Plan("x", problem.shape, (made,), depth=depth, coders=coders)
    granted = allocated_bytes(*sides, plan, memory)
    found = flight_depth(*sides, depth, coders, memory)
    assert 1 <= found <= depth
    assert flight_depth(*sides, depth, coders, granted) == found
    assert allocated_bytes(*sides, plan, granted) == granted


def test_no_more_units_are_in_flight_than_find_room_in_write_boxes() -> None:
    grid = Grid.of((700 << 20,), (100 << 20,))
    source, target = replace(Layout.raw("u1", grid), codec="zstd"), Layout.raw("u1", grid)
    made = Pass(grid, grid, grid, (0,), Access.UNITS, Access.RUNS)
    # A box that is filled and one that is written: a third unit would wait for either.
    assert [flight_depth(made, source, target, depth, 2, 4 << 30) for depth in (1, 2, 3, 12)] == [1, 2, 2, 2]
    assert flight_depth(made, source, target, 12, 2, 500 << 20) == 1
    # Chunks of a hundredth are many in a box.
    small = replace(source, objects=(many := Grid.of((700 << 20,), (1 << 20,))), units=many)
    assert flight_depth(made, small, target, 12, 2, 4 << 30) == 12


def test_boxes_that_wait_for_the_disk_are_counted_with_what_sticks_out() -> None:
    blocks = Grid((Axis.regular(451, 69, padded=True), Axis.regular(999, 1001, padded=True)))
    target = Layout.raw("u1", blocks)
    made = Pass(
        Grid.of((451, 999), (8, 999)), blocks.clipped(), Grid.whole((451, 999)), (0, 1), Access.RUNS, Access.UNITS
    )
    plan = Plan("x", (451, 999), (made,), depth=1)
    box = 69 * 1001
    source = Layout.raw("u1", Grid.whole((451, 999)))
    flight = flight_bytes(made, source, target)
    # Two that a read box may straddle, and as many as there is room for.
    granted = [allocated_bytes(made, source, target, plan, flight + size) - flight for size in (2 * box, 3 * box)]
    assert granted == [2 * box, 3 * box]


def test_slabs_are_stretches_of_many_pages() -> None:
    target = Layout.raw("<f4", Grid.of((500, 500, 500), (500, 500, 500)))
    assert long_axes((500, 500, 500), target) == (0, 1)
    assert long_axes((500, 100, 500), target) == (0,)
    assert long_axes((60, 32, 32), target) == ()


def _axis(rng: random.Random, length: int, block: int) -> Axis:
    kind = rng.randrange(6)
    if kind == 0:
        return Axis.regular(length, rng.randint(1, min(length, 2 * block)))
    if kind == 1:
        return Axis.of(split([rng.randint(1, 2 * block) for _ in range(length)], length))
    head = split([rng.randint(1, block) for _ in range(rng.randrange(4))], length)[:-1]
    pattern = tuple(rng.randint(1, block) for _ in range(rng.randint(1, 3)))
    repeats = (length - sum(head)) // sum(pattern)
    if rng.random() < 0.2:
        repeats = rng.randint(0, repeats)
    rest = length - sum(head) - repeats * sum(pattern)
    return Axis(head, pattern if repeats else (), repeats, split([rng.randint(1, 2 * block) for _ in range(4)], rest))


def _sweep(rng: random.Random, shape: list[int], block: int) -> Pass:
    read, write, tasks = (Grid(tuple(_axis(rng, n, block) for n in shape)) for _ in range(3))
    if rng.random() < 0.5:
        tasks = Grid.whole(shape)
    order = tuple(rng.sample(range(len(shape)), len(shape)))
    return Pass(read, write, tasks, order, Access.RUNS, Access.RUNS)


def test_thousand_random_sweeps() -> None:
    rng = random.Random(3)
    for number in range(1000):
        ndim = 1 + number % 4
        check(_sweep(rng, [rng.randint(1, {1: 90, 2: 18, 3: 8, 4: 5}[ndim]) for _ in range(ndim)], 3))


def everything(reads: Axis, _writes: Axis, start: int, stop: int) -> np.ndarray:
    return reads.cuts(start, stop)


def every_task(_reads: Axis, _writes: Axis, tasks: Axis) -> list[tuple[int, int]]:
    return oracle.blocks(tasks)


@pytest.mark.parametrize("quick", [None, 0, 4])
def test_samples_of_long_axes_say_what_all_blocks_say(quick: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many periods, with heads and tails, in two and three axes: sampling against looking at every block.

    What every block says is itself checked against stepping, above and in the next test.
    """
    rng = random.Random(4 if quick is None else quick)
    sampled, distinct = memory_module._sampled, memory_module._distinct_tasks
    fewer_blocks = fewer_tasks = 0

    def counted_samples(reads: Axis, writes: Axis, start: int, stop: int) -> np.ndarray:
        nonlocal fewer_blocks
        out = sampled(reads, writes, start, stop)
        fewer_blocks += out.size < reads.cuts(start, stop).size
        return out

    def counted_tasks(reads: Axis, writes: Axis, tasks: Axis) -> list[tuple[int, int]]:
        nonlocal fewer_tasks
        out = distinct(reads, writes, tasks)
        fewer_tasks += len(out) < tasks.count
        return out

    for _ in range(100):
        made = _sweep(rng, [rng.randint(20, 120) for _ in range(rng.choice([2, 2, 3]))], rng.choice([2, 4, 9]))
        target = Layout.raw("u1", made.write)
        with monkeypatch.context() as patch:
            if quick is not None:
                patch.setattr(memory_module, "QUICK_CUTS", quick)
                patch.setattr(overlap_module, "QUICK_CUTS", quick)
            patch.setattr(memory_module, "_sampled", counted_samples)
            patch.setattr(memory_module, "_distinct_tasks", counted_tasks)
            patch.setattr(memory_module, "_classes", memory_module._classes.__wrapped__)
            patch.setattr(memory_module, "_peak_of", memory_module._peak_of.__wrapped__)
            got = held_elements(made), buffer_elements(made, target)
        with monkeypatch.context() as patch:
            patch.setattr(memory_module, "_sampled", everything)
            patch.setattr(memory_module, "_distinct_tasks", every_task)
            patch.setattr(memory_module, "_classes", memory_module._classes.__wrapped__)
            patch.setattr(memory_module, "_peak_of", memory_module._peak_of.__wrapped__)
            patch.setattr(memory_module, "MANY_CLASSES", 10**9)
            assert got == (held_elements(made), buffer_elements(made, target))
    assert fewer_blocks > 50
    assert fewer_tasks > 50


def test_long_axes_stepped_through() -> None:
    rng = random.Random(5)
    for _ in range(40):
        check(_sweep(rng, [rng.randint(200, 400)], 4))
    for _ in range(40):
        made = _sweep(rng, [rng.randint(2, 5), rng.randint(60, 110), rng.randint(1, 3)], 3)
        check(replace(made, order=(0, 1, 2)))


def test_tasks_of_long_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that straddle the ends of the repeated part, with heads and tails of all three grids."""
    rng = random.Random(8)
    distinct, seen = memory_module._distinct_tasks, 0
    for _ in range(30):
        length = rng.randint(500, 800)
        ends = [rng.randint(20, 90) for _ in range(6)]
        read, write, tasks = (
            Axis((a,), (step,), (length - a - b) // step, (length - a - (length - a - b) // step * step,))
            for a, b, step in zip(
                ends[:3], ends[3:], (rng.randint(1, 3), rng.randint(1, 4), rng.randint(4, 9)), strict=True
            )
        )
        write = Grid((write,))
        made = Pass(Grid((read,)), write, Grid((tasks,)), (0,), Access.RUNS, Access.RUNS)
        seen += len(distinct(made.reads.axes[0], made.writes.axes[0], tasks)) < tasks.count - 10
        target = Layout.raw("u1", write)
        got = held_elements(made), buffer_elements(made, target)
        with monkeypatch.context() as patch:
            patch.setattr(memory_module, "_distinct_tasks", every_task)
            patch.setattr(memory_module, "_classes", memory_module._classes.__wrapped__)
            patch.setattr(memory_module, "_peak_of", memory_module._peak_of.__wrapped__)
            assert got == (held_elements(made), buffer_elements(made, target))
    assert seen > 5


def test_a_task_that_straddles_the_end_of_the_repeated_part() -> None:
    shape = (320,)
    read, tasks = Grid.of(shape, (1,)), Grid.of(shape, (8,))
    write = Grid((Axis((3,), (1,), 304, (5, *[1] * 8)),))
    check(Pass(read, write, tasks, (0,), Access.RUNS, Access.RUNS))


def test_the_last_task_may_be_the_largest_as_stored() -> None:
    target = Layout.raw("u1", Grid((Axis((), (), 0, (3, 3, 2), 0, 5),)))
    blocks = target.objects.clipped()
    for read in (blocks, Grid((Axis.of([1, 2, 3, 2]),))):
        check(Pass(read, blocks, blocks, (0,), Access.RUNS, Access.UNITS), target)


@pytest.mark.parametrize("quick", [None, 0])
def test_last_period_that_reaches_into_the_tail(quick: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last read block of the repeated part completes other lengths than its likes before it."""
    if quick is not None:
        monkeypatch.setattr(memory_module, "QUICK_CUTS", quick)
        monkeypatch.setattr(overlap_module, "QUICK_CUTS", quick)
        monkeypatch.setattr(memory_module, "_classes", memory_module._classes.__wrapped__)
    shape = (22, 31, 48)
    read = Grid((Axis.of([7, 11, 4]), Axis((1,), (2, 2, 1), 6), Axis.regular(48, 1)))
    write = Grid((Axis.of([4, 4, 1, 3, 10]), Axis((4, 3), (5,), 4, (2, 2)), Axis.of([7, 3, 18, 9, 11])))
    made = Pass(read, write, Grid.whole(shape), (0, 1, 2), Access.RUNS, Access.RUNS)
    seen = oracle.sweep(made)
    assert (held_elements(made), buffer_elements(made, Layout.raw("u1", write))) == (seen.held, seen.buffers)
    assert (seen.held, seen.buffers) == (9960, 16088)


def test_hull_keeps_every_maximum() -> None:
    rng = random.Random(6)
    for _ in range(300):
        points = [(rng.randint(0, 12), rng.randint(0, 12)) for _ in range(rng.randint(1, 15))]
        kept = memory_module._hull(points)
        assert set(kept) <= set(points)
        for alpha in range(6):
            for beta in range(6):
                assert max(alpha * x - beta * y for x, y in kept) == max(alpha * x - beta * y for x, y in points)


def test_many_irregular_tasks_of_one_block_each() -> None:
    """R = W = T = O needs the memory of the largest block, however irregular O is."""
    rng = random.Random(7)
    grid = Grid(tuple(Axis.of([rng.randint(1, 10**6) for _ in range(6000)]) for _ in range(3)))
    made = Pass(grid, grid, grid, (0, 1, 2), Access.RUNS, Access.RUNS)
    assert held_elements(made) == buffer_elements(made, Layout.raw("u1", grid)) == prod(grid.largest)


def test_too_many_kinds_of_tasks_are_refused() -> None:
    length = 2 * 10**5
    read, write = Axis.of(split([7, 8] * length, length)), Axis.of(split([5, 4, 6] * length, length))
    tasks = Axis.of([30, 29] * (length // 59) + [length - length // 59 * 59])
    made = Pass(*(Grid((axis,)) for axis in (read, write, tasks)), (0,), Access.RUNS, Access.RUNS)
    with pytest.raises(Refused, match="different tasks"):
        held_elements(made)


def test_too_many_steps_are_refused() -> None:
    length = 10**12
    read, write = Grid.of((length,), (1000,)), Grid.of((length,), (999_983,))
    made = Pass(read, write, Grid.whole((length,)), (0,), Access.RUNS, Access.RUNS)
    with pytest.raises(Refused, match="different steps"):
        held_elements(made)


def test_no_axes_and_no_elements() -> None:
    point = Pass(Grid(()), Grid(()), Grid(()), (), Access.RUNS, Access.RUNS)
    assert held_elements(point) == buffer_elements(point, Layout.raw("u1", Grid(()))) == 1
    empty = Grid.of((3, 0), (2, 2))
    made = Pass(empty, empty, empty, (1, 0), Access.RUNS, Access.RUNS)
    assert held_elements(made) == buffer_elements(made, Layout.raw("u1", empty)) == 0
