"""The drafts' experiments on Dask IO, run on this machine: each run is a process of its own, on cold files.

The runs are `python -m reblock.dask.experiment`, so that this module needs no dask. Seeks are those of the seek model
for the boxes that were moved; read and write calls, their bytes and the peak of memory are what the kernel counted.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from math import prod
from statistics import median
from typing import Any

from reblock import api
from reblock.api.machine import cores, machine_bytes
from reblock.bench.files import evict_array
from reblock.bench.notify import Notify
from reblock.bench.papers.arrays import Cancelled, bench_folder, check_cancelled, never
from reblock.bench.papers.dask_io import CASES, PLAIN, STRATEGIES, DraftCase
from reblock.bench.papers.figures import ITEM_BYTES
from reblock.bench.papers.thesis_run import check_scale
from reblock.errors import StorageError, UsageError
from reblock.render.tables import Column, Table, number, shape, yes_no
from reblock.units import format_count, format_seconds, format_size

#: Copies of an array on disk at a time.
_ARRAYS = 2
_POLL_SECONDS = 0.1
_MODULE = "reblock.dask.experiment"


@dataclass(frozen=True)
class DraftRun:
    """What was measured of one program on one case."""

    engine: str
    """One of PLAIN, or `buffers`."""
    strategy: str
    """Strategy of the buffers; empty without them."""
    buffer: str
    """The buffer that the budget has room for; empty without buffers."""
    used: str
    """What buffers there were, in words."""
    seeks: int
    """Seeks of both sides."""
    calls: int
    """Read and write calls; 0 where the kernel does not count."""
    moved_bytes: int
    """Their bytes."""
    peak_bytes: int
    """Memory beyond what the process had when the job began."""
    seconds: float
    """Median time of the job."""
    verified: bool
    """Whether the target has the elements of the source."""


def has_dask() -> bool:
    """Whether dask and zarr-python are installed; they are not imported."""
    return all(find_spec(name) is not None for name in ("dask", "zarr", "h5py"))


def check_dask_io(scale: int) -> None:
    """Refuse what cannot run."""
    check_scale(scale)
    if not has_dask():
        raise UsageError("the drafts' experiments need dask and zarr: pip install 'reblock[dask,library]'")


def run_dask_io(
    *,
    scale: int,
    folder: str,
    repeats: int,
    notify: Notify,
    cancelled: Cancelled = never,
    cases: Sequence[DraftCase] = CASES,
) -> list[Table]:
    """Run all programs on all cases; one table for each case."""
    check_dask_io(scale)
    tables = []
    for case in (one.scaled(scale) for one in cases):
        size = prod(case.shape) * ITEM_BYTES
        with bench_folder(folder, _ARRAYS * size, notify) as here:
            notify(f"drafts: {case.name}, {case.text}, {shape(case.shape)}, {format_size(size)}")
            tables.append(_table(case, list(_run_case(case, here, repeats, notify, cancelled)), scale))
    return tables


def _run_case(case: DraftCase, folder: str, repeats: int, notify: Notify, cancelled: Cancelled) -> Iterator[DraftRun]:
    source, target = (
        os.path.join(folder, f"{name}.{'h5' if blocks == case.shape else 'zarr'}")
        for name, blocks in (("source", case.source), ("target", case.target))
    )
    made = {"source": "", "target": source, "chunks": case.chunks, "engine": "make", "shape": case.shape}
    _run_process({**made, "target_chunks": case.source}, folder, cancelled)
    job = {"source": source, "target": target, "chunks": case.chunks, "threads": cores()}
    job |= {"shape": case.shape, "target_chunks": case.target}
    for engine in PLAIN:
        yield _repeat({**job, "engine": engine}, "", repeats, notify, cancelled)
    for buffer in case.buffers:
        if case.buffer_bytes(buffer) > (machine_bytes() or sys.maxsize) // 2:
            notify(f"  buffers of the {buffer}: left out, there is not enough memory")
            continue
        for strategy in STRATEGIES:
            options = {"engine": "buffers", "strategy": strategy, "memory": case.budget(buffer)}
            yield _repeat({**job, **options}, buffer, repeats, notify, cancelled)


def _repeat(job: dict[str, Any], buffer: str, repeats: int, notify: Notify, cancelled: Cancelled) -> DraftRun:
    """The median of some runs."""
    found, verified = [], True
    for _ in range(repeats):
        _remove(job["target"])
        evict_array(job["source"])
        found.append(_run_process(job, os.path.dirname(job["target"]), cancelled))
        verified = verified and api.verify(_inner(job["source"]), _inner(job["target"])).equal
    _remove(job["target"])
    one = found[0]
    run = DraftRun(
        job["engine"],
        job.get("strategy", ""),
        buffer,
        _used(one["report"]),
        one["seeks"],
        one.get("reads", 0) + one.get("writes", 0),
        one.get("bytes_read", 0) + one.get("bytes_written", 0),
        max(some["peak_bytes"] for some in found),
        median(some["seconds"] for some in found),
        verified,
    )
    words = " ".join(filter(None, (run.engine, run.strategy, run.buffer)))
    notify(f"  {words}: {run.seeks:,} seeks, {run.calls:,} calls, {format_seconds(run.seconds)}")
    return run


def _inner(path: str) -> str:
    return f"{path}::/data" if path.endswith(".h5") else path


def _used(report: dict[str, Any] | None) -> str:
    """What buffers there were: how many, and the strategy that made them."""
    if report is None:
        return ""
    rows = [row for row in report["arrays"] if row["buffers"]]
    return ", ".join(f"{row['buffers']} {row['strategy']}" for row in rows) or "none"


def _remove(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path)
    with suppress(FileNotFoundError):
        os.unlink(path)


def _run_process(job: dict[str, Any], folder: str, cancelled: Cancelled) -> dict[str, Any]:
    """Run one job in a new process; it ends with us when the user wants to stop."""
    paths = [os.path.join(folder, name) for name in ("measured.json", "messages")]
    words = [sys.executable, "-P", "-m", _MODULE, json.dumps(job)]
    with open(paths[0], "w+b") as measured, open(paths[1], "w+b") as messages:
        process = subprocess.Popen(  # noqa: S603 - our own program
            words, stdin=subprocess.DEVNULL, stdout=measured, stderr=messages, start_new_session=True
        )
        try:
            while (code := _wait(process)) is None:
                check_cancelled(cancelled)
        finally:
            process.kill()
            process.wait()
        if code:
            messages.seek(0)
            lines = messages.read().decode(errors="replace").strip().splitlines()
            raise StorageError(f"{job['engine']}: {lines[-1] if lines else f'ended with {code}'}")
        measured.seek(0)
        found: dict[str, Any] = json.loads(measured.read())
    return found


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(_POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _table(case: DraftCase, runs: Sequence[DraftRun], scale: int) -> Table:
    plain = next(run.seconds for run in runs if run.engine == "dask")
    rows = [
        (
            run.strategy or run.engine,
            run.buffer or None,
            run.used or None,
            case.naive if not run.strategy else case.least,
            run.seeks,
            run.calls or None,
            run.moved_bytes or None,
            run.peak_bytes,
            run.seconds,
            plain / run.seconds,
            run.verified,
        )
        for run in runs
    ]
    blocks = " → ".join(shape(side) for side in case.sides)
    return Table(
        f"dask_io_{case.name}",
        f"Drafts on Dask IO, {case.name}: {case.text}, {shape(case.shape)}, {blocks} (1/{scale})",
        (
            Column("program", "program"),
            Column("buffer", "room"),
            Column("buffers", "buffers"),
            Column("seeks_paper", "paper", format_count),
            Column("seeks", "seeks", format_count),
            Column("calls", "calls", format_count),
            Column("bytes", "bytes", format_size),
            Column("peak_bytes", "peak", format_size),
            Column("seconds", "s", "{:.2f}".format),
            Column("faster", "×", number),
            Column("verified", "right", yes_no),
        ),
        tuple(rows),
        (
            "program: plain dask on one thread and on all, a loop in Python, and the strategies of Dask IO. room: the "
            "buffer that the budget has room for. buffers: how many there were, and which strategy made them.",
            "paper: what the drafts' formulas give, C_i · C_j for each box without buffers, n_I + n_O with them; the "
            "drafts print no results. seeks: by the seek model, for the boxes that were moved. calls, bytes: reads and "
            "writes that the kernel counted. ×: times faster than dask on all threads.",
        ),
        sum(not run.verified for run in runs),
    )
