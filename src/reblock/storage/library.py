"""Arrays as the formats' own libraries read them: a second reader, which shares no code with the first one.

A comparison that reads both arrays with the same code cannot find a mistake of that code. Here the library of a format
(h5py, zarr-python, numpy) finds the array, describes it and reads its elements: slowly, one call at a time, and in this
process, so that a hostile file can do to it whatever the library allows. Each format has such a reader in its own
package, and a method that opens it (`ReadByLibrary`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from reblock.errors import ReblockError, StorageError, UsageError
from reblock.geometry import Box, Grid
from reblock.model import Layout
from reblock.model.schema import clear_padding
from reblock.storage import registry
from reblock.storage.media.registry import medium_of

Array = npt.NDArray[Any]

#: Copies of a chunk that a library holds while it reads it: stored, between filters, decoded, and one to spare.
_COPIES = 4


@dataclass(frozen=True)
class LibraryArray:
    """A stored array that a library reads."""

    location: str
    """`PATH[::INNER]`, for messages."""
    library: str
    """Name of the library."""
    dtype: np.dtype[Any]
    """Type of an element, from the library."""
    grid: Grid
    """The chunks, from the library; they decide how much is read at a time."""
    whole_chunks: bool
    """Whether a chunk is read whole even if only a part of it is wanted."""
    fetch: Callable[[tuple[slice, ...]], Any]
    """Reads a region."""
    strides: tuple[int, ...] = ()
    """Bytes between neighbours along each axis, if regions are mapped instead of read."""

    @property
    def layout(self) -> Layout:
        """The layout, for the cost of reading."""
        layout = Layout.raw(self.dtype, self.grid)
        return replace(layout, codec=self.library, partial_reads=False) if self.whole_chunks else layout

    @property
    def least_bytes(self) -> int:
        """The least memory that reading takes beside the result."""
        return _COPIES * self.layout.unit_bytes if self.whole_chunks else 0

    def read(self, box: Box, memory_bytes: int) -> Array:
        """Read a box into a new array; mapped memory, which counts as well, is touched a part at a time."""
        out = np.empty(box.shape, self.dtype)
        parts: Iterable[Box] = [box] if box.size else []
        if box.size and self.strides:
            order = sorted(range(box.ndim), key=lambda axis: -self.strides[axis])
            parts = stretches(box, self.strides, order, memory_bytes)
        with library_errors(self.library, self.location):
            for part in parts:
                # The ellipsis keeps an array without axes an array.
                here: Any = (*part.within(box).slices, ...)
                out[here] = self.fetch(part.slices)
        clear_padding(out)
        return out


@runtime_checkable
class ReadByLibrary(Protocol):
    """A format whose arrays a library of others can read."""

    def open_with_library(self, path: str, inner: str, allow: Sequence[str] = ()) -> LibraryArray:
        """Open the array at a local path with that library."""


def open_with_library(location: str, format: str | None = None, allow: Sequence[str] = ()) -> LibraryArray:
    """Open an array with the library of its format, which is detected unless it is given."""
    where = registry.locate(location)
    medium = medium_of(where.path)
    if not medium.is_local:
        raise UsageError(f"{where.path}: libraries open local files only, and this array is in {medium.name}")
    kind = registry.detect(where.path) if format is None else registry.get(format)
    if not isinstance(kind, ReadByLibrary):
        raise UsageError(f"{where}: there is no library to read the format {kind.name} with; use the other reader")
    opened = kind.open_with_library(where.path, where.inner, allow)
    if opened.dtype.hasobject:
        raise StorageError(f"{where}: {opened.library} reads elements of no fixed size, which cannot be compared")
    return opened


@contextmanager
def library_errors(library: str, where: str) -> Iterator[None]:
    """Calls of a library: whatever it raises becomes one line that names it."""
    try:
        with warnings.catch_warnings():
            # Warnings of libraries are for programmers, not for users of reblock.
            warnings.simplefilter("ignore")
            yield
    except ReblockError:
        raise
    except Exception as error:  # any library may raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise StorageError(f"{where}: {library} cannot read it: {reason}") from error


def map_npy(path: str) -> Array:
    """A .npy file as numpy maps it; two formats are made of such files."""
    try:
        mapped: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError:  # an empty array cannot be mapped
        mapped = np.load(path, allow_pickle=False)
    return mapped


def stretches(box: Box, strides: Sequence[int], order: Sequence[int], limit_bytes: int) -> Iterator[Box]:
    """Cut a box into parts, each of which lies within a number of bytes of a file, or is a single element."""
    if not order:
        yield box
        return
    axis = order[0]
    low, high = box.start[axis], box.stop[axis]
    step = max(limit_bytes // max(strides[axis], 1), 1)
    for start in range(low, high, step):
        part = Box(
            (*box.start[:axis], start, *box.start[axis + 1 :]),
            (*box.stop[:axis], min(start + step, high), *box.stop[axis + 1 :]),
        )
        if step > 1:
            yield part
        else:
            yield from stretches(part, strides, order[1:], limit_bytes)
