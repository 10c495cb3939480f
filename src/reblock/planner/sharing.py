"""Sharing: cut the tasks of a chosen plan so that several workers have work.

Tasks are cut at boundaries of target objects, so that every object has one writer; inside an object only where parts of
it can be written. A cut at a boundary that source and target share costs nothing; other cuts make two tasks read the
same source object. So the axis whose next cut adds the least bytes, and then the fewest seeks, is cut first, until
there are some tasks for each worker, or until more of them would cost more than they gain.
"""

from __future__ import annotations

from dataclasses import replace

from reblock.cost.seeks import traffic
from reblock.errors import Refused
from reblock.geometry import Axis, Grid
from reblock.model import Layout, Pass, Plan, Problem
from reblock.passes.family import fit, sweep
from reblock.planner.tune import coalesce, fill_execution

#: Tasks for each worker, so that they end at about the same time.
TASKS_PER_WORKER = 4
#: More than one task for each worker may add at most this part to the bytes that are read.
_MOST_MORE = 0.1


def share(plan: Plan, problem: Problem, workers: int) -> Plan:
    """The plan with enough tasks for some workers, as far as its target's objects allow; it still fits the budget."""
    if workers < 2 or plan.interleaved:
        return plan
    sides = plan.sides(problem.source, problem.target)
    passes = tuple(_cut(made, source, target, problem, workers) for made, source, target in sides)
    if passes == plan.passes:
        return plan
    try:
        return fill_execution(coalesce(fit(replace(plan, passes=passes), problem), problem), problem)
    except Refused:
        return plan


def _cut(made: Pass, source: Layout, target: Layout, problem: Problem, workers: int) -> Pass:
    base = _bytes(made, source)
    while made.tasks.count < TASKS_PER_WORKER * workers:
        found = [one for axis in range(made.tasks.ndim) if (one := _halved(made, axis, source, target, problem))]
        best = min(found, key=lambda one: (_bytes(one, source), _seeks(one, source, target)), default=None)
        if best is None:
            return made
        if made.tasks.count >= workers and _bytes(best, source) > base * (1 + _MOST_MORE):
            return made
        made = best
    return made


def _bytes(made: Pass, source: Layout) -> int:
    return int(traffic(made.reads, source, made.read_access, coalesced=made.coalesced).bytes)


def _seeks(made: Pass, source: Layout, target: Layout) -> int:
    reads = traffic(made.reads, source, made.read_access, coalesced=made.coalesced)
    return int(reads.seeks + traffic(made.writes, target, made.write_access, writing=True).seeks)


def _halved(made: Pass, axis: int, source: Layout, target: Layout, problem: Problem) -> Pass | None:
    """The pass with twice as many tasks along an axis; None if they cannot be cut, or not at the target's objects."""
    tasks, objects = made.tasks.axes[axis], target.objects.axes[axis]
    step, count = objects.step, objects.count
    if count < 2 * tasks.count and target.partial_writes and not target.encoded:
        step, count = 1, objects.length
    if step is None or count < 2 * tasks.count:
        return None
    if tasks.count > 1 and (tasks.step is None or tasks.step % step):
        return None
    cut = Axis.regular(tasks.length, step * (count // (2 * tasks.count)))
    axes = list(made.tasks.axes)
    axes[axis] = cut
    try:
        return sweep(
            source,
            target,
            problem.device,
            read=made.read,
            write=made.write,
            tasks=Grid(tuple(axes)),
            order=made.order,
        )
    except Refused:
        return None
