"""tifffile and zarr-python in a loop, the usual way to convert a stack: a layer of planes at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import tifffile
import zarr

from reblock.bench.peers.scripts.job import PeerJob
from reblock.bench.peers.scripts.measure import measure
from reblock.bench.peers.scripts.zarr_arrays import create_target


def run(job: PeerJob) -> dict[str, Any]:
    """Copy layer by layer; a layer is as thick as a chunk."""
    zarr.config.set({"threading.max_workers": job.threads, "array.write_empty_chunks": True})
    return measure(lambda: copy(job))


def copy(job: PeerJob) -> None:
    """Read the planes of a layer on all threads, and write them; chunks are encoded on all threads too."""
    target, planes = create_target(job), Planes(job.source, job.threads)
    for start in range(0, job.shape[0], job.chunks[0]):
        target[start : start + job.chunks[0]] = planes[start : start + job.chunks[0]]


def make(job: PeerJob, slabs: Callable[[PeerJob], Iterator[tuple[slice, Any]]]) -> None:
    """A folder with a file for each plane."""
    os.mkdir(job.target)
    for planes, values in slabs(job):
        for number, plane in zip(range(planes.start, planes.stop), values, strict=True):
            tifffile.imwrite(os.path.join(job.target, f"plane_{number:05}.tif"), plane)


class Planes:
    """A folder of planes that can be sliced."""

    def __init__(self, folder: str, threads: int = 1) -> None:
        self.files, self.threads = sorted(os.path.join(folder, name) for name in os.listdir(folder)), threads

    def __getitem__(self, box: Any) -> npt.NDArray[Any]:
        first, *others = box if isinstance(box, tuple) else (box,)
        layer = np.asarray(tifffile.imread(self.files[first], ioworkers=self.threads))
        # A single plane has no axis for the planes.
        return layer.reshape(-1, *layer.shape[-2:])[(slice(None), *others)]
