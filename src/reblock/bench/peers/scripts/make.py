"""Sources: a smooth field with noise, made plane by plane from a seed, so that it is the same everywhere.

Values are multiples of a step, as measurements are, and the noise is some steps wide: codecs halve what they get.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from reblock.bench.peers.scripts.h5py import create as create_dataset
from reblock.bench.peers.scripts.job import Job
from reblock.bench.peers.scripts.zarr_arrays import create as create_zarr

#: Bytes that are made at once; the planes of one source chunk where that is more.
SLAB_BYTES = 64 << 20
#: Steps in which values come, of an amplitude of 1; and how many of them the noise has.
STEPS, NOISE = 16384, 300.0


def run(job: Job) -> dict[str, Any]:
    """Make the source of a job at its target path."""
    if job.target_format == "npy":
        with open(job.target, "wb") as file:
            header = {"descr": np.dtype(job.dtype).str, "fortran_order": False, "shape": job.shape}
            np.lib.format.write_array_header_1_0(file, header)
            file.writelines(values.data for _, values in slabs(job))
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


def slabs(job: Job) -> Iterator[tuple[slice, npt.NDArray[Any]]]:
    """The array from its first plane to its last, whole source chunks at a time."""
    plane = job.bytes_of(job.shape[1:])
    step = job.source_chunks[0] * max(1, SLAB_BYTES // (plane * job.source_chunks[0]))
    for start in range(0, job.shape[0], step):
        planes = range(start, min(start + step, job.shape[0]))
        yield slice(planes.start, planes.stop), np.stack([_plane(job, number) for number in planes])


def _plane(job: Job, number: int) -> npt.NDArray[Any]:
    """One plane; it depends on its number alone."""
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
