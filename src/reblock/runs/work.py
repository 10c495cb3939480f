"""Work: what a run has to do, array by array, and the results of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from reblock.engine import Measured, View
from reblock.model import Plan, Problem, Schema, Tree, TreeStore
from reblock.runs.group_commit import ArrayLedger


@dataclass
class Work:
    """One array of a run, and its results."""

    name: str
    """Its name in the dataset; "" if it is not in one."""
    inner: str
    """Its path inside the target."""
    source: View
    """The source, with whole chunks as units."""
    schema: Schema
    """What it is to be."""
    plan: Plan
    """Its plan; that of an earlier attempt, if there is one."""
    problem: Problem
    """The problem that the plan solves."""
    first: int = 0
    """Number of its first pass; passes are numbered over all arrays of a run."""
    measured: list[Measured] = field(default_factory=list)
    """The measurements of each pass."""
    resumed: int = 0
    """Write boxes that were already finished."""
    sums: str | None = None
    """Its digest."""
    notes: list[str] = field(default_factory=list)
    """Notes for the report."""

    @property
    def last(self) -> int:
        """Number of the last pass, counted from its first."""
        return len(self.plan.passes) - 1

    @property
    def boxes(self) -> int:
        """All write boxes of all passes."""
        return sum(sweep.writes.count for sweep in self.plan.passes)

    def take_over(self, sums: str | None) -> None:
        """Take the results of an earlier run that has done everything."""
        self.measured, self.resumed, self.sums = [Measured() for _ in self.plan.passes], self.boxes, sums

    def finished_parts(self, ledger: ArrayLedger) -> list[float]:
        """The finished share of each pass; interleaved passes are as far as the last one."""
        size = max(prod(self.plan.shape), 1)
        done = []
        for number, sweep in enumerate(self.plan.passes):
            ranges = ledger.finished(number).ranges()
            done.append(sum(sweep.writes.size_before(b) - sweep.writes.size_before(a) for a, b in ranges) / size)
        return [done[-1]] * len(done) if self.plan.interleaved else done


@dataclass
class TableWork:
    """One table of a run, and its digest."""

    name: str
    """Its name in the dataset."""
    ranges: Sequence[tuple[int, int]]
    """The part that is taken along each axis."""
    sums: str | None = None
    """Its digest."""


@dataclass(frozen=True)
class DatasetWork:
    """What a run on a dataset has to do besides its arrays."""

    source: TreeStore
    """The source."""
    tree: Tree
    """The target, adapted to its format."""
    inner: str
    """The target's group."""
    tables: Sequence[TableWork]
    """Tables that are copied."""
    memory_bytes: int
    """The memory budget."""


def number_passes(works: Sequence[Work]) -> None:
    """Number the passes of all arrays consecutively."""
    first = 0
    for work in works:
        work.first = first
        first += len(work.plan.passes)
