"""Sources and targets of contenders that use zarr-python 3."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import zarr
from numcodecs import Blosc
from zarr.codecs import BloscCodec

from reblock.bench.peers.scripts.job import Lengths, PeerJob
from reblock.bench.peers.scripts.rows import RowSource

#: The codec of compressed arrays.
BLOSC = "blosc:zstd:3"


def open_source(job: PeerJob) -> Any:
    """Open the source: an object with shape and dtype that can be sliced."""
    return RowSource(job.source) if job.source_format == "npy" else zarr.open_array(job.source, mode="r")


def create_target(job: PeerJob) -> Any:
    """Create an empty target with the job's chunks and shards."""
    return create(job.target, job.target_format, replace(job, codec=job.target_codec), job.chunks, job.shards)


def create(path: str, format: str, job: PeerJob, chunks: Lengths, shards: Lengths | None) -> Any:
    """Create an empty zarr array with the job's shape, dtype and codec."""
    compressor: Any = None
    if job.codec == BLOSC:
        v3 = format == "zarr"
        compressor = (
            BloscCodec(cname="zstd", clevel=3, shuffle="shuffle", typesize=job.itemsize)
            if v3
            else Blosc("zstd", 3, Blosc.SHUFFLE)
        )
    return zarr.create_array(
        path,
        shape=job.shape,
        dtype=job.dtype,
        chunks=chunks,
        shards=shards,
        compressors=compressor,
        filters=None,
        zarr_format=3 if format == "zarr" else 2,
        fill_value=0,
    )
