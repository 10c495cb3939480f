"""zarr-python: a loop over regions, chunks of a region in flight together."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import zarr

from reblock.bench.peers.scripts.job import Job
from reblock.bench.peers.scripts.measure import measure
from reblock.bench.peers.scripts.regions import Region, pieces, regions
from reblock.bench.peers.scripts.zarr_arrays import create_target, open_source

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


def copy(job: Job, in_flight: int, piece_bytes: int | None = None) -> None:
    """Read each region, at once or cut into pieces, and write it; beside it there is room for chunks in flight."""
    source, target = open_source(job), create_target(job)
    chunk = max(job.bytes_of(job.source_chunks), job.bytes_of(job.unit))
    room = max(job.memory_bytes - in_flight * chunk - (piece_bytes or 0), job.memory_bytes // 4)
    for region in regions(job, room):
        target[region] = source[region] if piece_bytes is None else _joined(job, source, region, piece_bytes)


def _joined(job: Job, source: Any, region: Region, piece_bytes: int) -> npt.NDArray[Any]:
    """A region that is read piece by piece."""
    whole = np.empty([side.stop - side.start for side in region], job.dtype)
    for piece in pieces(job, region, piece_bytes):
        inside = (slice(a.start - b.start, a.stop - b.start) for a, b in zip(piece, region, strict=True))
        whole[tuple(inside)] = source[piece]
    return whole
