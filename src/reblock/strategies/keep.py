"""KEEP: read the shape that seeks least, and keep in memory the elements that cannot be written in one piece yet.

::

    read 1   read 2            The part of read 1 that lies in a target block (┃) which read 2
    ┌───────┬┬──────┐          completes is kept until then, and the block is written whole:
    │       ┃▒      │          W_d = O_d on every axis where the read box is at least as long
    │       ┃▒      │          as a target block; on the others W_d = R_d ∪ O_d, nothing kept.
    └───────┴┴──────┘          T is the whole array, swept in the order of the disk.

The best read shape is r̂, in each dimension the least multiple of I_d that is not less than O_d: every source block
is read whole and every target block written whole, n_I + n_O seeks. If it fits it is taken. Else all candidate shapes
(C_0, C_1, …, r̂_last) are tried, where C_d divides A_d and C_d ≤ r̂_d, and the one with the fewest seeks that fits the
budget is taken. Candidates come by decreasing C_1, then by decreasing C_0; the first of equally good ones wins. With
`stop_after=10` the search ends, as in the authors' program, after ten candidates in a row that fit and gain nothing.

Beyond the thesis: multiples and divisors of source and target blocks are candidates too, so that shapes which divide
nothing are served; and where not even (1, …, 1, r̂_last) fits, the last dimension is shortened as well. The F0–F7 write
blocks and the merging of Table 2 are the product grid W above, and the simulated peak of memory is the exact recursion
of `reblock.cost.memory`.

`keep-printed` chooses among the thesis' own candidates by eq. 3 as it is printed, with the stop after ten, to reproduce
Table 4 ::

    s = SEEKS(R, I) + SEEKS(W, O) + c_0(R, I)·c_1(R, I)·c_2(R, I) + n_W
                                    ───────────┬───────────────
        meant as the openings of source blocks ┘  but c counts pieces of *cut* blocks only, so the product is zero
                                                  wherever one dimension is uncut, and openings cost nothing

For config 2 under 4 GB it chooses 500,700,700, which costs 3143 seeks, where 350,700,700 costs 2568. The plan's cost is
still the exact count.

Guédon, "A heuristic to repartition large multi-dimensional arrays with reduced disk seeking" (2020), section 3.2,
Algorithm 2, with eq. 3 corrected: the openings of source blocks are Π |R_d ∪ I_d|.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from math import prod

import numpy as np

from reblock.errors import Refused
from reblock.geometry import Axis
from reblock.geometry.axis import Ints
from reblock.model import Pass, Plan, Problem
from reblock.passes.candidates import disk_orders, needs, plan_of, too_large
from reblock.passes.cuts import aggregate, countable, divisors, read_cuts, spread
from reblock.passes.points import Point, make_point, rules_of, sides_of
from reblock.passes.product import Floats, Product

#: Most candidates that are ranked; longer lists are thinned along every axis.
MAX_CANDIDATES = 1 << 17
#: A need that no candidate has.
NO_LIMIT = 1 << 200
#: Cuts per axis beyond the thesis' list, and candidates whose need is counted for a refusal.
EXTRA_CUTS, MAX_NEEDS = 36, 64

#: Counts seeks of all candidates: the first column decides, the others break ties.
Count = Callable[[Product], list[Floats]]


def exact_seeks(product: Product) -> list[Floats]:
    """Seeks, then bytes, by the exact model."""
    reads = product.by_runs or product.by_units
    return [reads.seeks + product.writes.seeks, reads.bytes + product.writes.bytes]


def printed_seeks(product: Product) -> list[Floats]:
    """Eq. 3 as printed."""
    reads = product.by_runs or product.by_units
    cut = product.times(lambda p: p.runs.cut)
    return [reads.inside + product.writes.inside + cut + product.times(lambda p: p.write.count)]


def propose(
    problem: Problem,
    *,
    name: str = "keep",
    count: Count = exact_seeks,
    stop_after: int | None = None,
    printed: bool = False,
) -> Plan:
    """Algorithm 2: r̂ where it fits, else the candidate read shape with the fewest seeks.

    `count` counts the seeks of candidates. `stop_after` ends the search after that many candidates in a row that fit
    and gain nothing. `printed` tries only the thesis' candidates, as far as one of them fits.
    """
    orders = disk_orders(problem)
    axes = range(len(problem.shape))
    best = [_largest_read(problem, axis) for axis in axes]
    fastest = {order[-1] for order in orders if order}
    smallest: list[int] = []
    for fixed, extra in (
        (set(axes), 0),
        *([(fastest, 0)] if printed else []),
        (fastest, EXTRA_CUTS),
        (set[int](), EXTRA_CUTS),
    ):
        search = _Search(problem, _lists(problem, best, fixed, extra), orders)
        found = search.in_order(count, stop_after) if stop_after else search.by_rank(count)
        if found is not None:
            return plan_of(name, problem, found)
        smallest.append(search.least_need())
    raise too_large(problem, min(smallest), "the smallest candidate read shape")


def _largest_read(problem: Problem, axis: int) -> Axis:
    """r̂ along one axis."""
    source, target = problem.source.objects.axes[axis], problem.target.objects.axes[axis]
    return aggregate(source.clipped(), target.largest)


def _reads(problem: Problem, axis: int, longest: Axis, extra: int) -> list[Axis]:
    """Candidate cuts along one axis, the longest first: divisors of the axis, and others worth trying."""
    target, limit = problem.target.objects.axes[axis].clipped(), longest.largest
    thesis = (Axis.regular(longest.length, length) for length in divisors(longest.length, limit))
    found = dict.fromkeys((longest, *(cut for cut in thesis if countable(cut, target))))
    if extra:
        found.update(dict.fromkeys(read_cuts(problem, axis, limit, extra)))
    return sorted(found, key=lambda cut: -cut.largest)


def _lists(problem: Problem, best: Sequence[Axis], fixed: set[int], extra: int) -> list[list[Axis]]:
    """Candidate cuts of every axis, with fewer beyond the thesis' list where their product has too many candidates.

    The thesis' own list is thinned only where it alone has too many.
    """
    lists = [[read] if axis in fixed else _reads(problem, axis, read, extra) for axis, read in enumerate(best)]
    if prod(map(len, lists)) <= MAX_CANDIDATES:
        return lists
    if extra:
        return _lists(problem, best, fixed, extra * 2 // 3)
    while prod(map(len, lists)) > MAX_CANDIDATES:
        longest = max(range(len(lists)), key=lambda axis: len(lists[axis]))
        lists[longest] = spread(lists[longest], max(len(lists[longest]) * 3 // 4, 2))
    return lists


class _Search:
    """Candidates in the thesis' order, and the search among them."""

    def __init__(self, problem: Problem, reads: Sequence[Sequence[Axis]], orders: Sequence[tuple[int, ...]]) -> None:
        self.problem, self.orders = problem, orders
        self.product = Product(problem, [_points(problem, axis, cuts) for axis, cuts in enumerate(reads)])
        bounds = [self.product.least_in(order) for order in orders]
        self._least = self._listed(reduce(np.minimum, bounds))

    def by_rank(self, count: Count) -> Pass | None:
        """The first candidate by seeks that fits; of equally good ones the first in the thesis' order."""
        room = np.flatnonzero(self._least <= self.problem.memory_bytes)
        columns = [self._listed(column)[room] for column in count(self.product)]
        ranked = room[np.lexsort(columns[::-1])]
        return next(self._fitting(ranked), None)

    def in_order(self, count: Count, stop_after: int) -> Pass | None:
        """The best candidate in the thesis' order, until `stop_after` in a row that fit have gained nothing."""
        columns = [self._listed(column) for column in count(self.product)]
        best: tuple[tuple[float, ...], Pass] | None = None
        tries = 0
        for place in np.flatnonzero(self._least <= self.problem.memory_bytes).tolist():
            made = next(self._fitting([place]), None)
            if made is None:
                continue
            rank = tuple(float(column[place]) for column in columns[:1])
            if best is None or rank < best[0]:
                best, tries = (rank, made), 0
                continue
            tries += 1
            if tries == stop_after:
                break
        return best[1] if best else None

    def least_need(self) -> int:
        """The memory that the thriftiest candidates need."""
        found = NO_LIMIT
        for place in np.argsort(self._least, kind="stable")[:MAX_NEEDS].tolist():
            if self._least[place] >= found:
                break
            found = min([found, *(need for _, need in self._needs(place))])
        return found

    def _fitting(self, places: Ints | Sequence[int]) -> Iterator[Pass]:
        """The candidates among some places that fit in one of the orders."""
        for place in places:
            for made, need in self._needs(int(place)):
                if need <= self.problem.memory_bytes:
                    yield made
                    break

    def _needs(self, place: int) -> Iterator[tuple[Pass, int]]:
        """One candidate in every order, with the memory that it needs."""
        index = np.unravel_index(place, self._shape)
        by_axis = dict(zip(self._axes, index, strict=True))
        for order in self.orders:
            try:
                where = [int(by_axis[axis]) for axis in range(len(by_axis))]
                made = self.product.make(where, order, by_units=not self.problem.source.partial_reads)
                yield made, needs(self.problem, made)
            except Refused as refusal:
                if refusal.needs_memory_bytes is not None:
                    yield made, refusal.needs_memory_bytes

    @property
    def _axes(self) -> tuple[int, ...]:
        """Axes in the thesis' order: the fastest on disk changes last, the slowest first."""
        return self.orders[0][::-1]

    @property
    def _shape(self) -> tuple[int, ...]:
        return tuple(self.product.shape[axis] for axis in self._axes)

    def _listed(self, column: Floats) -> Floats:
        """A value of every candidate, in the thesis' order."""
        listed: Floats = np.broadcast_to(column, self.product.shape).transpose(self._axes).ravel()
        return listed


def _points(problem: Problem, axis: int, reads: Sequence[Axis]) -> list[Point]:
    """Points of one axis: kept where reads are as long as target blocks, or where those can only be written whole."""
    sides, rules = sides_of(problem, axis), rules_of(problem)
    target, whole = sides.target.clipped(), Axis.single(problem.shape[axis])
    best = _largest_read(problem, axis)
    found = []
    for read in reads:
        kept = not problem.target.partial_writes or read == best or read.largest >= target.largest
        try:
            found.append(make_point(sides, rules, read, target if kept else read.refine(target), whole))
        except Refused:
            # Too irregular to be counted.
            continue
    return found


#: KEEP as the thesis printed it.
VARIANTS = {"keep-printed": partial(propose, name="keep-printed", count=printed_seeks, stop_after=10, printed=True)}
