"""DRA's Tables 2 to 4: skewed access, conversion and aligned access of a row-major array, theirs beside ours.

The paper gives seconds on machines of 2004, we give counts. So each table's machine is fitted with two figures of the
table itself, and the rest of it is predicted ::

    rate   bytes of the array / mean aligned access          bytes per second, all processes together
    seek   (last skewed access − mean aligned access) / runs of that access

    skewed = bytes / rate + runs · seek        runs = rows · (columns / columns of the access)
    aligned = bytes / rate + blocks · seek
    conversion = the plan's cost on that device; writing as fast as reading
"""

from __future__ import annotations

from dataclasses import dataclass
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


def dra_tables() -> list[Table]:
    """Tables 2, 3 and 4."""
    tables = []
    for table in dict.fromkeys(timings.table for timings in DRA):
        mine = [timings for timings in DRA if timings.table == table]
        tables.append(_table(table, mine))
    return tables


@dataclass(frozen=True)
class _Machine:
    """A machine of the paper, fitted to its own figures."""

    timings: Timings
    """What the paper says of it."""

    @property
    def layout(self) -> Layout:
        """The array as it lies on disk at first: one row-major file."""
        return Layout.raw("<f8", Grid.whole((self.timings.side,) * 2))

    def target(self, access: tuple[int, int]) -> Layout:
        """The array in blocks of the access's shape."""
        return Layout.raw("<f8", Grid.of((self.timings.side,) * 2, access))

    def runs(self, access: tuple[int, int]) -> int:
        """Contiguous pieces of the row-major file that the accesses take."""
        return traffic(self.target(access).objects, self.layout, Access.RUNS).runs

    @property
    def device(self) -> Device:
        """Its disks, all together."""
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


def _table(table: int, several: list[Timings]) -> Table:
    rows: list[tuple[object, ...]] = []
    fits = []
    for timings in several:
        machine = _Machine(timings)
        device, streaming = machine.device, machine.layout.nbytes / machine.device.read_bytes_per_second
        fits.append(
            f"P = {timings.processes}: {device.read_bytes_per_second / 1e6:.0f} MB/s, "
            f"{device.seek_seconds * 1e6:.0f} µs per run"
        )
        for height, width, skewed_paper, conversion, aligned_paper in timings.rows:
            access = (height, width)
            problem = machine.problem(access)
            plans = [choose(problem, strategy=strategy).plan for strategy in ("dra", AUTO)]
            dra, auto = (estimate(plan, problem).seconds for plan in plans)
            runs = machine.runs(access)
            skewed = streaming + runs * device.seek_seconds
            aligned = streaming + problem.target.objects.count * device.seek_seconds
            rows.append(
                (
                    timings.processes, access, runs,
                    skewed_paper, skewed, skewed / skewed_paper,
                    conversion, dra, auto, auto / conversion,
                    aligned_paper, aligned,
                )
            )  # fmt: skip
    first = several[0]
    return Table(
        f"dra{table}",
        f"DRA Table {table}: seconds for {first.side}² doubles, row-major on disk, accessed in blocks of 1 MB",
        _COLUMNS,
        tuple(rows),
        (
            f"Fitted to the mean aligned access and the last skewed access of each P: {'; '.join(fits)}.",
            "Not given, so assumed: conversion in half of each node's memory, writing as fast as reading, no time for "
            f"communication. Not comparable: the paper's buffer sizes and file system.{_ODDITIES.get(table, '')}",
        ),
    )


_ODDITIES = {
    3: " Its conversion takes 2 to 3.2 times the aligned access: four nodes also exchange data.",
    4: " Its skewed access takes longer with two processes than with one, and its aligned access with one process is "
    "slower than its first skewed one: no model of counts says that.",
}
