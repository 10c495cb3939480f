"""zarr-python: a loop over regions; the chunks of a region are in flight at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import zarr

from reblock.bench.peers.scripts.job import PeerJob
from reblock.bench.peers.scripts.measure import measure
from reblock.bench.peers.scripts.regions import Slices, pieces, regions
from reblock.bench.peers.scripts.zarr_arrays import create_target, open_source

#: Chunks in flight; more are not faster on local files.
CONCURRENCY = 10


def run(job: PeerJob) -> dict[str, Any]:
    """Copy region by region."""
    zarr.config.set(
        {
            "async.concurrency": CONCURRENCY,
            "threading.max_workers": job.threads,
            # Skips the check whether a chunk holds only the fill value.
            "array.write_empty_chunks": True,
        }
    )
    return measure(lambda: copy(job, CONCURRENCY))


def copy(job: PeerJob, in_flight: int, piece_bytes: int | None = None) -> None:
    """Read each region, whole or in pieces, and write it; the budget also covers the chunks in flight."""
    source, target = open_source(job), create_target(job)
    chunk = max(job.bytes_of(job.source_chunks), job.bytes_of(job.unit))
    room = max(job.memory_bytes - in_flight * chunk - (piece_bytes or 0), job.memory_bytes // 4)
    for region in regions(job, room):
        target[region] = source[region] if piece_bytes is None else _read_pieces(job, source, region, piece_bytes)


def _read_pieces(job: PeerJob, source: Any, region: Slices, piece_bytes: int) -> npt.NDArray[Any]:
    """Read a region piece by piece."""
    whole = np.empty([side.stop - side.start for side in region], job.dtype)
    for piece in pieces(job, region, piece_bytes):
        inside = (slice(a.start - b.start, a.stop - b.start) for a, b in zip(piece, region, strict=True))
        whole[tuple(inside)] = source[piece]
    return whole
