"""The thesis' experiments run on disk: Table 3 at a smaller scale, on raw block files, with `api.plan` and `api.run`.

Every run starts with a source that is not in the page cache and ends after a sync. Its time is divided as in Fig. 6.
Our engine reads, copies and writes at the same time, so its elapsed time is divided in proportion to the seconds that
its threads spent ::

    planning = seconds of `plan`
    read     = engine · read / (read + copy + write)
    write    = engine · write / (read + copy + write) + sync
    overhead = all the rest: copies and digest, opening, journal, publishing
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, prod
from statistics import median
from time import perf_counter
from typing import Any

from reblock import api
from reblock.bench.files import empty, evict_array
from reblock.bench.notify import Notify
from reblock.bench.papers.arrays import Cancelled, bench_folder, check_cancelled, make_blocks, never
from reblock.bench.papers.figures import FIGURE_5B, FIGURE_5B_GB, ITEM_BYTES, Config
from reblock.engine import Report
from reblock.errors import InfeasibleError, Refused, UsageError
from reblock.model import Cost, Device
from reblock.planner import AUTO
from reblock.render.tables import Column, Table, number, yes_no
from reblock.units import format_count, format_seconds, format_size

#: Divisors of all lengths in Table 3.
SCALES = (1, 5, 25)
#: Runs per configuration, budget and strategy; medians are reported.
REPEATS = 3
#: Baseline runs only if it has at most this many seeks, and for at most this time.
MAX_BASELINE_SEEKS, MAX_BASELINE_SECONDS = 20_000_000, 300.0
#: Disk space in arrays: source, target, and one intermediate array.
_ARRAYS = 3


@dataclass(frozen=True)
class TimeSplit:
    """The seconds of one run, divided as in thesis Fig. 6."""

    planning: float
    """Opening the source and choosing the plan."""
    read: float
    """Share of reading in the engine's time."""
    write: float
    """Share of writing in the engine's time, and the final sync."""
    overhead: float
    """Everything else."""

    @property
    def total(self) -> float:
        return self.planning + self.read + self.write + self.overhead

    @classmethod
    def of(cls, report: Report, planning: float, sync: float) -> TimeSplit:
        """Divide the time of a run."""
        times = report.times
        busy = times.read + times.decode + times.scatter + times.encode + times.write
        share = min(report.measured.seconds, report.elapsed_seconds) / busy if busy else 0.0
        read, write = times.read * share, times.write * share
        return cls(planning, read, write + sync, report.elapsed_seconds - read - write)


@dataclass(frozen=True)
class TimedRun:
    """One run with its times."""

    report: Report
    """Predicted and measured counts."""
    split: TimeSplit
    """Its time."""
    verified: bool
    """Whether the result has the source's elements and digest."""

    @property
    def wrong(self) -> bool:
        """Whether the count or the result is wrong."""
        return self.report.measured.seeks != self.report.predicted.seeks or not self.verified


