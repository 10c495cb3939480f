"""zarr-python: a loop over regions, chunks of a region in flight together."""

from __future__ import annotations

from typing import Any

import zarr

from reblock.api.peers.job import Job
from reblock.api.peers.measure import measure
from reblock.api.peers.regions import regions
from reblock.api.peers.zarr_arrays import create_target, open_source

#: Chunks in flight; more gains nothing on local files.
CONCURRENCY = 10


def run(job: Job) -> dict[str, Any]:
    """Copy region by region."""
    zarr.config.set(
        {
            "async.concurrency": CONCURRENCY,
            "threading.max_workers": job.threads,
            # Whether a chunk holds nothing but the fill value need not be asked.
            "array.write_empty_chunks": True,
        }
    )
    return measure(lambda: copy(job, CONCURRENCY))


def copy(job: Job, in_flight: int) -> None:
    """Read each region and write it; beside the region there is room for chunks in flight."""
    source, target = open_source(job), create_target(job)
    chunk = max(job.bytes_of(job.source_chunks), job.bytes_of(job.unit))
    for region in regions(job, max(job.memory_bytes - in_flight * chunk, job.memory_bytes // 2)):
        target[region] = source[region]
