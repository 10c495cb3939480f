"""DRA's single pass: templates of whole target blocks, source blocks read once in each, in Max blocks or lazily.

::

    s=32×9, t=5×16        ┌──────────── template ──────────┐
    (elements)            │▓▓▓▓▓▓▓▓▓▓▓▓▓▓│░░░░              │   ▓  Max block in memory: whole source blocks
                          │▓▓▓▓▓▓▓▓▓▓▓▓▓▓│░░░░              │   ░  left over by it, kept for its neighbours
    LCM block 160×144     │──────────────┼────              │
    Max block 32×18       │░░░░░░░░░░░░░░░                  │   a source block on the border of two templates
    needs     1408        └────────────────────────────────┘   is read for both

R = Max blocks or lazy reads, W = O, T = template. Where memory holds what is left over in an LCM block, every
element is read once; with less memory templates shrink and blocks on their borders are read again. The three-phase
search finds the template, the exchange rule the order of the axes. A raw file too large for the budget is taken in
contiguous pieces, since any byte run of it can be moved.

Krishnamoorthy et al., "Layout transformation support for the disk resident arrays framework", sections 4.1, 4.2 and
5.3; the formulas are in `templates`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from reblock.cost.estimate import estimate
from reblock.errors import Refused
from reblock.model import Plan, Problem
from reblock.passes.family import fit
from reblock.passes.product import Ranking
from reblock.passes.templates import Shape, by_time, pieces, single_pass

#: Raw blocks are taken whole, or in contiguous pieces of the budget divided by these; in single elements at the worst.
PARTS = (1, 2, 8, 32, 128, 2048)


def propose(problem: Problem, *, key: Ranking | None = None) -> Plan:
    """The template that moves the data fastest inside the budget, or is the best one by a ranking of costs."""
    grids = dict.fromkeys(
        (pieces(problem.source, limit, writing=False), pieces(problem.target, limit, writing=True))
        for limit in (problem.memory_bytes // parts for parts in PARTS)
    )
    found = []
    for reads, writes in grids:
        try:
            found.append(single_pass(problem, reads=reads, writes=writes, key=key))
        except Refused:
            continue
    if not found:
        reads, writes = pieces(problem.source, 0, writing=False), pieces(problem.target, 0, writing=True)
        found = [single_pass(problem, reads=reads, writes=writes, key=key)]
    plans = [Plan("dra", problem.shape, (one,)) for one in found]
    return fit(min(plans, key=lambda plan: (key or by_time)(estimate(plan, problem))), problem)


def balance(
    counts: Sequence[int], writers: int, order: Sequence[int] | None = None, *, clamped: bool = True
) -> list[Shape]:
    """Numbers of target blocks per axis that one step may complete so that all of P writers are busy (Fig. 6).

    `counts` are the blocks along each axis of the array. Blocks are dealt to the writers round robin, `order` lists the
    axes from the fastest varying to the slowest (the paper's is the given one). Each answer is a box of blocks of which
    no two have the same writer. A factor longer than its axis is `clamped` to it: then fewer than P write, and such
    boxes come last.

    >>> balance((4, 4), 6, clamped=False), balance((4, 4), 6)
    ([(6, 1), (2, 3)], [(2, 3), (4, 1)])
    """
    steps = offsets(counts, writers, order)
    found: list[Shape] = []

    def deal(left: int, factors: Shape, axes: tuple[int, ...]) -> None:
        if left == 1:
            found.append(factors)
            return
        for axis in axes:
            factor = left // gcd(left, steps[axis])
            if factor > 1 and (len(axes) > 1 or factor == left):
                longer = (*factors[:axis], factor, *factors[axis + 1 :])
                deal(left // factor, longer, tuple(other for other in axes if other != axis))

    deal(writers, (1,) * len(counts), tuple(axis for axis, step in enumerate(steps) if step))
    if not clamped:
        return list(dict.fromkeys(found))
    boxes = dict.fromkeys(tuple(map(min, factors, counts)) for factors in found)
    return sorted(boxes, key=prod, reverse=True)


def offsets(counts: Sequence[int], writers: int, order: Sequence[int] | None = None) -> Shape:
    """How many writers on the next block along each axis is, modulo their number.

    >>> offsets((4, 4), 2), offsets((4, 4), 6)
    ((1, 0), (1, 4))
    """
    steps = [0] * len(counts)
    step = 1
    for axis in order if order is not None else range(len(counts)):
        steps[axis] = step % writers
        step *= counts[axis]
    return tuple(steps)
