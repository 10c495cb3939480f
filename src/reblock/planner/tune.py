"""Tuning: larger steps, gaps read over, and the engine's threads and memory, for a plan that is chosen already.

The search counts seeks and bytes, which are the same for ten thousand small tasks and for a hundred larger ones. The
engine is faster with the larger ones: within one step it moves many chunks without the interpreter, and has more of
them in flight. So steps are doubled along one axis after the other, as long as no count gets worse and memory stays
modest.

Byte runs of one object that are close to each other are read as one, if reading the gaps takes less time than jumping
over them. Runs form a regular pattern, so this is decided per axis: the innermost ones on disk are read in full.

Last, `fill_execution` sets the numbers that the engine follows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from reblock.cost.estimate import LITTLE_BYTES, moving_seconds
from reblock.cost.flight import batch_size, readers, units_bytes, units_in_flight
from reblock.cost.memory import allocated_bytes, buffer_bytes, flight_depth, planned_piece, slab_axes
from reblock.cost.seeks import traffic
from reblock.errors import Refused
from reblock.geometry import Axis, Grid
from reblock.model import Access, Device, Execution, Layout, Pass, Plan, Problem
from reblock.model.accounting import without_records
from reblock.passes.family import fit, sweep

#: Steps that read this many bytes are large enough.
STEP_BYTES = 16 << 20
#: Buffers of larger steps may take this share of the budget, and of the memory whose first touch takes no time.
SHARE = 4
#: Writing threads on few cores: writes that fill the device's queue delay reads.
LEAST_WRITERS = 10
#: A device that takes longer than this to create an object is remote: it gets as many writes at once as it serves.
_FAR_SECONDS = 0.01
#: Reads that are dispatched for each request in flight, so that memory is allocated well ahead of the readers.
QUEUED = 8


def coarsen(plan: Plan, problem: Problem) -> Plan:
    """The same plan in larger steps, if they cost nothing."""
    return _tuned(plan, problem, lambda made, source, target, _: _coarsen(made, source, target, problem))


def coalesce(plan: Plan, problem: Problem) -> Plan:
    """The same plan, reading over gaps if that is faster."""
    return _tuned(plan, problem, lambda made, source, _, devices: _coalesce(made, source, devices[0]))


def fill_execution(plan: Plan, problem: Problem) -> Plan:
    """The same plan with all numbers that the engine follows."""
    sides = plan.sides(problem.source, problem.target)
    devices = plan.along(*problem.devices)[1:]
    passes = tuple(
        replace(side[0], execution=_execution(*side, plan, _writers(plan, device, problem.cores)))
        for side, device in zip(sides, devices, strict=True)
    )
    return replace(plan, passes=passes, divided=problem.source.divided)


def _writers(plan: Plan, device: Device, cores: int) -> int:
    """Threads that write to a device."""
    few = min(plan.depth, max(cores, LEAST_WRITERS))
    return max(few, device.depth) if device.create_seconds > _FAR_SECONDS else few


def _execution(made: Pass, source: Layout, target: Layout, plan: Plan, writers: int) -> Execution:
    memory = allocated_bytes(made, source, target, plan, plan.memory_bytes)
    depth = flight_depth(made, source, target, plan.depth, plan.coders, memory)
    many, units = batch_size(made, source, depth), units_in_flight(made, source, depth, plan.coders)
    piece = planned_piece(made, source, target, depth, memory)
    flight = units_bytes(made, source, target, units, plan.coders, piece)
    return Execution(
        readers=readers(source, depth, plan.coders, many),
        batch_size=many,
        units_in_flight=units,
        coders=plan.coders,
        writers=writers,
        queued=QUEUED * plan.depth,
        piece_bytes=piece,
        slab_axes=slab_axes(made, target, memory - flight),
        flight_bytes=flight,
        buffer_bytes=without_records(memory - flight, made.writes.count, target),
        memory_bytes=memory,
    )


def _tuned(plan: Plan, problem: Problem, tune: Callable[[Pass, Layout, Layout, tuple[Device, Device]], Pass]) -> Plan:
    """A plan with each pass changed; the plan itself if the result does not fit."""
    if plan.interleaved or problem.held:
        return plan
    devices = plan.along(*problem.devices)
    sides = plan.sides(problem.source, problem.target)
    passes = tuple(tune(*side, (devices[k], devices[k + 1])) for k, side in enumerate(sides))
    try:
        return plan if passes == plan.passes else fit(replace(plan, passes=passes), problem)
    except Refused:
        return plan


def _coalesce(made: Pass, source: Layout, device: Device) -> Pass:
    if made.read_access is not Access.RUNS or source.indexed:
        return made

    def seconds(coalesced: int) -> float:
        counts = traffic(made.reads, source, made.read_access, coalesced=coalesced)
        return float(moving_seconds(counts, device, device.read_bytes_per_second))

    return replace(made, coalesced=min(range(source.ndim), key=seconds, default=0))


def _coarsen(made: Pass, source: Layout, target: Layout, problem: Problem) -> Pass:
    limit = min(STEP_BYTES, problem.memory_bytes // SHARE)
    for axis in reversed(source.order):
        while 2 * prod(made.reads.largest) * source.itemsize <= limit:
            coarser = _doubled(made, axis, source, target, problem)
            if coarser is None:
                break
            made = coarser
    return made


def _cut(made: Pass, axis: int, step: int, source: Layout, target: Layout, problem: Problem) -> Pass | None:
    """The pass with steps and tasks of another length along an axis; None if that is impossible."""
    read, tasks = made.read.axes[axis], made.tasks.axes[axis]
    if tasks.count > 1 and tasks.step != read.step:
        return None
    cut = made.tasks if tasks.count == 1 else _with(made.tasks, axis, step)
    try:
        grid = _with(made.read, axis, step)
        return sweep(source, target, problem.device, read=grid, write=made.write, tasks=cut, order=made.order)
    except Refused:
        return None


def _doubled(made: Pass, axis: int, source: Layout, target: Layout, problem: Problem) -> Pass | None:
    """The pass with steps of double length along an axis; None if there are none, or if they cost more."""
    read = made.read.axes[axis]
    if read.step is None or read.count < 2:
        return None
    coarser = _cut(made, axis, 2 * read.step, source, target, problem)
    if coarser is None:
        return None
    most = min(problem.memory_bytes, LITTLE_BYTES) // SHARE
    if buffer_bytes(coarser, target) > max(buffer_bytes(made, target), most):
        return None
    for layout, writing in ((source, False), (target, True)):
        before, after = (_traffic(one, layout, writing=writing) for one in (made, coarser))
        if any(a > b for a, b in zip(after, before, strict=True)):
            return None
    return coarser


def _traffic(made: Pass, layout: Layout, *, writing: bool) -> tuple[int, ...]:
    boxes, access = (made.writes, made.write_access) if writing else (made.reads, made.read_access)
    counts = traffic(boxes, layout, access, writing=writing)
    return counts.opens, counts.runs, counts.seeks, counts.bytes


def _with(grid: Grid, axis: int, step: int) -> Grid:
    """The grid with an axis cut into other lengths."""
    axes = list(grid.axes)
    axes[axis] = Axis.regular(axes[axis].length, step)
    return Grid(tuple(axes))
