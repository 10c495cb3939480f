"""Buffers are chosen by the planner, hold every load once, and fit the budget."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reblock.cost.seeks import traffic
from reblock.dask.buffers import STRATEGIES, BufferPlan, Refusal, plan_loads, plan_stores
from reblock.dask.counting import count_traffic
from reblock.geometry import Grid
from reblock.model import Access, Layout


def boxes(grid: Grid) -> tuple[np.ndarray, np.ndarray]:
    found = [grid.box(index) for index in grid.indices()]
    return np.array([box.start for box in found]), np.array([box.stop for box in found])


@given(st.data())
def test_boxes_of_a_grid_are_counted_as_the_seek_model_counts_the_grid(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=3))
    cuts = [[data.draw(st.integers(1, n)) for n in shape] for _ in range(2)]
    order = data.draw(st.permutations(range(len(shape))))
    memory, objects = Grid.of(shape, cuts[0]), Grid.of(shape, cuts[1], padded=data.draw(st.booleans()))
    layout = Layout.raw("u2", objects, order)
    starts, stops = boxes(memory)
    for writing in (False, True):
        assert count_traffic(starts, stops, layout, writing=writing) == traffic(
            memory, layout, Access.RUNS, writing=writing
        )
    whole = Layout(layout.dtype, objects, objects, layout.order, "zlib", partial_reads=False, partial_writes=False)
    assert count_traffic(starts, stops, whole) == traffic(memory, whole, Access.UNITS)


@pytest.mark.parametrize("strategy", ["auto", *STRATEGIES])
@pytest.mark.parametrize("memory", [20_000, 50_000, 500_000])
def test_every_load_is_in_buffers_exactly_once(strategy: str, memory: int) -> None:
    shape, chunk = (60, 50, 40), (20, 16, 10)
    layout = Layout.raw("u2", Grid.whole(shape))
    starts, stops = boxes(Grid.of(shape, chunk))
    plan = plan_loads(layout, starts, stops, memory_bytes=memory, strategy=strategy)
    if (strategy, memory) == ("multiple", 20_000):
        # Not even a row of blocks fits.
        assert isinstance(plan, Refusal)
        return
    assert isinstance(plan, BufferPlan)
    seen = np.zeros(shape, int)
    rows = plan.pieces
    sizes = np.zeros(plan.count, int)
    for owner, buffer, start, stop in zip(rows.owner, rows.buffer, rows.starts, rows.stops, strict=True):
        assert (starts[owner] <= start).all()
        assert (stop <= stops[owner]).all()
        assert (plan.starts[buffer] <= start).all()
        assert (stop <= plan.stops[buffer]).all()
        seen[tuple(map(slice, start, stop))] += 1
        sizes[buffer] += 2 * np.prod(stop - start)
    assert (seen == 1).all()
    assert sizes.max() <= memory


def test_a_slab_is_one_run() -> None:
    layout = Layout.raw("u1", Grid.whole((1400, 1400, 1400)))
    starts, stops = boxes(Grid.of((1400,) * 3, (280,) * 3))
    plan = plan_loads(layout, starts, stops, memory_bytes=600_000_000)
    assert isinstance(plan, BufferPlan)
    assert plan.count == 5
    assert (plan.plain.seeks, plan.buffered.seeks) == (9_800_125, 10)


def test_merging_is_the_same_backwards() -> None:
    layout = Layout.raw("u1", Grid.whole((1400, 1400, 1400)))
    starts, stops = boxes(Grid.of((1400,) * 3, (280,) * 3))
    plan = plan_stores(layout, starts, stops, memory_bytes=600_000_000)
    assert isinstance(plan, BufferPlan)
    assert (plan.count, plan.plain.seeks, plan.buffered.seeks) == (5, 9_800_125, 10)


def test_loads_of_whole_chunks_need_no_buffers() -> None:
    grid = Grid.of((40, 40), (10, 10))
    starts, stops = boxes(grid)
    found = plan_loads(Layout.raw("f8", grid), starts, stops, memory_bytes=1 << 20)
    assert isinstance(found, Refusal)
    assert "few pieces already" in found.reason


def test_gaps_and_overlaps_are_planned() -> None:
    layout = Layout.raw("u1", Grid.whole((64, 64)))
    pairs = [((i, j), (i + 6, j + 6)) for i, j in product(range(0, 58, 5), range(0, 58, 8))]
    starts, stops = (np.array(side) for side in zip(*pairs, strict=True))
    plan = plan_loads(layout, starts, stops, memory_bytes=1 << 16)
    assert isinstance(plan, BufferPlan)
    covered = np.zeros(len(pairs), int)
    rows = plan.pieces
    np.add.at(covered, rows.owner, (rows.stops - rows.starts).prod(axis=1))
    assert (covered == 36).all()


def test_memory_that_is_too_small_is_a_reason() -> None:
    layout = Layout.raw("u1", Grid.whole((64, 64)))
    starts, stops = boxes(Grid.of((64, 64), (32, 32)))
    found = plan_loads(layout, starts, stops, memory_bytes=100)
    assert isinstance(found, Refusal)
    assert "100 bytes" in found.reason or "100 B" in found.reason


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_chunks_that_are_written_whole_get_no_buffers(strategy: str) -> None:
    blocks = Grid.of((40, 40), (10, 10))
    found = plan_stores(Layout.raw("u2", blocks), *boxes(blocks), memory_bytes=1 << 20, strategy=strategy)
    assert isinstance(found, Refusal)
    assert "would not save a seek" in found.reason


def test_libraries_read_whole_chunks_without_buffers() -> None:
    layout = Layout.raw("u2", Grid.of((40, 40), (20, 20)))
    starts, stops = boxes(Grid.of((40, 40), (10, 10)))
    whole = replace(layout, partial_reads=False)
    found = plan_loads(layout, starts, stops, memory_bytes=1 << 20, plain_layout=whole)
    # Four pieces of each chunk, and each of them is a read of the whole chunk.
    assert found.plain.opens == 16
    assert found.plain.bytes == 16 * 20 * 20 * 2