@dataclass(frozen=True)
class ConfigRun:
    """All runs of one configuration with one strategy and one budget."""

    number: int
    """Number of the configuration in Table 3."""
    budget: int | None
    """Budget in bytes at full size; None for baseline, which is the same under every budget."""
    strategy: str
    """baseline, keep or auto."""
    cost: Cost | None
    """Predicted cost; None where no plan fits into the budget."""
    runs: tuple[TimedRun, ...] = ()
    """The runs; none where the figures are arithmetic."""
    skipped: str = ""
    """Reason why it did not run."""

    @property
    def median(self) -> TimedRun | None:
        """The run with the median time."""
        ordered = sorted(self.runs, key=lambda run: run.split.total)
        return ordered[(len(ordered) - 1) // 2] if ordered else None

    @property
    def shown(self) -> TimedRun | None:
        """The run whose counts are shown: the first wrong one, else the median."""
        return next((run for run in self.runs if run.wrong), self.median)


def check_scale(scale: int) -> None:
    """Refuse a scale that does not divide every length."""
    if scale not in SCALES:
        raise UsageError(f"lengths cannot be divided by {scale}: use {', '.join(map(str, SCALES))}")


def run_thesis(
    configs: Sequence[Config],
    budgets: Sequence[int],
    *,
    scale: int,
    folder: str,
    repeats: int = REPEATS,
    device: Device | None = None,
    notify: Notify,
    cancelled: Cancelled = never,
) -> list[Table]:
    """Run baseline, KEEP and auto with all lengths divided by `scale` and all budgets by its cube."""
    check_scale(scale)
    side = configs[0].scaled(scale)[0][0]
    runs: list[ConfigRun] = []
    with bench_folder(folder, _ARRAYS * ITEM_BYTES * side**3, notify) as here:
        made = ""
        for place, config in enumerate(configs):
            shape, chunks, _ = config.scaled(scale)
            source = os.path.join(here, "-".join(map(str, chunks)))
            if source != made:
                if made:
                    empty(made)
                notify(f"config {place}: making the source, {format_size(ITEM_BYTES * prod(shape))}")
                make_blocks(source, shape, chunks, cancelled)
                made = source
            bench = _Bench(source, os.path.join(here, f"config-{place}"), scale, device, cancelled)
            for budget, strategy in _combinations(budgets):
                notify(f"config {place}, {strategy}, {budget / 1e9:g} GB / {scale}³")
                runs.append(bench.measure(place, config, budget, strategy, repeats))
                notify(f"  {_summary(runs[-1])}")
    return [_count_table(runs, side, scale, repeats), _time_table(runs, side)]


def _combinations(budgets: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Budgets and strategies; baseline runs once, with the largest budget."""
    yield max(budgets), "baseline"
    for budget in budgets:
        for strategy in ("keep", AUTO):
            yield budget, strategy


def _summary(run: ConfigRun) -> str:
    if run.shown is None or run.median is None:
        return run.skipped
    return f"{format_seconds(run.median.split.total)}, {format_count(run.shown.report.measured.seeks)} seeks"


# ---------------------------------------------------------------- runs
@dataclass
class _Bench:
    """Where and how the runs of one configuration are made."""

    source: str
    """Folder of the source."""
    prefix: str
    """Start of the names of the runs' folders."""
    scale: int
    """Divisor of all lengths."""
    device: Device | None
    """Device that plans are made for; None for the default."""
    cancelled: Cancelled
    """Whether the user wants to stop."""
    runs: int = 0
    """Number of runs made so far."""

    def measure(self, place: int, config: Config, budget: int, strategy: str, repeats: int) -> ConfigRun:
        """Run one strategy under one budget, or only plan it where that would take too long."""
        memory = max(1, budget // self.scale**3)
        shown = None if strategy == "baseline" else budget
        limit = MAX_BASELINE_SECONDS if strategy == "baseline" else inf
        try:
            cost = self._plan(config, memory, strategy, self.prefix).cost
        except (InfeasibleError, Refused) as error:
            return ConfigRun(place, shown, strategy, None, skipped=error.message)
        if strategy == "baseline" and cost.seeks > MAX_BASELINE_SEEKS:
            return ConfigRun(
                place, shown, strategy, cost, skipped=f"more than {format_count(MAX_BASELINE_SEEKS)} seeks"
            )
        runs = []
        for _ in range(repeats):
            check_cancelled(self.cancelled)
            run = self._run(config, memory, strategy, limit)
            if run is None:
                return ConfigRun(place, shown, strategy, cost, skipped=f"stopped after {format_seconds(limit)}")
            runs.append(run)
        return ConfigRun(place, shown, strategy, cost, tuple(runs))

    def _plan(self, config: Config, memory: int, strategy: str, folder: str) -> api.Job:
        """Plan a run; baseline and KEEP count memory and seeks as the thesis does, auto as `reblock run` does."""
        options: dict[str, Any] = {} if self.device is None else {"device": self.device}
        if strategy != AUTO:
            options.update(memory_model="held", objective="seeks")
        chunks = config.scaled(self.scale)[2]
        target = os.path.join(folder, "target", "")
        return api.plan_array(
            self.source, target, chunks=chunks, memory=memory, strategy=strategy, to_format="rawblocks", **options
        )

    def _run(self, config: Config, memory: int, strategy: str, limit: float) -> TimedRun | None:
        """Plan, run, sync and verify; None if the run took longer than the limit."""
        folder = f"{self.prefix}-{self.runs}"
        self.runs += 1
        os.mkdir(folder)
        evict_array(self.source)
        began = perf_counter()
        job = self._plan(config, memory, strategy, folder)
        planned = perf_counter()
        try:
            report = api.run(job, cancelled=lambda: self.cancelled() or perf_counter() > planned + limit)
        except KeyboardInterrupt:
            check_cancelled(self.cancelled)
            if perf_counter() <= planned + limit:
                raise
            empty(folder)
            return None
        ended = perf_counter()
        os.sync()
        split = TimeSplit.of(report, planned - began, perf_counter() - ended)
        verdict = api.verify(self.source, report.target)
        empty(folder)
        return TimedRun(report, split, verdict.equal and verdict.target_digest == report.digest)


# ---------------------------------------------------------------- tables
_CELL = (
    Column("config", "config"),
    Column("memory_bytes", "GB", lambda value: f"{value / 1e9:g}"),
    Column("strategy", "strategy"),
)


def _count_table(runs: Sequence[ConfigRun], side: int, scale: int, repeats: int) -> Table:
    rows = [(run.number, run.budget, run.strategy, *_counts(run)) for run in runs]
    skipped = [f"Config {run.number}, {run.strategy}: {run.skipped}." for run in runs if run.skipped]
    return Table(
        "runs",
        f"Thesis Fig. 5, run here: A = {side}³, budgets divided by {scale}³, median of {repeats}",
        (
            *_CELL,
            Column("ran", "run", yes_no),
            Column("seeks_predicted", "predicted", format_count),
            Column("seeks_measured", "counted", format_count),
            Column("held_bytes", "held", format_size),
            Column("peak_bytes", "allocated", format_size),
            Column("seconds", "time", format_seconds),
            Column("verified", "verified", yes_no),
        ),
        tuple(rows),
        (
            *([f"Not run, so predicted: {' '.join(skipped)}"] if skipped else []),
            "GB is the budget at full size; baseline is the same under every budget. Baseline and KEEP count their "
            "budget in elements held, as in the thesis; auto counts everything that it allocates.",
            "The source is cold and the time ends after a sync. The page cache is as large as this machine's memory, "
            "not as the budget: the kernel gathers baseline's small writes, as it did with 256 GB in the thesis.",
        ),
        failures=sum(any(one.wrong for one in run.runs) for run in runs),
    )


def _counts(run: ConfigRun) -> tuple[Any, ...]:
    """Whether it ran; predicted and counted seeks, held and allocated bytes, seconds, whether the result is right."""
    one = run.shown
    if one is None or run.median is None:
        cost = run.cost
        return (False, *((cost.seeks, None, cost.held_bytes, None, cost.seconds) if cost else (None,) * 5), None)
    cost, measured = one.report.predicted, one.report.measured
    peak = max(each.report.measured.peak_bytes for each in run.runs)
    verified = all(each.verified for each in run.runs)
    return True, cost.seeks, measured.seeks, cost.held_bytes, peak, run.median.split.total, verified


def _time_table(runs: Sequence[ConfigRun], side: int) -> Table:
    rows = []
    baselines = {run.number: run.median.split.total for run in runs if run.strategy == "baseline" and run.median}
    for run in runs:
        if run.median is None:
            continue
        split, is_baseline = run.median.split, run.strategy == "baseline"
        base = None if is_baseline else baselines.get(run.number)
        paper = FIGURE_5B[run.number] if run.budget == FIGURE_5B_GB * 10**9 and run.strategy == "keep" else None
        rows.append(
            (
                run.number, run.budget, run.strategy,
                split.total, split.read, split.write, split.planning, split.overhead,
                base / split.total if base else None,
                paper[0] / paper[1] if paper else None,
            )
        )  # fmt: skip
    return Table(
        "runs_time",
        f"Thesis Fig. 6, run here: seconds of the median run, A = {side}³",
        (
            *_CELL,
            Column("seconds", "total", number),
            Column("read_seconds", "read", number),
            Column("write_seconds", "write", number),
            Column("planning_seconds", "planning", number),
            Column("overhead_seconds", "overhead", number),
            Column("speed_up", "× baseline", number),
            Column("speed_up_paper", "thesis", number),
        ),
        tuple(rows),
        (
            "Reading, copying and writing overlap: the engine's time is divided in proportion to the seconds that its "
            "threads spent. Write includes the final sync; overhead is copies, digest, opening, journal, publishing.",
            *_average(rows),
        ),
    )


def _average(rows: Sequence[tuple[Any, ...]]) -> list[str]:
    """The medians of the shares, which the thesis shows as a picture only."""
    notes = []
    for strategy in ("baseline", "keep", AUTO):
        mine = [row for row in rows if row[2] == strategy]
        if mine:
            read, write, planning, overhead = (median(row[place] / row[3] for row in mine) for place in (4, 5, 6, 7))
            notes.append(
                f"{strategy}: read {read:.0%}, write {write:.0%}, planning {planning:.0%}, overhead {overhead:.0%} of "
                "the time, in the median."
            )
    return notes
