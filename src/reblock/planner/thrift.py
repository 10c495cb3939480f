"""Thrift: the least memory that a problem needs, and the plans that need no more.

Nothing is searched for: the form of the thriftiest plan of the family is known. ::

    target in parts     R = T = boxes of a page, W = R ∪ O          a source unit + a page
    target whole        T = O, R = O, or pages of a raw source      a source unit + a target object
    in two passes       pages to scratch, then the same from there  the larger of the two

A pass needs at least one source unit (a page of a raw one), memory for its codecs, and one write box: an object if
objects are written whole, else a page. The plans here need just that, so there is none for a smaller budget. If the
source must be decoded and the target written whole, two passes through raw scratch need not hold both at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from math import prod

from reblock.cost.estimate import estimate
from reblock.cost.flight import SMALL_PIECE_BYTES
from reblock.errors import Refused
from reblock.geometry import Axis, Grid
from reblock.model import Access, Cost, Layout, Pass, Plan, Problem
from reblock.passes.cuts import divisors
from reblock.passes.family import fit, needed_bytes, sweep
from reblock.planner.check import check
from reblock.units import format_seconds, format_size

#: The most objects of an intermediate array that are acceptable to save a page.
FEW_OBJECTS = 4096

#: How much more memory than the least may be advised, and how many times fewer seeks or seconds make it worthwhile.
MORE, FAR_LESS = (1.25, 2.0), 10

#: A budget that no plan exceeds.
NO_LIMIT = 1 << 200


def least_memory(problem: Problem) -> int:
    """The smallest budget for which there is a plan; with a byte less there is none."""
    return _least(replace(problem, memory_bytes=NO_LIMIT))


@lru_cache(maxsize=16)
def _least(problem: Problem) -> int:
    return min((needed_bytes(plan, problem, frugal=True) for plan in _plans(problem, 0)), default=NO_LIMIT)


def thrifty_plans(problem: Problem) -> list[Plan]:
    """Plans that need little memory, fitted into the budget; none if it is too small for any plan."""
    found = []
    for plan in _plans(problem, problem.memory_bytes):
        with suppress(Refused):
            fitted = fit(plan, problem)
            check(fitted, problem)
            found.append(fitted)
    return found


def advice(problem: Problem, cost: Cost | None = None) -> str:
    """What a little more memory than the least would save, in words; empty if that is not worthwhile.

    `cost` is that of the current plan; without one, that of a plan for the least memory.
    """
    least = least_memory(problem)
    if least >= NO_LIMIT or problem.memory_bytes > MORE[0] * least:
        return ""
    here = cost or _fastest(replace(problem, memory_bytes=least))
    for more in MORE:
        memory = int(least * more)
        there = _fastest(replace(problem, memory_bytes=memory))
        if here and there and (there.seeks * FAR_LESS <= here.seeks or there.seconds * FAR_LESS <= here.seconds):
            instead = f"{here.seeks:,} and {format_seconds(here.seconds)}"
            took = f"{there.seeks:,} seeks and {format_seconds(there.seconds)}"
            return f"with {format_size(memory)} it would take {took} instead of {instead}"
    return ""


def _fastest(problem: Problem) -> Cost | None:
    """The cost of the fastest thrifty plan."""
    return min((estimate(plan, problem) for plan in thrifty_plans(problem)), key=lambda c: c.seconds, default=None)


def _plans(problem: Problem, memory_bytes: int) -> Iterator[Plan]:
    """Plans of the least memory, with boxes as large as a budget allows."""
    source, target = problem.source, problem.target
    for order in dict.fromkeys((source.order, target.order)):
        with suppress(Refused):
            yield Plan("search", problem.shape, (_leg(problem, source, target, order, memory_bytes),))
    if problem.held:
        return
    for grid, tasks in _scratches(problem):
        layout = Layout.raw(source.dtype, grid)
        with suppress(Refused):
            passes = (
                _leg(problem, source, layout, layout.order, memory_bytes),
                _leg(problem, layout, target, layout.order, memory_bytes),
            )
            if tasks is not None:
                passes = (replace(passes[0], tasks=tasks), replace(passes[1], tasks=tasks))
            yield Plan("search", problem.shape, passes, (layout,), interleaved=tasks is not None)


def _leg(problem: Problem, source: Layout, target: Layout, order: tuple[int, ...], memory_bytes: int) -> Pass:
    """A pass between two layouts in pages, or in larger boxes if a budget has room for them."""
    leg = replace(problem, source=source, target=target, memory_bytes=NO_LIMIT)
    made = _pass(leg, order, SMALL_PIECE_BYTES)
    more = memory_bytes - _needs(leg, made)
    if more < 0 and target.partial_writes and target.objects.largest_stored != target.objects.largest:
        # Small objects that extend beyond the array take more memory as a whole than their elements do.
        return min(made, _pass(leg, order, target.itemsize), key=lambda one: _needs(leg, one))
    for size in (more, more // 2):
        # The reads grow with the boxes, so boxes that use all of the room may be too large.
        if size > 0 and _needs(leg, larger := _pass(leg, order, SMALL_PIECE_BYTES + size)) <= memory_bytes:
            return larger
    return made


def _needs(leg: Problem, made: Pass) -> int:
    return needed_bytes(Plan("", leg.shape, (made,)), leg, frugal=True)


def _pass(leg: Problem, order: tuple[int, ...], size: int) -> Pass:
    """A pass of boxes of a limited number of bytes, long along the last axes of an order."""
    source, target = leg.source, leg.target
    objects = target.objects.clipped()
    elements = max(size // target.itemsize, 1) if size > SMALL_PIECE_BYTES or not leg.held else 1
    if target.partial_writes:
        boxes = _cut(objects, order, elements, target.objects.largest)
        return _frugal(sweep(source, target, leg.device, read=boxes, write=boxes, tasks=boxes), source)
    raw = source.partial_reads and not leg.held
    boxes = _cut(objects, order, elements, source.objects.largest) if raw else objects
    return _frugal(sweep(source, target, leg.device, read=boxes, write=objects, tasks=objects), source)


def _frugal(made: Pass, source: Layout) -> Pass:
    """The same without the source's overhang, if that need not be read."""
    return replace(made, read_access=Access.RUNS) if source.partial_reads else made


