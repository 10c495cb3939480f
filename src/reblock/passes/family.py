"""The family that all strategies belong to: a pass is R, W, T, an order, and the access of each side.

Strategies choose the grids; what follows from them — access, depth, memory — is decided here, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reblock.cost.estimate import moving_seconds
from reblock.cost.flight import FEW_IN_FLIGHT, batch_size, flight_bytes, least_flight_bytes
from reblock.cost.memory import allocated_bytes, buffer_bytes, held_elements
from reblock.cost.seeks import traffic
from reblock.errors import Refused
from reblock.geometry import Grid
from reblock.model import Access, Device, Layout, Pass, Plan, Problem
from reblock.units import format_size


def sweep(
    source: Layout,
    target: Layout,
    device: Device,
    *,
    read: Grid,
    write: Grid,
    tasks: Grid,
    order: Sequence[int] | None = None,
) -> Pass:
    """A pass with the access that fits its grids; Refused where the layouts cannot serve it."""
    order = tuple(order) if order is not None else tuple(range(target.ndim))
    made = Pass(read, write, tasks, order, Access.RUNS, Access.RUNS)
    return replace(made, read_access=_read_access(made, source, device), write_access=_write_access(made, target))


def _read_access(made: Pass, source: Layout, device: Device) -> Access:
    """Whole units where they must be, or where they only add what sticks out and that is cheaper."""
    if not source.partial_reads:
        return Access.UNITS
    if not source.objects.overhangs or not _covers(made.reads, source.objects.clipped()):
        return Access.RUNS
    seconds = {
        access: moving_seconds(traffic(made.reads, source, access), device, device.read_bytes_per_second)
        for access in (Access.RUNS, Access.UNITS)
    }
    return min(seconds, key=lambda access: seconds[access])


def _covers(boxes: Grid, objects: Grid) -> bool:
    """Whether boxes are made of whole objects; not where they meet in too many places to be counted."""
    try:
        return boxes.covers(objects)
    except Refused:
        return False


def _write_access(made: Pass, target: Layout) -> Access:
    objects = target.objects.clipped()
    if not objects.covers(made.writes):
        raise Refused("a write box may not span several target chunks")
    if made.writes.counts == objects.counts:
        return Access.UNITS
    if not target.partial_writes:
        raise Refused("target chunks can only be written whole, and this strategy would write parts of them")
    return Access.RUNS


def one_pass(
    name: str, problem: Problem, *, read: Grid, write: Grid, tasks: Grid, order: Sequence[int] | None = None
) -> Plan:
    """A plan of a single pass."""
    made = sweep(problem.source, problem.target, problem.device, read=read, write=write, tasks=tasks, order=order)
    return Plan(name, problem.shape, (made,))


def needed_bytes(plan: Plan, problem: Problem, *, frugal: bool = False) -> int:
    """Memory that a plan takes at the least, by the problem's way of counting.

    Write boxes are whole if the budget has room for that, unless the caller is `frugal`.
    """
    needs = [0]
    for made, source, target in plan.sides(problem.source, problem.target):
        if problem.held:
            needs.append(held_elements(made) * target.itemsize)
        else:
            flight = least_flight_bytes(made, source, target)
            needs.append(flight + buffer_bytes(made, target, 0 if frugal else problem.memory_bytes - flight))
    return max(needs)


def fit(plan: Plan, problem: Problem, *, frugal: bool = False) -> Plan:
    """The plan with as many units in flight as device and budget allow; Refused if not even one fits.

    `frugal` takes no more memory than it must.
    """
    needs = needed_bytes(plan, problem, frugal=frugal)
    if needs > problem.memory_bytes:
        raise Refused(
            f"needs {format_size(needs)} ({needs} bytes), the budget is {format_size(problem.memory_bytes)}",
            needs_memory_bytes=needs,
        )
    if frugal:
        return replace(plan, depth=1, coders=1, memory_bytes=needs)
    depth, coders = problem.device.depth, problem.cores
    sides = plan.sides(problem.source, problem.target)
    for made, source, target in sides:
        room = problem.memory_bytes
        if not problem.held:
            room -= buffer_bytes(made, target, room - least_flight_bytes(made, source, target))
        # Batches of units may take a part of the room, not the part of boxes that wait to be written.
        if batch_size(made, source, depth) > 1 and flight_bytes(made, source, target, depth, coders) > room // 4:
            depth = FEW_IN_FLIGHT
        while depth > 1 and flight_bytes(made, source, target, depth, min(coders, depth)) > room:
            depth -= 1
    plan = replace(plan, depth=depth, coders=min(coders, depth))
    grants = [needs, *(allocated_bytes(*side, plan, problem.memory_bytes) for side in sides)]
    return replace(plan, memory_bytes=max(grants))
