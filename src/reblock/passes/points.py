"""Points: what a pass may do along one axis, with everything that the cost of a pass takes from that axis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from reblock.cost.memory import axis_carry
from reblock.geometry import Axis, Overlap, overlap
from reblock.model import Problem


class Sides(NamedTuple):
    """One axis of the problem."""

    objects: Axis
    """Objects of the source."""
    units: Axis
    """Units of the source."""
    target: Axis
    """Objects of the target."""


class Rules(NamedTuple):
    """How memory and overlaps are counted along an axis."""

    partial_reads: bool
    """Whether the source can be read by byte runs."""
    partial_writes: bool
    """Whether the target can be written by byte runs."""
    slabs: bool
    """Whether write boxes take memory as elements arrive: the papers' count, or slabs."""
    padding: bool
    """Whether the padding of target objects takes memory: only where they can only be written whole."""


def sides_of(problem: Problem, axis: int) -> Sides:
    """One axis of a problem."""
    source, target = problem.source, problem.target
    return Sides(source.objects.axes[axis], source.units.axes[axis], target.objects.axes[axis])


def rules_of(problem: Problem, *, slabs: bool = False) -> Rules:
    """How a problem counts along an axis, which may be cut into slabs."""
    held = problem.held
    partial_writes = problem.target.partial_writes
    return Rules(problem.source.partial_reads, partial_writes, slabs or held, not held and not partial_writes)


@dataclass(frozen=True)
class Point:
    """One axis of a pass, and all that its cost takes from it."""

    sides: Sides
    """The axis of the problem."""
    rules: Rules
    """How it is counted."""
    read: Axis
    """R ∪ T on this axis."""
    write: Axis
    """W ∪ T on this axis."""
    tasks: Axis
    """T on this axis."""
    touched: int
    """Length that the write blocks of one read block take, at the most."""
    carry: int
    """Length that is carried from one read block to the next, at the most."""

    @cached_property
    def runs(self) -> Overlap:
        """Reads by byte runs against the source, or by whole units where runs are impossible."""
        return overlap(self.read, self.sides.objects) if self.rules.partial_reads else self.units

    @cached_property
    def units(self) -> Overlap:
        """Reads by whole units against the source."""
        return overlap(self.read, self.sides.objects, self.sides.units)

    @cached_property
    def writes(self) -> Overlap:
        """Writes by byte runs against the target, or by whole objects where runs are impossible."""
        return overlap(self.write, self.sides.target) if self.rules.partial_writes else self.objects

    @cached_property
    def objects(self) -> Overlap:
        """Writes by whole objects against the target."""
        return overlap(self.write, self.sides.target, self.sides.target)

    @cached_property
    def whole(self) -> bool:
        """Whether target objects are written whole."""
        return self.write.count == self.sides.target.count

    @cached_property
    def first(self) -> int:
        """Length that the first read block takes: of itself, or of the write blocks that it overlaps."""
        if not self.read.count:
            return 0
        end = self.read.start(1)
        return end if self.rules.slabs else self.write.start(self.write.index(end - 1) + 1)

    @property
    def length(self) -> int:
        """Length of the longest task."""
        return self.tasks.largest

    @cached_property
    def visit(self) -> int:
        """Length of the part of an object that one read block overlaps, at the most."""
        return min(self.read.largest, self.sides.objects.largest)

    def marks(self) -> tuple[int, ...]:
        """Counts of which less is better."""
        return (
            self.runs.pairs,
            self.runs.cut,
            self.units.pairs,
            self.units.length,
            self.writes.pairs,
            self.writes.cut,
            self.touched,
            self.carry,
            self.carry and self.length,
            self.length,
        )


@lru_cache(maxsize=1 << 14)
def make_point(sides: Sides, rules: Rules, read: Axis, write: Axis, tasks: Axis) -> Point:
    """The point of R, W and T along an axis; Refused where they are too irregular."""
    reads, writes = read.refine(tasks), write.refine(tasks)
    trail = sides.target.trail if rules.padding and writes.count == sides.target.count else 0
    carried = axis_carry(reads, writes, tasks, trail, allocated=not rules.slabs)
    return Point(sides, rules, reads, writes, tasks, *carried)
