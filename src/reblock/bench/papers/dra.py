"""DRA's Tables 2 to 4 by arithmetic: skewed access, conversion and aligned access of a row-major array.

The paper gives seconds on machines of 2004, our model gives counts. So each table's machine is fitted with two figures
of the table itself, and the other figures are predicted ::

    rate   bytes of the array / mean aligned access          bytes per second, all processes together
    seek   (last skewed access − mean aligned access) / runs of that access

    skewed = bytes / rate + runs · seek        runs = rows · (columns / columns of the access)
    aligned = bytes / rate + blocks · seek
    conversion = the plan's cost on that device; writing as fast as reading

With `--device` the same is predicted on that device. Converting pays once the reads have saved its cost ::

    reads = conversion / (skewed − aligned)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor
from statistics import mean

from reblock.bench.papers.figures import DRA, Timings
from reblock.cost import estimate, traffic
from reblock.geometry import Grid
from reblock.model import Access, Device, Layout, Problem
from reblock.planner import AUTO, choose
from reblock.render.tables import Column, Table, number, shape, whole
from reblock.units import format_count

_COLUMNS = (
    Column("processes", "P"),
    Column("access", "access", shape),
    Column("runs", "runs", format_count),
    Column("skewed_paper", "skewed", whole),
    Column("skewed", "ours", whole),
    Column("skewed_ratio", "×", number),
    Column("conversion_paper", "conv.", whole),
    Column("dra", "dra", whole),
    Column("auto", "auto", whole),
    Column("auto_ratio", "×", number),
    Column("aligned_paper", "aligned", whole),
    Column("aligned", "ours", whole),
)


def reads_to_pay(skewed: float, conversion: float, aligned: float) -> int | None:
    """The number of reads after which converting was cheaper; None if reads do not get cheaper."""
    return floor(conversion / (skewed - aligned)) + 1 if skewed > aligned else None


def reads_note(who: str, found: Sequence[tuple[tuple[int, int], int | None]]) -> str:
    """One line: after how many reads converting pays, by access shape."""
    parts = [f"{shape(access)} {'never' if reads is None else format_count(reads)}" for access, reads in found]
    return f"Reads after which converting pays, {who}: {'; '.join(parts)}."


def dra_tables(device: Device | None = None) -> list[Table]:
    """Tables 2, 3 and 4, on the paper's machines or on a device."""
    tables = []
    for table in dict.fromkeys(timings.table for timings in DRA):
        mine = [timings for timings in DRA if timings.table == table]
        tables.append(_table(table, mine, device))
    return tables


@dataclass(frozen=True)
class _Machine:
    """A machine of the paper with its array."""

    timings: Timings
    """Its measurements."""
    given: Device | None = None
    """Device to use instead of one that is fitted to the measurements."""

    @property
    def layout(self) -> Layout:
        """The array before its conversion: one row-major file."""
        return Layout.raw("<f8", Grid.whole((self.timings.side,) * 2))

    def target(self, access: tuple[int, int]) -> Layout:
        """The array in blocks of the access's shape."""
        return Layout.raw("<f8", Grid.of((self.timings.side,) * 2, access))

    def runs(self, access: tuple[int, int]) -> int:
        """Contiguous runs of the row-major file that the accesses read."""
        return traffic(self.target(access).objects, self.layout, Access.RUNS).runs

    @property
    def device(self) -> Device:
        """The device given, or all disks of the machine as one device."""
        if self.given is not None:
            return self.given
        rows = self.timings.rows
        streaming = mean(row[4] for row in rows)
        last = rows[-1]
        seek = (last[2] - streaming) / self.runs((last[0], last[1]))
        rate = self.layout.nbytes / streaming
        name, free = f"DRA table {self.timings.table}", 1e12
        return Device(name, rate, rate, seek, seek, 0.0, 1, memory_bytes_per_second=free, fresh_bytes_per_second=free)

    def problem(self, access: tuple[int, int]) -> Problem:
        """The conversion, in half of the nodes' memory."""
        memory = self.timings.processes * self.timings.node_bytes // 2
        return Problem(self.layout, self.target(access), memory, self.device, held=True)

    def read_seconds(self, access: tuple[int, int], *, aligned: bool) -> float:
        """Predicted seconds of reading the array in blocks of the access's shape."""
        device = self.device
        jumps = self.target(access).objects.count if aligned else self.runs(access)
        return self.layout.nbytes / device.read_bytes_per_second + jumps * device.seek_seconds / device.depth


def _table(table: int, several: list[Timings], given: Device | None = None) -> Table:
    rows: list[tuple[object, ...]] = []
    notes: list[str] = []
    for timings in several:
        machine = _Machine(timings, given)
        theirs: list[tuple[tuple[int, int], int | None]] = []
        ours: list[tuple[tuple[int, int], int | None]] = []
        for height, width, skewed_paper, conversion, aligned_paper in timings.rows:
            access = (height, width)
            problem = machine.problem(access)
            plans = [choose(problem, strategy=strategy).plan for strategy in ("dra", AUTO)]
            dra, auto = (estimate(plan, problem).seconds for plan in plans)
            skewed, aligned = (machine.read_seconds(access, aligned=aligned) for aligned in (False, True))
            theirs.append((access, reads_to_pay(skewed_paper, conversion, aligned_paper)))
            ours.append((access, reads_to_pay(skewed, auto, aligned)))
            rows.append(
                (
                    timings.processes, access, machine.runs(access),
                    skewed_paper, skewed, skewed / skewed_paper,
                    conversion, dra, auto, auto / conversion,
                    aligned_paper, aligned,
                )
            )  # fmt: skip
        where = f"P = {timings.processes}, "
        notes += [reads_note(f"{where}paper", theirs), reads_note(f"{where}auto", ours)]
    side = several[0].side
    place = "" if given is None else f", ours on the device `{given.name}`"
    return Table(
        f"dra{table}",
        f"DRA Table {table}: seconds for {side}² doubles, row-major on disk, accessed in blocks of 1 MB{place}",
        _COLUMNS,
        tuple(rows),
        (*notes, *(_fit_notes(table, several) if given is None else ())),
    )


def _fit_notes(table: int, several: list[Timings]) -> tuple[str, str]:
    """How the machines were fitted."""
    devices = [_Machine(timings).device for timings in several]
    fits = "; ".join(
        f"P = {timings.processes}: {device.read_bytes_per_second / 1e6:.0f} MB/s, {device.seek_seconds * 1e6:.0f} µs "
        "per run"
        for timings, device in zip(several, devices, strict=True)
    )
    return (
        f"Fitted to the mean aligned access and the last skewed access of each P: {fits}.",
        "Not given, so assumed: conversion in half of each node's memory, writing as fast as reading, no time for "
        f"communication. Not comparable: the paper's buffer sizes and file system.{_ODDITIES.get(table, '')}",
    )


_ODDITIES = {
    3: " Its conversion takes 2 to 3.2 times the aligned access: four nodes also exchange data.",
    4: " Its skewed access takes longer with two processes than with one, and its aligned access with one process is "
    "slower than its first skewed one: no model of counts explains that.",
}
