"""Sharing: cut the tasks of a chosen plan so that several workers are all busy.

Tasks are cut at boundaries of target objects, so that every object has one writer; inside an object only where parts of
it can be written. A cut at a boundary that source and target share costs nothing; other cuts make two tasks read the
same source object ::

    8 tasks, 3 workers               9 tasks, 3 workers
    │ 1 │ 2 │ 3 │                    │ 1 │ 2 │ 3 │
    │ 1 │ 2 │ 3 │                    │ 1 │ 2 │ 3 │
    │ 1 │ 2 │   │  ← one waits       │ 1 │ 2 │ 3 │

So candidates are halved axis by axis, and cut by the load-balanced Max blocks of the DRA paper (Fig. 6): boxes of as
many target objects as there are workers, no two of the same worker. The candidate whose slowest worker ends first is
taken: the predicted time of the whole, which grows with what is read twice, times the share of the busiest worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from reblock.cost.estimate import pass_seconds
from reblock.cost.seeks import traffic
from reblock.errors import Refused
from reblock.geometry import Axis, Grid
from reblock.model import Device, Layout, Pass, Plan, Problem
from reblock.passes.family import fit, sweep
from reblock.planner.tune import coalesce, fill_execution
from reblock.strategies.dra import balance

#: Tasks are cut until each worker has this many; long passes get more, up to this many in all.
_TASKS_PER_WORKER, _ENOUGH_TASKS = 8, 2000
#: Seconds that a task should take at least.
_LEAST_SECONDS = 1.0
#: More than this part is read twice only if there is no other way to give every worker a task.
_MOST_MORE = 0.1
#: Multiples of a balanced Max block that are tried, and the most of these blocks.
_MULTIPLES, _MOST_BLOCKS = (1, 2, 4, 8), 8


def share(plan: Plan, problem: Problem, workers: int) -> Plan:
    """The plan with enough tasks for some workers, as far as its target's objects allow; it still fits the budget."""
    passes = plan.passes
    if workers > 1 and not plan.interleaved and 0 not in plan.shape:
        devices = plan.along(*problem.devices)
        sides = plan.sides(problem.source, problem.target)
        passes = tuple(
            _Cutter(source, target, (devices[k], devices[k + 1]), problem, workers).cut(made)
            for k, (made, source, target) in enumerate(sides)
        )
    if passes == plan.passes and problem.cores >= plan.coders:
        return plan
    try:
        return fill_execution(coalesce(fit(replace(plan, passes=passes), problem), problem), problem)
    except Refused:
        return plan


class _Cutter:
    """Cuts the tasks of one pass."""

    def __init__(
        self, source: Layout, target: Layout, devices: tuple[Device, Device], problem: Problem, workers: int
    ) -> None:
        self._source, self._target, self._devices = source, target, devices
        self._problem, self._workers = problem, workers

    def cut(self, made: Pass) -> Pass:
        """The pass with the best tasks."""
        whole = self._seconds(made)
        most = max(_TASKS_PER_WORKER * self._workers, min(int(whole / _LEAST_SECONDS), _ENOUGH_TASKS))
        found = [made, *self._halved(made, most), *self._balanced(made, most)]
        # Workers may share a disk or the rate of a store; then reading twice eats up their gain.
        limit = self._bytes(made) * (1 + _MOST_MORE)
        cheap = [one for one in found if self._bytes(one) <= limit]
        if any(one.tasks.count >= self._workers for one in cheap):
            found = cheap
        return min(found, key=lambda one: (self._end(one), self._seeks(one)))

    def _seconds(self, made: Pass) -> float:
        """The predicted time of a pass on one worker."""
        reads = traffic(made.reads, self._source, made.read_access, coalesced=made.coalesced)
        writes = traffic(made.writes, self._target, made.write_access, writing=True)
        return float(pass_seconds(reads, writes, self._source, self._target, self._devices))

    def _bytes(self, made: Pass) -> int:
        return int(traffic(made.reads, self._source, made.read_access, coalesced=made.coalesced).bytes)

    def _seeks(self, made: Pass) -> int:
        reads = traffic(made.reads, self._source, made.read_access, coalesced=made.coalesced)
        return int(reads.seeks + traffic(made.writes, self._target, made.write_access, writing=True).seeks)

    def _end(self, made: Pass) -> float:
        """When the last worker ends: it has as many of the largest tasks as any other, and began the last one late."""
        tasks, whole = made.tasks, max(prod(made.tasks.shape), 1)
        rounds = -(-tasks.count // self._workers) if tasks.count else 0
        busiest = min(rounds * prod(tasks.largest) / whole, 1.0)
        late = prod(tasks.largest) / whole / 2 if tasks.count > 1 else 0.0
        return self._seconds(made) * (busiest + late)

    def _halved(self, made: Pass, most: int) -> Iterator[Pass]:
        """Passes with about twice as many tasks each, cut along the axis that costs the least."""
        while 0 < made.tasks.count < most:
            counts = made.tasks.counts
            found = [
                one
                for axis in range(made.tasks.ndim)
                for least in (False, True)
                if (one := self._with(made, (*counts[:axis], 2 * counts[axis], *counts[axis + 1 :]), least=least))
            ]
            # Objects that do not divide evenly may leave as many tasks as before.
            found = [one for one in found if one.tasks.count > made.tasks.count]
            best = min(found, key=lambda one: (self._seconds(one), self._seeks(one), self._end(one)), default=None)
            if best is None:
                return
            yield best
            made = best

    def _balanced(self, made: Pass, most: int) -> Iterator[Pass]:
        """Passes whose tasks divide evenly among workers: along each axis, multiples of a Max block of all workers."""
        counts = self._target.objects.counts
        for factors in balance(counts, self._workers, tuple(reversed(range(len(counts)))))[:_MOST_BLOCKS]:
            for axis in range(len(counts)):
                for multiple in _MULTIPLES:
                    wanted = list(factors)
                    wanted[axis] *= multiple
                    one = self._with(made, tuple(map(max, wanted, made.tasks.counts)))
                    if one is not None and one.tasks.count <= most:
                        yield one

    def _with(self, made: Pass, counts: tuple[int, ...], *, least: bool = False) -> Pass | None:
        """The pass with more tasks along some axes; None if they cannot be cut, or not at the target's objects.

        If they do not divide evenly, there are as many of them at the most, or at `least`.
        """
        axes = list(made.tasks.axes)
        for axis, count in enumerate(counts):
            if count > made.tasks.counts[axis]:
                cut = _cut(made.tasks.axes[axis], self._target, axis, count, least=least)
                if cut is None:
                    return None
                axes[axis] = cut
        try:
            return sweep(
                self._source,
                self._target,
                self._problem.device,
                read=made.read,
                write=made.write,
                tasks=Grid(tuple(axes)),
                order=made.order,
            )
        except Refused:
            return None


def _cut(tasks: Axis, target: Layout, axis: int, count: int, *, least: bool) -> Axis | None:
    """An axis of the task grid, cut into about this many parts."""
    objects = target.objects.axes[axis]
    step, there = objects.step, objects.count
    if there < count and target.partial_writes and not target.encoded:
        step, there = 1, objects.length
    if step is None or there < count:
        return None
    if tasks.count > 1 and (tasks.step is None or tasks.step % step):
        return None
    return Axis.regular(tasks.length, step * (there // count if least else -(-there // count)))
