"""Candidate passes: cuts worth trying along an axis, and the first candidate that fits.

Strategies that search do so over the product of a few cuts per axis ::

    axis 0   I  Λ  2Λ          each with its write cuts: O where the axis is kept,
    axis 1   1  I/2  I  Λ      else R ∪ O
    axis 2   Λ

Cuts are described, never listed block by block, and their number is bounded: so is the time that a search takes,
for any number of chunks. What a candidate costs comes from `reblock.cost`; the plan that is returned from `family`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from math import ceil, gcd, isqrt, lcm, prod

import numpy as np

from reblock.cost.estimate import estimate
from reblock.cost.seeks import traffic
from reblock.errors import Refused
from reblock.geometry import Axis, Grid
from reblock.geometry.axis import Ints
from reblock.model import Access, Layout, Pass, Plan, Problem
from reblock.passes.family import fit, needed_bytes, one_pass
from reblock.units import format_size

#: Cuts that two axes may have in one common period, or in all, to be looked at quickly; and to be looked at in need.
QUICK_CUTS = 1 << 12
MANY_CUTS = 1 << 14

#: Products of cuts that one search looks at.
MANY_CANDIDATES = 1500

#: Divisors are sought up to this.
LARGEST_DIVISOR = 1 << 18

Rank = tuple[int, ...]


# -------------------------------------------------------------------- cuts of one axis
def joined(axis: Axis, blocks: int) -> Axis:
    """Runs of `blocks` consecutive blocks joined to one, described and not listed where the axis repeats."""
    if blocks <= 1 or axis.count <= 1:
        return axis.clipped()
    if blocks >= axis.count:
        return Axis.single(axis.length)
    if axis.step is not None:
        return axis.multiple(blocks)
    if len(axis.pattern) != 1 or axis.repeats < 2 * blocks:
        starts = axis.starts(np.arange(0, axis.count, blocks, dtype=np.int64))
        return Axis.of(np.diff(starts, append=axis.length).tolist())
    step, borrowed = axis.pattern[0], -len(axis.head) % blocks
    groups, rest = divmod(axis.repeats - borrowed, blocks)
    head = _sums(axis.head, blocks)
    if borrowed:
        head[-1] += step * borrowed
    lent = blocks - rest if rest else 0
    tail = [step * rest + sum(axis.tail[:lent]), *_sums(axis.tail[lent:], blocks)] if rest else _sums(axis.tail, blocks)
    return Axis(tuple(head), (step * blocks,), groups, tuple(tail))


def _sums(lengths: Sequence[int], blocks: int) -> list[int]:
    """Sums of so many lengths at a time."""
    return [sum(lengths[k : k + blocks]) for k in range(0, len(lengths), blocks)]


def aggregate(axis: Axis, length: int) -> Axis:
    """Λ of the drafts, r̂ of the thesis: the fewest consecutive blocks that together are `length` long, or longer."""
    if len(axis.pattern) == 1 and axis.repeats > len(axis.head) + len(axis.tail):
        return joined(axis, ceil(length / axis.pattern[0]))
    groups: list[int] = []
    for block in axis.lengths():
        if groups and groups[-1] < length:
            groups[-1] += block
        else:
            groups.append(block)
    return Axis.of(groups)


def common_blocks(one: Axis, two: Axis) -> Axis:
    """The shortest blocks whose boundaries both axes have: nothing is left over at their ends."""
    if one.step is not None and two.step is not None:
        return Axis.regular(one.length, lcm(one.step, two.step))
    if one.count + two.count > MANY_CUTS:
        return Axis.single(one.length)
    return Axis.of(np.diff(_shared(one.cuts(), two.cuts()), append=one.length).tolist())


def _shared(one: Ints, two: Ints) -> Ints:
    """Numbers that both sorted lists have."""
    places = np.minimum(np.searchsorted(two, one), two.size - 1)
    shared: Ints = one[two[places] == one]
    return shared


def pieces(axis: Axis, limit: int) -> Iterable[Axis]:
    """Regular cuts whose length divides the axis, the thesis' candidates, or its step; longest first."""
    lengths = set(divisors(axis.length, limit))
    if axis.step is not None:
        lengths.update(divisors(axis.step, limit))
    return (Axis.regular(axis.length, length) for length in sorted(lengths, reverse=True))


def divisors(number: int, limit: int) -> list[int]:
    """Divisors of a number up to a limit."""
    return [d for d in _divisors(number) if d <= limit]


