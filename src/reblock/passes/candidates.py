"""Candidate passes over the whole array: one choice of cuts per axis, and what the resulting pass needs and costs.

::

    axis 0   I  Λ  2Λ          each with its write cuts: O where the axis is kept,
    axis 1   1  I/2  I  Λ      else R ∪ O
    axis 2   Λ
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

from reblock.cost.estimate import estimate
from reblock.cost.seeks import traffic
from reblock.errors import Refused
from reblock.geometry import Axis, Grid
from reblock.model import Access, Layout, Pass, Plan, Problem
from reblock.passes.family import fit, needed_bytes, one_pass
from reblock.units import format_size

Rank = tuple[int, ...]


@dataclass(frozen=True)
class Choice:
    """The cuts of a candidate along one axis."""

    read: Axis
    """R along the axis."""
    write: Axis
    """W along the axis."""
    whole: bool
    """Whether W equals O along the axis."""

    @cached_property
    def touched(self) -> int:
        """Length of the write blocks that the first read block overlaps."""
        return self.write.start(self.write.index(self.read.start(1) - 1) + 1) if self.read.count else 0


def choice(problem: Problem, axis: int, read: Axis, *, keep: bool) -> Choice:
    """Read cuts with their write cuts: O where the axis is kept, else R ∪ O."""
    stored = problem.target.objects.axes[axis].clipped()
    if keep:
        return Choice(read, stored, whole=True)
    write = read.refine(stored)
    return Choice(read, write, whole=write.count == stored.count)


def blocks_of(layout: Layout) -> list[Grid]:
    """The grids that may serve as the blocks of an array: its objects, and its units where they are smaller."""
    return list(dict.fromkeys((layout.objects.clipped(), layout.units.clipped())))


def disk_orders(problem: Problem) -> list[tuple[int, ...]]:
    """The orders in which the axes lie on disk, the source's first."""
    return list(dict.fromkeys((problem.source.order, problem.target.order)))


def candidate(problem: Problem, choices: Sequence[Choice], order: Sequence[int]) -> Pass:
    """The pass over the whole array that one choice per axis gives."""
    return Pass(
        Grid(tuple(one.read for one in choices)),
        Grid(tuple(one.write for one in choices)),
        _everything(problem.shape),
        tuple(order),
        Access.RUNS if problem.source.partial_reads else Access.UNITS,
        Access.UNITS if all(one.whole for one in choices) else Access.RUNS,
    )


@lru_cache(maxsize=8)
def _everything(shape: tuple[int, ...]) -> Grid:
    """The task grid of one box, shared by many candidates."""
    return Grid.whole(shape)


def count_seeks(problem: Problem, made: Pass) -> Rank:
    """The rank of a candidate: seeks, then bytes."""
    reads = traffic(made.read, problem.source, made.read_access)
    writes = traffic(made.write, problem.target, made.write_access, writing=True)
    return reads.seeks + writes.seeks, reads.bytes + writes.bytes


def needs(problem: Problem, made: Pass) -> int:
    """Bytes of memory that a pass needs."""
    return needed_bytes(Plan("", problem.shape, (made,)), problem)


def box_bytes(problem: Problem, choices: Sequence[Choice]) -> int:
    """A lower bound on the memory of a pass: its largest read box, or the write boxes that the first one overlaps."""
    sides = [one.read.largest for one in choices]
    if not problem.held:
        sides = [max(side, one.touched) for side, one in zip(sides, choices, strict=True)]
    return prod(sides) * problem.target.itemsize


def plan_of(name: str, problem: Problem, made: Pass) -> Plan:
    """The plan of one pass with the access that `family` prefers, or its own where that takes too much memory."""
    plan = one_pass(name, problem, read=made.read, write=made.write, tasks=made.tasks, order=made.order)
    try:
        return fit(plan, problem)
    except Refused:
        return fit(Plan(name, problem.shape, (made,)), problem)


def best_plan(name: str, problem: Problem, variants: Iterable[Callable[[], Plan]]) -> Plan:
    """The plan with the fewest seeks among the variants of a strategy; Refused where all are."""
    plans: list[Plan] = []
    refusals: list[Refused] = []
    for variant in variants:
        try:
            plans.append(variant())
        except Refused as refusal:
            refusals.append(refusal)
    if not plans:
        raise cheapest_refusal(name, refusals)
    if len(plans) == 1:
        return plans[0]
    costs = [estimate(plan, problem) for plan in plans]
    ranked = sorted(range(len(plans)), key=lambda k: (costs[k].seeks, costs[k].bytes_read, costs[k].peak_bytes))
    return plans[ranked[0]]


def cheapest_refusal(name: str, refusals: Sequence[Refused]) -> Refused:
    """The refusal that the smallest budget would lift, or else the last one."""
    if not refusals:
        return Refused(f"{name} has nothing to propose")
    curable = [refusal for refusal in refusals if refusal.needs_memory_bytes is not None]
    return min(curable, key=lambda refusal: refusal.needs_memory_bytes or 0) if curable else refusals[-1]


def too_large(problem: Problem, smallest: int, what: str) -> Refused:
    """A refusal because the budget is too small."""
    return Refused(
        f"{what} needs {format_size(smallest)} ({smallest} bytes), the budget is {format_size(problem.memory_bytes)}",
        needs_memory_bytes=smallest,
    )
