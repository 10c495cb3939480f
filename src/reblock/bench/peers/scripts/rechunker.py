"""rechunker: at most one array between source and target, carried out by dask on threads."""

from __future__ import annotations

import os
from typing import Any

import dask.array
import zarr
from numcodecs import Blosc
from rechunker import rechunk

from reblock.bench.peers.scripts.job import Job
from reblock.bench.peers.scripts.measure import measure
from reblock.bench.peers.scripts.regions import grouped
from reblock.bench.peers.scripts.rows import Rows


def run(job: Job) -> dict[str, Any]:
    """Plan and execute."""
    return measure(lambda: copy(job))


def copy(job: Job) -> None:
    """Its budget is that of one worker, so the threads share the memory."""
    source: Any
    if job.source_format == "npy":
        source = dask.array.from_array(Rows(job.source), chunks=grouped(job, job.memory_bytes // 16), name=False)
    else:
        source = zarr.open_array(job.source, mode="r")
    plan = rechunk(
        source,
        job.chunks,
        max_mem=job.memory_bytes // job.threads,
        target_store=job.target,
        temp_store=os.path.join(job.scratch, "between.zarr"),
        target_options={"compressor": None if job.codec == "none" else Blosc("zstd", 3, Blosc.SHUFFLE)},
        executor="dask",
    )
    plan.execute(scheduler="threads", num_workers=job.threads)
