"""Traffic against the byte offsets of every visit."""

from __future__ import annotations

import itertools
import random
from dataclasses import astuple, replace
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from reblock.cost import traffic
from reblock.geometry import Axis, Box, Grid
from reblock.model import Access, Layout, Traffic
from reblock.testing.problems import grids, layouts, shapes, split


@st.composite
def cases(draw: st.DrawFn, *, writing: bool) -> tuple[Grid, Layout, Access]:
    shape = draw(shapes(max_ndim=4, max_side=8, max_size=400))
    layout = draw(layouts(shape, target=writing))
    access = Access.UNITS if not layout.partial_reads else draw(st.sampled_from(list(Access)))
    return draw(grids(shape)), layout, access


def check(boxes: Grid, layout: Layout, access: Access, *, writing: bool = False) -> None:
    wanted = oracle.traffic(boxes.axes, layout, str(access), writing=writing)
    assert astuple(traffic(boxes, layout, access, writing=writing)) == wanted


@given(cases(writing=False))
def test_reading(case: tuple[Grid, Layout, Access]) -> None:
    check(*case)


@given(cases(writing=True))
def test_writing(case: tuple[Grid, Layout, Access]) -> None:
    check(*case, writing=True)


@given(cases(writing=True))
def test_writing_whole_objects(case: tuple[Grid, Layout, Access]) -> None:
    """Every stored byte is written once, in one run per object, whatever the overhang."""
    _, layout, _ = case
    boxes = layout.objects.clipped()
    check(boxes, layout, Access.UNITS, writing=True)
    stored = sum(oracle.canvas(layout).sizes.values()) * layout.itemsize
    count = boxes.count
    assert traffic(boxes, layout, Access.UNITS, writing=True) == Traffic(count, count, count, stored)


def _axis(rng: random.Random, length: int, *, overhang: bool = False) -> Axis:
    kind = rng.randrange(4)
    if kind == 0:
        axis = Axis.regular(length, rng.randint(1, length))
    elif kind == 1:
        axis = Axis.of(split([rng.randint(1, 4) for _ in range(length)], length))
    else:
        head = split([rng.randint(1, 3) for _ in range(rng.randrange(3))], length)[:-1]
        pattern = tuple(rng.randint(1, 2) for _ in range(rng.randint(1, 2)))
        repeats = (length - sum(head)) // sum(pattern)
        rest = length - sum(head) - repeats * sum(pattern)
        axis = Axis(head, pattern if repeats else (), repeats, split([1] * rng.randrange(3), rest))
    ends = (rng.randrange(3), rng.randrange(3)) if overhang else (0, 0)
    return Axis(axis.head, axis.pattern, axis.repeats, axis.tail, *ends)


def test_thousand_random_cases() -> None:
    """One to four axes, any order on disk, crops and padding, RUNS and UNITS, reading and writing."""
    rng = random.Random(1)
    for number in range(1000):
        ndim = 1 + number % 4
        shape = [rng.randint(1, {1: 60, 2: 14, 3: 7, 4: 4}[ndim]) for _ in range(ndim)]
        boxes = Grid(tuple(_axis(rng, n) for n in shape))
        objects = Grid(tuple(_axis(rng, n, overhang=rng.random() < 0.4) for n in shape))
        order = tuple(rng.sample(range(ndim), ndim))
        layout = Layout.raw(rng.choice(["u1", "f8"]), objects, order)
        check(boxes, layout, rng.choice(list(Access)), writing=bool(number % 2))


def test_views_cost_what_they_touch() -> None:
    """Traffic of a cropped and transposed view, counted on the addresses of the whole array."""
    rng = random.Random(2)
    for _ in range(150):
        shape = [rng.randint(2, 7) for _ in range(3)]
        order = tuple(rng.sample(range(3), 3))
        whole = Layout.raw("u2", Grid(tuple(_axis(rng, n) for n in shape)), order)
        starts = [rng.randrange(n) for n in shape]
        region = Box(tuple(starts), tuple(rng.randint(a + 1, n) for a, n in zip(starts, shape, strict=True)))
        axes = tuple(rng.sample(range(3), 3))
        view = whole.view(region, axes)
        boxes = Grid(tuple(_axis(rng, n) for n in view.shape))
        got = traffic(boxes, view, Access.RUNS)
        cells = oracle.canvas(whole)
        objects, offsets = (part[cells.array][region.slices].transpose(axes) for part in (cells.objects, cells.offsets))
        runs = opens = 0
        for box in oracle.boxes(*boxes.axes):
            touched = sorted(zip(objects[box].ravel().tolist(), offsets[box].ravel().tolist(), strict=True))
            opens += len({number for number, _ in touched})
            runs += 1 + sum(b != (a[0], a[1] + 1) for a, b in itertools.pairwise(touched))
        assert (got.opens, got.runs, got.bytes) == (opens, runs, prod(view.shape) * 2)


def test_a_shard_costs_its_units_and_its_index() -> None:
    shape = (8, 8)
    shards, units = Grid.of(shape, (4, 8)), Grid.of(shape, (2, 2))
    layout = replace(Layout.raw("u1", shards), units=units, codec="zstd:3", partial_reads=False, indexed=True)
    # 2 shards of 8 units, each shard opened once, its index read, then its units.
    assert traffic(Grid.whole(shape), layout, Access.UNITS) == Traffic(2, 18, 20, 64)
    # One row of elements touches 4 units of one shard, 8 times over.
    rows = Grid.of(shape, (1, 8))
    assert traffic(rows, layout, Access.UNITS) == Traffic(8, 8 * 5, 8 * 6, 8 * 16)
    assert traffic(shards, layout, Access.UNITS, writing=True) == Traffic(2, 2, 2, 64)


@pytest.mark.parametrize("access", list(Access))
@pytest.mark.parametrize("writing", [False, True])
def test_no_axes_and_no_elements(access: Access, writing: bool) -> None:
    point = Layout.raw("f8", Grid(()))
    assert traffic(Grid(()), point, access, writing=writing) == Traffic(1, 1, 1, 8)
    for shape in [(0,), (3, 0), (0, 3), (2, 0, 3)]:
        grid = Grid.of(shape, [2] * len(shape))
        for order in itertools.permutations(range(len(shape))):
            layout = Layout.raw("f8", grid, order)
            assert traffic(Grid.whole(shape), layout, access, writing=writing) == Traffic(0, 0, 0, 0)
