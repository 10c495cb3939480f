"""Schema: what an array is, apart from where its bytes lie; enough to create it in another format."""

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
    """What a run writes down beside an array, where readers of the format do not show it."""

    digest: str | None = None
    """Digest of the elements."""
    job: str | None = None
    """Which job made the array: short printable ASCII."""

    def __bool__(self) -> bool:
        return (self.digest, self.job) != (None, None)


#: Nothing written down.
NO_RECORD = Record()


@dataclass(frozen=True)
class Schema:
    """Shape, type, chunking, codec and metadata of an array."""

    shape: tuple[int, ...]
    """Length of each axis."""
    dtype: np.dtype[Any]
    """Type of an element, byte order included."""
    chunks: tuple[Cut, ...]
    """Per axis the chunk length, or all lengths; the inner chunk where there are shards."""
    shards: tuple[int, ...] | None = None
    """Per axis the length of a shard, or None."""
    order: tuple[int, ...] = ()
    """The axes as they lie inside a chunk, outermost first."""
    codec: Codec = field(default_factory=Codec)
    """How a chunk is encoded."""
    fill_value: Any = None
    """Value of chunks that are not stored, as a numpy scalar of `dtype`; None where the format has none."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """User metadata: values are JSON values, numpy scalars or numpy arrays."""
    axes: tuple[str, ...] | None = None
    """Names of the axes."""
    netcdf: bool = False
    """Whether it comes from a NetCDF file, where every single value of an attribute is an array of one."""
    record: Record = NO_RECORD
    """What the run that made the array wrote down beside it; empty where there is nothing."""
    notes: tuple[str, ...] = ()
    """What could not be kept as it was, in words for the report."""

    def __post_init__(self) -> None:
        if not self.order:
            object.__setattr__(self, "order", tuple(range(len(self.shape))))

    @property
    def ndim(self) -> int:
        return len(self.shape)


def element(value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """One element as an array without axes: the same bytes for the same value."""
    array = np.array(value, dtype)
    clear_padding(array)
    return array


def clear_padding(array: npt.NDArray[Any]) -> None:
    """Set to zero the bytes of elements that hold no value.

    A long double of 80 bits lies in 16 bytes or 12. Numpy copies the others from array to array, but where it converts
    a scalar or another type it leaves in them what happens to be in memory.
    """
    if array.dtype.char not in "gG" or np.finfo(np.longdouble).nmant != 63:
        return
    size = np.dtype(np.longdouble).itemsize
    zeros = np.zeros((), f"V{size - 10}")
    for offset in range(10 if array.dtype.isnative else 0, array.itemsize, size):
        array.getfield(zeros.dtype, offset)[...] = zeros
