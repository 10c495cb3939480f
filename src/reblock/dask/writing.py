"""What runs inside the tasks that write buffers: gather chunks into stretches of the file, and write each at once.

::

    chunks of the graph   ┌──┬──┬──┐        a stretch is contiguous in the file: some rows, some slices,
                          ├──┼──┼──┤  ───▶  some chunks of the file; it is gathered in memory that is used
                          └──┴──┴──┘        again, and written with one call of the library
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from math import prod
from threading import Lock, local
from typing import Any

import numpy as np

from reblock.dask.runtime import Array, count_box
from reblock.dask.tally import Run
from reblock.geometry import Box
from reblock.geometry.runs import pieces
from reblock.model import Layout

#: One buffer is written at a time, so that its writes follow each other on the device.
_WRITING = Lock()
_staging = local()


@dataclass(frozen=True)
class WriteTarget:
    """An array that buffers are written to."""

    obj: Any
    """The object that the graph writes to."""
    lock: Any
    """The lock of its stores, or None."""
    layout: Layout
    """Where its elements lie."""


@dataclass(frozen=True)
class WriteSpec:
    """One buffer to be written."""

    run: Run
    """The optimised graph that it belongs to."""
    box: Box
    """The box that it covers."""
    parts: tuple[Box, ...]
    """The part of the array that each chunk fills."""
    chunks: tuple[Box, ...]
    """The box of each whole chunk."""


def write_buffer(spec: WriteSpec, target: WriteTarget, chunks: Sequence[Any]) -> None:
    """A task: write the parts of some chunks that belong to a buffer."""
    if not _are_plain(spec, chunks):
        _write_one_by_one(spec, target, chunks)
        return
    dtype = chunks[0].dtype
    with _WRITING:
        for stretch in stretches(spec.box, target.layout, max(spec.run.staging_bytes // max(dtype.itemsize, 1), 1)):
            data = _staged(stretch.shape, dtype)
            for part, whole, chunk in zip(spec.parts, spec.chunks, chunks, strict=True):
                if shared := part.intersect(stretch):
                    data[shared.within(stretch).slices] = chunk[shared.within(whole).slices]
            with target.lock or nullcontext():
                target.obj[stretch.slices] = data
    count_box(spec.run, spec.box, target.layout, writing=True, gathered=1)


def _are_plain(spec: WriteSpec, chunks: Sequence[Any]) -> bool:
    """Whether chunks are arrays of one type and of the shapes that were planned."""
    same = {chunk.dtype for chunk in chunks if type(chunk) is np.ndarray}
    shapes = all(
        type(chunk) is np.ndarray and chunk.shape == whole.shape
        for chunk, whole in zip(chunks, spec.chunks, strict=True)
    )
    return shapes and len(same) == 1 and not next(iter(same)).hasobject


def _write_one_by_one(spec: WriteSpec, target: WriteTarget, chunks: Sequence[Any]) -> None:
    for part, whole, chunk in zip(spec.parts, spec.chunks, chunks, strict=True):
        if chunk is None or np.size(chunk) == 0:
            continue
        data = chunk if part == whole else np.asanyarray(chunk)[part.within(whole).slices]
        with target.lock or nullcontext():
            target.obj[part.slices] = data
        count_box(spec.run, part, target.layout, writing=True, scattered=1)


def _staged(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Memory of this thread, used again by the next stretch."""
    size = prod(shape) * dtype.itemsize
    flat = getattr(_staging, "flat", None)
    if flat is None or flat.size < size:
        flat = _staging.flat = np.empty(size, np.uint8)
    found: Array = flat[:size].view(dtype).reshape(shape)
    return found


def stretches(box: Box, layout: Layout, most: int) -> Iterator[Box]:
    """Cut a box into parts that are written at once: at most that many elements, or one row of whole objects."""
    if not layout.ndim:
        yield box
    elif layout.objects.count == 1:
        yield from pieces(box, layout.order, most)
    else:
        axis = layout.order[0]
        objects = layout.objects.axes[axis]
        start, row = box.start[axis], box.size // box.shape[axis]
        while start < box.stop[axis]:
            stop = objects.interval(objects.index(start))[1]
            while stop < box.stop[axis]:
                following = objects.interval(objects.index(stop))[1]
                if following - start > most // row:
                    break
                stop = following
            stop = min(stop, box.stop[axis])
            yield Box(
                (*box.start[:axis], start, *box.start[axis + 1 :]), (*box.stop[:axis], stop, *box.stop[axis + 1 :])
            )
            start = stop


def stored(obj: Any, *written: None) -> Any:  # noqa: ARG001 - an order
    """A task: the value of a store, when all buffers that contain it are written."""
    return obj
