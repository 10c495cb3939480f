"""The product of points of all axes: every combination priced at once, as arrays.

Nearly all that a pass costs is a sum or product of per-axis counts, so the counts of all combinations are outer
products of one column per axis. Memory is not. A lower bound on it is: in one order of the axes, with outer axes at
their first read block, an axis carries ::

    Π first (outer axes) · carry · Π length (inner axes)

and a read block touches Π touched. The exact recursion of `reblock.cost.memory` is left for those below the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reblock.cost.estimate import pass_seconds, touching_seconds
from reblock.cost.flight import least_piece_bytes, read_bytes
from reblock.geometry import Grid
from reblock.model import Access, Pass, Problem
from reblock.passes.points import Point

Floats = npt.NDArray[np.float64]
#: Sorts costs, or arrays of costs: the first entry decides, the others break ties.
Ranking = Callable[[Any], tuple[Any, ...]]


class SideCounts(NamedTuple):
    """Counts of one side for every combination."""

    opens: Floats
    """Visits to objects."""
    inside: Floats
    """Runs inside partly touched objects."""
    seeks: Floats
    """Openings, and runs inside partly touched objects."""
    bytes: Floats
    """Logical bytes."""


@dataclass(frozen=True)
class Prices:
    """Costs of every combination; has the fields of a Cost that rankings use."""

    seeks: Floats
    """Seeks of both sides."""
    bytes_read: Floats
    """Logical bytes read."""
    bytes_written: Floats
    """Logical bytes written."""
    seconds: Floats
    """Time on the devices."""
    peak_bytes: Floats
    """Memory."""


class Ranks(NamedTuple):
    """Ranks of every combination."""

    columns: list[Floats]
    """The first decides, the others break ties."""
    by_units: npt.NDArray[np.bool_]
    """Where reading whole units is better than reading runs."""


class Product:
    """All combinations of one point per axis, as arrays that broadcast."""

    def __init__(self, problem: Problem, points: Sequence[Sequence[Point]]) -> None:
        self.problem, self.points = problem, points
        self.shape = tuple(len(axis) for axis in points)

    def make(self, place: Sequence[int], order: Sequence[int], *, by_units: bool) -> Pass:
        """The pass of one combination."""
        chosen = [axis[i] for axis, i in zip(self.points, place, strict=True)]
        read, write, tasks = (Grid(tuple(getattr(p, name) for p in chosen)) for name in ("read", "write", "tasks"))
        writes = Access.UNITS if all(point.whole for point in chosen) else Access.RUNS
        return Pass(read, write, tasks, tuple(order), Access.UNITS if by_units else Access.RUNS, writes)

    # ---------------------------------------------------------------- counts
    @cached_property
    def by_units(self) -> SideCounts:
        """Reads of whole units."""
        source = self.problem.source
        return self._side("units", source.order, source.itemsize, indexed=source.indexed)

    @cached_property
    def by_runs(self) -> SideCounts | None:
        """Reads of byte runs; None where the source has none."""
        source = self.problem.source
        return self._side("runs", source.order, source.itemsize) if source.partial_reads else None

    @cached_property
    def writes(self) -> SideCounts:
        """Writes: of whole objects where all axes are whole."""
        target = self.problem.target
        side = self._side("writes", target.order, target.itemsize)
        if not target.partial_writes or not target.objects.overhangs:
            return side
        objects, whole = self._side("objects", target.order, target.itemsize), self.times(lambda p: p.whole) > 0
        return SideCounts(*(np.where(whole, a, b) for a, b in zip(objects, side, strict=True)))

    def column(self, axis: int, value: Callable[[Point], float]) -> Floats:
        """A value of every point of one axis, shaped to broadcast over the others."""
        column = np.array([value(point) for point in self.points[axis]], np.float64)
        return column.reshape([-1 if d == axis else 1 for d in range(len(self.points))])

    def times(self, value: Callable[[Point], float]) -> Floats:
        """The product of a value over all axes."""
        columns = [self.column(axis, value) for axis in range(len(self.points))]
        return reduce(np.multiply, columns, np.ones((1,) * len(self.points)))

    def _side(self, name: str, order: tuple[int, ...], itemsize: int, *, indexed: bool = False) -> SideCounts:
        """The seek model of `cost.seeks` for all combinations."""
        opens = self.times(lambda p: getattr(p, name).pairs)
        moved = self.times(lambda p: getattr(p, name).length) * itemsize
        if indexed:
            inside = opens + self.times(lambda p: getattr(p, name).touched)
            return SideCounts(opens, inside, opens + inside, moved)
        inside, touched = np.zeros((1,) * len(self.points)), np.ones((1,) * len(self.points))
        for axis in order:
            whole, cut, units = (
                self.column(axis, lambda p, part=part: getattr(getattr(p, name), part))  # type: ignore[misc]
                for part in ("whole", "cut", "touched")
            )
            inside, touched = inside * whole + touched * cut, touched * units
        return SideCounts(opens, inside, opens + inside, moved)

    # ---------------------------------------------------------------- ranks
    def rank(self, key: Ranking, memory: Floats) -> Ranks:
        """The rank of every combination, if it takes that much memory."""
        units = key(self._prices(self.by_units, memory))
        if self.by_runs is None:
            return Ranks(list(units), np.array(True))
        runs = key(self._prices(self.by_runs, memory))
        better = np.asarray(units[0] < runs[0])
        return Ranks([np.where(better, a, b) for a, b in zip(units, runs, strict=True)], better)

    def _prices(self, reads: SideCounts, memory: Floats) -> Prices:
        source, target, writes = self.problem.source, self.problem.target, self.writes
        devices = (self.problem.devices[0], self.problem.devices[2])
        seconds = pass_seconds(reads, writes, source, target, devices)
        cached = writes.bytes * (1 - self.times(lambda p: p.whole))
        seconds = seconds + touching_seconds(memory, cached, devices[1])
        return Prices(reads.seeks + writes.seeks, reads.bytes, writes.bytes, seconds, memory)

    # ---------------------------------------------------------------- memory
    @cached_property
    def least(self) -> Floats:
        """A lower bound on the memory of every combination, in any order of the axes."""
        length, carry = self._columns("length"), self._columns("carry")
        axes = range(len(self.points))
        carried = [
            reduce(np.multiply, [length[inner] for inner in axes if inner != axis], carry[axis]) for axis in axes
        ]
        return self._bytes(np.maximum(self._touched, reduce(np.minimum, carried)) if carried else self._touched)

    def least_in(self, order: Sequence[int]) -> Floats:
        """The lower bound in one order of the axes."""
        first, carry, length = (self._columns(name) for name in ("first", "carry", "length"))
        most, outer = self._touched, np.ones((1,) * len(self.points))
        for place, axis in enumerate(order):
            inner = [length[other] for other in order[place + 1 :]]
            most = np.maximum(most, reduce(np.multiply, inner, outer * carry[axis]))
            outer = outer * first[axis]
        return self._bytes(most)

    @cached_property
    def likely(self) -> Floats:
        """An estimate of the memory of every combination, with the best axis outermost."""
        length, touched, carry = (self._columns(name) for name in ("length", "touched", "carry"))
        axes = range(len(self.points))
        sums = [self._touched]
        for outermost in axes:
            held, outer = np.zeros(()), np.ones(())
            for axis in (outermost, *(a for a in axes if a != outermost)):
                held, outer = held * length[axis] + outer * carry[axis], outer * touched[axis]
            sums.append(held + outer)
        needs = reduce(np.minimum, sums[1:] or sums) * self.problem.target.itemsize
        return needs if self.problem.held else needs + self._flight

    def _columns(self, name: str) -> list[Floats]:
        return [self.column(axis, lambda p: getattr(p, name)) for axis in range(len(self.points))]

    @cached_property
    def _touched(self) -> Floats:
        return self.times(lambda p: p.touched)

    def _bytes(self, elements: Floats) -> Floats:
        """Bytes for a bound in elements, less one part in a billion for rounding."""
        needs = elements * self.problem.target.itemsize
        return (needs if self.problem.held else needs + self._flight) * (1 - 1e-9)

    @cached_property
    def _flight(self) -> Floats:
        """The least memory of one unit in flight."""
        source, writing = self.problem.source, self.problem.target.encoding_bytes
        if source.encoded:
            return np.array(source.unit_memory_bytes + writing, np.float64)
        if source.indexed:
            return np.array(source.unit_bytes + writing, np.float64)
        visit = self.times(lambda p: p.visit) * source.itemsize
        flight: Floats = read_bytes(visit, source, least_piece_bytes(visit, source)) + writing
        return flight
