"""Sources and targets of contenders that build on zarr-python 3."""

from __future__ import annotations

from typing import Any

import zarr
from numcodecs import Blosc
from zarr.codecs import BloscCodec

from reblock.bench.peers.scripts.job import Job, Lengths
from reblock.bench.peers.scripts.rows import Rows

#: The codec of compressed arrays.
BLOSC = "blosc:zstd:3"


def open_source(job: Job) -> Any:
    """The source: something with shape and dtype that gives boxes."""
    return Rows(job.source) if job.source_format == "npy" else zarr.open_array(job.source, mode="r")


def create_target(job: Job) -> Any:
    """An empty array as the job wants it."""
    return create(job.target, job.target_format, job, job.chunks, job.shards)


def create(path: str, format: str, job: Job, chunks: Lengths, shards: Lengths | None) -> Any:
    """An empty zarr array of the job's shape, type and codec."""
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
