"""h5py: a loop over regions."""

from __future__ import annotations

from typing import Any

import h5py

from reblock.bench.peers.scripts.job import DATASET, Job
from reblock.bench.peers.scripts.measure import measure
from reblock.bench.peers.scripts.regions import regions


def run(job: Job) -> dict[str, Any]:
    """Copy region by region."""
    return measure(lambda: copy(job))


def copy(job: Job) -> None:
    """Chunks that are being written have a cache for a few of them; the rest of the memory is the region's."""
    cache = 4 * (job.bytes_of(job.chunks) + job.bytes_of(job.source_chunks))
    with h5py.File(job.source, "r", rdcc_nbytes=cache) as source, h5py.File(job.target, "w", rdcc_nbytes=cache) as file:
        target = create(file, job, job.chunks)
        for region in regions(job, max(job.memory_bytes - 2 * cache, job.memory_bytes // 2)):
            target[region] = source[DATASET][region]


def create(file: h5py.File, job: Job, chunks: tuple[int, ...]) -> h5py.Dataset:
    """An empty dataset of the job's shape, type and codec."""
    return file.create_dataset(
        DATASET, shape=job.shape, dtype=job.dtype, chunks=chunks, shuffle=True, compression="gzip", compression_opts=4
    )
