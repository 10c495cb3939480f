"""One experiment of the drafts, as a program: `python -m reblock.dask.experiment JSON` runs a job and prints JSON.

A job splits one big HDF5 dataset into blocks, merges blocks into one, or cuts blocks anew. It runs with plain dask on
one thread or several, with a plain loop in Python, or with dask and buffers. It is a process of its own, so that its
memory, its reads and its writes are its own too.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import product
from time import perf_counter
from typing import Any

import dask
import dask.array as da

from reblock.dask.switch import io

#: Programs that can run a job.
ENGINES = ("dask-1", "dask", "python", "buffers")


@dataclass(frozen=True)
class Experiment:
    """One job."""

    source: str
    """An HDF5 file with a dataset `data`, or a Zarr array."""
    target: str
    """The same; it exists already."""
    chunks: tuple[int, ...]
    """Shape of the chunks that dask works with."""
    engine: str
    """One of ENGINES."""
    threads: int = 2
    """Threads of dask."""
    memory: int | str = "1GiB"
    """Budget of buffers."""
    strategy: str = "auto"
    """Strategy of buffers."""
    options: dict[str, Any] = field(default_factory=dict)
    """More, for the caller; it is printed again."""


def run(job: Experiment) -> dict[str, Any]:
    """Run a job, and say how long it took and what was counted."""
    with ExitStack() as stack:
        source, target = _open(job.source, "r", stack), _open(job.target, "r+", stack)
        began, report = perf_counter(), None
        if job.engine == "python":
            _copy(source, target, job.chunks)
        else:
            if job.engine == "buffers":
                report = stack.enter_context(io(memory=job.memory, strategy=job.strategy))
            threads = 1 if job.engine == "dask-1" else job.threads
            stack.enter_context(dask.config.set(scheduler="threads", num_workers=threads))
            da.store(da.from_array(source, chunks=job.chunks), target, lock=_is_hdf5(job.target))
        if _is_hdf5(job.target):
            target.file.flush()
        seconds = perf_counter() - began
    return {"seconds": seconds, "peak_bytes": _peak_bytes(), "report": None if report is None else report.to_json()}


def _peak_bytes() -> int:
    """The most memory that this process has had; what `getrusage` says includes the process that started it."""
    with open("/proc/self/status", encoding="ascii") as status:
        fields = dict(line.split(":", 1) for line in status)
    return int(fields["VmHWM"].split()[0]) * 1024


def _is_hdf5(path: str) -> bool:
    return path.endswith(".h5")


def _open(path: str, mode: Any, stack: ExitStack) -> Any:
    if _is_hdf5(path):
        import h5py

        return stack.enter_context(h5py.File(path, mode))["data"]
    import zarr

    return zarr.open_array(path, mode=mode)


def _copy(source: Any, target: Any, chunks: tuple[int, ...]) -> None:
    """Block by block, without dask."""
    for start in product(*(range(0, length, step) for length, step in zip(source.shape, chunks, strict=True))):
        region = tuple(slice(a, min(a + step, n)) for a, step, n in zip(start, chunks, source.shape, strict=True))
        target[region] = source[region]


def main() -> None:
    """Run the job of the command line."""
    given = json.loads(sys.argv[1])
    found = run(Experiment(**{**given, "chunks": tuple(given["chunks"])}))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
