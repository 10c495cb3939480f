"""Several passes through intermediate arrays, for problems where one pass would read the source many times.

::

    s ┌┬┬┬┬┬┬┬┐     B ┌─┬─┬─┬─┐     t ┌───────┐    s = slices, t = pencils: a template of few pencils meets every
      │││││││││  ──▶  ├─┼─┼─┼─┤  ──▶  ├───────┤    slice, so every slice is read for each template. Through blocks
      │││││││││       ├─┼─┼─┼─┤       ├───────┤    that are as long along both as memory allows, every element is
      └┴┴┴┴┴┴┴┘       └─┴─┴─┴─┘       └───────┘    read twice and written twice, however many templates there are.

DRA's intermediate blocks are at equal distances between s and t: one, B1 = √(s·t), or two, B2 = ∛(s²·t) and
B3 = ∛(s·t²). Each part of the way is a single pass over templates, or goes through more arrays in the same way.

Memory itself suggests other blocks: R, as many source blocks as fit, and M, as many target blocks as fit, each grown
along the axes on which the other is longer. Then only the pieces R ∪ M move: they are written when an R box is in
memory, and read when an M box is. If those pieces are too small for the device, more passes use boxes between R and M,
as large as these, whose pieces are larger. Intermediate arrays are raw, so pieces may be objects of their own, or parts
of objects M or R with an axis order that makes a piece one run. The plan with the least predicted time is chosen, or
the best one by another objective.

Scratch holds whole arrays, at most two at a time. If that is more than allowed, or if it costs nothing, it holds one
template at a time: the passes share a task grid and run task by task. With three passes or more it may also hold one
array at a time, as in Fig. 7: every second array, counted back from the last but one, is in the target's space, which
is empty until the last pass.

Krishnamoorthy et al., "Layout transformation support for the disk resident arrays framework", sections 4.3 and 5.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise, permutations
from math import inf, prod

from reblock.cost.estimate import bare_cost, estimate, ideal_seconds, least_cost
from reblock.errors import Refused
from reblock.geometry import Grid
from reblock.model import Cost, Layout, Pass, Plan, Problem
from reblock.passes.common_cuts import common_cuts, most_blocks
from reblock.passes.family import fit, needed_bytes
from reblock.passes.product import Ranking
from reblock.passes.templates import (
    Shape,
    by_time,
    fits,
    geometric_mean,
    geometric_thirds,
    make_pass,
    pieces,
    single_pass,
)
from reblock.units import format_size

#: Orders in which the axes of a box are tried for growth.
MAX_ORDERS = 6

#: Shares of the budget that boxes may take, the largest first: codecs and units in flight need the rest.
SHARES = (64, 60, 56, 48, 40, 32, 24, 16, 8, 4, 2, 1)


#: The most templates that are tried for each single pass of a route, and the most single passes in all.
LOOKS, MAX_SINGLE_PASSES = 16, 24

#: How often parts of a route may be divided again.
MAX_LEVELS = 3

#: The most passes between the first and the last through boxes that fill the memory.
MAX_STAGES = 4

#: Two grids: R and M, or the blocks of both ends.
Pair = tuple[Grid, Grid]

#: Passes, and the arrays between them.
Route = tuple[list[Pass], list[Layout]]


def propose(problem: Problem, *, key: Ranking | None = None) -> Plan:
    """The intermediate blocks that move the data fastest within the budgets of memory and scratch.

    With a ranking of costs, the best ones by that.
    """
    found = _Candidates(problem, key)
    source, target = _pieces(problem)
    pairs = list(_boxes(problem, source, target))
    for plan in _merged_plans(problem, pairs, source, target):
        found.add(plan)
    for stages in range(1, MAX_STAGES + 1):
        if found.value > _least_value(problem, [_one_file(problem)] * (stages + 1), key):
            for plan in _staged_plans(problem, pairs, target, stages):
                found.add(plan)
    if found.best is not None or _least_memory(problem) <= problem.memory_bytes:
        for plan in _Routes(key).plans(problem, lambda: found.value):
            found.add(plan)
    if found.best is None:
        found.add(_smallest(problem))
    if found.best is None:
        raise found.refusal()
    return fit(found.best, problem)


def least_seconds(problem: Problem) -> float:
    """The time of two passes that touch every object once."""
    return _least_value(problem, [_one_file(problem)])


@dataclass
class _Candidates:
    """The best plan so far, and the needs of rejected ones."""

    problem: Problem
    """The problem."""
    key: Ranking | None
    """Ranks costs; None for the time."""
    best: Plan | None = None
    """The best plan within all limits."""
    rank: tuple[float, ...] = ()
    """Its rank."""
    value: float = inf
    """What the ranking compares first: the time, or another entry of its cost."""
    needs: list[int] = field(default_factory=list)
    """Memory that plans beyond the budget need."""
    scratch: list[int] = field(default_factory=list)
    """Scratch bytes of the plans beyond their limit."""
    objects: list[int] = field(default_factory=list)
    """Scratch objects of the plans beyond their limit."""

    def add(self, plan: Plan) -> None:
        """Keep a plan if it is the best one yet."""
        problem, key = self.problem, self.key or by_time
        if self.best is not None and key(least_cost(plan, problem))[0] > self.rank[0]:
            return
        needs = needed_bytes(plan, problem)
        if needs > problem.memory_bytes:
            self.needs.append(needs)
            return
        plan = _within_scratch(plan, problem)
        cost, objects = estimate(plan, problem), _scratch_objects(plan)
        if problem.scratch_bytes is not None and cost.scratch_bytes > problem.scratch_bytes:
            self.scratch.append(cost.scratch_bytes)
        elif problem.scratch_objects is not None and objects > problem.scratch_objects:
            self.objects.append(objects)
        elif self.best is None or (*key(cost), cost.scratch_bytes) < self.rank:
            self.best, self.rank = plan, (*key(cost), cost.scratch_bytes)
            self.value = _value(cost, self.key)

    def refusal(self) -> Refused:
        """The reason why there is no plan."""
        problem = self.problem
        if self.scratch:
            limit = format_size(problem.scratch_bytes or 0)
            return Refused(f"intermediate arrays take at least {format_size(min(self.scratch))}, the limit is {limit}")
        if self.objects:
            return Refused(
                f"intermediate arrays have at least {min(self.objects)} objects, the limit is {problem.scratch_objects}"
            )
        needs = min(self.needs)
        return Refused(
            f"needs {format_size(needs)} ({needs} bytes), the budget is {format_size(problem.memory_bytes)}",
            needs_memory_bytes=needs,
        )


def _within_scratch(plan: Plan, problem: Problem) -> Plan:
    """The plan, with arrays in the target's space if scratch has room for one of them but not for two (Fig. 7)."""
    limit, sizes = problem.scratch_bytes, [layout.nbytes for layout in plan.scratch]
    possible = len(sizes) > 1 and not plan.interleaved and not problem.target.encoded
    if limit is None or not possible or max(sizes) > min(limit, problem.target.nbytes):
        return plan
    return replace(plan, scratch_in_target=max(map(sum, pairwise(sizes))) > limit)


