"""Sarawagi & Stonebraker's experiment on real files: smaller arrays, stored in five ways, and every query counted.

An array with chunks is one file: a Zarr array of a single shard, so that the order of chunks is their order on disk.
Blocks are counted on the medium: bytes that were read, without the index of the shard, over the bytes of a chunk. Those
of the array without chunks are the blocks of its file that were touched. Files are dropped from the page cache before a
layout is timed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from time import perf_counter
from typing import Any

import numpy as np

from reblock import api
from reblock.bench.files import evict_array
from reblock.bench.notify import Notify
from reblock.bench.papers.arrays import Cancelled, bench_folder, check_cancelled, never
from reblock.bench.papers.sarawagi import SETS, DataSet, Query, StoredWay, chunk_words, falls, make_queries, ways
from reblock.cost import PRESETS
from reblock.errors import UsageError
from reblock.model import Device
from reblock.render.tables import Column, Table, number, shape, yes_no
from reblock.storage.media.recording import RecordingMedium
from reblock.units import format_count, format_size

#: Copies of an array on disk at a time: the source, the default, the best, the same reordered, and two copies.
_ARRAYS = 6
_ITEM_BYTES = 4
#: The largest divisor of lengths.
MAX_SCALE = 100


@dataclass(frozen=True)
class WayRun:
    """What was measured of one way to store an array."""

    data: DataSet
    """The array."""
    way: StoredWay
    """The way."""
    counted: int
    """Blocks that the queries touched."""
    seconds: float
    """Time of all queries."""
    verified: bool
    """Whether all queries read the right elements."""

    @property
    def exact(self) -> bool:
        """Whether as many blocks were counted as were predicted; an array without chunks is read in longer runs."""
        return self.counted == self.way.blocks or not self.way.chunks


def check_scale(scale: int) -> None:
    """Refuse divisors that leave nothing of the arrays."""
    if not 1 <= scale <= MAX_SCALE:
        raise UsageError(f"Sarawagi's arrays cannot be divided by {scale}: use 1 to {MAX_SCALE}")


def run_sarawagi(
    *,
    scale: int,
    folder: str,
    device: Device | None = None,
    notify: Notify,
    cancelled: Cancelled = never,
    sets: Sequence[DataSet] = SETS,
) -> list[Table]:
    """Store smaller copies of the paper's arrays in five ways, and run the queries on them.

    Their time is predicted on a device, the nvme preset by default.
    """
    check_scale(scale)
    found: list[list[WayRun]] = []
    for data in (replace(one.scaled(scale), device=device or PRESETS["nvme"]) for one in sets):
        size = prod(data.shape) * _ITEM_BYTES
        with bench_folder(folder, _ARRAYS * size, notify) as here:
            notify(f"Sarawagi: data set {data.number}, {shape(data.shape)}, {format_size(size)}")
            found.append(_run_set(data, here, notify, cancelled))
    return [_table(found, scale)]


def _run_set(data: DataSet, folder: str, notify: Notify, cancelled: Cancelled) -> list[WayRun]:
    source, queries = os.path.join(folder, "source.npy"), make_queries(data)
    _make(source, data.shape, cancelled)
    elements = np.load(source, mmap_mode="r")
    expected = [np.array(elements[query.box.slices]) for query in queries]
    runs = []
    for number_of, way in enumerate(ways(data, queries)):
        check_cancelled(cancelled)
        paths = [source]
        if way.chunks:
            paths = [os.path.join(folder, f"{number_of}-{copy}.zarr") for copy in range(len(way.chunks))]
            for path, chunks, order in zip(paths, way.chunks, way.orders, strict=True):
                whole = tuple(-(-n // c) * c for n, c in zip(data.shape, chunks, strict=True))
                options: dict[str, Any] = {"chunks": chunks, "shards": whole, "chunk_order": order, "codec": "none"}
                api.run(api.plan_array(source, path, **options), cancelled=cancelled)
        seconds, verified = _time(paths, way, queries, expected)
        runs.append(WayRun(data, way, _count(paths, way, queries, data), seconds, verified))
        notify(f"  {way.name}: {runs[-1].counted:,} blocks, {seconds:.3f} s")
    return runs


def _make(path: str, sides: Sequence[int], cancelled: Cancelled) -> None:
    """A row-major file whose elements all differ, up to the precision of their type."""
    file = np.lib.format.open_memmap(path, "w+", "<f4", tuple(sides))
    step = prod(sides[1:])
    for row in range(sides[0]):
        check_cancelled(cancelled)
        file[row] = np.arange(row * step, (row + 1) * step, dtype=np.int64).reshape(sides[1:]) % 16_777_213
    file.flush()


def _time(
    paths: Sequence[str], way: StoredWay, queries: Sequence[Query], expected: Sequence[Any]
) -> tuple[float, bool]:
    """Seconds of all queries from cold files, and whether they read the right elements."""
    for path in paths:
        evict_array(path)
    arrays = [api.open(path) for path in paths]
    began = perf_counter()
    found = [arrays[owner][query.box.slices] for owner, query in zip(way.owners, queries, strict=True)]
    seconds = perf_counter() - began
    return seconds, all(map(np.array_equal, found, expected))


def _count(paths: Sequence[str], way: StoredWay, queries: Sequence[Query], data: DataSet) -> int:
    """Blocks that the queries touch, from the byte ranges that are read."""
    total = 0
    for copy, path in enumerate(paths):
        medium = RecordingMedium()
        array = api.Array(medium.of(api.open(path).store))
        for owner, query in zip(way.owners, queries, strict=True):
            if owner != copy:
                continue
            medium.openings.clear()
            array[query.box.slices]
            ranges = [one for opening in medium.openings for one in opening.ranges]
            if way.chunks:
                unit = array.layout.unit_bytes
                total += sum((stop - start) // unit for start, stop in ranges if (stop - start) % unit == 0)
            else:
                header = os.path.getsize(path) - array.nbytes
                total += _file_blocks(ranges, header, data.block_bytes)
    return total


def _file_blocks(ranges: Sequence[tuple[int, int]], header: int, block: int) -> int:
    """Different blocks of a file in byte ranges; the header is none."""
    touched: set[int] = set()
    for start, stop in ranges:
        if stop > header:
            touched.update(range(max(start - header, 0) // block, (stop - header - 1) // block + 1))
    return len(touched)


def _table(found: Sequence[Sequence[WayRun]], scale: int) -> Table:
    rows = [
        (
            run.data.number,
            run.way.name,
            chunk_words(run.way),
            run.way.blocks,
            run.counted,
            run.verified,
            run.way.seconds,
            run.seconds,
            run.seconds / runs[0].seconds,
            run.data.paper.get(run.way.name),
        )
        for runs in found
        for run in runs
    ]
    wrong = sum(not (run.exact and run.verified) for runs in found for run in runs)
    unordered = sum(not falls([run.counted for run in runs]) for runs in found)
    return Table(
        "sarawagi_runs",
        f"Sarawagi & Stonebraker, Figures 3 to 5, run here: lengths divided by {scale**0.6:.1f}, 14 queries each",
        (
            Column("set", "set"),
            Column("layout", "layout"),
            Column("chunks", "chunks"),
            Column("blocks_predicted", "exp.", format_count),
            Column("blocks_counted", "counted", format_count),
            Column("verified", "right", yes_no),
            Column("seconds_predicted", "exp. s", "{:.3f}".format),
            Column("seconds", "s", "{:.3f}".format),
            Column("time_ratio", "×", number),
            Column("time_ratio_paper", "paper", "{:.3f}".format),
        ),
        tuple(rows),
        (
            "exp., counted: blocks of all queries, expected and counted. Reads of the array without chunks are joined "
            "to longer runs, so that more blocks are counted there than are needed. With chunks both must be equal.",
            "paper: time over that of the array without chunks, on its disk and its jukebox. Today a small array "
            "without chunks is read in a few calls, and each chunk costs a call: times follow calls, not blocks.",
        ),
        wrong + unordered,
    )
