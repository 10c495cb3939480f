"""Shares of a pass: what each reads and writes, how long it takes a worker, and which prefixes it touches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from reblock.geometry import Axis, Grid
from reblock.model import Device, Layout, Pass, Plan, Problem
from reblock.model.shares import share_size
from reblock.simulation.scenario import Scenario
from reblock.simulation.tasks import TaskCounts, Tasks
from reblock.simulation.worker import Worker

#: The most classes of tasks of which each is priced to find the longest task.
_PRICED_CLASSES = 10_000


@dataclass(frozen=True)
class Lot:
    """A share, priced."""

    tasks: int
    """The number of its tasks."""
    seconds: float
    """Time of a worker that nothing delays."""
    gets: int
    """Reading requests."""
    puts: int
    """Writing requests."""
    bytes_read: float
    """Stored bytes that it reads."""
    bytes_written: float
    """Stored bytes that it writes."""
    read_prefixes: tuple[int, int]
    """The prefixes that it reads from."""
    write_prefixes: tuple[int, int]
    """The prefixes that it writes to."""
    working_seconds: float = 0.0
    """The part of the time in which it needs all cores of a host, if nobody else does."""


@dataclass(frozen=True)
class Stretch:
    """Passes of a plan that are carried out together: one, or all if they interleave."""

    lots: Sequence[Lot]
    """Its shares, in the order in which they are submitted."""
    tasks: int
    """The number of its tasks."""
    classes: int
    """Classes of equal tasks."""
    longest_task_seconds: float | None
    """Time of the longest task by itself; None if passes interleave, or there are too many classes."""
    arrays: tuple[str, str]
    """What it reads and writes: `source`, `scratch` or `target`."""
    record_seconds: float = 0.0
    """Time in which the process that began the run records the last shares."""
    requests: int = 1
    """Requests that a worker has under way at once."""


def stretches_of(plan: Plan, problem: Problem, scenario: Scenario) -> list[Stretch]:
    """The shares of a plan, as a crew gets them."""
    devices, names = plan.along(*problem.devices), plan.along("source", "scratch", "target")
    sides = [
        _Side(sweep, source, target, plan, (devices[k], devices[k + 1]))
        for k, (sweep, source, target) in enumerate(plan.sides(problem.source, problem.target))
    ]
    if plan.interleaved:
        return [_stretch(sides, (names[0], names[-1]), 1, scenario)]
    return [_stretch([side], (names[k], names[k + 1]), len(sides), scenario) for k, side in enumerate(sides)]


class _Side:
    """A pass with its tasks and its worker."""

    def __init__(self, sweep: Pass, source: Layout, target: Layout, plan: Plan, devices: tuple[Device, Device]) -> None:
        self.source, self.target = source, target
        self.tasks, self.worker = Tasks(sweep, source, target), Worker.of(sweep, source, target, plan, devices)

    def seconds(self, start: int, stop: int) -> float:
        """Time of some tasks."""
        return self.worker.seconds(self.tasks.load(start, stop))


def _stretch(sides: Sequence[_Side], arrays: tuple[str, str], passes: int, scenario: Scenario) -> Stretch:
    first, last = sides[0], sides[-1]
    count = first.tasks.count
    whole = sum(side.seconds(0, count) for side in sides) if count else 0.0
    size = share_size(count, scenario.workers, whole, passes)
    grid = first.tasks.grid
    lots = []
    for start in range(0, count, size):
        stop = min(start + size, count)
        loads = [side.tasks.load(start, stop) for side in sides]
        seconds = [side.worker.seconds(load) for side, load in zip(sides, loads, strict=True)]
        read, written = (
            _prefixes(grid, layout, start, stop, scenario.prefix_axes) for layout in (first.source, last.target)
        )
        working = sum(side.worker.working(load) for side, load in zip(sides, loads, strict=True))
        lots.append(replace(_lot(sides, loads, sum(seconds), read, written), working_seconds=working))
    record = scenario.record_seconds
    if record is None:
        record = _record_seconds(first.worker.devices[0], last.worker.devices[1])
    requests = max(side.worker.readers + side.worker.writers for side in sides)
    return Stretch(lots, count, max(side.tasks.classes for side in sides), _longest(sides), arrays, record, requests)


def _record_seconds(source: Device, target: Device) -> float:
    """Time to check the source and to add a line to the journal, which on an object store are requests."""
    return source.open_seconds + target.open_seconds + target.create_seconds if target.duplex else 0.0


def _lot(
    sides: Sequence[_Side], loads: Sequence[TaskCounts], seconds: float, read: tuple[int, int], written: tuple[int, int]
) -> Lot:
    pairs = list(zip(sides, loads, strict=True))
    return Lot(
        loads[0].tasks,
        seconds,
        sum(load.reads.seeks for load in loads),
        sum(load.writes.seeks for load in loads),
        sum(load.reads.bytes * side.source.stored_part for side, load in pairs),
        sum(load.writes.bytes * side.target.stored_part for side, load in pairs),
        read,
        written,
    )


def _longest(sides: Sequence[_Side]) -> float | None:
    if len(sides) > 1:
        return None
    found = sides[0].tasks.one_of_each(_PRICED_CLASSES)
    return None if found is None else max((sides[0].worker.seconds(one) for one in found), default=0.0)


def _prefixes(grid: Grid, layout: Layout, start: int, stop: int, axes: int) -> tuple[int, int]:
    """The prefixes that some tasks touch: one for all chunks, or one for each index along the outermost axis."""
    if not axes or not layout.ndim:
        return 0, 1
    axis = layout.order[0]
    low, high = _blocks(grid, axis, start, stop)
    along: Axis = layout.objects.axes[axis]
    begin, end = grid.axes[axis].start(low), grid.axes[axis].start(high)
    return along.index(begin), along.index(end - 1) + 1


def _blocks(grid: Grid, axis: int, start: int, stop: int) -> tuple[int, int]:
    """The blocks of the task grid along an axis that some consecutive tasks touch."""
    first, last = grid.index(start), grid.index(stop - 1)
    if first[:axis] != last[:axis]:
        # They go on at the start of the axis.
        return 0, grid.counts[axis]
    return first[axis], last[axis] + 1
