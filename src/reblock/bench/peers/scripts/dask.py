"""dask on threads: one graph per region, because its scheduler has no memory budget."""

from __future__ import annotations

from typing import Any

import dask
import dask.array

from reblock.bench.peers.scripts.job import PeerJob
from reblock.bench.peers.scripts.measure import measure
from reblock.bench.peers.scripts.regions import group_lengths, regions
from reblock.bench.peers.scripts.zarr_arrays import create_target, open_source


def run(job: PeerJob) -> dict[str, Any]:
    """Copy region by region."""
    with dask.config.set(scheduler="threads", num_workers=job.threads):
        return measure(lambda: copy(job))


def copy(job: PeerJob) -> None:
    """Rechunk each region in memory; its source and target blocks exist at the same time."""
    source, target = open_source(job), create_target(job)
    blocks = dask.array.from_array(source, chunks=group_lengths(job, job.memory_bytes // 32), name=False)
    for region in regions(job, job.memory_bytes // 2):
        dask.array.store(blocks[region].rechunk(job.unit), target, regions=region, lock=False)