def _scratch_objects(plan: Plan) -> int:
    """The most objects of intermediate arrays in scratch that exist at the same time."""
    tasks = plan.passes[0].tasks if plan.interleaved else Grid.whole(plan.shape)
    counts = [
        0 if plan.in_target(number) else prod(map(most_blocks, layout.objects.axes, tasks.axes))
        for number, layout in enumerate(plan.scratch)
    ]
    return max(a + b for a, b in zip([0, *counts], [*counts, 0], strict=True))


def _plan(problem: Problem, passes: Sequence[Pass], scratch: Sequence[Layout], *, interleaved: bool = False) -> Plan:
    return Plan("multipass", problem.shape, tuple(passes), tuple(scratch), interleaved)


def _smallest(problem: Problem) -> Plan:
    """The plan that needs least: one source unit, then one target unit (an element of raw ones), through one file."""
    read, target = pieces(problem.source, 0, writing=False), pieces(problem.target, 0, writing=True)
    return _through(problem, (read, target), [_one_file(problem)], target)


def _least_memory(problem: Problem) -> int:
    """A lower bound on the memory of any plan: a source unit or a target object that can only be moved whole."""
    source, target = problem.source, problem.target
    unit = source.unit_memory_bytes if source.encoded else source.unit_bytes
    reading = 0 if source.partial_reads or problem.held else unit
    return max(reading, 0 if target.partial_writes else prod(target.objects.largest) * target.itemsize)


