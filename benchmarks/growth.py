"""How cost per byte and memory grow with the array, and what a chunk costs.

    python benchmarks/growth.py --dir /data [--small 2GiB] [--large 16GiB] [--memory 256MiB] [--repeat 3]
                                [--control]

Three bars: the larger array takes at most 1.2 times as long per byte as the smaller one; with the same budget, its peak
memory is at most 16 MiB higher; a chunk costs at most 30 µs of user time, from two runs on the same number of bytes
whose numbers of chunks differ a hundredfold. Every output is compared with its source. Exit 1 if a bar is missed.

The disk needs room for twice the larger array. --keep leaves the sources in DIR. With --control, `cp` copies the same
two arrays in the same rounds, which shows how much longer the disk itself takes per byte; it is not a bar.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from dataclasses import replace
from math import prod
from statistics import median

from reblock.bench.peers.contenders import Contender, find_contenders
from reblock.bench.peers.run import RaceRun, clear, make_source, remove, run_once, source_path
from reblock.bench.peers.workloads import Bar, Workload
from reblock.units import format_count, format_size, parse_size

MOST_GROWTH, MOST_MEMORY, MOST_USER_SECONDS = 1.2, 16 << 20, 30e-6
(OURS,), (CONTROL,) = find_contenders("reblock"), find_contenders("cp")
CUBES = Workload(
    "growth", (0, 512, 512), "<f4", "zarr", (16, 128, 128), "zarr", (64, 64, 64), 256 << 20, Bar(1, ("reblock",))
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", required=True, help="folder on the disk to measure")
    parser.add_argument("--small", default="2GiB")
    parser.add_argument("--large", default="16GiB")
    parser.add_argument("--chunked", default="256MiB", help="size of the arrays with few and with many chunks")
    parser.add_argument("--memory", default="256MiB")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="leave the sources in DIR")
    parser.add_argument("--control", action="store_true", help="copy the arrays of either size with cp, too")
    return parser.parse_args()


def sized(workload: Workload, size: str) -> Workload:
    """The number of planes of 512 × 512 for this size, in whole chunks of both sides."""
    plane = 512 * 512 * 4
    return replace(workload, shape=(max(64, parse_size(size) // plane // 64 * 64), 512, 512))


def runs(entries: list[tuple[Contender, Workload]], options: argparse.Namespace) -> list[list[RaceRun]]:
    """Timed, interleaved runs; the first round warms up."""
    made = [path for _, workload in entries if (path := source(workload, options.dir)) is not None]
    found: list[list[RaceRun]] = [[] for _ in entries]
    try:
        for turn in range(options.repeat + 1):
            for (contender, workload), mine in zip(entries, found, strict=True):
                run = run_once(contender, sys.executable, workload, options.dir)
                if not run.correct:
                    sys.exit(f"{contender.name}, {workload.title}: {run.failed}")
                what = f"{contender.name}, {format_size(workload.nbytes)}"
                print(f"round {turn}: {what}: {run.seconds:.2f} s, peak {format_size(run.peak_bytes)}", file=sys.stderr)
                if turn:
                    mine.append(run)
    finally:
        clear(options.dir)
        for path in () if options.keep else made:
            remove(path)
    return found


def source(workload: Workload, folder: str) -> str | None:
    """Make the source; returns its path if it did not exist."""
    path = source_path(workload, "zarr", folder)
    if os.path.lexists(path):
        return None
    make_source(workload, "zarr", folder)
    return path


def told(what: str, value: str, bar: str, *, met: bool) -> bool:
    print(f"{what:<44}{value:>16}   bar {bar:<12}{'met' if met else 'MISSED'}")
    return met


def grow(options: argparse.Namespace) -> bool:
    """Seconds per byte and memory of a small and a large array."""
    workloads = [
        sized(replace(CUBES, memory_bytes=parse_size(options.memory)), size) for size in (options.small, options.large)
    ]
    entries = [(who, workload) for who in (OURS, *([CONTROL] if options.control else ())) for workload in workloads]
    found = runs(entries, options)
    rates = [
        median(run.seconds for run in mine) / workload.nbytes
        for mine, (_, workload) in zip(found, entries, strict=True)
    ]
    peaks = [max(run.peak_bytes for run in mine) for mine in found]
    for (who, workload), rate, peak in zip(entries, rates, peaks, strict=True):
        print(f"{who.name}, {format_size(workload.nbytes)}: {1 / rate / 1e9:.2f} GB/s, peak {format_size(peak)}")
    growth, more = rates[1] / rates[0], peaks[1] - peaks[0]
    if options.control:
        print(f"{'time per byte, large over small, cp':<44}{rates[3] / rates[2]:>14.2f} ×")
    met = told("time per byte, large over small", f"{growth:.2f} ×", "1.2 ×", met=growth <= MOST_GROWTH)
    return told("peak memory, large − small", f"{more / 2**20:.1f} MiB", "16 MiB", met=more <= MOST_MEMORY) and met


def chunk_cost(options: argparse.Namespace) -> bool:
    """User time per chunk, from few and many chunks of the same bytes."""
    base = sized(replace(CUBES, memory_bytes=parse_size(options.memory)), options.chunked)
    few = replace(base, source_chunks=(64, 64, 64), chunks=(32, 128, 64))
    many = replace(base, source_chunks=(16, 16, 10), chunks=(8, 32, 10))
    counts = [
        sum(
            prod(-(-n // c) for n, c in zip(one.shape, chunks, strict=True))
            for chunks in (one.source_chunks, one.chunks)
        )
        for one in (few, many)
    ]
    found = [median(run.user_seconds for run in mine) for mine in runs([(OURS, few), (OURS, many)], options)]
    each = (found[1] - found[0]) / (counts[1] - counts[0])
    for count, user in zip(counts, found, strict=True):
        print(f"{format_count(count)} chunks of source and target: {user:.2f} s of user time")
    return told("user time per chunk", f"{each * 1e6:.1f} µs", "30 µs", met=each <= MOST_USER_SECONDS)


def main() -> int:
    options = arguments()
    # A folder of our own, from which leftovers of runs are removed.
    options.dir = os.path.join(options.dir, "reblock-growth")
    os.makedirs(options.dir, exist_ok=True)
    met = [chunk_cost(options), grow(options)]
    with suppress(OSError):
        os.rmdir(options.dir)
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
