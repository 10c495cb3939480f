"""The thesis' experiments, really run: its configurations at a scale, through the engine, on raw block files."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.bench.cold import evict
from reblock.bench.notify import Notify
from reblock.bench.papers.figures import Config, Shape
from reblock.cost import PRESETS
from reblock.engine import View, execute_plan
from reblock.errors import UsageError
from reblock.geometry import Grid
from reblock.model import Layout, Problem, Schema, Store
from reblock.planner import AUTO, Decision, choose
from reblock.render.tables import Column, Table, yes_no
from reblock.runs.scratch import ScratchFolder
from reblock.storage import registry
from reblock.units import format_count, format_seconds, format_size

#: Runs of which the median is taken.
REPEATS = 3
#: Strategies that the thesis' configurations are run with.
STRATEGIES = ("baseline", "keep", AUTO)

#: What divides every block shape; without a scale the array would not fit in memory.
SCALES = (5, 25)

#: What plans are made for.
DEVICE = PRESETS["nvme"]
Array = npt.NDArray[Any]


# ---------------------------------------------------------------- arrays of raw blocks in a folder
def create_blocks(path: str, shape: Shape, chunks: Shape) -> Store:
    """An empty array of raw blocks."""
    kind = registry.get("rawblocks")
    return kind.create(path, "", kind.adapt(Schema(shape, np.dtype("<u2"), chunks), {"chunks"}))


def store_blocks(path: str, array: Array, chunks: Shape) -> View:
    """An array on disk, cut into blocks, ready to be read."""
    store = create_blocks(path, array.shape, chunks)
    for index in store.layout.objects.indices():
        array[store.layout.objects.box(index).slices].tofile(store.place(index).path)
    store.commit()
    return View.whole(registry.open(path))


def holds(store: Store, array: Array) -> bool:
    """Whether every block of a store has the array's elements."""
    objects = store.layout.objects
    for index in objects.indices():
        box = objects.box(index)
        path = store.place(index).path
        found = np.fromfile(path, "<u2") if os.path.exists(path) else np.empty(0, "<u2")
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
def check_run(scale: int, cases: int = 0) -> None:
    """Refuse what cannot be run before anything is."""
    if scale not in SCALES:
        raise UsageError(f"lengths cannot be divided by {scale}: use {' or '.join(map(str, SCALES))}")
    if cases < 0:
        raise UsageError(f"the number of cases must be at least 0, not {cases}")


def run_configs(
    configs: Sequence[Config], budgets: Sequence[int], *, scale: int = 25, repeats: int = REPEATS, notify: Notify
) -> Table:
    """Baseline, KEEP and auto through the engine, all lengths divided by `scale`, budgets by its cube."""
    check_run(scale)
    shapes = [config.scaled(scale) for config in configs]
    rows: list[tuple[Any, ...]] = []
    with tempfile.TemporaryDirectory(prefix="reblock-papers-") as folder:
        for number, (whole, source, target) in enumerate(shapes):
            array = np.random.default_rng(number).integers(0, 1 << 16, whole, dtype="<u2")
            view = store_blocks(os.path.join(folder, f"source-{number}"), array, source)
            for budget, strategy in _runs(budgets):
                notify(f"config {number}, {budget / 1e9:g} GB / {scale}³, {strategy}")
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
    problem = Problem(view.layout, layout, max(memory_bytes, 1), DEVICE, held=True)
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
    store = create_blocks(path, array.shape, chunks)
    try:
        began = perf_counter()
        with ScratchFolder(decision.plan, os.path.dirname(path)) as scratch:
            measured = execute_plan(decision.plan, view, store, scratch)
        store.commit()
        seconds = perf_counter() - began
        seeks = sum(one.source.seeks + one.target.seeks for one in measured)
        return _Run(seeks, max(one.peak_bytes for one in measured), seconds, holds(store, array))
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
