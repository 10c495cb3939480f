"""FoundObject: describes an object of another library, and names the local file behind it, if there is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from reblock.model.schema import Schema
from reblock.storage.location import Location


class ArrayObject(Protocol):
    """An `h5py.Dataset`, a `zarr.Array` or a `numpy.ndarray`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of an element."""

    def __getitem__(self, key: Any, /) -> Any:
        """Read a region."""


@dataclass(frozen=True)
class FoundObject:
    """An object that another library has opened or made."""

    name: str
    """The object in words, for messages, such as `<h5py.Dataset /scan/data>`."""
    library: str
    """The library that reads it."""
    format: str
    """The format that a target has by default, as in `--to`."""
    fetch: Callable[[tuple[slice, ...]], Any]
    """Read a region."""
    describe: Callable[[], Schema]
    """The array's schema; only called if the array is read through the object."""
    shape: tuple[int, ...]
    """Length of each axis."""
    dtype: np.dtype[Any]
    """Type of an element."""
    whole_chunks: bool
    """Whether the library reads and decodes whole chunks."""
    where: Location | None = None
    """The local file or folder that holds the same elements; None = it must be read through the object."""
    why: str = ""
    """Why it must be read through the object."""
    backing: Sequence[str] = ()
    """Local files and folders that the library reads; a run must not write there."""
    strides: tuple[int, ...] = ()
    """Bytes between neighbours along each axis of a file that is mapped into memory; empty = none is."""
    release: Callable[[], None] = lambda: None
    """Releases the pages of a mapped file that were read."""
