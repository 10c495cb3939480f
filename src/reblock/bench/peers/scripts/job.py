"""PeerJob: one copy that a contender makes, with its memory budget and number of threads."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import prod
from typing import Any

import numpy as np

Lengths = tuple[int, ...]

#: Name of the dataset in HDF5 files.
DATASET = "data"
#: Names of the axes of the variables in NetCDF files.
AXES = ("time", "latitude", "longitude")


@dataclass(frozen=True)
class PeerJob:
    """One copy of an array into other chunks."""

    contender: str
    """Name of the contender that makes the copy."""
    source: str
    """Folder or file of the array."""
    target: str
    """Folder or file to create."""
    scratch: str
    """Existing folder for intermediate files; it is emptied afterwards."""
    source_format: str
    """zarr, zarr2, npy, hdf5, netcdf, nifti, niblocks or tiffs."""
    target_format: str
    """zarr, zarr2, zarrgroup, hdf5, netcdf, nifti or niblocks."""
    shape: Lengths
    """Lengths of the axes."""
    dtype: str
    """Element type, as numpy writes it."""
    source_chunks: Lengths
    """Chunks of the source; rows for a contiguous source."""
    chunks: Lengths
    """Chunks of the target."""
    shards: Lengths | None
    """Shards of the target; None for a target without shards."""
    codec: str
    """Codec of the source, and of the target if it has no other: none, blosc:zstd:3 or shuffle+gzip:4."""
    memory_bytes: int
    """Memory budget of the copy."""
    threads: int
    """Number of threads that may run at once."""
    other_codec: str | None = None
    """Codec of the target, if it has another."""
    variables: int = 1
    """Number of arrays of this shape."""
    seed: int = 0
    """Seed of the source's noise."""

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> PeerJob:
        """Build a job from its JSON document."""
        fields: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in document.items()
        }
        return cls(**fields)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def unit(self) -> Lengths:
        """Shape of the objects in the target: shards, or chunks without shards."""
        return self.shards or self.chunks

    @property
    def target_codec(self) -> str:
        """Codec of the target."""
        return self.other_codec or self.codec

    @property
    def names(self) -> list[str]:
        """Names of the variables of a dataset."""
        return [f"v{number}" for number in range(self.variables)]

    @property
    def itemsize(self) -> int:
        return np.dtype(self.dtype).itemsize

    @property
    def nbytes(self) -> int:
        """Decoded bytes of the array."""
        return prod(self.shape) * self.itemsize

    def bytes_of(self, lengths: Lengths) -> int:
        """Decoded bytes of a box with these lengths."""
        return prod(lengths) * self.itemsize
