"""Clustered: whole blocks, as many neighbours at once as the budget holds, so that they are contiguous in the big file.

::

    blocks          rows            slices           R = T = a run of blocks that grows along
    ┌──┬──┬──┐      ┌──┬──┬──┐      ┌──┬──┬──┐       the fastest axis on disk first:
    │▒▒│▒▒│  │      │▒▒│▒▒│▒▒│      │▒▒│▒▒│▒▒│       a few blocks, a row of blocks, several
    ├──┼──┼──┤      ├──┼──┼──┤      ├──┼──┼──┤       rows, a slice, several slices.
    │  │  │  │      │  │  │  │      │▒▒│▒▒│▒▒│
    └──┴──┴──┘      └──┴──┴──┘      └──┴──┴──┘

Split: the run is of target blocks, read from the big file in few contiguous pieces; each block is written whole (W
= O). Merge, its dual: the run is of source blocks, each read whole, written in few contiguous pieces (W = R ∪ O).
Where both sides have many blocks either will do, and so will a run that ends early, where blocks of both sides end;
the one with the fewest seeks is taken.

Hayot-Sasson et al., "Sequential algorithms to split and merge ultra-high resolution 3D images" (2017), as told in
drafts A (I.E, V.A) and B.
"""

from __future__ import annotations

from functools import partial

from reblock.model import Plan, Problem
from reblock.passes.candidates import best_plan, blocks_of, disk_orders
from reblock.passes.runs import longest_run


def propose(problem: Problem) -> Plan:
    """R = T = the longest run of blocks that fits, W = R ∪ O."""
    target = problem.target.objects.clipped()
    others = {target: problem.source.objects, **dict.fromkeys(blocks_of(problem.source), target)}
    runs = [
        partial(longest_run, "clustered", problem, cells, order, shorten=shorten)
        for cells, other in others.items()
        for order in disk_orders(problem)
        for shorten in (None, other)
    ]
    return best_plan("clustered", problem, runs)
