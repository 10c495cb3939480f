"""dask's peer-to-peer shuffle through disk, on a local cluster."""

from __future__ import annotations

from typing import Any

import dask
import dask.array
from distributed import Client, LocalCluster

from reblock.bench.peers.scripts.job import PeerJob
from reblock.bench.peers.scripts.measure import measure
from reblock.bench.peers.scripts.regions import group_lengths
from reblock.bench.peers.scripts.zarr_arrays import create_target, open_source


def run(job: PeerJob) -> dict[str, Any]:
    """Copy with one graph; the cluster starts before the clock does."""
    settings = {
        # A worker with a memory limit hangs or is killed, so the budget limits the shuffle's buffers instead.
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
            dashboard_address=":0",
        ) as cluster,
        Client(cluster),
    ):
        return measure(lambda: copy(job))


def copy(job: PeerJob) -> None:
    """Shuffle the whole array at once; what exceeds the buffers goes to disk."""
    source, target = open_source(job), create_target(job)
    blocks = dask.array.from_array(source, chunks=group_lengths(job, job.memory_bytes // 16), name=False)
    dask.array.store(blocks.rechunk(job.unit, method="p2p"), target, lock=False)
