"""One experiment of the drafts, as a program: `python -m reblock.dask.experiment JSON` runs a job and prints JSON.

A job splits one big HDF5 dataset into blocks, merges blocks into one, or cuts blocks anew. It runs with plain dask on
one thread or several, with a plain loop in Python, or with dask and buffers. It is a process of its own, so that its
memory, its reads and its writes are its own too. The kernel counts calls and bytes; the seek model counts seeks.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import product
from time import perf_counter
from typing import Any

import dask
import dask.array as da
import numpy as np

from reblock.dask.counting import count_traffic
from reblock.dask.sources import find_array
from reblock.dask.switch import io
from reblock.geometry.axis import Ints

#: Elements that are made at once.
_MADE = 4 << 20


@dataclass(frozen=True)
class Experiment:
    """One job."""

    source: str
    """An HDF5 file with a dataset `data`, or a Zarr array."""
    target: str
    """The same; it exists already, or is made here."""
    chunks: tuple[int, ...]
    """Shape of the chunks that dask works with."""
    engine: str
    """`dask-1`, `dask`, `python` or `buffers`; `make` fills a new target with random numbers."""
    threads: int = 2
    """Threads of dask."""
    memory: int | str = "1GiB"
    """Budget of buffers."""
    strategy: str = "auto"
    """Strategy of buffers."""
    shape: tuple[int, ...] | None = None
    """Shape of a target that is made here; None for one that exists."""
    target_chunks: tuple[int, ...] | None = None
    """Chunks of a Zarr array that is made here."""
    dtype: str = "<u2"
    """Type of the elements of a target that is made here: unsigned integers."""


def run(job: Experiment) -> dict[str, Any]:
    """Run a job, and say how long it took and what was counted."""
    if job.shape is not None:
        _create(job.target, job.shape, job.target_chunks, job.dtype)
    with ExitStack() as stack:
        target = _open(job.target, "r+", stack)
        if job.engine == "make":
            _fill(target)
            return {}
        source = _open(job.source, "r", stack)
        if job.engine == "buffers":
            report = stack.enter_context(io(memory=job.memory, strategy=job.strategy))
        threads = 1 if job.engine == "dask-1" else job.threads
        stack.enter_context(dask.config.set(scheduler="threads", num_workers=threads))
        before, size, began = _calls(), _reset_peak(), perf_counter()
        if job.engine == "python":
            _copy(source, target, job.chunks)
        else:
            da.store(da.from_array(source, chunks=job.chunks), target, lock=_is_hdf5(job.target))
        if _is_hdf5(job.target):
            target.file.flush()
        seconds, after = perf_counter() - began, _calls()
        plain = {name: _plain_seeks(one, job.chunks, writing=one is target) for name, one in _sides(source, target)}
        return {
            "seconds": seconds,
            "peak_bytes": max(_status("VmHWM") - size, 0),
            **{name: after[name] - before[name] for name in after},
            **_summary(plain, report.to_json() if job.engine == "buffers" else None),
        }


def _sides(source: Any, target: Any) -> Iterator[tuple[str, Any]]:
    for one in (source, target):
        if found := find_array(one):
            yield found.name, one


def _summary(plain: dict[str, int], report: dict[str, Any] | None) -> dict[str, Any]:
    """Seeks of both sides, counted for buffers and by the model for the rest, and what buffers there were."""
    if report is None:
        return {"seeks": sum(plain.values()), "report": None}
    rows = {row["name"]: row for row in report["arrays"] if row["buffers"]}
    others = sum(seeks for name, seeks in plain.items() if name not in rows)
    return {"seeks": others + report["counted"]["seeks"], "report": report}


def _plain_seeks(obj: Any, chunks: tuple[int, ...], *, writing: bool) -> int:
    """Seeks for chunk after chunk."""
    found = find_array(obj)
    if found is None:
        return 0
    starts, stops = _bounds(obj.shape, chunks)
    return count_traffic(starts, stops, found.layout if writing else found.plain_layout, writing=writing).seeks


def _bounds(shape: tuple[int, ...], chunks: tuple[int, ...]) -> tuple[Ints, Ints]:
    lows = np.array(list(product(*(range(0, n, step) for n, step in zip(shape, chunks, strict=True)))), np.int64)
    return lows, np.minimum(lows + np.array(chunks), np.array(shape))


def _calls() -> dict[str, int]:
    """Read and write calls of this process, and their bytes, as the kernel counts them; nothing where it does not."""
    names = {"syscr": "reads", "syscw": "writes", "rchar": "bytes_read", "wchar": "bytes_written"}
    found = {}
    with suppress(OSError), open("/proc/self/io", encoding="ascii") as file:
        for line in file:
            name, value = line.split(":")
            if name in names:
                found[names[name]] = int(value)
    return found


def _reset_peak() -> int:
    """Forget the most memory that this process has had, and return what it has now."""
    with suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    return _status("VmRSS")


def _status(name: str) -> int:
    """A size of this process; what `getrusage` says includes the process that started it."""
    with suppress(OSError, KeyError), open("/proc/self/status", encoding="ascii") as status:
        fields = dict(line.split(":", 1) for line in status)
        return int(fields[name].split()[0]) * 1024
    return 0


def _is_hdf5(path: str) -> bool:
    return path.endswith(".h5")


def _create(path: str, shape: tuple[int, ...], chunks: tuple[int, ...] | None, dtype: str) -> None:
    """A new array of 16-bit integers: one contiguous dataset, or a Zarr array of uncompressed chunks."""
    if _is_hdf5(path):
        import h5py

        with h5py.File(path, "x") as file:
            file.create_dataset("data", shape, dtype)
        return
    import zarr

    zarr.create_array(path, shape=shape, dtype=dtype, chunks=chunks or shape, compressors=None)


def _open(path: str, mode: Any, stack: ExitStack) -> Any:
    if _is_hdf5(path):
        import h5py

        return stack.enter_context(h5py.File(path, mode))["data"]
    import zarr

    return zarr.open_array(path, mode=mode)


def _fill(target: Any) -> None:
    """Random numbers, in rows of whole chunks."""
    row = int(np.prod(target.shape[1:]))
    chunks = getattr(target, "chunks", None)
    step = chunks[0] if chunks else max(_MADE // row, 1)
    random, most = np.random.default_rng(0), np.iinfo(target.dtype).max
    for start in range(0, target.shape[0], step):
        rows = min(step, target.shape[0] - start)
        target[start : start + rows] = random.integers(0, most, (rows, *target.shape[1:]), target.dtype, endpoint=True)


def _copy(source: Any, target: Any, chunks: tuple[int, ...]) -> None:
    """Block by block, without dask."""
    for start, stop in zip(*(bounds.tolist() for bounds in _bounds(source.shape, chunks)), strict=True):
        region = tuple(map(slice, start, stop))
        target[region] = source[region]


def _warm_up(job: Experiment) -> None:
    """Run a tiny job of the same kind, so that what is imported late is not part of the measurement."""
    with tempfile.TemporaryDirectory(prefix="reblock-experiment-") as folder:
        paths = [
            os.path.join(folder, f"{name}{os.path.splitext(path)[1]}")
            for name, path in (("source", job.source), ("target", job.target))
        ]
        small = replace(job, source=paths[0], target=paths[1], shape=(8, 8, 8), chunks=(4, 4, 4), memory="4MiB")
        run(replace(small, target=paths[0], target_chunks=(4, 4, 8), engine="make"))
        run(replace(small, target_chunks=(4, 4, 4)))


def main() -> None:
    """Run the job of the command line."""
    given = json.loads(sys.argv[1])
    lengths = {key: tuple(given[key]) for key in ("chunks", "shape", "target_chunks") if given.get(key) is not None}
    job = Experiment(**{**given, **lengths})
    if job.engine != "make":
        _warm_up(job)
    sys.stdout.write(json.dumps(run(job)) + "\n")


if __name__ == "__main__":
    main()
