"""Baseline: load one source block at a time and write each part of it where it belongs, at once.

::

    source ┌─────┬─────┐     R = T = I, W = I ∪ O: a source block is read in one piece and
           │  ┆  │     │     cut along every target boundary (┆) that crosses it. Nothing is
           │┄┄┼┄┄│     │     kept, so a target block is opened once for each source block it
           ├─────┼─────┤     meets, and a cut along the fastest axis costs a seek per row:
           │     │     │     O(A0·A1) of them in 3-D.
           └─────┴─────┘

Guédon, thesis, section 3.1.2 and eq. 2; drafts A and B ("baseline", "naive algorithm"). It assumes that a source block
fits in memory; where the objects are shards and do not, their units are the blocks.
"""

from __future__ import annotations

from reblock.errors import Refused
from reblock.geometry import Grid
from reblock.model import Plan, Problem
from reblock.passes.candidates import blocks_of, cheapest_refusal
from reblock.passes.family import fit, one_pass


def propose(problem: Problem) -> Plan:
    """R = T = I, W = I ∪ O."""
    refusals = []
    for blocks in blocks_of(problem.source):
        try:
            return fit(_plan(problem, blocks), problem)
        except Refused as refusal:
            refusals.append(refusal)
    raise cheapest_refusal("baseline", refusals)


def _plan(problem: Problem, blocks: Grid) -> Plan:
    pieces = blocks.refine(problem.target.objects.clipped())
    return one_pass("baseline", problem, read=blocks, write=pieces, tasks=blocks)
