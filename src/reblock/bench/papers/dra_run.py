"""DRA's experiment run on disk: read a row-major array across its grain, convert it, and read it along its blocks.

An access reads a block of 1 MiB. As in the paper the whole array is read, access by access; the paper's shapes that fit
into the smaller array are used. Before an access its files are dropped from the page cache, which would otherwise hold
the whole array. Where all accesses would take too long, a random part of them is timed and their time scaled up.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import log2
from time import perf_counter
from typing import Any

from reblock import api
from reblock.bench.files import empty, evict, evict_array
from reblock.bench.notify import Notify
from reblock.bench.papers.arrays import Cancelled, bench_folder, check_cancelled, make_row_major, never
from reblock.bench.papers.dra import reads_note, reads_to_pay
from reblock.bench.papers.figures import DRA
from reblock.errors import UsageError
from reblock.model import Device
from reblock.render.tables import Column, Table, number, shape, yes_no
from reblock.units import format_count, format_seconds, format_size

#: Longest time for reading the array with one access shape; beyond it the rest is extrapolated.
MAX_ACCESS_SECONDS = 20.0
#: Disk space in arrays: source and target.
_ARRAYS = 2
_ITEM_BYTES = 8
#: The conversion may use a quarter of the array as memory, as in the paper with one process (2 of 8 GiB), or 8 blocks.
_MEMORY_PART, _MIN_MEMORY_BYTES = 4, 8 << 20
#: Shortest side in which two of the paper's access shapes fit.
_MIN_SIDE = 512

#: The paper's measurements with one process on its first machine.
_PAPER = DRA[0]


@dataclass(frozen=True)
class AccessTime:
    """Seconds of reading the whole array with one access shape."""

    seconds: float
    """Seconds of all accesses."""
    part: float
    """Part of the accesses that were timed."""


@dataclass(frozen=True)
class AccessRun:
    """What was measured with one access shape."""

    access: tuple[int, int]
    """Rows and columns of an access."""
    skewed: AccessTime
    """Reads of the row-major array."""
    aligned: AccessTime
    """Reads of the converted array."""
    planned: api.Job
    """The conversion's plan."""
    conversion: float
    """Seconds of the conversion, planning and a final sync included."""
    seeks: int
    """Seeks that were counted in the conversion."""
    verified: bool
    """Whether the converted array has the same digest."""

    @property
    def reads(self) -> int | None:
        """Reads after which converting pays."""
        return reads_to_pay(self.skewed.seconds, self.conversion, self.aligned.seconds)


def scaled_side(scale: int) -> int:
    """The power of two next to the paper's side divided by `scale`."""
    most = _PAPER.side // _MIN_SIDE
    if not 1 <= scale <= most:
        raise UsageError(f"the side of DRA's array cannot be divided by {scale}: use 1 to {most}")
    return int(2 ** round(log2(_PAPER.side / scale)))


def row_major_runs(side: int, access: tuple[int, int]) -> int:
    """Contiguous runs of the row-major file that all accesses read."""
    return side // access[0] if access[1] == side else side * (side // access[1])


def run_dra(
    *,
    scale: int,
    folder: str,
    device: Device | None = None,
    notify: Notify,
    cancelled: Cancelled = never,
) -> list[Table]:
    """Time skewed accesses, conversions and aligned accesses of a smaller array."""
    side = scaled_side(scale)
    runs = []
    with bench_folder(folder, _ARRAYS * _ITEM_BYTES * side**2, notify) as here:
        source = os.path.join(here, "source.npy")
        notify(f"DRA: making the source, {side}² doubles, {format_size(_ITEM_BYTES * side**2)}")
        make_row_major(source, (side, side), cancelled)
        accesses = [(row[0], row[1]) for row in _PAPER.rows if max(row[:2]) <= side]
        for access in accesses:
            place = os.path.join(here, "-".join(map(str, access)))
            os.mkdir(place)
            runs.append(_measure(source, place, access, device, notify, cancelled))
            empty(place)
    return [_time_table(runs, side), _ratio_table(runs, side)]


