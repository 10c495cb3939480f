"""dask's peer-to-peer shuffle on a local cluster, through disk."""

from __future__ import annotations

from typing import Any

import dask
import dask.array
from distributed import Client, LocalCluster

from reblock.bench.peers.scripts.job import Job
from reblock.bench.peers.scripts.measure import measure
from reblock.bench.peers.scripts.regions import grouped
from reblock.bench.peers.scripts.zarr_arrays import create_target, open_source


def run(job: Job) -> dict[str, Any]:
    """Copy in one graph; the cluster is started before the time runs."""
    settings = {
        # A limit on the worker makes it wait for ever or kills it, so the budget goes to the buffers of the shuffle.
        "distributed.p2p.comm.buffer": job.memory_bytes // 8,
        "distributed.p2p.storage.buffer": job.memory_bytes // 8,
    }
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=1,
            threads_per_worker=job.threads,
            memory_limit=0,
            local_directory=job.scratch,
            dashboard_address=None,
        ) as cluster,
        Client(cluster),
    ):
        return measure(lambda: copy(job))


def copy(job: Job) -> None:
    """Shuffle everything at once: what does not fit lies on disk."""
    source, target = open_source(job), create_target(job)
    blocks = dask.array.from_array(source, chunks=grouped(job, job.memory_bytes // 16), name=False)
    dask.array.store(blocks.rechunk(job.unit, method="p2p"), target, lock=False)
