"""Multiple: never seek inside the big file; load it in contiguous pieces and distribute each piece to its blocks.

::

    ┌────────────┐      R = T = contiguous rows of the array: part of a row, rows, slices,
    │▒▒▒▒▒▒▒▒▒▒▒▒│      several slices, as many as the budget holds. W = R ∪ O: every block
    │▒▒▒▒▒▒▒▒▒▒▒▒│      that a load touches gets its part at once, so blocks are opened
    │   ┆    ┆   │      again for each load: switching between files is what it pays for
    └────────────┘      reading in one go.

The loads are boxes; the paper's also stop in the middle of a row, which costs slightly less (598 instead of 608
seeks for 16³ in blocks of 4³ and 48 elements of memory). A load of several target blocks ends where one of them
does. Rows are taken along the source's order on disk or the target's (split and its dual, merge), whichever seeks
less. Where the source can only be read in whole units the rows are rows of units; where the target can only be
written in whole objects, rows of those.

Hayot-Sasson et al. (2017), as told in drafts A (I.E) and B.
"""

from __future__ import annotations

from functools import partial

from reblock.geometry import Axis, Grid
from reblock.model import Plan, Problem
from reblock.passes.candidates import best_plan, disk_orders
from reblock.passes.runs import longest_run


def propose(problem: Problem) -> Plan:
    """R = T = contiguous rows or slices, W = R ∪ O."""
    if not problem.target.partial_writes:
        cells, rows = problem.target.objects, True
    elif not problem.source.partial_reads:
        cells, rows = problem.source.units, True
    else:
        cells, rows = Grid(tuple(Axis.regular(n, 1) for n in problem.shape)), False
    loads = [
        partial(longest_run, "multiple", problem, cells.clipped(), order, rows=rows, shorten=problem.target.objects)
        for order in disk_orders(problem)
    ]
    return best_plan("multiple", problem, loads)
