"""The plan check: what must hold of any plan before a byte moves."""

from __future__ import annotations

from reblock.errors import InfeasibleError, UsageError
from reblock.model import Access, Layout, Pass, Plan, Problem
from reblock.passes.family import needed_bytes
from reblock.units import format_size


def check(plan: Plan, problem: Problem) -> None:
    """Raise UsageError unless the plan writes each element once, whole units only, inside the budget."""
    if plan.shape != problem.shape:
        raise UsageError(f"the plan is for an array of shape {plan.shape}, not {problem.shape}")
    if len(plan.scratch) != len(plan.passes) - 1:
        raise UsageError(f"{len(plan.passes)} passes need {len(plan.passes) - 1} intermediate arrays")
    for number, (made, source, target) in enumerate(plan.sides(problem.source, problem.target), 1):
        _check_pass(made, source, target, number)
    if plan.interleaved:
        tasks = plan.passes[0].tasks
        if any(made.tasks != tasks for made in plan.passes):
            raise UsageError("passes that interleave must share their task grid")
        if not all(tasks.covers(layout.objects.clipped()) for layout in plan.scratch):
            raise UsageError("an intermediate object may not reach over several tasks when passes interleave")
    needs = needed_bytes(plan, problem)
    if needs > problem.memory_bytes:
        raise InfeasibleError(
            f"the plan needs {format_size(needs)} ({needs} bytes), the budget is {problem.memory_bytes} bytes",
            needs_memory_bytes=needs,
        )


def _check_pass(made: Pass, source: Layout, target: Layout, number: int) -> None:
    shape = target.shape
    if sorted(made.order) != list(range(len(shape))):
        raise UsageError(f"pass {number}: the order {made.order} is no permutation of the axes")
    for name, grid in (("read", made.read), ("write", made.write), ("task", made.tasks)):
        # A grid is a partition by construction: covering the shape is all there is to writing each element once.
        if grid.shape != shape:
            raise UsageError(f"pass {number}: the {name} grid covers {grid.shape}, not {shape}")
    if made.read_access is Access.RUNS and not source.partial_reads:
        raise UsageError(f"pass {number}: byte runs cannot be read from encoded or sharded units")
    objects = target.objects.clipped()
    if not objects.covers(made.writes):
        raise UsageError(f"pass {number}: a write box reaches over several target chunks")
    whole = made.writes.counts == objects.counts
    if made.write_access is Access.UNITS and not whole:
        raise UsageError(f"pass {number}: whole units are to be written, but write boxes cut them")
    if made.write_access is Access.RUNS and not target.partial_writes:
        raise UsageError(f"pass {number}: the target's chunks can only be written whole")
