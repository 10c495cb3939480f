"""Arrays of the papers' experiments on disk: block folders, row-major files, and the folder that holds them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from reblock.bench.notify import Notify
from reblock.engine import View
from reblock.errors import DiskError, UsageError
from reblock.model import Schema, Store
from reblock.storage import registry
from reblock.units import format_size

#: Returns true when the user wants to stop.
Cancelled = Callable[[], bool]

#: Elements generated at once.
_SLAB_ELEMENTS = 4 << 20
#: Odd multipliers that spread neighbouring indices over all values.
_MULTIPLIERS = np.array([0x9E3779B1, 0x85EBCA6B, 0xC2B2AE35], np.uint32)


def never() -> bool:
    """Never cancel."""
    return False


def check_cancelled(cancelled: Cancelled) -> None:
    """Raise KeyboardInterrupt when the user wants to stop."""
    if cancelled():
        raise KeyboardInterrupt


@contextmanager
def bench_folder(parent: str, needed_bytes: int, notify: Notify) -> Iterator[str]:
    """A temporary folder on a disk with enough free space; it is always removed with everything in it."""
    try:
        free = shutil.disk_usage(parent).free
        notify(f"needs {format_size(needed_bytes)} of disk in {parent}, which has {format_size(free)} free")
        if free < needed_bytes:
            raise UsageError(
                f"needs {format_size(needed_bytes)} and {parent} has {format_size(free)} free: choose another folder "
                "with --dir, or a larger --scale"
            )
        with tempfile.TemporaryDirectory(prefix="reblock-papers-", dir=parent) as folder:
            yield folder
    except OSError as error:
        raise DiskError.wrap(error, doing="running the papers' experiments in", path=parent) from error


# ---------------------------------------------------------------- elements that depend on their index only
def elements(start: Sequence[int], stop: Sequence[int], dtype: str) -> npt.NDArray[Any]:
    """The elements of a box: a hash of their index, so that every array of one shape has the same digest."""
    mixed = np.zeros((1,) * len(start), np.uint32)
    for axis, (low, high, factor) in enumerate(zip(start, stop, _MULTIPLIERS, strict=False)):
        lengths = [1] * len(start)
        lengths[axis] = high - low
        mixed = mixed + np.arange(low, high, dtype=np.uint32).reshape(lengths) * factor
    mixed ^= mixed >> np.uint32(15)
    mixed *= _MULTIPLIERS[1]
    return (mixed >> np.uint32(16)).astype(dtype)


def _write_box(file: IO[bytes], start: Sequence[int], stop: Sequence[int], dtype: str, cancelled: Cancelled) -> None:
    """Append the elements of a box to a file, a few rows at a time."""
    row = int(np.prod([high - low for low, high in zip(start[1:], stop[1:], strict=True)], dtype=np.int64))
    step = max(1, _SLAB_ELEMENTS // row)
    for low in range(start[0], stop[0], step):
        check_cancelled(cancelled)
        high = min(low + step, stop[0])
        file.write(elements((low, *start[1:]), (high, *stop[1:]), dtype).data)


def make_blocks(path: str, shape: Sequence[int], chunks: Sequence[int], cancelled: Cancelled = never) -> None:
    """Make an array of 16-bit integers in a folder of raw block files."""
    store = create_blocks(path, shape, chunks)
    for index in store.layout.objects.indices():
        box = store.layout.objects.box(index)
        with open(store.place(index).path, "wb") as file:
            _write_box(file, box.start, box.stop, "<u2", cancelled)
    store.commit()


def make_row_major(path: str, shape: Sequence[int], cancelled: Cancelled = never) -> None:
    """Make an array of doubles in one row-major .npy file."""
    with open(path, "wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": tuple(shape)}
        np.lib.format.write_array_header_1_0(file, header)
        _write_box(file, (0,) * len(shape), shape, "<f8", cancelled)


# ---------------------------------------------------------------- small arrays that are also in memory
def create_blocks(path: str, shape: Sequence[int], chunks: Sequence[int]) -> Store:
    """Create an empty array of 16-bit integers in a folder of raw block files."""
    kind = registry.get("rawblocks")
    return kind.create(path, "", kind.adapt(Schema(tuple(shape), np.dtype("<u2"), tuple(chunks)), {"chunks"}))


def store_blocks(path: str, array: npt.NDArray[Any], chunks: Sequence[int]) -> View:
    """Write an array as raw blocks and open it for reading."""
    store = create_blocks(path, array.shape, chunks)
    for index in store.layout.objects.indices():
        array[store.layout.objects.box(index).slices].tofile(store.place(index).path)
    store.commit()
    return View.whole(registry.open(path))


def has_elements(store: Store, array: npt.NDArray[Any]) -> bool:
    """Whether every block file of a store holds the array's elements."""
    objects = store.layout.objects
    for index in objects.indices():
        box = objects.box(index)
        path = store.place(index).path
        found = np.fromfile(path, "<u2") if os.path.exists(path) else np.empty(0, "<u2")
        if found.size != box.size or not np.array_equal(found.reshape(box.shape), array[box.slices]):
            return False
    return True
