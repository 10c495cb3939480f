"""cubed: a plan of several stages with intermediate arrays, run on threads."""

from __future__ import annotations

from typing import Any

import cubed
import zarr
from cubed.runtime.create import create_executor

from reblock.bench.peers.scripts.job import PeerJob
from reblock.bench.peers.scripts.measure import measure
from reblock.bench.peers.scripts.regions import group_lengths
from reblock.bench.peers.scripts.zarr_arrays import create_target, open_source


def run(job: PeerJob) -> dict[str, Any]:
    """Plan and compute."""
    zarr.config.set({"array.write_empty_chunks": True, "threading.max_workers": job.threads})
    return measure(lambda: copy(job))


def copy(job: PeerJob) -> None:
    """Copy with one graph; cubed's budget is per task, so each thread gets an equal share."""
    spec = cubed.Spec(
        work_dir=job.scratch,
        allowed_mem=job.memory_bytes // job.threads,
        reserved_mem=0,
        executor=create_executor("threads", {"max_workers": job.threads}),
        zarr_compressor=None,
    )
    source = open_source(job)
    if job.source_format == "npy":
        blocks = cubed.from_array(source, chunks=group_lengths(job, job.memory_bytes // 16), spec=spec)
    else:
        blocks = cubed.from_array(source, spec=spec)
    cubed.store(blocks.rechunk(job.unit), create_target(job))
