"""Tasks: count what any run of consecutive tasks of a pass reads and writes, without visiting each task.

Every count of a task is a product of one number per axis, or a sum of such products (`cost.seeks`). So along each axis
the numbers of all blocks of T are kept, and added up from the first block on. Tasks are numbered in C order, and the
first n of them are a few boxes of whole rows ::

    T, n = 14          │ 0  1  2  3  4 │   rows before the row of task n:      Σ of the rows × total of a row
                       │ 5  6  7  8  9 │   in its row, the tasks before it:    number of the row × Σ before it
                       │10 11 12 13 ·· │

so the count of any share is the difference of two sums, however many tasks it has. Blocks that lie alike to the grids
of R, W, source and target have the same numbers: they are a class, and a task's class is that of its blocks. An axis
with very many blocks is kept as the blocks of one period, as in `geometry.axis`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import lcm, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import Refused
from reblock.geometry import Axis, overlap
from reblock.geometry.axis import MANY_CUTS, Ints
from reblock.geometry.overlap import LARGEST_INT, LISTED_CUTS, overlap_each
from reblock.model import Access, Layout, Pass, Traffic

#: Blocks of an axis whose read boxes are too many to list are counted one by one, up to this many.
_ONE_BY_ONE = 4096
#: Rows of an axis: overlap of one side, whose pairs are those that are whole or cut.
_WHOLE, _CUT, _TOUCHED, _LENGTH, _PAIRS = range(5)
#: Rows of both sides, and after them: read boxes, and objects that begin in the block.
_SIDE = 5
_STEPS, _MADE = 2 * _SIDE, 2 * _SIDE + 1


@dataclass(frozen=True)
class TaskCounts:
    """What some tasks read and write."""

    tasks: int
    """The number of tasks."""
    steps: int
    """Read boxes."""
    reads: Traffic
    """Traffic on the array that they read."""
    writes: Traffic
    """Traffic on the array that they write."""
    made: int
    """Objects that they make."""


class _BlockNumbers:
    """The numbers of the blocks of T along one axis: one row for each kind, one column for each block."""

    def __init__(self, axis: Axis, rows: npt.NDArray[Any], low: int, within: int, turns: int) -> None:
        """The `within` blocks from `low` on are repeated `turns` times."""
        self.axis, self._low, self._within, self._turns = axis, low, within, turns
        self._rows = rows
        # Sums may exceed numpy's integers.
        largest = int(np.max(rows)) if rows.size else 0
        wide = rows if largest * (rows.shape[1] + 1) <= LARGEST_INT else rows.astype(object)
        self._sums = np.concatenate([np.zeros((len(rows), 1), wide.dtype), np.cumsum(wide, axis=1)], axis=1)

    def _place(self, block: int) -> tuple[int, int]:
        """The column of a block, and the periods before it."""
        if block < self._low + self._within or not self._turns:
            return block, 0
        turn, rest = divmod(block - self._low, self._within)
        if turn >= self._turns:
            return block - (self._turns - 1) * self._within, self._turns - 1
        return self._low + rest, turn

    def at(self, row: int, block: int) -> int:
        """The number of a block."""
        return int(self._rows[row, self._place(block)[0]])

    def before(self, row: int, block: int) -> int:
        """The sum over all blocks before one."""
        column, turns = self._place(block)
        sums = self._sums[row]
        period = int(sums[self._low + self._within]) - int(sums[self._low]) if turns else 0
        return int(sums[column]) + turns * period

    @cached_property
    def classes(self) -> dict[tuple[int, ...], int]:
        """Distinct columns, and how many blocks have each."""
        found: dict[tuple[int, ...], int] = {}
        for number, column in enumerate(zip(*self._rows.tolist(), strict=True)):
            repeated = self._turns and self._low <= number < self._low + self._within
            found[column] = found.get(column, 0) + (self._turns if repeated else 1)
        return found


class Tasks:
    """The tasks of one pass between two layouts."""

    def __init__(self, sweep: Pass, source: Layout, target: Layout) -> None:
        self._source, self._target = source, target
        self.grid = sweep.tasks
        self._axes = [
            _numbers_of(sweep, axis, source, target, _is_full(sweep, axis, source)) for axis in range(sweep.tasks.ndim)
        ]

    @property
    def count(self) -> int:
        """The number of tasks."""
        return self.grid.count

    @cached_property
    def classes(self) -> int:
        """The number of classes of equal tasks."""
        return prod(len(axis.classes) for axis in self._axes) if self.count else 0

    def load(self, start: int, stop: int) -> TaskCounts:
        """What the tasks from one number to another read and write."""
        first, last = self.grid.index(start), self.grid.index(stop) if stop < self.count else None

        def added(rows: Sequence[int]) -> int:
            whole = prod(axis.before(row, axis.axis.count) for axis, row in zip(self._axes, rows, strict=True))
            return (whole if last is None else self._before(rows, last)) - self._before(rows, first)

        def every(row: int) -> int:
            return added([row] * self.grid.ndim)

        reads, writes = self._traffic(added, 0), self._traffic(added, _SIDE, writing=True)
        return TaskCounts(stop - start, every(_STEPS), reads, writes, every(_MADE))

    def one_of_each(self, most: int) -> list[TaskCounts] | None:
        """One task of each class; None if there are more classes than `most`."""
        if self.classes > most:
            return None
        found: list[list[tuple[int, ...]]] = [[]]
        for axis in self._axes:
            found = [[*before, column] for before in found for column in axis.classes]
        return [self._one(columns) for columns in found] if self.count else []

    def _one(self, columns: Sequence[tuple[int, ...]]) -> TaskCounts:
        def added(rows: Sequence[int]) -> int:
            return prod(column[row] for column, row in zip(columns, rows, strict=True))

        def every(row: int) -> int:
            return added([row] * len(columns))

        return TaskCounts(
            1, every(_STEPS), self._traffic(added, 0), self._traffic(added, _SIDE, writing=True), every(_MADE)
        )

    def _before(self, rows: Sequence[int], index: Sequence[int]) -> int:
        """The sum over all tasks before one, of products of these rows."""
        found, outside = 0, 1
        inside = [axis.before(row, axis.axis.count) for axis, row in zip(self._axes, rows, strict=True)]
        for number, (axis, row, block) in enumerate(zip(self._axes, rows, index, strict=True)):
            found += outside * axis.before(row, block) * prod(inside[number + 1 :])
            outside *= axis.at(row, block)
        return found

    def _traffic(self, added: Any, side: int, *, writing: bool = False) -> Traffic:
        """The counts of one side, as `cost.seeks` defines them."""
        layout = self._target if writing else self._source
        ndim = layout.ndim
        opens, touched, moved, whole = (added([side + row] * ndim) for row in (_PAIRS, _TOUCHED, _LENGTH, _WHOLE))
        if layout.indexed and not writing:
            return Traffic(opens, touched + opens, touched + 2 * opens, moved * layout.itemsize)
        inside = 0
        for place, axis in enumerate(layout.order):
            rows = [0] * ndim
            for other, at in enumerate(layout.order):
                rows[at] = side + (_TOUCHED if other < place else _WHOLE)
            rows[axis] = side + _CUT
            inside += added(rows)
        return Traffic(opens, inside + whole, opens + inside, moved * layout.itemsize)


def _is_full(sweep: Pass, axis: int, source: Layout) -> bool:
    """Whether objects are read in full along an axis."""
    if sweep.read_access is Access.UNITS:
        return True
    return axis in source.order[source.ndim - sweep.coalesced :]


def _numbers_of(sweep: Pass, axis: int, source: Layout, target: Layout, full: bool) -> _BlockNumbers:  # noqa: FBT001 - private
    tasks, reads, writes = sweep.tasks.axes[axis], sweep.reads.axes[axis], sweep.writes.axes[axis]
    units = source.units.axes[axis] if full else None
    written = target.objects.axes[axis] if sweep.write_access is Access.UNITS else None
    sides = (reads, source.objects.axes[axis], units), (writes, target.objects.axes[axis], written)
    every = [one for side in sides for one in side if one is not None]
    low, within, turns = _period(tasks, every)
    rest = low + within * turns
    if low + within + tasks.count - rest > MANY_CUTS:
        raise Refused(f"too irregular: more than {MANY_CUTS:,} different tasks along one axis")
    blocks = np.concatenate([np.arange(low + within), np.arange(rest, tasks.count)]).astype(np.int64)
    bounds = tasks.starts(blocks), tasks.starts(blocks + 1)
    rows = [row for side in sides for row in _overlaps(*side, *bounds)]
    rows.append(_counted(reads, *bounds))
    rows.append(_counted(target.objects.axes[axis], *bounds))
    return _BlockNumbers(tasks, np.stack(rows), low, within, turns)


def _period(tasks: Axis, others: Sequence[Axis]) -> tuple[int, int, int]:
    """The first block of T that repeats, the blocks of a period, and the periods; 0, 0, 0 if all blocks are listed."""
    if tasks.count <= LISTED_CUTS or not tasks.repeats:
        return tasks.count, 0, 0
    low, high, period = *tasks.middle, tasks.period
    for axis in others:
        period = lcm(period, axis.period or 1)
        low, high = max(low, axis.middle[0]), min(high, axis.middle[1])
        if axis.count and axis.lead:
            low = max(low, axis.start(1))
        if axis.count and axis.trail:
            high = min(high, axis.start(axis.count - 1))
    if low >= high:
        return tasks.count, 0, 0
    first = tasks.index(low)
    first += tasks.start(first) < low
    turns = (high - tasks.start(first)) // period
    if turns < 2:
        return tasks.count, 0, 0
    return first, tasks.index(tasks.start(first) + period) - first, turns


def _counted(axis: Axis, starts: Ints, stops: Ints) -> Ints:
    """The number of blocks that start in each interval."""
    return _firsts(axis, stops) - _firsts(axis, starts)


def _firsts(axis: Axis, positions: Ints) -> Ints:
    """The number of blocks that start before each position."""
    found = axis.indices(positions)
    return found + (axis.starts(found) < positions)


def _overlaps(memory: Axis, objects: Axis, units: Axis | None, starts: Ints, stops: Ints) -> list[npt.NDArray[Any]]:
    """The sums of `Overlap` over the memory blocks in each interval, and its pairs."""
    if int(np.sum(_counted(memory, starts, stops).astype(float))) > MANY_CUTS // 2:
        return _overlaps_one_by_one(memory, objects, units, starts, stops)
    cuts, owner = memory.cuts_between(starts, stops)
    rows = overlap_each(cuts, memory, objects, units) if cuts.size else (np.zeros(0, np.int64),) * 4
    wide = any(row.size and int(np.max(row)) > LARGEST_INT // (row.size + 1) for row in rows)
    found: list[npt.NDArray[Any]] = []
    for row in rows:
        sums = np.zeros(starts.size, object if wide else np.int64)
        np.add.at(sums, owner, row.astype(sums.dtype))
        found.append(sums)
    return [*found, found[_WHOLE] + found[_CUT]]


def _overlaps_one_by_one(
    memory: Axis, objects: Axis, units: Axis | None, starts: Ints, stops: Ints
) -> list[npt.NDArray[Any]]:
    if starts.size > _ONE_BY_ONE:
        raise Refused("too irregular: too many different boxes in too many different tasks along one axis")
    found = []
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        some = [None if axis is None else axis.crop(start, stop) for axis in (memory, objects, units)]
        one = overlap(some[0] or memory, some[1] or objects, some[2])
        found.append((one.whole, one.cut, one.touched, one.length, one.pairs))
    rows = np.array(found, dtype=object).reshape(len(found), _SIDE)
    return list(rows.T)
