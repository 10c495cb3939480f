"""Several passes through intermediate arrays, where one pass would read the source again and again.

::

    s ┌┬┬┬┬┬┬┬┐     B ┌─┬─┬─┬─┐     t ┌───────┐    s = slices, t = pencils: a template of few pencils meets every
      │││││││││  ──▶  ├─┼─┼─┼─┤  ──▶  ├───────┤    slice, so every slice is read for each template. Through blocks
      │││││││││       ├─┼─┼─┼─┤       ├───────┤    as long as memory allows both ways every element is read twice
      └┴┴┴┴┴┴┴┘       └─┴─┴─┴─┘       └───────┘    and written twice, and that is all.

DRA's intermediate blocks lie at equal distances between s and t: one, B1 = √(s·t), or two, B2 = ∛(s²·t) and
B3 = ∛(s·t²); each leg is a single pass over templates, or again several. Beside them stand the blocks that memory
itself suggests: R, as many source blocks as fit, and M, as many target blocks as fit, each grown along the axes on
which the other is longer. Then the pieces R ∪ M are all that moves: written when an R box is in memory, read when an
M box is. Where those pieces are too small for the device, more passes go through boxes between R and M, as large as
they are, whose pieces are larger. Intermediate arrays are raw, so pieces may be objects of their own, or parts of
objects M or R whose axes lie on disk such that a piece is one run; the cheapest by predicted seconds is taken.

Scratch holds whole arrays, at most two at a time, or where that is more than allowed (and where it costs nothing) only
one template at a time: the passes share a task grid and are run task by task.

Krishnamoorthy et al., "Layout transformation support for the disk resident arrays framework", sections 4.3 and 5.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise, permutations
from math import prod

from reblock.cost.estimate import estimate, ideal_seconds
from reblock.errors import Refused
from reblock.geometry import Grid
from reblock.model import Layout, Pass, Plan, Problem
from reblock.passes.common_cuts import common_cuts, most_blocks
from reblock.passes.family import fit, needed_bytes
from reblock.passes.templates import (
    Shape,
    fits,
    geometric_mean,
    geometric_thirds,
    make_pass,
    pieces,
    rank,
    single_pass,
)
from reblock.units import format_size

#: Orders in which the axes of a box are tried for growth.
MANY_ORDERS = 6

#: Parts of the budget that boxes may take, largest first: codecs and units in flight need the rest.
SHARES = (64, 60, 56, 48, 40, 32, 24, 16, 8, 4, 2, 1)


#: Templates to look at for each leg.
LOOKS = 16

#: Passes between the first and the last that are tried.
MANY_STAGES = 4

#: R and M.
Pair = tuple[Grid, Grid]


def propose(problem: Problem) -> Plan:
    """The intermediate blocks that move the data fastest inside the budgets of memory and scratch."""
    found = _Candidates(problem)
    limit = problem.memory_bytes // 8
    source, target = pieces(problem.source, limit, writing=False), pieces(problem.target, limit, writing=True)
    pairs = list(_boxes(problem, source, target))
    for plan in _merged_plans(problem, pairs, source, target):
        found.add(plan)
    for stages in range(1, MANY_STAGES + 1):
        if found.best is None or found.seconds > _least_seconds(problem, [_one_file(problem)] * (stages + 1)):
            for plan in _staged_plans(problem, pairs, target, stages):
                found.add(plan)
    for place, blocks in enumerate(_betweens(source.largest, target.largest)):
        chain = [Layout.raw(problem.source.dtype, Grid.of(problem.shape, chunks)) for chunks in blocks]
        if found.best is None or found.seconds > _least_seconds(problem, chain):
            with suppress(Refused):
                found.add(_plan(problem, *_route(problem, chain, again=place == 0)))
    if found.best is None:
        found.add(_smallest(problem))
    if found.best is None:
        raise found.refusal()
    return fit(found.best, problem)


def least_seconds(problem: Problem) -> float:
    """What two passes take that touch every object once."""
    return _least_seconds(problem, [_one_file(problem)])


@dataclass
class _Candidates:
    """The best plan so far, and what the others lacked."""

    problem: Problem
    """What is to be solved."""
    best: Plan | None = None
    """The fastest plan inside all limits."""
    ranks: tuple[float, ...] = ()
    """What it is ranked by."""
    seconds: float = 0.0
    """What it takes."""
    needs: list[int] = field(default_factory=list)
    """Memory that plans beyond the budget need."""
    scratch: list[int] = field(default_factory=list)
    """Scratch bytes of the plans beyond their limit."""
    objects: list[int] = field(default_factory=list)
    """Scratch objects of the plans beyond their limit."""

    def add(self, plan: Plan) -> None:
        """Keep a plan if it is the best one yet."""
        problem = self.problem
        needs = needed_bytes(plan, problem)
        if needs > problem.memory_bytes:
            self.needs.append(needs)
            return
        cost, objects = estimate(plan, problem), _scratch_objects(plan)
        if problem.scratch_bytes is not None and cost.scratch_bytes > problem.scratch_bytes:
            self.scratch.append(cost.scratch_bytes)
        elif problem.scratch_objects is not None and objects > problem.scratch_objects:
            self.objects.append(objects)
        elif self.best is None or (*rank(cost), cost.scratch_bytes) < self.ranks:
            self.best, self.ranks, self.seconds = plan, (*rank(cost), cost.scratch_bytes), cost.seconds

    def refusal(self) -> Refused:
        """Why there is no plan."""
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


def _scratch_objects(plan: Plan) -> int:
    """Most objects of intermediate arrays that exist at the same time."""
    tasks = plan.passes[0].tasks if plan.interleaved else Grid.whole(plan.shape)
    counts = [prod(map(most_blocks, layout.objects.axes, tasks.axes)) for layout in plan.scratch]
    return max(a + b for a, b in zip([0, *counts], [*counts, 0], strict=True))


def _plan(problem: Problem, passes: Sequence[Pass], scratch: Sequence[Layout], *, interleaved: bool = False) -> Plan:
    return Plan("multipass", problem.shape, tuple(passes), tuple(scratch), interleaved)


def _smallest(problem: Problem) -> Plan:
    """The plan that needs least: one source unit, then one target unit (an element of raw ones), through one file."""
    read, target = pieces(problem.source, 0, writing=False), pieces(problem.target, 0, writing=True)
    return _through(problem, (read, target), [_one_file(problem)], target)


def _one_file(problem: Problem) -> Layout:
    return Layout.raw(problem.source.dtype, Grid.whole(problem.shape))


# ------------------------------------------------------------------ the paper's: equal distances
def _betweens(s: Shape, t: Shape) -> list[tuple[Shape, ...]]:
    """Sequences of intermediate blocks: B1; B1 in whole multiples of the smaller block; B2 and B3."""
    mean = geometric_mean(s, t)
    even = tuple(b // a * a if (a := min(x, y)) else 1 for x, y, b in zip(s, t, mean, strict=True))
    return list(dict.fromkeys([(mean,), (even,), geometric_thirds(s, t)]))


def _route(problem: Problem, between: Sequence[Layout], *, again: bool) -> tuple[list[Pass], list[Layout]]:
    """The best passes through the given arrays."""
    passes: list[Pass] = []
    scratch: list[Layout] = []
    for source, target in pairwise([problem.source, *between, problem.target]):
        made, inside = _best_leg(_leg(problem, source, target), again=again)
        passes += made
        scratch += [*inside, target]
    return passes, scratch[:-1]


def _best_leg(leg: Problem, *, again: bool) -> tuple[list[Pass], list[Layout]]:
    """A single pass; where there is none, or a slow one, the better of it and two through B1."""
    limit = leg.memory_bytes // 8
    reads, writes = pieces(leg.source, limit, writing=False), pieces(leg.target, limit, writing=True)
    options: list[tuple[list[Pass], list[Layout]]] = []
    with suppress(Refused):
        options.append(([single_pass(leg, reads=reads, writes=writes, looks=LOOKS)], []))
    seconds = [estimate(_plan(leg, *option), leg).seconds for option in options]
    mean = [Layout.raw(leg.source.dtype, Grid.of(leg.shape, geometric_mean(reads.largest, writes.largest)))]
    if again and (not options or seconds[0] > _least_seconds(leg, mean)):
        with suppress(Refused):
            options.append(_route(leg, mean, again=False))
    if not options:
        raise Refused("no template fits")
    return min(options, key=lambda option: rank(estimate(_plan(leg, *option), leg)))


def _least_seconds(problem: Problem, between: Sequence[Layout]) -> float:
    """What passes through these arrays take at the least."""
    layouts = [problem.source, *between, problem.target]
    return sum(ideal_seconds(_leg(problem, one, two)) for one, two in pairwise(layouts))


def _leg(problem: Problem, source: Layout, target: Layout) -> Problem:
    """A part of the way as a problem of its own, on its own devices."""
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
    """Boxes some part of the way from R to M, in whole multiples of the shorter one per axis."""
    sizes = []
    for one, two in zip(read.largest, merged.largest, strict=True):
        shorter = max(min(one, two), 1)
        sizes.append(max(int(one ** (1 - part) * two**part + 1e-6) // shorter, 1) * shorter)
    return Grid.of(read.shape, sizes)


def _through(
    problem: Problem, boxes: Sequence[Grid], layouts: Sequence[Layout], target: Grid, *, tasks: Grid | None = None
) -> Plan:
    """One pass for each of the boxes: out of the array before, in pieces into the next; the last into the target."""
    chain = [problem.source, *layouts, problem.target]
    passes = []
    for place, box in enumerate(boxes):
        write = box.refine(chain[place + 1].objects) if place < len(layouts) else target
        passes.append(make_pass(chain[place], chain[place + 1], read=box, write=write, tasks=tasks or box))
    return _plan(problem, passes, layouts, interleaved=tasks is not None)


def _layouts(problem: Problem, read: Grid, merged: Grid) -> Iterator[Layout]:
    """Objects of the intermediate array: pieces, the shorter of both per axis (rechunker's), or whole M or R boxes.

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
    for order in islice(permutations(axes), MANY_ORDERS):
        for share in SHARES:
            box = _joined(blocks, limits, leg.memory_bytes * share // SHARES[0] // leg.target.itemsize, order)
            made = make_pass(leg.source, leg.target, read=box, write=blocks if writing else box, tasks=box)
            if fits(leg, made):
                yield box
                break


def _joined(blocks: Grid, limits: Sequence[int], elements: int, order: Sequence[int]) -> Grid:
    """Blocks joined along one axis after the other, as many as the limits and a number of elements allow."""
    factors = [1] * blocks.ndim
    largest = [max(n, 1) for n in blocks.largest]
    volume = prod(largest)
    for axis in order:
        factors[axis] = max(min(-(-limits[axis] // largest[axis]), elements // volume), 1)
        volume *= factors[axis]
    return Grid(tuple(axis.multiple(factor) for axis, factor in zip(blocks.axes, factors, strict=True)))


def _templates(problem: Problem, source: Grid, merged: Grid) -> list[Grid]:
    """Templates that hold scratch down: where source blocks and M boxes meet, and whatever the limit allows."""
    found = [Grid(tuple(map(common_cuts, source.axes, merged.axes)))]
    if problem.scratch_bytes is not None and problem.scratch_bytes < problem.source.nbytes:
        elements = problem.scratch_bytes // problem.source.itemsize
        orders = islice(permutations(reversed(range(merged.ndim))), MANY_ORDERS)
        found += [_joined(merged, problem.shape, elements, order) for order in orders]
    return [grid for grid in dict.fromkeys(found) if grid.count > 1]