def _cut(blocks: Grid, order: tuple[int, ...], elements: int, within: tuple[int, ...]) -> Grid:
    """Blocks cut, along the outer axes first, into boxes with a limited number of elements in a block of `within`."""
    sizes = list(blocks.largest)
    for axis in order:
        seen = list(map(min, sizes, within))
        if prod(seen) <= elements:
            break
        sizes[axis] = max(elements // max(prod(seen) // max(seen[axis], 1), 1), 1)
    axes = zip(blocks.axes, sizes, strict=True)
    return Grid(tuple(block if size >= block.largest else _parts(block, size) for block, size in axes))


def _parts(block: Axis, size: int) -> Axis:
    """Blocks cut into parts of a limited length that divides them, so that all are cut alike."""
    if block.step is not None:
        size = max(divisors(block.step, size), default=1)
    return Axis.regular(block.length, size).refine(block)


def _scratches(problem: Problem) -> Iterator[tuple[Grid, Grid | None]]:
    """Objects of an intermediate array within the limits, and its tasks if it holds one of them at a time."""
    most, limit = problem.scratch_objects, problem.scratch_bytes
    whole, objects = Grid.whole(problem.shape), problem.target.objects.clipped()
    small = Grid.of(problem.shape, (1,) * len(problem.shape)) if prod(problem.shape) <= FEW_OBJECTS else whole
    # A raw side takes a page, and only smaller objects take less.
    raw = problem.source.partial_reads or problem.target.partial_writes
    grids = (small,) if raw else (whole, objects if objects.count <= FEW_OBJECTS else whole, small)
    if limit is None or limit >= problem.source.nbytes:
        for grid in dict.fromkeys(grids):
            if (most is None or grid.count <= most) and not (raw and grid is whole):
                yield grid, None
    elif not raw and limit >= prod(objects.largest) * problem.source.itemsize and (most is None or most > 0):
        yield objects, objects
