"""Templates: the arithmetic of DRA's layout transformation, and the single pass that follows from it.

For source blocks s and target blocks t, per axis ::

    s  ├───────┼───────┼───────┼───────┤        LCM block   where both have a cut: nothing is carried past it
    t  ├───────────┼─────────┬─┼───────┤        Max block   ⌈max(s, t)/s⌉·s: enough to finish one target block
       ├─ Max ─────────┤ U ├─┤                  U           min(s, t) − gcd(s, t): most that is left over

A template is a number of target blocks per axis, at most an LCM block. Inside it source blocks are read once, in
units of the Max block, and what cannot be written yet waits in one buffer per axis: for the axis traversed i-th
the template's length along the axes traversed before, U along itself and Max along those after. Nothing is kept
between templates, so a source block on their border is read again: smaller templates trade reads for memory.

The small functions are the paper's formulas, in elements, on plain block lengths. `single_pass` is the same
search on real layouts — irregular axes, crops, any memory model — with exact costs in place of the bounds.

Krishnamoorthy, Baumgartner, Lam, Nieplocha, Sadayappan, "Layout transformation support for the disk resident
arrays framework", with the errata in papers/README.md: U needs lazy reads (just enough source blocks to finish
one more target block), and Max is the formula's, not the text's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import gcd, inf, isqrt, lcm, log, prod

from reblock.cost.estimate import bare_cost, moving_seconds
from reblock.cost.seeks import traffic
from reblock.errors import Refused
from reblock.geometry import Grid
from reblock.model import Access, Cost, Layout, Pass, Plan, Problem
from reblock.passes.common_cuts import common_cuts, grouped, lazy, most_blocks
from reblock.passes.family import needed_bytes
from reblock.passes.product import Ranking
from reblock.units import format_size

Shape = tuple[int, ...]

#: The most templates per LCM block, beside single target blocks, that are tried along one axis.
PARTS = (*range(1, 17), 24, 32, 48, 64, 96, 128, 192, 256)

#: The most kinds of templates whose memory is counted; a template grid with more is not tried.
MANY_KINDS = 400

#: The most blocks that a read axis may list; an axis with more is replaced by a simpler one.
MANY_BLOCKS = 4096


# ------------------------------------------------------------------ the paper's formulas
def lcm_block(s: Sequence[int], t: Sequence[int], shape: Sequence[int] | None = None) -> Shape:
    """The smallest box of whole source and whole target blocks, or the array if that is shorter.

    >>> lcm_block((32, 9), (5, 16))
    (160, 144)
    """
    whole = tuple(map(lcm, s, t))
    return whole if shape is None else tuple(map(min, whole, shape))


def max_block(s: Sequence[int], t: Sequence[int]) -> Shape:
    """Source blocks that always hold enough to finish a target block.

    >>> max_block((32, 9), (5, 16))
    (32, 18)
    """
    return tuple(-(-max(a, b) // a) * a for a, b in zip(s, t, strict=True))


def unused_bound(s: Sequence[int], t: Sequence[int]) -> Shape:
    """The most elements left over along each axis, if reads are lazy.

    >>> unused_bound((32, 9), (5, 16))
    (4, 8)
    """
    return tuple(min(a, b) - gcd(a, b) for a, b in zip(s, t, strict=True))


def traversal_order(unused: Sequence[int], maximum: Sequence[int], template: Sequence[int]) -> Shape:
    """Axes from the one traversed first (the innermost) to the last, for the smallest sum of buffers.

    Exchanging two neighbours i, j changes the sum only by U_i·M_j + T_i·U_j, so i goes first where that is the
    smaller: the axes are sorted by (T − M)/U. Ties keep C order.

    >>> traversal_order((4, 8), (32, 18), (160, 144))
    (1, 0)
    """

    def ratio(axis: int) -> float | Fraction:
        room = template[axis] - maximum[axis]
        return Fraction(room, unused[axis]) if unused[axis] else inf * room if room else -inf

    return tuple(sorted(range(len(unused)), key=lambda axis: (ratio(axis), -axis)))


def memory_cost(s: Sequence[int], t: Sequence[int], template: Sequence[int]) -> int:
    """Elements that a template needs: the buffers of unused data and a Max block (Fig. 2).

    >>> memory_cost((32, 9), (5, 16), (160, 144)), memory_cost((32, 9), (5, 16), (160, 16))
    (1408, 896)
    """
    unused, maximum = unused_bound(s, t), max_block(s, t)
    order = traversal_order(unused, maximum, template)
    cost = prod(maximum)
    for place, axis in enumerate(order):
        before = prod(template[other] for other in order[:place])
        cost += before * unused[axis] * prod(maximum[other] for other in order[place + 1 :])
    return cost


def io_cost(
    s: Sequence[int], t: Sequence[int], template: Sequence[int], shape: Sequence[int] | None = None
) -> Fraction:
    """Elements read per element of the array; exact if the template divides the LCM block.

    >>> io_cost((32, 9), (5, 16), (160, 16))
    Fraction(3, 2)
    """
    whole = lcm_block(s, t, shape)
    return prod(
        (Fraction(a * (-(-n // k) - 1) + n, n) for a, k, n in zip(s, template, whole, strict=True)), start=Fraction(1)
    )


def choose_template(
    s: Sequence[int], t: Sequence[int], memory: int, shape: Sequence[int] | None = None
) -> Shape | None:
    """The template that reads least within a memory of this many elements (Fig. 3); None if no single pass fits.

    >>> choose_template((32, 9), (5, 16), 1408), choose_template((32, 9), (5, 16), 900)
    ((160, 144), (160, 16))
    """
    whole = lcm_block(s, t, shape)

    def template(counts: Shape) -> Shape:
        return tuple(min(k * b, n) for k, b, n in zip(counts, t, whole, strict=True))

    counts = search(
        [range(1, -(-n // b) + 1) for n, b in zip(whole, t, strict=True)],
        lambda counts: memory_cost(s, t, template(counts)) <= memory,
        lambda counts: float(io_cost(s, t, template(counts), shape)),
    )
    return None if counts is None else template(counts)


def geometric_mean(s: Sequence[int], t: Sequence[int]) -> Shape:
    """B1: the intermediate block halfway between s and t.

    >>> geometric_mean((32, 9), (5, 16))
    (12, 12)
    """
    return tuple(max(isqrt(a * b), 1) for a, b in zip(s, t, strict=True))


def geometric_thirds(s: Sequence[int], t: Sequence[int]) -> tuple[Shape, Shape]:
    """B2 and B3: intermediate blocks a third and two thirds of the way.

    >>> geometric_thirds((1, 64), (64, 1))
    ((4, 16), (16, 4))
    """
    pairs = list(zip(s, t, strict=True))
    return tuple(_cube_root(a * a * b) for a, b in pairs), tuple(_cube_root(a * b * b) for a, b in pairs)


def _cube_root(value: int) -> int:
    root: int = round(value ** (1 / 3))
    while root * root * root > value:
        root -= 1
    while (root + 1) ** 3 <= value:
        root += 1
    return max(root, 1)


# ------------------------------------------------------------------ the three-phase search
def shrink(choices: Sequence[Sequence[int]], feasible: Callable[[Shape], bool]) -> Shape | None:
    """Phase one: remove the same number of target blocks from every axis, as few as make the template feasible."""

    def reduced(by: int) -> Shape:
        return tuple(_at_most(options, options[-1] - by) for options in choices)

    low, high = 0, max((options[-1] for options in choices), default=1) - 1
    if not feasible(reduced(high)):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if feasible(reduced(middle)) else (middle + 1, high)
    return reduced(high)


def grow(
    counts: Shape, choices: Sequence[Sequence[int]], feasible: Callable[[Shape], bool], order: Sequence[int]
) -> Shape:
    """Phase two: make one axis after the other as long as possible, until none can grow."""
    for axis in order:
        options = [k for k in choices[axis] if k >= counts[axis]]
        low, high = 0, len(options) - 1
        while low < high:
            middle = (low + high + 1) // 2
            longer = _with(counts, axis, options[middle])
            low, high = (middle, high) if feasible(longer) else (low, middle - 1)
        counts = _with(counts, axis, options[low])
    return counts


def search(
    choices: Sequence[Sequence[int]], feasible: Callable[[Shape], bool], cost: Callable[[Shape], float]
) -> Shape | None:
    """Fig. 3: shrink the LCM block until it fits, grow it to the border, then go down along the border.

    `choices` are the allowed numbers of target blocks per axis, ascending. Beside the paper's start, templates that are
    as long as possible along one axis are tried. A step down makes one axis longer, shortens the others as far as
    memory requires, and lets them grow again.
    """
    counts = shrink(choices, feasible)
    if counts is None or counts == tuple(options[-1] for options in choices):
        return counts
    axes = tuple(reversed(range(len(choices))))
    smallest = tuple(options[0] for options in choices)
    starts = [grow(counts, choices, feasible, axes)]
    starts += [grow(smallest, choices, feasible, (axis, *(d for d in axes if d != axis))) for axis in axes]
    counts = min(starts, key=cost)
    for _ in choices:
        steps = [found for axis in axes if (found := _step(counts, axis, choices, feasible))]
        best = min(steps, key=cost, default=counts)
        if cost(best) >= cost(counts):
            break
        counts = best
    return counts


def _step(
    counts: Shape, axis: int, choices: Sequence[Sequence[int]], feasible: Callable[[Shape], bool]
) -> Shape | None:
    longer = [k for k in choices[axis] if k > counts[axis]]
    if not longer:
        return None
    counts = _with(counts, axis, longer[0])
    limits = [[counts[d]] if d == axis else [k for k in options if k <= counts[d]] for d, options in enumerate(choices)]
    less = shrink(limits, feasible)
    return grow(less, choices, feasible, [d for d in reversed(range(len(choices))) if d != axis]) if less else None


def _at_most(options: Sequence[int], limit: int) -> int:
    return options[max(bisect_right(options, limit) - 1, 0)]


def _with(counts: Shape, axis: int, count: int) -> Shape:
    return (*counts[:axis], count, *counts[axis + 1 :])


# ------------------------------------------------------------------ the same on real axes
def pieces(layout: Layout, limit_bytes: int, *, writing: bool) -> Grid:
    """The blocks of a layout; if byte runs can be moved, contiguous parts of a limited number of bytes."""
    blocks = (layout.objects if writing else layout.units).clipped()
    possible = layout.partial_writes if writing else layout.partial_reads
    sizes, limit = list(blocks.largest), limit_bytes // layout.itemsize
    if not possible or prod(sizes) <= limit:
        return blocks
    for axis in layout.order:
        inner = prod(sizes) // sizes[axis]
        sizes[axis] = max(min(sizes[axis], limit // inner), 1)
        if prod(sizes) <= limit:
            break
    return blocks.refine(Grid.of(layout.shape, sizes))


# ------------------------------------------------------------------ a single pass
def single_pass(problem: Problem, *, reads: Grid, writes: Grid, looks: int = 120, key: Ranking | None = None) -> Pass:
    """The best pass over templates of `writes` blocks inside the budget, by exact cost.

    All templates write the same, so only what they read is compared: by time, or by a ranking of costs. At most `looks`
    templates are tried, fewer if they are of many kinds. If none fits, Refused names the memory of the smallest
    template.
    """
    looked = 0
    accesses = (Access.RUNS, Access.UNITS) if problem.source.partial_reads else (Access.UNITS,)
    meetings = tuple(map(common_cuts, reads.axes, writes.axes))
    most = [most_blocks(blocks, meet) for blocks, meet in zip(writes.axes, meetings, strict=True)]
    lazies = tuple(map(lazy, reads.axes, writes.axes))

    @cache
    def made(counts: Shape) -> Pass:
        grid = Grid(tuple(map(grouped, writes.axes, meetings, counts)))
        return _template_pass(problem, reads=Grid(lazies), blocks=reads, writes=writes, tasks=grid)

    @cache
    def feasible(counts: Shape) -> bool:
        nonlocal looked
        # A template with many listed blocks, or of many kinds, counts as several plain ones.
        looked += 1 + task_kinds(made(counts)) // 4 + _listed(made(counts)) // MANY_BLOCKS
        return looked <= looks and fits(problem, made(counts))

    def reading(found: Pass) -> tuple[float, float]:
        side = traffic(found.reads, problem.source, found.read_access)
        seconds = float(moving_seconds(side, problem.device, problem.device.read_bytes_per_second))
        if key is None:
            return seconds, side.bytes
        first, second, *_ = key(bare_cost(side.seeks, side.bytes, 0, seconds))
        return first, second

    @cache
    def cost(counts: Shape) -> float:
        return min(reading(replace(made(counts), read_access=access))[0] for access in accesses)

    counts = search([_choices(n) for n in most], feasible, cost)
    if counts is None:
        raise _too_small(problem, made((1,) * writes.ndim))
    found = made(counts)
    groups = (-(-max(s, t) // max(s, 1)) for s, t in zip(reads.largest, writes.largest, strict=True))
    wide = Grid(tuple(map(grouped, reads.axes, meetings, groups)))
    others = [found, _template_pass(problem, reads=wide, blocks=reads, writes=writes, tasks=found.tasks)]
    # The first, lazy one holds least.
    found, *others = [replace(other, read_access=access) for access in accesses for other in others]
    return min([found, *(other for other in others if fits(problem, other))], key=reading)


def _choices(most: int) -> list[int]:
    """Target blocks per template to try: one, or a number that cuts an LCM block into a few equal parts."""
    return sorted({1, *(-(-most // parts) for parts in PARTS)} - {0})


def _template_pass(problem: Problem, *, reads: Grid, blocks: Grid, writes: Grid, tasks: Grid) -> Pass:
    """A pass over templates, in the order of the exchange rule.

    Along an axis where a template is one target block, nothing can be left over, so all of it is read at once.
    """
    alone = [task.count == block.count for task, block in zip(tasks.axes, writes.axes, strict=True)]
    read = Grid(tuple(t if one else r for t, r, one in zip(tasks.axes, reads.axes, alone, strict=True)))
    # A write buffer is allocated as a whole, so leftover elements cost a whole target block, not U.
    unused = unused_bound(blocks.largest, writes.largest)
    if not problem.held:
        unused = tuple(t if u else 0 for u, t in zip(unused, writes.largest, strict=True))
    unused = tuple(0 if one else u for u, one in zip(unused, alone, strict=True))
    order = traversal_order(unused, read.largest, tasks.largest)[::-1]
    return make_pass(problem.source, problem.target, read=read, write=writes, tasks=tasks, order=order)


def make_pass(
    source: Layout, target: Layout, *, read: Grid, write: Grid, tasks: Grid, order: Sequence[int] | None = None
) -> Pass:
    """A pass whose write boxes are inside target objects: written whole if they fill them, else as byte runs."""
    order = tuple(order) if order is not None else tuple(range(target.ndim))
    made = Pass(read, write, tasks, order, Access.RUNS if source.partial_reads else Access.UNITS, Access.RUNS)
    return replace(made, write_access=Access.UNITS) if made.writes.counts == target.objects.counts else made


def task_kinds(made: Pass) -> int:
    """An upper bound on the number of kinds of tasks of a pass."""
    kinds = 1
    for read, write, task in zip(made.read.axes, made.write.axes, made.tasks.axes, strict=True):
        if read != task:
            turns = lcm(read.period or 1, write.period or 1, task.period or 1) // (task.period or 1)
            kinds *= min(task.count, len(task.head) + len(task.tail) + 2 * len(task.pattern) * turns)
    return kinds


def _listed(made: Pass) -> int:
    """The number of blocks that the grids of a pass list."""
    grids = (made.reads, made.writes, made.tasks)
    return sum(len(axis.head) + len(axis.pattern) + len(axis.tail) for grid in grids for axis in grid.axes)


def fits(problem: Problem, made: Pass) -> bool:
    """Whether a pass fits the budget; also False if its templates are of too many kinds to count their memory."""
    if task_kinds(made) > MANY_KINDS:
        return False
    try:
        return needed_bytes(Plan("", problem.shape, (made,)), problem) <= problem.memory_bytes
    except Refused:
        return False


def _too_small(problem: Problem, made: Pass) -> Refused:
    needs = needed_bytes(Plan("", problem.shape, (made,)), problem)
    return Refused(
        f"the smallest template needs {format_size(needs)} ({needs} bytes), "
        f"the budget is {format_size(problem.memory_bytes)}",
        needs_memory_bytes=needs,
    )


def by_time(cost: Cost) -> tuple[float, ...]:
    """Ranks by seconds first, to the accuracy of a prediction (1%), then by bytes, seeks and memory."""
    return round(log(cost.seconds or 1), 2), cost.bytes_read + cost.bytes_written, cost.seeks, cost.peak_bytes