@lru_cache(maxsize=256)
def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, min(isqrt(number), LARGEST_DIVISOR) + 1) if number % n == 0]
    return sorted({d for n in small for d in (n, number // n)})


def tame(read: Axis, stored: Axis, most: int = QUICK_CUTS) -> bool:
    """Whether two cuts meet in few enough places to be looked at."""
    if read.count + stored.count <= most:
        return True
    one, two = read.period or 1, stored.period or 1
    cuts = two // gcd(one, two) * max(len(read.pattern), 1) + one // gcd(one, two) * max(len(stored.pattern), 1)
    return cuts + len(read.head) + len(read.tail) + len(stored.head) + len(stored.tail) <= most


def factors(most: int) -> list[int]:
    """1, 2, 3, ... and then ever wider steps up to `most`."""
    found = []
    factor = 1
    while factor < most:
        found.append(factor)
        factor += max(factor // 6, 1)
    return [*found, most] if most >= 1 else found


# -------------------------------------------------------------------- one axis of a candidate
@dataclass(frozen=True)
class Choice:
    """One axis of a candidate."""

    read: Axis
    """R along the axis."""
    write: Axis
    """W along the axis."""
    whole: bool
    """Whether W is O there."""

    @cached_property
    def touched(self) -> int:
        """Length of the write blocks that the first read block meets."""
        return self.write.start(self.write.index(self.read.start(1) - 1) + 1) if self.read.count else 0


def choice(problem: Problem, axis: int, read: Axis, *, keep: bool) -> Choice:
    """Read cuts with their write cuts: O where the axis is kept, else R ∪ O."""
    stored = problem.target.objects.axes[axis].clipped()
    if keep:
        return Choice(read, stored, whole=True)
    write = read.refine(stored)
    return Choice(read, write, whole=write.count == stored.count)


def stations(problem: Problem, axis: int, limit: int, most: int) -> list[Axis]:
    """Read cuts worth trying along an axis, up to a length, longest first, `most` of them at the most.

    Multiples of source objects and units, which are read whole; multiples of target objects, which complete at once;
    divisors of the axis, of a source object and of a target object.
    """
    source, units = problem.source.objects.axes[axis].clipped(), problem.source.units.axes[axis].clipped()
    target = problem.target.objects.axes[axis].clipped()
    best: dict[Axis, None] = {}
    for blocks in dict.fromkeys((source, target, units)):
        if blocks.count and blocks.largest <= limit:
            shortest = min((*blocks.head[1:], *blocks.pattern, *blocks.tail[:-1]), default=blocks.largest)
            for factor in factors(min(limit // shortest, blocks.count)):
                best[joined(blocks, factor)] = None
    rest = [piece for blocks in (target, source) for piece in pieces(blocks, limit)]
    usable = [one for one in dict.fromkeys((*best, *rest)) if one.largest <= limit]
    quick = [one for one in usable if tame(one, source) and tame(one, target)]
    if not _small(problem, quick):
        # Slow to look at, but the others are too long for the budget: one of them.
        slow = [one for one in usable if one not in quick and tame(one, target, MANY_CUTS)]
        quick += sorted(_small(problem, slow), key=_longest)[:1]
    strangers = [one for one in quick if one not in best]
    aligned = _spread([one for one in quick if one in best], max(most - len(strangers), 2 * most // 3))
    return sorted([*aligned, *_spread(strangers, most - len(aligned))], key=_longest)


def _small(problem: Problem, cuts: Iterable[Axis]) -> list[Axis]:
    """Those of which two fit in memory."""
    return [one for one in cuts if 2 * one.largest * problem.target.itemsize <= problem.memory_bytes]


def _longest(axis: Axis) -> int:
    return -axis.largest


def _spread(found: Sequence[Axis], most: int) -> list[Axis]:
    """At most so many of them, the longest and the shortest included."""
    ordered = sorted(found, key=_longest)
    if len(ordered) <= most:
        return ordered
    if most < 2:
        return ordered[:most]
    return [ordered[k * (len(ordered) - 1) // (most - 1)] for k in range(most)]


def blocks_of(layout: Layout) -> list[Grid]:
    """What may be taken as the blocks of an array: its objects, and its units where they are smaller."""
    return list(dict.fromkeys((layout.objects.clipped(), layout.units.clipped())))


def disk_orders(problem: Problem) -> list[tuple[int, ...]]:
    """The orders in which the axes lie on disk, the source's first."""
    return list(dict.fromkeys((problem.source.order, problem.target.order)))


# -------------------------------------------------------------------- candidates
def candidate(problem: Problem, choices: Sequence[Choice], order: Sequence[int]) -> Pass:
    """The pass over the whole array that a choice per axis makes."""
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
    """One box; many candidates are made for the same one."""
    return Grid.whole(shape)


def count_seeks(problem: Problem, made: Pass) -> Rank:
    """Seeks, then bytes: what candidates are ranked by."""
    reads = traffic(made.read, problem.source, made.read_access)
    writes = traffic(made.write, problem.target, made.write_access, writing=True)
    return reads.seeks + writes.seeks, reads.bytes + writes.bytes


def needs(problem: Problem, made: Pass) -> int:
    """Bytes that a pass needs."""
    return needed_bytes(Plan("", problem.shape, (made,)), problem)


def box_bytes(problem: Problem, choices: Sequence[Choice]) -> int:
    """Bytes of the largest read box, or of the write boxes that the first one touches: no pass needs less."""
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
    """The refusal that a larger budget would lift first, or else the last."""
    if not refusals:
        return Refused(f"{name} has nothing to propose")
    curable = [refusal for refusal in refusals if refusal.needs_memory_bytes is not None]
    return min(curable, key=lambda refusal: refusal.needs_memory_bytes or 0) if curable else refusals[-1]


def too_large(problem: Problem, smallest: int, what: str) -> Refused:
    """A refusal for want of memory."""
    return Refused(
        f"{what} needs {format_size(smallest)} ({smallest} bytes), the budget is {format_size(problem.memory_bytes)}",
        needs_memory_bytes=smallest,
    )


# -------------------------------------------------------------------- searches over the whole array
def first_fit(
    name: str, problem: Problem, ranked: Iterable[Sequence[Choice]], orders: Sequence[tuple[int, ...]]
) -> tuple[Plan | None, int | None]:
    """The first candidate that fits in one of the orders; else None and the least that one of them needs."""
    least: int | None = None
    larger: list[tuple[int, int, Sequence[Choice]]] = []
    for place, choices in enumerate(ranked):
        box = box_bytes(problem, choices)
        if box > problem.memory_bytes:
            larger.append((box, place, choices))
            continue
        for order in orders:
            made = candidate(problem, choices, order)
            needed = _needs(problem, made)
            if needed is None:
                continue
            if needed <= problem.memory_bytes:
                return plan_of(name, problem, made), needed
            least = needed if least is None else min(least, needed)
    for box, _, choices in sorted(larger, key=lambda one: one[:2]):
        if least is not None and box >= least:
            break
        for order in orders:
            needed = _needs(problem, candidate(problem, choices, order))
            if needed is not None:
                least = needed if least is None else min(least, needed)
    return None, least


def _needs(problem: Problem, made: Pass) -> int | None:
    """Bytes that a pass needs; None where that cannot be told."""
    try:
        return needs(problem, made)
    except Refused as refusal:
        return refusal.needs_memory_bytes


def search_kept(name: str, problem: Problem, rank: Callable[[Problem, Pass], Rank]) -> Plan:
    """Algorithm 2 of the thesis: the best rank among the candidate read shapes that fit; r̂ at once if it does."""
    orders = disk_orders(problem)
    target = problem.target.objects.axes
    largest = [
        aggregate(source.clipped(), stored.largest)
        for source, stored in zip(problem.source.objects.axes, target, strict=True)
    ]

    def options(axis: int, most: int) -> list[Choice]:
        reads = dict.fromkeys((largest[axis], *stations(problem, axis, largest[axis].largest, most)))
        whole = not problem.target.partial_writes
        return [
            choice(problem, axis, read, keep=whole or read == largest[axis] or read.largest >= target[axis].largest)
            for read in reads
        ]

    best = [choice(problem, axis, read, keep=True) for axis, read in enumerate(largest)]
    plan, least = first_fit(name, problem, [best], orders)
    fastest = {order[-1] for order in orders if order}
    for fixed in (fastest, set[int]()):
        if plan is not None:
            return plan
        free = [axis for axis in range(len(largest)) if axis not in fixed]
        most = max(int(MANY_CANDIDATES ** (1 / max(len(free), 1))), 3)
        lists = [options(axis, most) if axis in free else [best[axis]] for axis in range(len(largest))]
        # A strategy is asked again for other budgets, which change what fits and no rank.
        ranked = _ranked(replace(problem, memory_bytes=1), tuple(map(tuple, lists)), rank)
        plan, least = first_fit(name, problem, ranked, orders)
    if plan is None:
        raise too_large(problem, least or 0, "the smallest candidate read shape")
    return plan


@lru_cache(maxsize=8)
def _ranked(
    problem: Problem, lists: tuple[tuple[Choice, ...], ...], rank: Callable[[Problem, Pass], Rank]
) -> list[tuple[Choice, ...]]:
    """Candidates by rank, then as the thesis has them; those too irregular to be counted are left out."""
    found = []
    for place, choices in enumerate(_thesis_order(lists, disk_orders(problem)[0])):
        try:
            found.append((rank(problem, candidate(problem, choices, problem.source.order)), place, choices))
        except Refused:
            continue
    return [choices for _, _, choices in sorted(found, key=lambda one: one[:2])]


def _thesis_order(lists: Sequence[Sequence[Choice]], order: Sequence[int]) -> Iterable[tuple[Choice, ...]]:
    """By decreasing length along the fastest axis, then the next."""
    for combination in product(*(lists[axis] for axis in reversed(order))):
        by_axis = dict(zip(reversed(order), combination, strict=True))
        yield tuple(by_axis[axis] for axis in range(len(lists)))
