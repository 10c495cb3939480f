"""Naive split: read each target block straight from the source, write it, and keep nothing.

::

    source ┌──┬──┬──┐     R = W = T = O: one task per target block, each block gathered
           │ ┌┼─┐│  │     from every source block it meets. Nothing is carried from one
           ├─┼┼─┼┼──┤     block to the next, so it needs the memory of one block and reads
           │ └┼─┘│  │     source blocks as often as they are met.
           └──┴──┴──┘

Guédon et al., drafts A and B ("naive"); whole target units in the smallest memory that any plan can have.
"""

from __future__ import annotations

from reblock.model import Plan, Problem
from reblock.passes.family import fit, one_pass


def propose(problem: Problem) -> Plan:
    """R = W = T = O."""
    blocks = problem.target.objects.clipped()
    return fit(one_pass("naive", problem, read=blocks, write=blocks, tasks=blocks), problem)
