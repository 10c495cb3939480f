"""The judge: reads source and target with zarr-python, h5py or numpy and compares every element."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import import_module
from typing import Any

import h5py
import numpy as np
import zarr

from reblock.bench.peers.scripts.job import DATASET, PeerJob
from reblock.bench.peers.scripts.regions import regions
from reblock.bench.peers.scripts.zarr_arrays import BLOSC, open_source

#: Memory budget of a comparison.
MEMORY_BYTES = 1 << 30


def run(job: PeerJob) -> dict[str, Any]:
    """Whether the target is correct, why it is not, and its size in bytes."""
    why = _layout(job) or _values(job)
    return {"correct": not why, "why": why, "size_bytes": size_of(job.target)}


def size_of(path: str) -> int:
    """Size of a file, or of all files below a folder."""
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(base, name)) for base, _, files in os.walk(path) for name in files)


def _layout(job: PeerJob) -> str:
    """Differences of shape, dtype, chunks, shards and codec from the job; empty if there are none."""
    if job.target_format in ("npy", "nifti", "niblocks"):
        return ""
    found: dict[str, Any]
    wanted = {"shape": job.shape, "dtype": np.dtype(job.dtype), "chunks": job.chunks, "shards": job.shards}
    if job.target_format == "hdf5":
        with h5py.File(job.target, "r") as file:
            data = file[DATASET]
            codec = f"{'shuffle+' if data.shuffle else ''}{data.compression}:{data.compression_opts}"
            found = {"shape": data.shape, "dtype": data.dtype, "chunks": data.chunks, "shards": None, "codec": codec}
    else:
        array = zarr.open_array(job.target, mode="r")
        found = {key: getattr(array, key) for key in wanted}
        found["codec"] = "+".join(map(_codec, array.compressors)) or "none"
    wanted["codec"] = job.codec
    return "; ".join(f"{key} is {found[key]}, not {wanted[key]}" for key in wanted if found[key] != wanted[key])


def _codec(stage: Any) -> str:
    """A compressor's name in the notation of jobs."""
    settings = stage.get_config() if hasattr(stage, "get_config") else stage.to_dict()["configuration"]
    shuffled = settings.get("shuffle") in (1, "shuffle")
    name = f"blosc:{settings.get('cname')}:{settings.get('clevel')}"
    return BLOSC if name == BLOSC and shuffled else str(settings)


def _values(job: PeerJob) -> str:
    """Index of the first element that differs; empty if none does."""
    if job.target_format == "hdf5":
        with h5py.File(job.source, "r") as one, h5py.File(job.target, "r") as two:
            return _differ(job, one[DATASET], two[DATASET])
    if job.target_format in ("nifti", "niblocks"):
        volumes = import_module("reblock.bench.peers.scripts.nibabel")
        one = volumes.open_volume(job.source, job.source_format, job, job.source_chunks)
        two = volumes.open_volume(job.target, job.target_format, job, job.chunks)
        return _differ(job, one, two)
    target = replace(job, source=job.target, source_format=job.target_format)
    return _differ(job, open_source(job), open_source(target))


def _differ(job: PeerJob, source: Any, target: Any) -> str:
    for region in regions(job, MEMORY_BYTES // 2):
        one, two = source[region], target[region]
        if not np.array_equal(one, two):
            first = np.argwhere(one != two)[0] + [side.start for side in region]
            return f"the element at {','.join(map(str, first))} differs"
    return ""
