"""zarrs: zarr-python with a codec pipeline in Rust, in a loop over regions."""

from __future__ import annotations

from typing import Any

import zarr
import zarrs

from reblock.bench.peers.scripts.job import PeerJob
from reblock.bench.peers.scripts.measure import measure
from reblock.bench.peers.scripts.zarr_python import copy


def run(job: PeerJob) -> dict[str, Any]:
    """Copy region by region."""
    zarr.config.set(
        {
            "codec_pipeline.path": f"{zarrs.__name__}.ZarrsCodecPipeline",
            "codec_pipeline.chunk_concurrent_maximum": job.threads,
            "codec_pipeline.strict": True,
            "threading.max_workers": job.threads,
            "array.write_empty_chunks": True,
        }
    )
    # zarrs holds the whole of a chunk that a read touches in part, until the read ends.
    piece_bytes = None if job.codec == "none" else job.memory_bytes // 8
    return measure(lambda: copy(job, 2 * job.threads, piece_bytes))
