"""Schema: what an array is, apart from where its bytes are; enough to create it in another format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.geometry.grid import Cut
from reblock.model.codec import Codec


@dataclass(frozen=True)
class Record:
    """The data that a run stores with an array, where other readers of the format ignore it."""

    digest: str | None = None
    """Digest of the elements."""
    job: str | None = None
    """Identity of the job that made the array: short printable ASCII."""

    def __bool__(self) -> bool:
        return (self.digest, self.job) != (None, None)


#: An empty record.
NO_RECORD = Record()


@dataclass(frozen=True)
class Schema:
    """Shape, type, chunking, codec and metadata of an array."""

    shape: tuple[int, ...]
    """Length of each axis."""
    dtype: np.dtype[Any]
    """Type of an element, byte order included."""
    chunks: tuple[Cut, ...]
    """Per axis the chunk length, or all lengths; the inner chunk if there are shards."""
    shards: tuple[int, ...] | None = None
    """Per axis the length of a shard, or None."""
    order: tuple[int, ...] = ()
    """Order of the axes inside a chunk, outermost first."""
    codec: Codec = field(default_factory=Codec)
    """How a chunk is encoded."""
    fill_value: Any = None
    """Value of chunks that are not stored, as a numpy scalar of `dtype`; None if the format has none."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """User metadata: values are JSON values, numpy scalars or numpy arrays."""
    axes: tuple[str, ...] | None = None
    """Names of the axes."""
    netcdf: bool = False
    """Whether the array comes from a NetCDF file, in which single attribute values are arrays of length one."""
    hdf5: bool = False
    """Whether the array is in an HDF5 file, whose readers have the filters of its codec."""
    unlimited: tuple[bool, ...] = ()
    """Per axis, whether other programs may append along it, in formats that tell; empty = along none."""
    record: Record = NO_RECORD
    """The record of the run that made the array; empty if there is none."""
    notes: tuple[str, ...] = ()
    """What could not be kept, in words for the report."""
    chunk_order: str = ""
    """Order of chunks inside shards: axes from the outermost to the innermost, or a curve; "" = the usual one."""
    whole_objects: bool = False
    """Whether every object must be written whole, because the medium of the array writes no ranges."""

    def __post_init__(self) -> None:
        if not self.order:
            object.__setattr__(self, "order", tuple(range(len(self.shape))))

    @property
    def ndim(self) -> int:
        return len(self.shape)


def element(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """One element as an array without axes; equal values have equal bytes."""
    array = np.array(value, dtype)
    clear_padding(array)
    return array


def clear_padding(array: npt.NDArray[Any]) -> None:
    """Set the padding bytes of elements to zero.

    A long double of 80 bits takes 16 or 12 bytes. Numpy copies the padding from array to array, but when it converts a
    scalar or another type, the padding keeps whatever was in memory.
    """
    if array.dtype.char not in "gG" or np.finfo(np.longdouble).nmant != 63:
        return
    size = np.dtype(np.longdouble).itemsize
    zeros = np.zeros((), f"V{size - 10}")
    for offset in range(10 if array.dtype.isnative else 0, array.itemsize, size):
        array.getfield(zeros.dtype, offset)[...] = zeros
