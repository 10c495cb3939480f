"""The thesis' experiments, really run: its configurations at a scale, and its validation of the seek model (3.3.1).

Validation, as the thesis tells it: an array of side r = x₀^p₀ · x₁^p₁ · x₂^p₂ · x₃^p₃ with x from 2, 3, 5, 7 and p from
1, 2; source and target blocks of divisors of r; five read shapes from KEEP's candidates; then the same with source
and target exchanged. The thesis runs a light version of its algorithm; here the reference executor moves the bytes,
and the disk below it counts. Arrays are small enough for that, and blocks differ from axis to axis. ::

    predicted   Π, Σ of per-axis counts                  (reblock.cost.seeks)
    counted     opens and byte ranges of every file      (CountingDisk)
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.api.bench_device import evict
from reblock.api.scratch import ScratchFolder
from reblock.cost import PRESETS, held_elements, traffic
from reblock.engine import Disk, View, execute_in_order, execute_plan
from reblock.engine.disk import Handle
from reblock.errors import UsageError
from reblock.geometry import Axis, Grid
from reblock.model import Bytes, Layout, Pass, Problem, Schema, Store
from reblock.planner import AUTO, Decision, choose
from reblock.render.tables import Column, Table, yes_no
from reblock.storage import registry
from reblock.strategies.candidates import candidate, choice
from reblock.strategies.papers import Config, Shape
from reblock.units import format_count, format_seconds, format_size

#: Runs of which the median is taken.
REPEATS = 3
#: Strategies that the thesis' configurations are run with.
STRATEGIES = ("baseline", "keep", AUTO)

#: Longest side of a validation array, and most blocks along an axis of it.
MOST_SIDE, MOST_BLOCKS = 36, 6
#: Read shapes per pair of grids.
READS_PER_PAIR = 5

_DEVICE = PRESETS["nvme"]
_UNLIMITED = 2**40
Tell = Callable[[str], None]
Array = npt.NDArray[Any]


# ---------------------------------------------------------------- arrays of raw blocks in a folder
def _create(path: str, shape: Shape, chunks: Shape) -> Store:
    kind = registry.get("rawblocks")
    return kind.create(path, "", kind.adapt(Schema(shape, np.dtype("<u2"), chunks), {"chunks"}))


def _store(path: str, array: Array, chunks: Shape) -> View:
    """An array on disk, cut into blocks, ready to be read."""
    store = _create(path, array.shape, chunks)
    for index in store.layout.objects.indices():
        array[store.layout.objects.box(index).slices].tofile(store.place(index).path)
    store.commit()
    return View.whole(registry.open(path))


def _holds(store: Store, array: Array) -> bool:
    """Whether every block of a store has the array's elements."""
    objects = store.layout.objects
    for index in objects.indices():
        box = objects.box(index)
        found = np.fromfile(store.place(index).path, "<u2")
        if found.size != box.size or not np.array_equal(found.reshape(box.shape), array[box.slices]):
            return False
    return True


