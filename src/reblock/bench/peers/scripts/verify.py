"""The judge: reads source and target with zarr-python, h5py or numpy and compares every element."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
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
    wanted = {"shape": job.shape, "dtype": np.dtype(job.dtype), "chunks": job.chunks, "shards": job.shards}
    wanted["codec"] = job.target_codec
    reasons = []
    with _open_target(job) as arrays:
        for array in arrays:
            found = _described(array)
            reasons += [f"{key} is {found[key]}, not {wanted[key]}" for key in wanted if found[key] != wanted[key]]
    return "; ".join(reasons)


@contextmanager
def _open_target(job: PeerJob) -> Iterator[list[Any]]:
    """The arrays of the target."""
    if job.target_format in ("hdf5", "netcdf"):
        with h5py.File(job.target, "r") as file:
            yield [file[name] for name in ([DATASET] if job.target_format == "hdf5" else job.names)]
    elif job.target_format == "zarrgroup":
        group = zarr.open_group(job.target, mode="r", use_consolidated=False)
        yield [group[name] for name in job.names]
    else:
        yield [zarr.open_array(job.target, mode="r")]


def _described(array: Any) -> dict[str, Any]:
    """Shape, dtype, chunks, shards and codec of an array."""
    found = {key: getattr(array, key) for key in ("shape", "dtype", "chunks")}
    if isinstance(array, h5py.Dataset):
        codec = f"{'shuffle+' if array.shuffle else ''}{array.compression}:{array.compression_opts}"
        return {**found, "shards": None, "codec": codec}
    return {**found, "shards": array.shards, "codec": "+".join(map(_codec, array.compressors)) or "none"}


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
    if job.source_format == "netcdf":
        with h5py.File(job.source, "r") as one, _open_target(job) as found:
            pairs = zip(job.names, found, strict=True)
            return "; ".join(filter(None, (_differ(job, one[name], array) for name, array in pairs)))
    if job.source_format == "tiffs":
        planes = import_module("reblock.bench.peers.scripts.tifffile").Planes(job.source)
        with _open_target(job) as found:
            return _differ(job, planes, found[0])
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
