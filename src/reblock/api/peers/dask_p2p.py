"""dask's peer-to-peer shuffle on a local cluster, through disk."""

from __future__ import annotations

from typing import Any

import dask
import dask.array
from distributed import Client, LocalCluster

from reblock.api.peers.job import Job
from reblock.api.peers.measure import measure
from reblock.api.peers.regions import grouped
from reblock.api.peers.zarr_arrays import create_target, open_source

#: What a worker holds before it has any data.
WORKER_BYTES = 256 << 20


def run(job: Job) -> dict[str, Any]:
    """Copy in one graph; the cluster is started before the time runs."""
    settings = {
        # Buffers follow the budget; a worker that takes more than its limit waits, and is not killed.
        "distributed.p2p.comm.buffer": job.memory_bytes // 8,
        "distributed.p2p.storage.buffer": job.memory_bytes // 8,
        "distributed.worker.memory.terminate": False,
    }
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=1,
            threads_per_worker=job.threads,
            memory_limit=WORKER_BYTES + job.memory_bytes,
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
