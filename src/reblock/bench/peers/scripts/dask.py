"""dask on threads: a graph per region, since the scheduler has no budget to keep."""

from __future__ import annotations

from typing import Any

import dask
import dask.array

from reblock.bench.peers.scripts.job import Job
from reblock.bench.peers.scripts.measure import measure
from reblock.bench.peers.scripts.regions import grouped, regions
from reblock.bench.peers.scripts.zarr_arrays import create_target, open_source


def run(job: Job) -> dict[str, Any]:
    """Copy region by region."""
    with dask.config.set(scheduler="threads", num_workers=job.threads):
        return measure(lambda: copy(job))


def copy(job: Job) -> None:
    """Rechunk each region in memory; source and target blocks of it live side by side."""
    source, target = open_source(job), create_target(job)
    blocks = dask.array.from_array(source, chunks=grouped(job, job.memory_bytes // 32), name=False)
    for region in regions(job, job.memory_bytes // 2):
        dask.array.store(blocks[region].rechunk(job.unit), target, regions=region, lock=False)