def _measure(
    source: str, folder: str, access: tuple[int, int], device: Device | None, notify: Notify, cancelled: Cancelled
) -> AccessRun:
    """Measure one access shape."""
    notify(f"DRA: access {shape(access)}")
    skewed = read_all(source, access, cancelled)
    target = os.path.join(folder, "target", "")
    options: dict[str, Any] = {} if device is None else {"device": device}
    evict_array(source)
    began = perf_counter()
    memory = max(os.path.getsize(source) // _MEMORY_PART, _MIN_MEMORY_BYTES)
    job = api.plan_array(source, target, chunks=access, memory=memory, to_format="rawblocks", **options)
    report = api.run(job, cancelled=cancelled)
    os.sync()
    conversion = perf_counter() - began
    verdict = api.verify(source, target)
    verified = verdict.equal and verdict.target_digest == report.digest
    aligned = read_all(target, access, cancelled)
    notify(
        f"  skewed {format_seconds(skewed.seconds)}, conversion {format_seconds(conversion)}, "
        f"aligned {format_seconds(aligned.seconds)}"
    )
    return AccessRun(access, skewed, aligned, job, conversion, report.measured.seeks, verified)


def read_all(path: str, access: tuple[int, int], cancelled: Cancelled = never) -> AccessTime:
    """Read an array access by access, in random order, each from cold files, for a limited time."""
    evict_array(path)
    array = api.open(path)
    corners = list(product(*(range(0, length, step) for length, step in zip(array.shape, access, strict=True))))
    random.Random(0).shuffle(corners)  # noqa: S311 - the order is not secret
    # One file serves many accesses, so it is dropped before each; block files are read once.
    descriptor = os.open(path, os.O_RDONLY) if os.path.isfile(path) else None
    seconds, done = 0.0, 0
    try:
        for top, left in corners:
            check_cancelled(cancelled)
            if descriptor is not None:
                evict(descriptor)
            began = perf_counter()
            array[top : top + access[0], left : left + access[1]]
            seconds += perf_counter() - began
            done += 1
            if seconds > MAX_ACCESS_SECONDS:
                break
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return AccessTime(seconds * len(corners) / done, done / len(corners))


# ---------------------------------------------------------------- tables
def _time_table(runs: Sequence[AccessRun], side: int) -> Table:
    rows = tuple(
        (
            run.access,
            row_major_runs(side, run.access),
            run.skewed.seconds,
            run.skewed.part,
            run.conversion,
            run.planned.cost.seeks,
            run.seeks,
            run.verified,
            run.aligned.seconds,
        )
        for run in runs
    )
    extrapolated = any(run.skewed.part < 1 for run in runs)
    return Table(
        "dra_runs",
        f"DRA Table 2, run here: {side}² doubles, row-major on disk, accessed in blocks of 1 MiB by one process",
        (
            Column("access", "access", shape),
            Column("runs", "runs", format_count),
            Column("skewed_seconds", "skewed s", number),
            Column("skewed_part", "timed", "{:.0%}".format),
            Column("conversion_seconds", "conv. s", number),
            Column("seeks_predicted", "predicted", format_count),
            Column("seeks_measured", "counted", format_count),
            Column("verified", "verified", yes_no),
            Column("aligned_seconds", "aligned s", number),
        ),
        rows,
        (
            "predicted, counted: seeks of the conversion. The files of an access are dropped from the page cache "
            "before it; the conversion's time includes planning and a sync."
            + (" Where less than 100% of the accesses were timed, their time is scaled up." if extrapolated else ""),
        ),
        failures=sum(not run.verified or run.seeks != run.planned.cost.seeks for run in runs),
    )


def _ratio_table(runs: Sequence[AccessRun], side: int) -> Table:
    paper = {(row[0], row[1]): row[2:] for row in _PAPER.rows}
    rows = []
    for run in runs:
        skewed, conversion, aligned = paper[run.access]
        ratios = (run.skewed.seconds / run.aligned.seconds, skewed / aligned)
        conversions = (run.conversion / run.aligned.seconds, conversion / aligned)
        rows.append((run.access, *ratios, *conversions, run.reads, reads_to_pay(skewed, conversion, aligned)))
    return Table(
        "dra_pays",
        f"DRA Table 2: is converting worth it? {side}² here, {_PAPER.side}² and one process in the paper",
        (
            Column("access", "access", shape),
            Column("skewed_ratio", "skewed ×", number),
            Column("skewed_ratio_paper", "paper", number),
            Column("conversion_ratio", "conversion ×", number),
            Column("conversion_ratio_paper", "paper", number),
            Column("reads", "pays after", format_count),
            Column("reads_paper", "paper", format_count),
        ),
        tuple(rows),
        (
            reads_note("here", [(run.access, run.reads) for run in runs]),
            "×: as a multiple of the aligned access. —: reads do not get cheaper, so converting never pays.",
        ),
    )