def _forget(store: Store) -> None:
    """Drop a store's blocks from the page cache."""
    for index in store.layout.objects.indices():
        descriptor = os.open(store.place(index).path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            evict(descriptor)
        finally:
            os.close(descriptor)


# ---------------------------------------------------------------- the thesis' configurations
def run_configs(
    configs: Sequence[Config], budgets: Sequence[int], *, scale: int = 25, repeats: int = REPEATS, tell: Tell
) -> Table:
    """Baseline, KEEP and auto through the engine, all lengths divided by `scale`, budgets by its cube."""
    try:
        shapes = [config.scaled(scale) for config in configs]
    except (ValueError, ZeroDivisionError):
        raise UsageError(f"a scale of {scale} does not divide every block shape: use 1, 5 or 25") from None
    rows: list[tuple[Any, ...]] = []
    with tempfile.TemporaryDirectory(prefix="reblock-papers-") as folder:
        for number, (whole, source, target) in enumerate(shapes):
            array = np.random.default_rng(number).integers(0, 1 << 16, whole, dtype="<u2")
            view = _store(os.path.join(folder, f"source-{number}"), array, source)
            for budget, strategy in _runs(budgets):
                tell(f"config {number}, {budget / 1e9:g} GB / {scale}³, {strategy}")
                goal = os.path.join(folder, "target")
                decision = _decide(view, whole, target, budget // scale**3, strategy)
                ran = [_run(decision, view, goal, target, array) for _ in range(repeats)]
                rows.append((number, None if strategy == "baseline" else budget, strategy, *_row(decision, ran)))
            shutil.rmtree(os.path.join(folder, f"source-{number}"))
    side = shapes[0][0][0]
    return Table(
        "runs",
        f"Thesis Fig. 5, run here: A = {side}³, budgets divided by {scale}³, median of {repeats} runs",
        (
            Column("config", "config"),
            Column("memory_bytes", "GB", lambda value: f"{value / 1e9:g}"),
            Column("strategy", "strategy"),
            Column("seeks_predicted", "predicted", format_count),
            Column("seeks_measured", "measured", format_count),
            Column("held_bytes", "held", format_size),
            Column("peak_bytes", "allocated", format_size),
            Column("seconds", "time", format_seconds),
            Column("verified", "verified", yes_no),
        ),
        tuple(rows),
        (
            "GB is the budget at full size; baseline needs one block whatever the budget. The source is dropped from "
            "the page cache before each run; writes go through it, as in the thesis.",
            "Budgets count elements held, as in the thesis; allocated is what the threaded engine took.",
        ),
        failures=sum(row[3] != row[4] or not row[8] for row in rows),
    )


def _runs(budgets: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Budgets and strategies; baseline is the same under every budget that lets it run."""
    yield max(budgets), "baseline"
    for budget in budgets:
        for strategy in STRATEGIES[1:]:
            yield budget, strategy


def _decide(view: View, shape: Shape, target: Shape, memory_bytes: int, strategy: str) -> Decision:
    layout = Layout.raw(view.layout.dtype, Grid.of(shape, target))
    problem = Problem(view.layout, layout, max(memory_bytes, 1), _DEVICE, held=True)
    return choose(problem, strategy=strategy, objective="seeks")


@dataclass(frozen=True)
class _Run:
    """One run."""

    seeks: int
    """As the engine counted them."""
    peak_bytes: int
    """Most bytes that it allocated."""
    seconds: float
    """Until the target was committed."""
    verified: bool
    """Whether the result is right."""


def _run(decision: Decision, view: View, path: str, chunks: Shape, array: Array) -> _Run:
    _forget(view.store)
    store = _create(path, array.shape, chunks)
    try:
        began = perf_counter()
        with ScratchFolder(decision.plan, os.path.dirname(path)) as scratch:
            measured = execute_plan(decision.plan, view, store, scratch)
        store.commit()
        seconds = perf_counter() - began
        seeks = sum(one.source.seeks + one.target.seeks for one in measured)
        return _Run(seeks, max(one.peak_bytes for one in measured), seconds, _holds(store, array))
    finally:
        store.abort()
        shutil.rmtree(path)


def _row(decision: Decision, ran: Sequence[_Run]) -> tuple[Any, ...]:
    """A run whose count is off shows, though the others were right."""
    seeks = next((one.seeks for one in ran if one.seeks != decision.cost.seeks), ran[0].seeks)
    return (
        decision.cost.seeks,
        seeks,
        decision.cost.held_bytes,
        max(one.peak_bytes for one in ran),
        median(one.seconds for one in ran),
        all(one.verified for one in ran),
    )


# ---------------------------------------------------------------- a disk that counts
@dataclass
class _Visit:
    """One opening of one file."""

    whole_bytes: int
    """Size of the files of its side."""
    runs: int = 0
    """Contiguous byte ranges."""
    bytes: int = 0
    """All of them."""
    end: int = -1
    """Where the last one ended."""

    def move(self, offset: int, count: int) -> None:
        self.runs += offset != self.end
        self.bytes += count
        self.end = offset + count

    @property
    def seeks(self) -> int:
        """An opening, and one per run unless the file was moved whole."""
        return 1 if self.runs == 1 and self.bytes == self.whole_bytes else 1 + self.runs


@dataclass
class CountingDisk(Disk):
    """A real disk that counts openings and byte ranges, for arrays whose blocks have one size."""

    source_bytes: int
    """Size of a source block."""
    target_bytes: int
    """Size of a target block."""
    visits: list[_Visit] = field(default_factory=list)
    """All openings so far."""

    def reader(self, path: str) -> Handle:
        """Open a file for reading and count it."""
        return self._counted(super().reader(path), self.source_bytes)

    def writer(self, path: str) -> Handle:
        """Open a file for writing and count it."""
        return self._counted(super().writer(path), self.target_bytes)

    def _counted(self, handle: Handle, whole_bytes: int) -> Handle:
        self.visits.append(_Visit(whole_bytes))
        return _CountingHandle(handle, self.visits[-1])

    @property
    def seeks(self) -> int:
        """Openings plus runs inside partly touched files."""
        return sum(visit.seeks for visit in self.visits)


class _CountingHandle(Handle):
    def __init__(self, handle: Handle, visit: _Visit) -> None:
        super().__init__(handle.path, handle.detach())
        self._visit = visit

    def read(self, view: memoryview, offset: int) -> int:
        count = super().read(view, offset)
        self._visit.move(offset, count)
        return count

    def write(self, parts: Sequence[Bytes], offset: int) -> None:
        super().write(parts, offset)
        self._visit.move(offset, sum(len(part) for part in parts))


# ---------------------------------------------------------------- the validation of the model
@dataclass
class _Tally:
    """Cases of one model."""

    model: str
    """baseline or keep."""
    cases: int = 0
    """How many."""
    predicted: int = 0
    """Seeks, by the model."""
    counted: int = 0
    """Seeks, by the disk."""
    wrong_seeks: int = 0
    """Cases in which these differ."""
    wrong_held: int = 0
    """Cases in which the elements held differ from the prediction."""
    wrong_bytes: int = 0
    """Cases whose result is not the array."""

    @property
    def row(self) -> tuple[Any, ...]:
        return (
            self.model,
            self.cases,
            self.predicted,
            self.counted,
            self.wrong_seeks,
            self.wrong_held,
            self.wrong_bytes,
        )


def run_cases(cases: int, *, seed: int = 0, tell: Tell) -> Table:
    """So many random cases of KEEP, and baseline on the same grids, executed and counted."""
    if cases < 1:
        raise UsageError(f"the number of cases must be at least 1, not {cases}")
    rng = random.Random(seed)  # noqa: S311 - cases are no secret
    tallies = _Tally("baseline"), _Tally("keep")
    largest = 0
    with tempfile.TemporaryDirectory(prefix="reblock-papers-") as folder:
        while tallies[1].cases < cases:
            if tallies[1].cases % 100 == 0:
                tell(f"validation of the seek model: case {tallies[1].cases} of {cases}")
            side, *pair = _draw(rng)
            largest = max(largest, side)
            array = np.random.default_rng(side).integers(0, 1 << 16, (side,) * 3, dtype="<u2")
            for source, target in (pair, pair[::-1]):
                _run_pair(folder, array, source, target, rng, tallies, cases)
    failures = sum(tally.wrong_seeks + tally.wrong_held + tally.wrong_bytes for tally in tallies)
    return Table(
        "validation",
        f"Thesis 3.3.1: seeks predicted and counted on random arrays up to {largest}³, really executed",
        (
            Column("model", "model"),
            Column("cases", "cases", format_count),
            Column("seeks_predicted", "predicted", format_count),
            Column("seeks_counted", "counted", format_count),
            Column("wrong_seeks", "seeks differ", format_count),
            Column("wrong_held", "held differ", format_count),
            Column("wrong_bytes", "bytes differ", format_count),
        ),
        tuple(tally.row for tally in tallies),
        ("The thesis reports 1,000 cases of each model, counted by a light version that moves no data.",),
        failures=failures,
    )


def _draw(rng: random.Random) -> tuple[int, Shape, Shape]:
    """Side of an array, source blocks and target blocks."""
    while True:
        side = prod(rng.choice((2, 3, 5, 7)) ** rng.choice((1, 2)) for _ in range(4))
        lengths = [n for n in range(1, side + 1) if side % n == 0 and side // n <= MOST_BLOCKS]
        source, target = (_shape(rng.choice(lengths) for _ in range(3)) for _ in range(2))
        if side <= MOST_SIDE and source != target:
            return side, source, target


def _shape(lengths: Iterator[int]) -> Shape:
    a, b, c = lengths
    return a, b, c


def _run_pair(
    folder: str,
    array: Array,
    source: Shape,
    target: Shape,
    rng: random.Random,
    tallies: tuple[_Tally, _Tally],
    cases: int,
) -> None:
    """Baseline and a few KEEP passes from one grid to another."""
    path = os.path.join(folder, "source")
    view = _store(path, array, source)
    problem = Problem(view.layout, Layout.raw("<u2", Grid.of(array.shape, target)), _UNLIMITED, _DEVICE, held=True)
    baseline, keep = tallies
    (sweep,) = choose(problem, strategy="baseline").plan.passes
    _count(sweep, problem, view, os.path.join(folder, "target"), target, array, baseline)
    for _ in range(min(READS_PER_PAIR, cases - keep.cases)):
        sweep = _keep_pass(problem, source, target, rng)
        _count(sweep, problem, view, os.path.join(folder, "target"), target, array, keep)
    shutil.rmtree(path)


def _keep_pass(problem: Problem, source: Shape, target: Shape, rng: random.Random) -> Pass:
    """One of KEEP's candidates: r̂ along the last axis, divisors of the array or r̂ along the others."""
    choices = []
    for axis, length in enumerate(problem.shape):
        largest = min(source[axis] * -(-target[axis] // source[axis]), length)
        lengths = [n for n in range(1, largest) if length % n == 0] if axis < 2 else []
        read = rng.choice([*lengths, largest])
        choices.append(choice(problem, axis, Axis.regular(length, read), keep=read >= target[axis]))
    return candidate(problem, choices, problem.source.order)


def _count(sweep: Pass, problem: Problem, view: View, path: str, chunks: Shape, array: Array, tally: _Tally) -> None:
    """Execute one pass on the counting disk and compare."""
    reads = traffic(sweep.reads, problem.source, sweep.read_access)
    writes = traffic(sweep.writes, problem.target, sweep.write_access, writing=True)
    store = _create(path, array.shape, chunks)
    disk = CountingDisk(problem.source.object_bytes, problem.target.object_bytes)
    measured = execute_in_order(sweep, view, store, disk=disk)
    tally.cases += 1
    tally.predicted += reads.seeks + writes.seeks
    tally.counted += disk.seeks
    tally.wrong_seeks += disk.seeks != reads.seeks + writes.seeks
    tally.wrong_held += measured.held_elements != held_elements(sweep)
    tally.wrong_bytes += not _holds(store, array)
    store.abort()
    shutil.rmtree(path)
