"""Hypothesis strategies for axes, grids, layouts, passes and problems of every kind.

Sizes are small, so that a planner's counts can be checked by listing every element. There are many kinds: regular,
irregular and periodic axes, crops and padded ends, raw, encoded and sharded layouts, any order of axes on disk. ::

    @given(problems())
    def test_my_strategy(problem): ...


    @given(st.data())
    def test_my_engine(data):
        problem = data.draw(problems())
        sweep = data.draw(passes(problem))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from reblock.cost import PRESETS
from reblock.errors import Refused
from reblock.geometry import Axis, Box, Grid
from reblock.model import Access, Layout, Pass, Plan, Problem
from reblock.passes.family import sweep
from reblock.testing.arrays import orders

#: Kinds of layouts.
KINDS = ("raw", "encoded", "sharded")


def shapes(*, max_ndim: int = 4, max_side: int = 9, max_size: int = 600) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes with at least one axis and one element."""
    sides = st.lists(st.integers(1, max_side), min_size=1, max_size=max_ndim).map(tuple)
    return sides.filter(lambda shape: prod(shape) <= max_size)


@st.composite
def regions(draw: st.DrawFn, shape: Sequence[int]) -> Box:
    """Non-empty boxes inside a shape."""
    starts = [draw(st.integers(0, n - 1)) for n in shape]
    stops = [draw(st.integers(a + 1, n)) for a, n in zip(starts, shape, strict=True)]
    return Box(tuple(starts), tuple(stops))


def split(lengths: Sequence[int], total: int) -> tuple[int, ...]:
    """The given lengths from the start, as far as `total` allows, and one block for the rest.

    >>> split([3, 4], 12), split([3, 4], 5), split([3, 4], 3)
    ((3, 4, 5), (3, 2), (3,))
    """
    out, left = [], total
    for length in lengths:
        if length >= left:
            break
        out.append(length)
        left -= length
    return (*out, left) if left else tuple(out)


@st.composite
def axes(draw: st.DrawFn, length: int, *, overhang: bool = False, max_block: int | None = None) -> Axis:
    """Axes of a length: one block, regular, irregular or periodic; with `overhang` the ends extend beyond it."""
    if length == 0:
        return Axis()
    block = st.integers(1, max_block or length)
    kind = draw(st.sampled_from(["single", "regular", "irregular", "periodic"]))
    if kind == "single":
        axis = Axis.single(length)
    elif kind == "regular":
        axis = Axis.regular(length, draw(block))
    elif kind == "irregular":
        axis = Axis.of(split(draw(st.lists(block, max_size=length)), length))
    else:
        axis = _periodic(draw, length, min(max_block or 4, 4))
    if not overhang:
        return axis
    lead, trail = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    return Axis(axis.head, axis.pattern, axis.repeats, axis.tail, lead, trail)


