"""KEEP: read what seeks least, keep in memory what cannot be written in one piece yet.

::

    read 1   read 2            The part of read 1 that lies in a target block (┃) which read 2
    ┌───────┬┬──────┐          completes is kept until then, and the block is written whole:
    │       ┃▒      │          W_d = O_d on every axis where the read box is at least as long
    │       ┃▒      │          as a target block; on the others W_d = R_d ∪ O_d, nothing kept.
    └───────┴┴──────┘          T is the whole array, swept in the order of the disk.

The best read shape is r̂, in each dimension the least multiple of I_d that is not less than O_d: every source block
is read whole and every target block written whole, n_I + n_O seeks. If it fits it is taken. Else every candidate
shape (C_0, C_1, …, r̂_last), C_d ≤ r̂_d, is priced by the exact count, and the one with the fewest seeks that fits
the budget is taken. The thesis has C_d divide A_d; here also multiples and divisors of source and target blocks, so
that shapes which divide nothing are served; and where not even (1, …, 1, r̂_last) fits, the last dimension is
shortened too. Its F0–F7 write blocks and the merging of Table 2 are the product grid W above, and its simulated
peak of memory is the exact recursion of `reblock.cost.memory`.

`keep-printed` chooses by eq. 3 as it stands in the thesis, to reproduce its tables ::

    s = SEEKS(R, I) + SEEKS(W, O) + c_0(R, I)·c_1(R, I)·c_2(R, I) + n_W
                                    ───────────┬───────────────
        meant as the openings of source blocks ┘  but c counts pieces of *cut* blocks only, so the product is zero
                                                  wherever one dimension is uncut, and openings cost nothing

With it Table 4 comes out as printed (config 2 under 4 GB: 500,700,700, which costs 3143 seeks, where 350,700,700 costs
2568). The plan's cost is still the exact count.

Guédon, "A heuristic to repartition large multi-dimensional arrays with reduced disk seeking" (2020), section 3.2,
Algorithm 2, with its eq. 3 corrected: the openings of source blocks are Π |R_d ∪ I_d|.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product
from math import prod

from reblock.errors import Refused
from reblock.geometry import Grid, Overlap, overlap
from reblock.model import Layout, Pass, Plan, Problem
from reblock.passes.candidates import (
    Choice,
    Rank,
    box_bytes,
    candidate,
    choice,
    count_seeks,
    disk_orders,
    needs,
    plan_of,
    too_large,
)
from reblock.passes.cuts import aggregate, read_cuts

#: Most candidates that one search ranks.
MAX_CANDIDATES = 1500

Ranking = Callable[[Problem, Pass], Rank]


def propose(problem: Problem, *, name: str = "keep", rank: Ranking = count_seeks) -> Plan:
    """Algorithm 2: r̂ where it fits, else the best candidate read shape by a rank."""
    orders = disk_orders(problem)
    target = problem.target.objects.axes
    largest = [
        aggregate(source.clipped(), stored.largest)
        for source, stored in zip(problem.source.objects.axes, target, strict=True)
    ]

    def options(axis: int, most: int) -> list[Choice]:
        reads = dict.fromkeys((largest[axis], *read_cuts(problem, axis, largest[axis].largest, most)))
        whole = not problem.target.partial_writes
        return [
            choice(problem, axis, read, keep=whole or read == largest[axis] or read.largest >= target[axis].largest)
            for read in reads
        ]

    best = [choice(problem, axis, read, keep=True) for axis, read in enumerate(largest)]
    plan, least = _first_fit(name, problem, [best], orders)
    fastest = {order[-1] for order in orders if order}
    for fixed in (fastest, set[int]()):
        if plan is not None:
            return plan
        free = [axis for axis in range(len(largest)) if axis not in fixed]
        most = max(int(MAX_CANDIDATES ** (1 / max(len(free), 1))), 3)
        lists = [options(axis, most) if axis in free else [best[axis]] for axis in range(len(largest))]
        # Ranks do not depend on the budget, so they are kept for proposals under other budgets.
        ranked = _ranked(replace(problem, memory_bytes=1), tuple(map(tuple, lists)), rank)
        plan, least = _first_fit(name, problem, ranked, orders)
    if plan is None:
        raise too_large(problem, least or 0, "the smallest candidate read shape")
    return plan


@lru_cache(maxsize=8)
def _ranked(problem: Problem, lists: tuple[tuple[Choice, ...], ...], rank: Ranking) -> list[tuple[Choice, ...]]:
    """Candidates by rank, then in the thesis' order; without those that are too irregular to be counted."""
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


def _first_fit(
    name: str, problem: Problem, ranked: Iterable[Sequence[Choice]], orders: Sequence[tuple[int, ...]]
) -> tuple[Plan | None, int | None]:
    """The plan of the first candidate that fits in one of the orders, and the least memory that a candidate needs."""
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
    """Bytes that a pass needs; None where that cannot be counted."""
    try:
        return needs(problem, made)
    except Refused as refusal:
        return refusal.needs_memory_bytes


# -------------------------------------------------------------------- as printed
def printed_seeks(problem: Problem, made: Pass) -> Rank:
    """Eq. 3 as printed."""
    reads, writes = _pairs(made.read, problem.source), _pairs(made.write, problem.target)
    return (_inside(reads) + _inside(writes) + prod(pair.cut for pair in reads) + made.write.count,)


def _pairs(boxes: Grid, layout: Layout) -> list[Overlap]:
    """How boxes and objects meet along each axis, in the order on disk."""
    return [overlap(boxes.axes[axis], layout.objects.axes[axis]) for axis in layout.order]


def _inside(pairs: list[Overlap]) -> int:
    """SEEKS of the thesis: contiguous pieces of cut blocks."""
    return sum(
        prod(outer.touched for outer in pairs[:place]) * pair.cut * prod(inner.whole for inner in pairs[place + 1 :])
        for place, pair in enumerate(pairs)
    )


#: KEEP with the printed formula, a strategy of its own.
VARIANTS = {"keep-printed": partial(propose, name="keep-printed", rank=printed_seeks)}