def _one_file(problem: Problem) -> Layout:
    return Layout.raw(problem.source.dtype, Grid.whole(problem.shape))


# ------------------------------------------------------------------ the paper's: equal distances
def _betweens(s: Shape, t: Shape) -> list[tuple[Shape, ...]]:
    """Sequences of intermediate blocks: B1; B1 in whole multiples of the smaller block; B2 and B3."""
    mean = geometric_mean(s, t)
    even = tuple(b // a * a if (a := min(x, y)) else 1 for x, y, b in zip(s, t, mean, strict=True))
    return list(dict.fromkeys([(mean,), (even,), geometric_thirds(s, t)]))


class _Routes:
    """Fig. 4: from s to t in a single pass, or through B1 or (B2, B3), recursively."""

    def __init__(self, key: Ranking | None = None) -> None:
        self._key = key
        self._single: dict[tuple[Layout, Layout], Pass | None] = {}

    def plans(self, problem: Problem, limit: Callable[[], float]) -> Iterator[Plan]:
        """Routes that may be better than a limit, divided further as long as that is a gain."""
        source, target = _pieces(problem)
        chains = [
            [Layout.raw(problem.source.dtype, Grid.of(problem.shape, chunks)) for chunks in blocks]
            for blocks in _betweens(source.largest, target.largest)
        ]
        best = inf
        for levels in range(MAX_LEVELS + 1):
            before = best
            for chain in chains:
                # A route that is new at a level goes through at least as many more arrays.
                if limit() > _least_value(problem, [*chain, *(chain[-1] for _ in range(levels))], self._key):
                    with suppress(Refused):
                        plan = _plan(problem, *self.through(problem, chain, levels))
                        best = min(best, _value(estimate(plan, problem), self._key))
                        yield plan
            if before == best < inf or len(self._single) >= MAX_SINGLE_PASSES:
                break

    def through(self, problem: Problem, between: Sequence[Layout], levels: int) -> Route:
        """The best route through the given arrays; parts of the way may go through `levels` of more arrays."""
        passes: list[Pass] = []
        scratch: list[Layout] = []
        for source, target in pairwise([problem.source, *between, problem.target]):
            made, inside = self._best(_leg(problem, source, target), levels)
            passes += made
            scratch += [*inside, target]
        return passes, scratch[:-1]

    def _best(self, leg: Problem, levels: int) -> Route:
        """A single pass, or a route through more arrays if that is better or no single pass fits."""
        best: Route | None = None
        value = inf
        single = self._single_pass(leg)
        if single is not None:
            best, value = ([single], []), _value(estimate(_plan(leg, [single], []), leg), self._key)
        reads, writes = _pieces(leg)
        for blocks in _betweens(reads.largest, writes.largest) if levels else ():
            if len(self._single) >= MAX_SINGLE_PASSES:
                break
            chain = [Layout.raw(leg.source.dtype, Grid.of(leg.shape, chunks)) for chunks in blocks]
            # Blocks equal to those of an end gain nothing.
            if value <= _least_value(leg, chain, self._key) or {chain[0].objects, chain[-1].objects} & {reads, writes}:
                continue
            with suppress(Refused):
                route = self.through(leg, chain, levels - 1)
                divided = _value(estimate(_plan(leg, *route), leg), self._key)
                if divided < value:
                    best, value = route, divided
        if best is None:
            raise Refused("no template fits")
        return best

    def _single_pass(self, leg: Problem) -> Pass | None:
        """The single pass of a part of the route, if templates fit and not too many passes were tried before."""
        key = (leg.source, leg.target)
        if key not in self._single and len(self._single) < MAX_SINGLE_PASSES:
            self._single[key] = None
            reads, writes = _pieces(leg)
            with suppress(Refused):
                self._single[key] = single_pass(leg, reads=reads, writes=writes, looks=LOOKS, key=self._key)
        return self._single.get(key)


def _pieces(leg: Problem) -> Pair:
    """Blocks of both ends, or contiguous parts of raw ones that leave room in memory."""
    limit = leg.memory_bytes // 8
    return pieces(leg.source, limit, writing=False), pieces(leg.target, limit, writing=True)


def _value(cost: Cost, key: Ranking | None) -> float:
    """What a ranking compares first."""
    return cost.seconds if key is None else float(key(cost)[0])


def _least_value(problem: Problem, between: Sequence[Layout], key: Ranking | None = None) -> float:
    """A lower bound on what a ranking compares first, for passes through these arrays."""
    layouts = [problem.source, *between, problem.target]
    legs = [_leg(problem, one, two) for one, two in pairwise(layouts)]
    seconds = sum(map(ideal_seconds, legs))
    if key is None:
        return seconds
    seeks, moved = sum(leg.lower_bound_seeks for leg in legs), len(legs) * problem.target.nbytes
    return _value(bare_cost(seeks, moved, moved, seconds, _least_memory(problem)), key)


def _leg(problem: Problem, source: Layout, target: Layout) -> Problem:
    """A part of the route as a problem of its own, on its own devices."""
    last = problem.target_device or problem.device
    scratch = problem.scratch_device or last
    return replace(
        problem,
        source=source,
        target=target,
        device=problem.device if source is problem.source else scratch,
        target_device=last if target is problem.target else scratch,
    )


# ------------------------------------------------------------------ ours: what memory suggests
def _merged_plans(problem: Problem, pairs: Sequence[Pair], source: Grid, target: Grid) -> Iterator[Plan]:
    """Two passes through pieces R ∪ M, with scratch for the array or for one template at a time."""
    for read, merged in pairs:
        templates = _templates(problem, source, merged)
        for layout in _layouts(problem, read, merged):
            yield _through(problem, (read, merged), [layout], target)
            for tasks in templates:
                cut = replace(layout, objects=layout.objects.refine(tasks), units=layout.units.refine(tasks))
                yield _through(problem, (read, merged), [cut], target, tasks=tasks)


def _staged_plans(problem: Problem, pairs: Sequence[Pair], target: Grid, stages: int) -> Iterator[Plan]:
    """More passes, through boxes at equal distances between R and M: each as large, and with larger pieces."""
    for read, merged in pairs:
        between = [_between(read, merged, k / (stages + 1)) for k in range(1, stages + 1)]
        boxes = [read, *between, merged]
        choices = [list(_layouts(problem, one, two)) for one, two in pairwise(boxes)]
        yield _through(problem, boxes, [layouts[0] for layouts in choices], target)
        yield _through(problem, boxes, [layouts[-1] for layouts in choices], target)


def _between(read: Grid, merged: Grid, part: float) -> Grid:
    """Boxes a fraction of the way from R to M, in whole multiples of the shorter one along each axis."""
    sizes = []
    for one, two in zip(read.largest, merged.largest, strict=True):
        shorter = max(min(one, two), 1)
        sizes.append(max(int(one ** (1 - part) * two**part + 1e-6) // shorter, 1) * shorter)
    return Grid.of(read.shape, sizes)


def _through(
    problem: Problem, boxes: Sequence[Grid], layouts: Sequence[Layout], target: Grid, *, tasks: Grid | None = None
) -> Plan:
    """One pass for each of the boxes: from one array, in pieces, into the next; the last one into the target."""
    chain = [problem.source, *layouts, problem.target]
    passes = []
    for place, box in enumerate(boxes):
        write = box.refine(chain[place + 1].objects) if place < len(layouts) else target
        passes.append(make_pass(chain[place], chain[place + 1], read=box, write=write, tasks=tasks or box))
    return _plan(problem, passes, layouts, interleaved=tasks is not None)


def _layouts(problem: Problem, read: Grid, merged: Grid) -> Iterator[Layout]:
    """Objects of the intermediate array: pieces, the shorter of both along each axis (rechunker's), or M or R boxes.

    A larger object has the axes along which it is cut outermost on disk, so that a piece is one run if possible.
    """
    between = read.refine(merged)
    shorter = Grid(tuple(a if a.largest <= b.largest else b for a, b in zip(read.axes, merged.axes, strict=True)))
    for grid in dict.fromkeys((between, shorter, read, merged)):
        cut = [n > m for n, m in zip(between.counts, grid.counts, strict=True)]
        outer, inner = ([axis for axis in range(grid.ndim) if cut[axis] is is_cut] for is_cut in (True, False))
        yield Layout.raw(problem.source.dtype, grid, (*outer, *inner))


def _boxes(problem: Problem, source: Grid, target: Grid) -> Iterator[Pair]:
    """Pairs of R and M, each as large as memory allows along the axes on which the other one is longer."""
    raw = _one_file(problem)
    last, first = _leg(problem, raw, problem.target), _leg(problem, problem.source, raw)
    seen: set[Pair] = set()
    merges = [*_grown(last, target, source.largest, writing=True), *_grown(last, target, problem.shape, writing=True)]
    for merged in dict.fromkeys(merges):
        for read in _grown(first, source, merged.largest, writing=False):
            if (read, merged) not in seen:
                seen.add((read, merged))
                yield read, merged


def _grown(leg: Problem, blocks: Grid, limits: Shape, *, writing: bool) -> Iterator[Grid]:
    """Boxes of whole blocks up to the limits, for several orders of growth; each fits the budget."""
    axes = [axis for axis in reversed(range(blocks.ndim)) if limits[axis] > blocks.axes[axis].largest]
    for order in islice(permutations(axes), MAX_ORDERS):
        for share in SHARES:
            box = _joined(blocks, limits, leg.memory_bytes * share // SHARES[0] // leg.target.itemsize, order)
            made = make_pass(leg.source, leg.target, read=box, write=blocks if writing else box, tasks=box)
            if fits(leg, made):
                yield box
                break


def _joined(blocks: Grid, limits: Sequence[int], elements: int, order: Sequence[int]) -> Grid:
    """Blocks joined along one axis after the other, as many as the limits and the number of elements allow."""
    factors = [1] * blocks.ndim
    largest = [max(n, 1) for n in blocks.largest]
    volume = prod(largest)
    for axis in order:
        factors[axis] = max(min(-(-limits[axis] // largest[axis]), elements // volume), 1)
        volume *= factors[axis]
    return Grid(tuple(axis.multiple(factor) for axis, factor in zip(blocks.axes, factors, strict=True)))


def _templates(problem: Problem, source: Grid, merged: Grid) -> list[Grid]:
    """Templates that limit scratch: the common cuts of source blocks and M boxes, and what the limit allows."""
    found = [Grid(tuple(map(common_cuts, source.axes, merged.axes)))]
    if problem.scratch_bytes is not None and problem.scratch_bytes < problem.source.nbytes:
        elements = problem.scratch_bytes // problem.source.itemsize
        orders = islice(permutations(reversed(range(merged.ndim))), MAX_ORDERS)
        found += [_joined(merged, problem.shape, elements, order) for order in orders]
    return [grid for grid in dict.fromkeys(found) if grid.count > 1]
