"""What a contender is asked to do: copy an array into other chunks, with so much memory, on so many threads."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import prod
from typing import Any

import numpy as np

Lengths = tuple[int, ...]

#: Name of the dataset in HDF5 files.
DATASET = "data"


@dataclass(frozen=True)
class Job:
    """One copy."""

    contender: str
    """Who does it."""
    source: str
    """Folder or file of the array."""
    target: str
    """Folder or file to make."""
    scratch: str
    """Folder for what lies between; it is there, and is emptied afterwards."""
    source_format: str
    """zarr, zarr2, npy or hdf5."""
    target_format: str
    """zarr, zarr2 or hdf5."""
    shape: Lengths
    """Lengths of the axes."""
    dtype: str
    """Type of an element, as numpy writes it."""
    source_chunks: Lengths
    """Chunks of the source; of a contiguous one its rows."""
    chunks: Lengths
    """Chunks of the target."""
    shards: Lengths | None
    """Shards of the target, if it has any."""
    codec: str
    """Codec of both: none, blosc:zstd:3 or shuffle+gzip:4."""
    memory_bytes: int
    """Memory that the copy may take."""
    threads: int
    """Threads that may work at once."""
    seed: int = 0
    """Where the source's noise starts."""

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Job:
        """A job from its document."""
        fields: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in document.items()
        }
        return cls(**fields)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def unit(self) -> Lengths:
        """What is written whole: a shard, or a chunk."""
        return self.shards or self.chunks

    @property
    def itemsize(self) -> int:
        return np.dtype(self.dtype).itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the array, decoded."""
        return prod(self.shape) * self.itemsize

    def bytes_of(self, lengths: Lengths) -> int:
        """Bytes of a box of these lengths, decoded."""
        return prod(lengths) * self.itemsize
