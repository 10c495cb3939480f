"""Read arrays with the formats' own libraries: h5py, zarr-python and numpy, without any of our readers.

A comparison that reads with our code repeats our code's mistakes. These readers share none of it: the library finds the
array, states its shape and type, and returns its elements. They are slow, one call at a time. The library opens the
file in this process, so a hostile file can exploit the library.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import ExternalError, FormatError, ReblockError, StorageError, UsageError
from reblock.geometry import Box, Grid
from reblock.geometry.grid import Cut, inverse
from reblock.model import Layout
from reblock.model.schema import clear_padding
from reblock.storage import registry
from reblock.storage.hdf5.file import Elsewhere, find_dataset, open_file
from reblock.storage.location import Location

Array = npt.NDArray[Any]

#: Copies of a chunk in memory while a library reads it: stored, between filters, decoded.
_COPIES = 4


@dataclass(frozen=True)
class LibraryArray:
    """A stored array that a library reads."""

    location: str
    """`PATH[::INNER]`, for messages."""
    library: str
    """Name of the library."""
    dtype: np.dtype[Any]
    """Type of an element, as the library states it."""
    grid: Grid
    """The chunks, as the library states them; they guide the size of a read."""
    whole_chunks: bool
    """Whether a chunk is read whole even if only a part of it is needed."""
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
        """The least memory that reading takes, beside the result."""
        return _COPIES * self.layout.unit_bytes if self.whole_chunks else 0

    def read(self, box: Box, memory_bytes: int) -> Array:
        """The elements of a box as a new array; mapped memory also counts, so it is touched part by part."""
        out = np.empty(box.shape, self.dtype)
        parts: Iterable[Box] = [box] if box.size else []
        if box.size and self.strides:
            order = sorted(range(box.ndim), key=lambda axis: -self.strides[axis])
            parts = _stretches(box, self.strides, order, memory_bytes)
        with _calling(self.library, self.location):
            for part in parts:
                # The ellipsis keeps an array without axes an array.
                here: Any = (*part.within(box).slices, ...)
                out[here] = self.fetch(part.slices)
        clear_padding(out)
        return out


def open_with_library(location: str, format: str | None = None, allow: Sequence[str] = ()) -> LibraryArray:
    """Open an array with the library of its format, which is detected unless it is given."""
    where = registry.locate(location)
    if where.is_url:
        raise UsageError(f"{where.path}: only local files can be opened in this version, not URLs")
    name = registry.detect(where.path).name if format is None else format
    if name not in _OPENERS:
        raise UsageError(f"{where}: there is no library to read the format {name}; there is one for {_NAMES}")
    opened = _OPENERS[name](where, allow)
    if opened.dtype.hasobject:
        raise StorageError(f"{where}: {opened.library} reads elements of no fixed size, which cannot be compared")
    return opened


# ---------------------------------------------------------------- HDF5
def _open_hdf5(where: Location, allow: Sequence[str]) -> LibraryArray:
    with _calling("h5py", str(where)):
        file = open_file(where.path, "r")
        try:
            name, dataset = find_dataset(file, where.path, where.inner)
        except Elsewhere as link:
            raise ExternalError(f"{where}: {link}: name that file itself") from None
        if (dataset.external or dataset.is_virtual) and not allow:
            raise ExternalError(f"{where}: its elements are in other files: allow their folder, or use another reader")
        shape = dataset.shape or ()
        grid = Grid.of(shape, dataset.chunks) if dataset.chunks else Grid.whole(shape)

        def fetch(region: tuple[slice, ...]) -> Any:
            return dataset[region]

        return LibraryArray(f"{where.path}::{name}", "h5py", dataset.dtype, grid, dataset.chunks is not None, fetch)


# ---------------------------------------------------------------- Zarr
def _open_zarr(where: Location, allow: Sequence[str]) -> LibraryArray:  # noqa: ARG001 - zarr-python follows links anyway
    try:
        import zarr
    except ImportError as error:
        why = "zarr-python is needed to read it, and is not installed: pip install 'reblock[library]'"
        raise UsageError(f"{where}: {why}") from error
    with _calling("zarr-python", str(where)):
        found = zarr.open(where.path, path=where.inner or None, mode="r")
        inner = where.inner
        if isinstance(found, zarr.Group):
            inside = [(name, one) for name, one in found.members(max_depth=None) if isinstance(one, zarr.Array)]
            if len(inside) != 1:
                raise FormatError(f"{where} holds {len(inside)} arrays: add ::NAME")
            inner, found = "/".join(filter(None, [inner, inside[0][0]])), inside[0][1]
        array: Any = found

        def fetch(region: tuple[slice, ...]) -> Any:
            with zarr.config.set({"async.concurrency": 1, "threading.max_workers": 1}):
                return array[region]

        grid = Grid.of(array.shape, [max(n, 1) for n in array.chunks])
        return LibraryArray(str(Location(where.path, inner)), "zarr-python", array.dtype, grid, True, fetch)


# ---------------------------------------------------------------- numpy
def _open_npy(where: Location, allow: Sequence[str]) -> LibraryArray:  # noqa: ARG001 - a single file
    with _calling("numpy", str(where)):
        head = _mapped(where.path)

        def fetch(region: tuple[slice, ...]) -> Any:
            # Mapped again each time: touched pages count as memory as long as they are mapped.
            return _mapped(where.path)[region]

        return LibraryArray(str(where), "numpy", head.dtype, Grid.whole(head.shape), False, fetch, head.strides)


def _stretches(box: Box, strides: Sequence[int], order: Sequence[int], limit_bytes: int) -> Iterator[Box]:
    """A box in parts that each span at most `limit_bytes` bytes of a file, or are a single element."""
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
            yield from _stretches(part, strides, order[1:], limit_bytes)


def _mapped(path: str) -> Array:
    try:
        mapped: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError:  # nothing to map in an empty array
        mapped = np.load(path, allow_pickle=False)
    return mapped


def _open_blocks(where: Location, allow: Sequence[str]) -> LibraryArray:  # noqa: ARG001 - numpy follows links anyway
    with _calling("numpy", str(where)):
        with open(os.path.join(where.path, "reblock.json"), encoding="utf-8") as file:
            said = json.load(file)
        shape, dtype, name = tuple(said["shape"]), np.dtype(said["dtype"]), str(said["files"])
        cuts: list[Cut] = [cut if isinstance(cut, int) else tuple(cut) for cut in said["chunks"]]
        grid = Grid.of(shape, cuts)
        order = tuple(said.get("order") or range(len(shape)))

        def block(index: tuple[int, ...], lengths: Sequence[int]) -> Array:
            path = os.path.join(where.path, name.replace("{index}", "_".join(map(str, index)) or "0"))
            if name.endswith(".npy"):
                return _mapped(path)
            flat: Array = np.memmap(path, dtype, "r")
            return flat.reshape([lengths[axis] for axis in order]).transpose(inverse(order))

        def fetch(region: tuple[slice, ...]) -> Any:
            return _joined(cuts, shape, dtype, region, block)

        return LibraryArray(str(where), "numpy", dtype, grid, False, fetch)


def _joined(
    cuts: Sequence[Cut],
    shape: Sequence[int],
    dtype: np.dtype[Any],
    region: tuple[slice, ...],
    block: Callable[[tuple[int, ...], Sequence[int]], Array],
) -> Array:
    """A region of an array that is cut into blocks."""
    out = np.empty([part.stop - part.start for part in region], dtype)
    spans = [list(_spans(cut, length, part)) for cut, length, part in zip(cuts, shape, region, strict=True)]
    for chosen in product(*spans):
        found = block(tuple(span[0] for span in chosen), [span[2] - span[1] for span in chosen])
        here: list[Any] = []
        there: list[Any] = []
        for (_, start, stop), part in zip(chosen, region, strict=True):
            low, high = max(start, part.start), min(stop, part.stop)
            here.append(slice(low - part.start, high - part.start))
            there.append(slice(low - start, high - start))
        out[(*here, ...)] = found[(*there, ...)]
    return out


def _spans(cut: Cut, length: int, part: slice) -> Iterator[tuple[int, int, int]]:
    """Number, start and stop of the blocks that a range of an axis meets."""
    if isinstance(cut, int):
        for number in range(part.start // cut, -(-part.stop // cut)):
            yield number, number * cut, min((number + 1) * cut, length)
        return
    start = 0
    for number, size in enumerate(cut):
        if start < part.stop and start + size > part.start:
            yield number, start, start + size
        start += size


# ---------------------------------------------------------------- what all have in common
@contextmanager
def _calling(library: str, where: str) -> Iterator[None]:
    """Turn any exception of a library into an error of one line that names it."""
    try:
        with warnings.catch_warnings():
            # Warnings of libraries address programmers, not users.
            warnings.simplefilter("ignore")
            yield
    except ReblockError:
        raise
    except Exception as error:  # any library may raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise StorageError(f"{where}: {library} cannot read it: {reason}") from error


_OPENERS: dict[str, Callable[[Location, Sequence[str]], LibraryArray]] = {
    "npy": _open_npy,
    "blocks": _open_blocks,
    "rawblocks": _open_blocks,
    "zarr": _open_zarr,
    "zarr2": _open_zarr,
    "hdf5": _open_hdf5,
}
_NAMES = ", ".join(_OPENERS)