def _periodic(draw: st.DrawFn, length: int, block: int) -> Axis:
    small = st.integers(1, block)
    head = split(draw(st.lists(small, max_size=3)), length)[:-1]
    pattern = tuple(draw(st.lists(small, min_size=1, max_size=3)))
    repeats = draw(st.integers(0, (length - sum(head)) // sum(pattern)))
    rest = length - sum(head) - repeats * sum(pattern)
    tail = split(draw(st.lists(small, max_size=4)), rest)
    return Axis(head, pattern if repeats else (), repeats, tail)


@st.composite
def grids(draw: st.DrawFn, shape: Sequence[int], *, overhang: bool = False) -> Grid:
    """Grids over a shape."""
    return Grid(tuple(draw(axes(length, overhang=overhang)) for length in shape))


def shifted(length: int, chunk: int, shift: int = 0) -> Axis:
    """A window on a regular padded axis that starts `shift` elements (less than a chunk) after a cut.

    >>> shifted(7, 4, 3)
    Axis(head=(1,), pattern=(4,), repeats=1, tail=(2,), lead=3, trail=2)
    """
    if length == 0:
        return Axis()
    opening = (chunk - shift) % chunk
    if opening >= length:
        return Axis((), (length,), 1, (), shift, opening - length)
    whole, rest = divmod(length - opening, chunk)
    head, tail = (opening,) if opening else (), (rest,) if rest else ()
    return Axis(head, (chunk,) if whole else (), whole, tail, shift, chunk - rest if rest else 0)


@st.composite
def layouts(
    draw: st.DrawFn, shape: Sequence[int], *, kinds: Sequence[str] = KINDS, target: bool = False, dtype: Any = None
) -> Layout:
    """Layouts of a shape: raw, encoded or sharded, any order on disk.

    A source is seen through a crop, so blocks at both ends may extend beyond it. Those of a `target` do so only where
    it is padded.
    """
    kind = draw(st.sampled_from(list(kinds)))
    ndim = len(shape)
    dtype = np.dtype(draw(st.sampled_from(["u1", "<u2", ">f4", "c16"])) if dtype is None else dtype)
    order = draw(orders(ndim))
    if kind == "sharded":
        inner = [draw(st.integers(1, max(n, 1))) for n in shape]
        outer = [c * draw(st.integers(1, 3)) for c in inner]
        shifts = [0 if target else draw(st.integers(0, c - 1)) for c in outer]
        objects = Grid(tuple(map(shifted, shape, outer, shifts)))
        units = Grid(tuple(shifted(n, c, s % c) for n, c, s in zip(shape, inner, shifts, strict=True)))
        codec = draw(st.sampled_from(["", "zstd:3"]))
        return Layout(dtype, objects, units, order, codec, partial_reads=False, partial_writes=False, indexed=True)
    grid = draw(grids(shape, overhang=not target))
    if target and draw(st.booleans()):
        grid = Grid.of(shape, [draw(st.integers(1, max(n, 1) + 2)) for n in shape], padded=True)
    if kind == "encoded":
        return Layout(dtype, grid, grid, order, "gzip:4", partial_reads=False, partial_writes=False)
    return Layout.raw(dtype, grid, order)


@st.composite
def problems(
    draw: st.DrawFn,
    *,
    max_ndim: int = 4,
    max_side: int = 9,
    source_kinds: Sequence[str] = KINDS,
    target_kinds: Sequence[str] = KINDS,
) -> Problem:
    """Problems between any two layouts of one shape and type; budgets from too small to ample."""
    shape = draw(shapes(max_ndim=max_ndim, max_side=max_side))
    source = draw(layouts(shape, kinds=source_kinds))
    target = draw(layouts(shape, kinds=target_kinds, target=True, dtype=source.dtype))
    memory = draw(st.integers(1, 4 * (source.object_bytes + target.object_bytes) + 2 * target.nbytes))
    return Problem(source, target, memory, PRESETS[draw(st.sampled_from(sorted(PRESETS)))])


@st.composite
def sweeps(draw: st.DrawFn, shape: Sequence[int]) -> Pass:
    """Passes of any grids, whether or not a layout allows them."""
    read, write, tasks = (draw(grids(shape)) for _ in range(3))
    if draw(st.booleans()):
        tasks = Grid.whole(shape)
    return Pass(read, write, tasks, draw(orders(len(shape))), Access.RUNS, Access.RUNS)


@st.composite
def passes(draw: st.DrawFn, problem: Problem) -> Pass:
    """Passes that solve a problem: each element written once, encoded units only whole; the budget is ignored."""
    shape, blocks = problem.shape, problem.target.objects.clipped()
    read = draw(grids(shape))
    tasks = draw(st.one_of(st.just(Grid.whole(shape)), st.just(blocks), _joined(blocks)))
    write = blocks
    if problem.target.partial_writes and draw(st.booleans()):
        tasks = draw(st.one_of(st.just(tasks), grids(shape)))
        write = draw(st.one_of(st.just(blocks), st.just(blocks.refine(read)), grids(shape).map(blocks.refine)))
    order = draw(orders(len(shape)))
    try:
        return sweep(problem.source, problem.target, problem.device, read=read, write=write, tasks=tasks, order=order)
    except Refused as error:  # a bug: everything above is allowed
        raise AssertionError(f"{problem} refuses R={read} W={write} T={tasks}: {error}") from error


@st.composite
def plans(draw: st.DrawFn, problem: Problem, *, max_passes: int = 3) -> Plan:
    """Plans that solve a problem in one pass or through raw arrays, some of them task by task; the budget is ignored.

    Passes that run task by task share tasks that cut no object of any array.
    """
    shape, blocks = problem.shape, problem.target.objects.clipped()
    count = draw(st.integers(1, max_passes))
    tasks = draw(_joined(blocks)) if count > 1 and draw(st.booleans()) else None
    grids_between = [draw(grids(shape)) for _ in range(count - 1)]
    scratch = tuple(
        Layout.raw(problem.source.dtype, grid if tasks is None else grid.refine(tasks), draw(orders(len(shape))))
        for grid in grids_between
    )
    made = []
    for source, target in pairwise((problem.source, *scratch, problem.target)):
        leg = replace(problem, source=source, target=target)
        one = draw(passes(leg))
        if tasks is not None:
            write = target.objects.clipped()
            one = sweep(source, target, problem.device, read=one.read, write=write, tasks=tasks, order=one.order)
        made.append(one)
    return Plan("random", shape, tuple(made), scratch, interleaved=tasks is not None)


@st.composite
def _joined(draw: st.DrawFn, blocks: Grid) -> Grid:
    """Tasks that cut only where the blocks are cut."""
    return Grid(tuple(axis.multiple(draw(st.integers(1, max(axis.count, 1)))) for axis in blocks.axes))
