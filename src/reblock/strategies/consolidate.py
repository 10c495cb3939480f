"""Consolidation as in rechunker: merge chunks up to the budget on both sides, with an intermediate array between them.

::

    source chunks        read chunks           intermediate          write chunks         target chunks
    ┌┬┬┬┬┬┬┬┐            ┌───┬───┐             ┌───┬───┐             ┌───────┐            ┌───────┐
    │││││││││   merged   │   │   │   cut by    ├───┼───┤   gathered  │       │   cut by   ├───────┤
    │││││││││  ───────▶  │   │   │  ───────▶   ├───┼───┤  ────────▶  ├───────┤  ───────▶  ├───────┤
    └┴┴┴┴┴┴┴┘            └───┴───┘             └───┴───┘             └───────┘            └───────┘

Target chunks are merged along one axis after the other, from the last to the first, as long as the result fits: the
write chunks. Source chunks are merged likewise, but along an axis only up to the write chunk: the read chunks. If both
are equal, one pass copies write chunk by write chunk. Otherwise each read chunk is written to an intermediate array
whose chunks are the shorter of both along each axis, and each write chunk is gathered from there. Every copy is a task
of its own (R = T = merged chunks), and nothing is carried from one to the next.

The idea is rechunker's (R. Abernathey, T. Augspurger, J. Hamman and others, pangeo-data), "Push / Pull Consolidated".
Ours differs where it must: the budget covers buffers and units in flight and not only chunks, chunks may be irregular,
and a merged chunk that does not divide the other cuts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from reblock.cost.estimate import estimate, ideal_seconds
from reblock.errors import Refused
from reblock.geometry import Grid
from reblock.model import Layout, Plan, Problem
from reblock.passes.family import fit, needed_bytes
from reblock.passes.templates import make_pass
from reblock.units import format_size

#: Shares of the budget, in 64ths, that a merged chunk may take; rechunker counts no other memory.
SHARES = (64, 60, 56, 48, 40, 32, 24, 16, 8, 4, 2, 1)

#: Its plans have one pass or two.
least_seconds = ideal_seconds


def propose(problem: Problem) -> Plan:
    """One copy between equal merged chunks, or two through an intermediate array."""
    plans = (
        _plan(problem, problem.memory_bytes * share // SHARES[0] // max(problem.target.itemsize, 1)) for share in SHARES
    )
    plan = next((plan for plan in plans if needed_bytes(plan, problem) <= problem.memory_bytes), None)
    if plan is None:
        plan = _plan(problem, 0)
    fitted = fit(plan, problem)
    _check_scratch(plan, problem)
    return fitted


def _plan(problem: Problem, elements: int) -> Plan:
    """The plan whose merged chunks have at most this many elements, or are single chunks."""
    target, source = problem.target.objects.clipped(), problem.source.units.clipped()
    write = merge(target, elements, problem.shape)
    limits = [max(a, b) for a, b in zip(write.largest, source.largest, strict=True)]
    read = merge(source, elements, limits)
    if read == write:
        made = make_pass(problem.source, problem.target, read=write, write=target, tasks=write)
        return Plan("consolidate", problem.shape, (made,))
    shorter = Grid(tuple(a if a.largest <= b.largest else b for a, b in zip(read.axes, write.axes, strict=True)))
    layout = Layout.raw(problem.source.dtype, shorter)
    push = make_pass(problem.source, layout, read=read, write=shorter.refine(read), tasks=read)
    pull = make_pass(layout, problem.target, read=write, write=target, tasks=write)
    return Plan("consolidate", problem.shape, (push, pull), (layout,))


def merge(chunks: Grid, elements: int, limits: Sequence[int]) -> Grid:
    """Chunks joined from the last axis to the first, each as far as the limits and the number of elements allow.

    >>> str(merge(Grid.of((40, 40), (1, 10)), 80, (40, 40)))
    '2,40'
    """
    factors = [1] * chunks.ndim
    largest = [max(n, 1) for n in chunks.largest]
    for axis in reversed(range(chunks.ndim)):
        room = elements // (prod(largest) * prod(factors))
        whole = limits[axis] >= chunks.shape[axis]
        factors[axis] = max(min(chunks.axes[axis].count if whole else limits[axis] // largest[axis], room), 1)
    return Grid(tuple(axis.multiple(factor) for axis, factor in zip(chunks.axes, factors, strict=True)))


def _check_scratch(plan: Plan, problem: Problem) -> None:
    if not plan.scratch:
        return
    needs, limit = estimate(plan, problem).scratch_bytes, problem.scratch_bytes
    if limit is not None and needs > limit:
        raise Refused(f"the intermediate array takes {format_size(needs)}, the limit is {format_size(limit)}")
    count = plan.scratch[0].objects.count
    if problem.scratch_objects is not None and count > problem.scratch_objects:
        raise Refused(f"the intermediate array has {count} chunks, the limit is {problem.scratch_objects}")
