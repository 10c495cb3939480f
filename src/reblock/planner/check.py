"""The plan check: what must hold for any plan before a byte moves."""

from __future__ import annotations

from reblock.cost.flight import units_bytes
from reblock.cost.memory import boxes_bytes, long_axes
from reblock.errors import InfeasibleError, UsageError
from reblock.model import PIECE_BYTES, Access, Execution, Layout, Pass, Plan, Problem
from reblock.model.accounting import with_records
from reblock.passes.family import needed_bytes
from reblock.units import format_size


def check(plan: Plan, problem: Problem) -> None:
    """Raise UsageError unless the plan writes each element once, only whole units, within the budget."""
    if plan.shape != problem.shape:
        raise UsageError(f"the plan is for an array of shape {plan.shape}, not {problem.shape}")
    if len(plan.scratch) != len(plan.passes) - 1:
        raise UsageError(f"{len(plan.passes)} passes need {len(plan.passes) - 1} intermediate arrays")
    sides = plan.sides(problem.source, problem.target)
    for number, (made, source, target) in enumerate(sides, 1):
        _check_pass(made, source, target, number)
    if plan.interleaved:
        _check_interleaved(plan)
    if plan.scratch_in_target:
        _check_target_space(plan, problem)
    needs = needed_bytes(plan, problem)
    if not problem.held:
        granted = [max(made.execution.memory_bytes, plan.memory_bytes) for made in plan.passes if made.execution]
        needs = max([needs, *granted])
    if needs > problem.memory_bytes:
        raise InfeasibleError(
            f"the plan needs {format_size(needs)} ({needs} bytes), the budget is {problem.memory_bytes} bytes",
            needs_memory_bytes=needs,
        )
    for number, (made, source, target) in enumerate(sides, 1):
        if made.execution is not None:
            _check_execution(made, made.execution, source, target, number)
            if plan.divided != problem.source.divided:
                raise UsageError("the plan and the problem disagree on reading the source's chunks in parts")


def _check_interleaved(plan: Plan) -> None:
    """Raise UsageError unless the passes can run task by task."""
    tasks = plan.passes[0].tasks
    if any(made.tasks != tasks for made in plan.passes):
        raise UsageError("passes that interleave must share their task grid")
    if not all(tasks.covers(layout.objects.clipped()) for layout in plan.scratch):
        raise UsageError("an intermediate object may not span several tasks when passes interleave")


def _check_target_space(plan: Plan, problem: Problem) -> None:
    """Raise UsageError unless every second intermediate array fits the target's space, empty until the last pass."""
    if plan.interleaved or len(plan.scratch) < 2:
        raise UsageError("only three passes or more, one after the other, can keep an array in the target's space")
    if problem.target.encoded:
        raise UsageError("an encoded target may be smaller than the intermediate arrays in its space")
    if any(layout.nbytes > problem.target.nbytes for k, layout in enumerate(plan.scratch) if plan.in_target(k)):
        raise UsageError("an intermediate array is larger than the target, and does not fit its space")


def _check_pass(made: Pass, source: Layout, target: Layout, number: int) -> None:
    shape = target.shape
    if sorted(made.order) != list(range(len(shape))):
        raise UsageError(f"pass {number}: the order {made.order} is not a permutation of the axes")
    for name, grid in (("read", made.read), ("write", made.write), ("task", made.tasks)):
        # A grid is a partition by construction, so each element is written once if the grid covers the shape.
        if grid.shape != shape:
            raise UsageError(f"pass {number}: the {name} grid covers {grid.shape}, not {shape}")
    if made.read_access is Access.RUNS and not source.partial_reads:
        raise UsageError(f"pass {number}: byte runs cannot be read from encoded or sharded units")
    objects = target.objects.clipped()
    if not objects.covers(made.writes):
        raise UsageError(f"pass {number}: a write box spans several target chunks")
    whole = made.writes.counts == objects.counts
    if made.write_access is Access.UNITS and not whole:
        raise UsageError(f"pass {number}: whole units are to be written, but write boxes cut them")
    if made.write_access is Access.RUNS and not target.partial_writes:
        raise UsageError(f"pass {number}: the target's chunks can only be written whole")


def _check_execution(made: Pass, how: Execution, source: Layout, target: Layout, number: int) -> None:
    """Raise UsageError unless the memory of a pass is enough for its threads and its write boxes."""
    units = how.readers * how.batch_size
    if source.encoded or source.indexed or how.batch_size > 1:
        units = min(units, source.units.count)
    if how.units_in_flight < units:
        raise UsageError(
            f"pass {number}: {how.readers} readers have {units} units in flight, not {how.units_in_flight}"
        )
    if how.piece_bytes > PIECE_BYTES:
        raise UsageError(f"pass {number}: pieces of {how.piece_bytes} bytes, the limit is {PIECE_BYTES}")
    if not set(how.slab_axes) <= set(long_axes(made.writes.largest, target)):
        raise UsageError(f"pass {number}: slabs along {how.slab_axes} would take parts of pages")
    buffers = boxes_bytes(made, target, how.slab_axes)
    flight = units_bytes(made, source, target, how.units_in_flight, how.coders, how.piece_bytes)
    whole = with_records(how.buffer_bytes, made.writes.count, target) + how.flight_bytes
    for name, granted, needed in (
        ("write boxes", how.buffer_bytes, buffers),
        ("units in flight", how.flight_bytes, flight),
        ("the pass", how.memory_bytes, whole),
    ):
        if granted < needed:
            raise UsageError(f"pass {number}: {name} need {needed} bytes, the plan grants {granted}")
