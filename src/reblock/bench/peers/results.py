"""Results of a race: medians, ratios, bars, tables and JSON documents."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from typing import Any

from reblock.bench.peers.contenders import LIMIT
from reblock.bench.peers.run import RaceRun, cores
from reblock.bench.peers.workloads import Workload
from reblock.render.tables import Column, Table, number, yes_no
from reblock.units import format_size

#: The contender that the bars apply to.
OURS = "reblock"


@dataclass(frozen=True)
class Entry:
    """The runs of one contender on one workload."""

    contender: str
    """Name of the contender."""
    runs: tuple[RaceRun, ...] = ()
    """Its runs; the first is a warm-up and is not timed."""
    skipped: str | None = None
    """Reason why it did not run; None if it did."""

    @property
    def timed(self) -> tuple[RaceRun, ...]:
        return () if self.failed else self.runs[1:]

    @property
    def failed(self) -> str | None:
        """The first failure."""
        return next((run.failed for run in self.runs if run.failed), None)

    @property
    def seconds(self) -> float | None:
        """Median of the timed runs."""
        return median(run.seconds for run in self.timed) if self.timed else None

    @property
    def peak_bytes(self) -> int | None:
        """Largest peak of all runs."""
        return max(run.peak_bytes for run in self.runs) if self.timed else None

    @property
    def size_bytes(self) -> int | None:
        return self.timed[-1].size_bytes if self.timed else None

    @property
    def correct(self) -> bool | None:
        """Whether all its outputs are correct; None without outputs."""
        judged = [run.correct for run in self.runs if run.correct is not None]
        return all(judged) if judged else None

    @property
    def version(self) -> str | None:
        return self.runs[0].version or None if self.runs else None


@dataclass(frozen=True)
class RaceResult:
    """The results of all contenders on one workload."""

    workload: Workload
    """The workload."""
    entries: tuple[Entry, ...]
    """One entry per contender."""

    def entry(self, name: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.contender == name), None)

    @property
    def reference_seconds(self) -> float | None:
        """Time of the fastest of the bar's references that ran."""
        found = [entry.seconds for entry in self.entries if entry.contender in self.workload.bar.references]
        return min((seconds for seconds in found if seconds is not None), default=None)

    def ratio(self, entry: Entry) -> float | None:
        """Time divided by the reference's."""
        reference = self.reference_seconds
        return entry.seconds / reference if entry.seconds is not None and reference else None

    @property
    def bar_met(self) -> bool | None:
        """Whether reblock met the bar; None if its references did not run."""
        ours, bar = self.entry(OURS), self.workload.bar
        if ours is None or ours.failed:
            return False if ours else None
        ratio = self.ratio(ours)
        if ratio is None:
            return None
        if bar.size_factor is not None:
            measure = self.entry(bar.size_reference or "")
            if measure is None or measure.size_bytes is None or ours.size_bytes is None:
                return None
            return ratio <= bar.factor and ours.size_bytes <= bar.size_factor * measure.size_bytes
        over = self.over_limit
        return ratio <= bar.factor or (over is not None and bar.limit_factor is not None and over <= bar.limit_factor)

    @property
    def over_limit(self) -> float | None:
        """Time of reblock divided by the physical limit; None if that was not measured."""
        ours, limit = self.entry(OURS), self.entry(LIMIT)
        if ours is None or limit is None or ours.seconds is None or not limit.seconds:
            return None
        return ours.seconds / limit.seconds

    @property
    def failures(self) -> int:
        """Number of wrong outputs, plus one if reblock made none; a peer may give up on a workload."""
        wrong = sum(entry.correct is False for entry in self.entries)
        return wrong + sum(
            entry.contender == OURS and not entry.timed for entry in self.entries if entry.correct is None
        )

    def to_table(self) -> Table:
        """One row per contender that ran; the notes name the others."""
        budget = self.workload.memory_bytes
        rows = tuple(
            (
                entry.contender,
                entry.version,
                entry.seconds,
                self.ratio(entry),
                entry.peak_bytes,
                None if entry.peak_bytes is None else entry.peak_bytes / budget,
                entry.size_bytes,
                entry.correct,
                self.bar_met if entry.contender == OURS else None,
            )
            for entry in self.entries
            if entry.runs
        )
        notes = [f"bar: {self.workload.bar}"]
        if self.over_limit is not None:
            limits = "; ".join(run.note for entry in self.entries if entry.contender == LIMIT for run in entry.timed)
            notes += [f"reblock takes {self.over_limit:.2f} × the physical limit: {limits}"]
        notes += [f"{entry.contender} skipped: {entry.skipped}" for entry in self.entries if entry.skipped]
        notes += [f"{entry.contender} failed: {entry.failed}" for entry in self.entries if entry.failed]
        return Table(self.workload.name, self.workload.title, _COLUMNS, rows, tuple(notes), self.failures)

    def to_json(self) -> dict[str, Any]:
        contenders = [
            {
                "name": entry.contender,
                "version": entry.version,
                "seconds": [run.seconds for run in entry.timed],
                "median_seconds": entry.seconds,
                "ratio": self.ratio(entry),
                "user_seconds": [run.user_seconds for run in entry.timed],
                "system_seconds": [run.system_seconds for run in entry.timed],
                "peak_bytes": entry.peak_bytes,
                "size_bytes": entry.size_bytes,
                "correct": entry.correct,
                "notes": [run.note for run in entry.timed if run.note],
                "skipped": entry.skipped,
                "failed": entry.failed,
            }
            for entry in self.entries
        ]
        found = {"bar_met": self.bar_met, "over_limit": self.over_limit}
        return {**self.workload.to_json(), **found, "contenders": contenders}


_COLUMNS = (
    Column("contender", "contender"),
    Column("version", "version"),
    Column("median_seconds", "median s", number),
    Column("ratio", "ratio", number),
    Column("peak_bytes", "peak", format_size),
    Column("peak_of_budget", "of budget", number),
    Column("size_bytes", "output", format_size),
    Column("correct", "correct", yes_no),
    Column("bar_met", "bar met", yes_no),
)


def machine(folder: str) -> dict[str, Any]:
    """Description of this machine."""
    return {
        "processor": _first("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": len(cores()),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "file_system": _file_system(folder),
        "system": f"{platform.system()} {platform.release()}",
        "python": ".".join(map(str, sys.version_info[:3])),
    }


def _first(path: str, key: str) -> str | None:
    """The value of the first line `key : value` in a file."""
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name.strip() == key:
                return value.strip()
    return None


def _file_system(folder: str) -> str | None:
    """Type of the file system that holds a folder."""
    where, longest, found = os.path.realpath(folder), "", None
    with suppress(OSError), open("/proc/mounts", encoding="utf-8", errors="replace") as file:
        for line in file:
            _, mount, kind, *_ = line.split()
            if os.path.commonpath([where, mount]) == mount and len(mount) >= len(longest):
                longest, found = mount, kind
    return found
