"""h5py: a loop over regions that fit into the budget."""

from __future__ import annotations

from typing import Any

import h5py

from reblock.bench.peers.scripts.job import DATASET, PeerJob
from reblock.bench.peers.scripts.measure import measure
from reblock.bench.peers.scripts.regions import regions


def run(job: PeerJob) -> dict[str, Any]:
    """Copy region by region."""
    return measure(lambda: copy(job))


def copy(job: PeerJob) -> None:
    """Copy; the chunk cache holds a few chunks, and the region gets the rest of the memory."""
    cache = 4 * (job.bytes_of(job.chunks) + job.bytes_of(job.source_chunks))
    with h5py.File(job.source, "r", rdcc_nbytes=cache) as source, h5py.File(job.target, "w", rdcc_nbytes=cache) as file:
        target = create(file, job, job.chunks)
        for region in regions(job, max(job.memory_bytes - 2 * cache, job.memory_bytes // 2)):
            target[region] = source[DATASET][region]


def create(file: h5py.File, job: PeerJob, chunks: tuple[int, ...]) -> h5py.Dataset:
    """Create an empty dataset with the job's shape, dtype and codec."""
    return file.create_dataset(
        DATASET, shape=job.shape, dtype=job.dtype, chunks=chunks, shuffle=True, compression="gzip", compression_opts=4
    )
