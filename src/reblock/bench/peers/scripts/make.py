"""Sources: a smooth field with noise, made plane by plane from a seed, so that it is the same on every machine.

Values are multiples of a step, as measurements are, and the noise is a few steps wide: codecs halve such data.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from itertools import count
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from reblock.bench.peers.scripts.h5py import create as create_dataset
from reblock.bench.peers.scripts.job import PeerJob
from reblock.bench.peers.scripts.zarr_arrays import create as create_zarr

#: Bytes generated at once; at least the planes of one source chunk.
SLAB_BYTES = 64 << 20
#: Steps per unit of amplitude, and standard deviation of the noise in steps.
STEPS, NOISE = 16384, 300.0


def run(job: PeerJob) -> dict[str, Any]:
    """Create the source of a job at the job's target path."""
    if job.target_format == "npy":
        with open(job.target, "wb") as file:
            header = {"descr": np.dtype(job.dtype).str, "fortran_order": False, "shape": job.shape}
            np.lib.format.write_array_header_1_0(file, header)
            file.writelines(values.data for _, values in slabs(job))
    elif job.target_format in ("nifti", "niblocks"):
        _make_volume(job)
    elif job.target_format == "netcdf":
        import_module("reblock.bench.peers.scripts.xarray").make(job, slabs)
    elif job.target_format == "tiffs":
        import_module("reblock.bench.peers.scripts.tifffile").make(job, slabs)
    elif job.target_format == "hdf5":
        with h5py.File(job.target, "w") as file:
            dataset = create_dataset(file, job, job.source_chunks)
            for planes, values in slabs(job):
                dataset[planes] = values
    else:
        array = create_zarr(job.target, job.target_format, job, job.source_chunks, None)
        for planes, values in slabs(job):
            array[planes] = values
    return {}


def _make_volume(job: PeerJob) -> None:
    """A volume in NIfTI, or its blocks."""
    # Loaded here: an extra that other workloads do not need.
    volumes = import_module("reblock.bench.peers.scripts.nibabel")
    whole = job.target if job.target_format == "nifti" else os.path.join(job.scratch, "whole.nii")
    volumes.make_volume(whole, job.shape, job.dtype)
    # The first axis is the fastest, so the file is that of the transposed array.
    turned = replace(job, shape=job.shape[::-1], source_chunks=(1, *job.shape[1::-1]))
    with open(whole, "ab") as file:
        file.writelines(values.data for _, values in slabs(turned))
    if job.target_format == "niblocks":
        volumes.split(whole, job.target, job.source_chunks)
        os.remove(whole)


def slabs(job: PeerJob) -> Iterator[tuple[slice, npt.NDArray[Any]]]:
    """Yield the array from its first plane to its last, in slabs of whole source chunks."""
    plane = job.bytes_of(job.shape[1:])
    step = job.source_chunks[0] * max(1, SLAB_BYTES // (plane * job.source_chunks[0]))
    for start in range(0, job.shape[0], step):
        planes = range(start, min(start + step, job.shape[0]))
        yield slice(planes.start, planes.stop), np.stack([_plane(job, number) for number in planes])


def _plane(job: PeerJob, number: int) -> npt.NDArray[Any]:
    """Make one plane; its values depend only on the seed and its number."""
    kind = np.dtype(job.dtype)
    rng = np.random.default_rng([job.seed, number])
    values = rng.standard_normal(job.shape[1:], dtype=np.float32)
    values *= NOISE
    for axis, length in zip(count(), job.shape[1:]):
        wave = np.sin(2 * np.pi * (axis + 2) * np.arange(length) / length + number / job.shape[0], dtype=np.float32)
        values += (wave * STEPS).reshape(-1, *(1,) * (len(job.shape) - axis - 2))
    values += np.float32(STEPS * np.cos(6 * number / job.shape[0]))
    np.rint(values, out=values)
    if kind.kind == "f":
        return np.divide(values, STEPS, dtype=np.float32).astype(kind)
    return (values / 4 + 2 * STEPS).astype(kind)
