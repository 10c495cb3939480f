"""The thesis' validation of its seek model (3.3.1) on random cases, executed on disk.

As in the thesis, an array has the side r = x₀^p₀ · x₁^p₁ · x₂^p₂ · x₃^p₃ with x from 2, 3, 5, 7 and p from 1, 2. The
lengths of source and target blocks are divisors of r. Each pair of grids is run with five of KEEP's read shapes, then
again with source and target exchanged. The thesis counts without moving data; here the reference executor moves the
bytes and the disk below it counts. Arrays are small enough for that, and blocks differ from axis to axis. ::

    predicted   Π, Σ of per-axis counts                  (reblock.cost.seeks)
    counted     opens and byte ranges of every file      (RecordingMedium)
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.bench.notify import Notify, silent
from reblock.bench.papers.arrays import (
    Cancelled,
    bench_folder,
    check_cancelled,
    create_blocks,
    has_elements,
    never,
    store_blocks,
)
from reblock.bench.papers.figures import Shape
from reblock.cost import PRESETS, held_elements, traffic
from reblock.engine import View, execute_in_order
from reblock.geometry import Axis, Grid
from reblock.model import Layout, Pass, Problem
from reblock.passes.candidates import candidate, choice
from reblock.planner import choose
from reblock.render.tables import Column, Table
from reblock.storage.media.recording import Opening, RecordingMedium
from reblock.units import format_count

#: Limits of the arrays: length of a side, and number of blocks along an axis.
MAX_SIDE, MAX_BLOCKS = 36, 6
#: Read shapes per pair of grids.
READS_PER_PAIR = 5

_UNLIMITED = 2**40
#: Disk space for two small arrays and their folders.
_DISK_BYTES = 16 << 20


def _seeks(opening: Opening, problem: Problem) -> int:
    """Seeks of one visit: the opening, and one per run unless the whole file was moved."""
    whole = (problem.target if opening.writing else problem.source).object_bytes
    runs = opening.runs()
    return 1 if runs == [(0, whole)] else 1 + len(runs)


@dataclass
class _CaseTally:
    """Counts of all cases of one model."""

    model: str
    """baseline or keep."""
    cases: int = 0
    """Number of cases."""
    predicted: int = 0
    """Seeks that the model predicts."""
    counted: int = 0
    """Seeks, by the recording medium."""
    wrong_seeks: int = 0
    """Number of cases in which the two differ."""
    wrong_held: int = 0
    """Number of cases in which the elements held differ from the prediction."""
    wrong_bytes: int = 0
    """Number of cases with a wrong result."""

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


def run_cases(cases: int, *, folder: str, seed: int = 0, notify: Notify, cancelled: Cancelled = never) -> Table:
    """Execute random cases of KEEP, and baseline on the same grids, and count their seeks."""
    rng = random.Random(seed)  # noqa: S311 - cases are not secret
    tallies = _CaseTally("baseline"), _CaseTally("keep")
    largest = 0
    with bench_folder(folder, _DISK_BYTES, silent) as here:
        while tallies[1].cases < cases:
            if tallies[1].cases % 100 == 0:
                notify(f"validation of the seek model: case {tallies[1].cases} of {cases}")
            check_cancelled(cancelled)
            side, *pair = _draw(rng)
            largest = max(largest, side)
            array = np.random.default_rng(side).integers(0, 1 << 16, (side,) * 3, dtype="<u2")
            for source, target in (pair, pair[::-1]):
                _run_pair(here, array, source, target, rng, tallies, cases)
    failures = sum(tally.wrong_seeks + tally.wrong_held + tally.wrong_bytes for tally in tallies)
    return Table(
        "validation",
        f"Thesis 3.3.1: seeks predicted and counted on random arrays up to {largest}³, run here",
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
        (
            "The thesis reports 1,000 cases of each model, counted by a version that moves no data. A pair of "
            f"grids gives {READS_PER_PAIR} cases of KEEP and one of baseline.",
        ),
        failures=failures,
    )


def _draw(rng: random.Random) -> tuple[int, Shape, Shape]:
    """Draw the side of an array, source blocks and target blocks."""
    while True:
        side = prod(rng.choice((2, 3, 5, 7)) ** rng.choice((1, 2)) for _ in range(4))
        if side <= MAX_SIDE:
            lengths = _divisors(side, MAX_BLOCKS)
            source, target = (_shape(rng.choice(lengths) for _ in range(3)) for _ in range(2))
            if source != target:
                return side, source, target


def _divisors(length: int, most: int) -> list[int]:
    """Lengths that divide an axis into at most `most` equal blocks."""
    return [n for n in range(1, length + 1) if length % n == 0 and length // n <= most]


def _shape(lengths: Iterator[int]) -> Shape:
    a, b, c = lengths
    return a, b, c


def _run_pair(
    folder: str,
    array: npt.NDArray[Any],
    source: Shape,
    target: Shape,
    rng: random.Random,
    tallies: tuple[_CaseTally, _CaseTally],
    cases: int,
) -> None:
    """Run baseline and a few passes of KEEP from one grid to another."""
    path = os.path.join(folder, "source")
    view = store_blocks(path, array, source)
    problem = Problem(
        view.layout, Layout.raw("<u2", Grid.of(array.shape, target)), _UNLIMITED, PRESETS["nvme"], held=True
    )
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
        shorter = [n for n in _divisors(length, 2 * MAX_BLOCKS) if n < largest] if axis < 2 else []
        read = rng.choice([*shorter, largest])
        choices.append(choice(problem, axis, Axis.regular(length, read), keep=read >= target[axis]))
    return candidate(problem, choices, problem.source.order)


def _count(
    sweep: Pass, problem: Problem, view: View, path: str, chunks: Shape, array: npt.NDArray[Any], tally: _CaseTally
) -> None:
    """Execute one pass on a recording medium and compare the counts."""
    reads = traffic(sweep.reads, problem.source, sweep.read_access)
    writes = traffic(sweep.writes, problem.target, sweep.write_access, writing=True)
    store = create_blocks(path, array.shape, chunks)
    recorder = RecordingMedium()
    measured = execute_in_order(sweep, replace(view, store=recorder.of(view.store)), recorder.of(store))
    counted = sum(_seeks(opening, problem) for opening in recorder.openings)
    tally.cases += 1
    tally.predicted += reads.seeks + writes.seeks
    tally.counted += counted
    tally.wrong_seeks += counted != reads.seeks + writes.seeks
    tally.wrong_held += measured.held_elements != held_elements(sweep)
    tally.wrong_bytes += not has_elements(store, array)
    store.abort()
    shutil.rmtree(path)
