"""Runs of neighbouring cells: R = T = the longest run that fits the budget, W = R ∪ O.

::

    ┌──┬──┬──┬──┐     A run grows along the axes from the fastest on disk to the slowest:
    │▒▒│▒▒│▒▒│  │     a few cells, a row, several rows, a slice, several slices. Cells are
    ├──┼──┼──┼──┤     blocks, or elements. A task reads one run and keeps nothing, so its
    │  │  │  │  │     memory is known without a search: the run, and a unit in flight.
    └──┴──┴──┴──┘
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import lcm, prod

from reblock.cost.flight import least_flight_bytes
from reblock.cost.memory import least_box_bytes
from reblock.errors import Refused
from reblock.geometry import Axis, Grid
from reblock.model import Access, Layout, Pass, Plan, Problem
from reblock.model.accounting import with_records, with_room
from reblock.passes.cuts import MAX_CUTS, countable, divisors, joined
from reblock.passes.family import fit, one_pass


def longest_run(
    name: str, problem: Problem, cells: Grid, order: Sequence[int], *, rows: bool = False, shorten: Grid | None = None
) -> Plan:
    """R = T = the longest run of cells that fits, W = R ∪ O.

    The run grows along the axes from the fastest of `order` to the slowest: a few cells, a row, several rows, a slice,
    several slices. `rows` refuses less than a row; a run of cells ends where a block of `shorten` does.
    """
    axes = [cell.clipped() for cell in cells.axes]
    blocks = [1] * len(axes)
    if rows and axes:
        blocks[order[-1]] = axes[order[-1]].count

    def cost(axis: int, count: int) -> int:
        return _run_bytes(problem, [joined(a, count if d == axis else blocks[d]) for d, a in enumerate(axes)])

    for axis in reversed(order):
        if cost(axis, axes[axis].count) <= problem.memory_bytes:
            blocks[axis] = axes[axis].count
            continue
        if not (rows and axis == order[-1]):
            blocks[axis] = _most(axes[axis].count, partial(cost, axis), problem.memory_bytes)
        if shorten is not None:
            blocks[axis] = _shortened(axes[axis], shorten.axes[axis], blocks[axis])
        blocks[axis] = _tamed(axes[axis], problem.target.objects.axes[axis], blocks[axis])
        break
    read = Grid(tuple(joined(cell, blocks[axis]) for axis, cell in enumerate(axes)))
    write = read.refine(problem.target.objects.clipped())
    try:
        return fit(one_pass(name, problem, read=read, write=write, tasks=read), problem)
    except Refused as refusal:
        if refusal.needs_memory_bytes is not None:
            raise
        # Tasks of too many kinds to count their memory. One task that keeps nothing is the same sweep.
        return fit(one_pass(name, problem, read=read, write=write, tasks=Grid.whole(problem.shape)), problem)


def _run_bytes(problem: Problem, read: Sequence[Axis]) -> int:
    """Bytes of memory that a run needs, or slightly more where the last target object is padded."""
    lengths = [
        max(one.largest, one.length - one.start(one.count - 1) + stored.trail) if one.count else 0
        for one, stored in zip(read, problem.target.objects.axes, strict=True)
    ]
    needed = prod(lengths) * problem.target.itemsize
    if problem.held:
        return needed
    needed = max(needed, least_box_bytes(problem.target))
    grid = Grid(tuple(read))
    passes = [Pass(grid, grid, grid, (), access, Access.RUNS) for access in _accesses(problem.source, grid)]
    needed = with_records(with_room(needed, problem.target), problem.target.objects.count, problem.target)
    return needed + max(least_flight_bytes(made, problem.source, problem.target) for made in passes)


def _accesses(source: Layout, read: Grid) -> list[Access]:
    """The ways in which `family.sweep` may read these boxes.

    Whole units only where byte runs cannot be read, or where boxes may consist of whole objects that stick out: a unit
    of a large raw object takes far more memory than a run inside it.
    """
    if not source.partial_reads:
        return [Access.UNITS]
    longer = all(a >= b for a, b in zip(read.largest, source.objects.largest, strict=True))
    return [Access.RUNS, Access.UNITS] if longer and source.objects.overhangs else [Access.RUNS]


def _most(count: int, cost: Callable[[int], int], budget: int) -> int:
    """The largest number of blocks whose cost is within the budget, or 1 where even that exceeds it."""
    low, high = 1, count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if cost(middle) <= budget else (low, middle)
    return low


def _shortened(cell: Axis, other: Axis, blocks: int) -> int:
    """The number of cells, reduced to end where a block of the other grid does, if it can."""
    step = cell.period or 1
    together = lcm(step, other.period or 1) // step
    return blocks // together * together or blocks


def _tamed(cell: Axis, target: Axis, blocks: int) -> int:
    """The number of cells, reduced where runs of that length cut the target in too many places to be counted."""
    step, length = cell.period or 1, target.period or 1
    if blocks * step > MAX_CUTS * length:
        even = _shortened(cell, target, blocks)
        if cell.step and target.step and even * step % length == 0:
            return even
        return _shortened(cell, target, max(MAX_CUTS * length // step, 1))
    if countable(joined(cell, blocks), target.clipped(), MAX_CUTS):
        return blocks
    return max((n for n in divisors(length, blocks * step) if n % step == 0), default=step) // step
