"""nibabel in a loop, as people split and merge volumes: a layer of slices at a time, and a file for each block."""

from __future__ import annotations

import os
from itertools import product
from typing import Any

import nibabel
import numpy as np
import numpy.typing as npt

from reblock.bench.peers.scripts.job import Lengths, PeerJob
from reblock.bench.peers.scripts.measure import measure

#: The format of a folder with a file for each block.
BLOCKS = "niblocks"


def run(job: PeerJob) -> dict[str, Any]:
    """Split a volume into blocks, or merge blocks into a volume."""
    if job.target_format == BLOCKS:
        return measure(lambda: split(job.source, job.target, job.chunks))
    return measure(lambda: merge(job.source, job.target, job.shape, job.dtype, job.source_chunks))


def split(source: str, folder: str, chunks: Lengths) -> None:
    """Read as many slices as a block has, cut them, and save each block with its place in space."""
    volume = nibabel.load(source, mmap=False)
    os.mkdir(folder)
    for z in range(0, volume.shape[2], chunks[2]):
        layer = np.asarray(volume.dataobj[:, :, z : z + chunks[2]])
        for x, y in product(range(0, layer.shape[0], chunks[0]), range(0, layer.shape[1], chunks[1])):
            affine = volume.affine.copy()
            affine[:, 3] = affine @ [x, y, z, 1]
            block = nibabel.Nifti1Image(layer[x : x + chunks[0], y : y + chunks[1]], affine, volume.header)
            nibabel.save(block, os.path.join(folder, name_of((x, y, z), chunks)))


def merge(folder: str, target: str, shape: Lengths, dtype: str, chunks: Lengths) -> None:
    """Load the blocks of a layer, put them together, and append its slices to the file."""
    first = nibabel.load(os.path.join(folder, name_of((0, 0, 0), chunks)), mmap=False)
    make_volume(target, shape, dtype, first.affine)
    with open(target, "ab") as file:
        for z in range(0, shape[2], chunks[2]):
            layer = np.empty((*shape[:2], min(chunks[2], shape[2] - z)), dtype, order="F")
            for x, y in product(range(0, shape[0], chunks[0]), range(0, shape[1], chunks[1])):
                block = nibabel.load(os.path.join(folder, name_of((x, y, z), chunks)), mmap=False)
                layer[x : x + chunks[0], y : y + chunks[1]] = np.asarray(block.dataobj)
            layer.T.tofile(file)


def make_volume(path: str, shape: Lengths, dtype: str, affine: Any = None) -> None:
    """Write the header of a volume."""
    header = nibabel.Nifti1Header()
    header.set_data_dtype(np.dtype(dtype))
    header.set_data_shape(shape)
    header.set_sform(np.diag([2.0, 2.0, 2.0, 1.0]) if affine is None else affine, code=1)
    header["vox_offset"], header["scl_slope"], header["scl_inter"], header["magic"] = 352, 1, 0, b"n+1"
    with open(path, "wb") as file:
        file.write(header.binaryblock + bytes(4))


def name_of(corner: Lengths, chunks: Lengths) -> str:
    """Name of the block that begins at a corner."""
    numbers = [start // length for start, length in zip(corner, chunks, strict=True)]
    return "b_{}_{}_{}.nii".format(*numbers)


class Volume:
    """A volume, or a folder of its blocks, that can be sliced."""

    def __init__(self, path: str, shape: Lengths, dtype: str, chunks: Lengths | None) -> None:
        self.path, self.shape, self.dtype, self.chunks = path, shape, np.dtype(dtype), chunks

    def __getitem__(self, box: tuple[slice, ...]) -> npt.NDArray[Any]:
        if self.chunks is None:
            return np.asarray(nibabel.load(self.path, mmap=False).dataobj[box])
        out = np.empty([side.stop - side.start for side in box], self.dtype)
        starts = [
            range(side.start // length * length, side.stop, length)
            for side, length in zip(box, self.chunks, strict=True)
        ]
        for corner in product(*starts):
            block = np.asarray(nibabel.load(os.path.join(self.path, name_of(corner, self.chunks)), mmap=False).dataobj)
            here, there = [], []
            for start, length, side in zip(corner, block.shape, box, strict=True):
                low, high = max(start, side.start), min(start + length, side.stop)
                here.append(slice(low - side.start, high - side.start))
                there.append(slice(low - start, high - start))
            out[tuple(here)] = block[tuple(there)]
        return out


def open_volume(path: str, format: str, job: PeerJob, chunks: Lengths) -> Volume:
    """A volume or its blocks, to be compared."""
    return Volume(path, job.shape, job.dtype, chunks if format == BLOCKS else None)
