"""rechunker: at most one intermediate array, executed by dask on threads."""

from __future__ import annotations

import os
from typing import Any

import dask.array
import zarr
from numcodecs import Blosc
from rechunker import rechunk

from reblock.bench.peers.scripts.job import PeerJob
from reblock.bench.peers.scripts.measure import measure
from reblock.bench.peers.scripts.regions import group_lengths
from reblock.bench.peers.scripts.rows import RowSource


def run(job: PeerJob) -> dict[str, Any]:
    """Plan and execute."""
    return measure(lambda: copy(job))


def copy(job: PeerJob) -> None:
    """Copy; rechunker's budget is per worker, so each thread gets an equal share."""
    source: Any
    if job.source_format == "npy":
        source = dask.array.from_array(
            RowSource(job.source), chunks=group_lengths(job, job.memory_bytes // 16), name=False
        )
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
