"""Reading any region of a view into memory, and comparing two views box by box."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from reblock.cost.memory import PIECE_BYTES
from reblock.engine.buffers import Staging
from reblock.engine.disk import Disk
from reblock.engine.reading import visits
from reblock.engine.reference import load_visit, require_fill
from reblock.engine.view import Array, View
from reblock.engine.writing import fill_scalar
from reblock.geometry import Box
from reblock.geometry.runs import pieces
from reblock.model import Access


def load(view: View, box: Box, disk: Disk | None = None) -> Array:
    """The elements of a box as a new array."""
    disk = disk or Disk()
    layout = view.layout
    out = np.empty(box.shape, layout.dtype)
    access = Access.RUNS if layout.partial_reads else Access.UNITS
    staging = Staging()
    fill = fill_scalar(view.store)
    for visit in visits(view, box, access, PIECE_BYTES):
        for loaded in load_visit(visit, disk, staging):
            here = out[loaded.wanted.within(box).slices]
            if loaded.array is None:
                require_fill(visit)
                here[...] = fill
            else:
                here[...] = loaded.array[loaded.wanted.within(loaded.box).slices]
    return out


def differences(one: View, two: View, *, memory_bytes: int) -> Iterator[Box]:
    """Boxes in which two views of one shape differ in any bit, byte order apart."""
    itemsize = one.layout.itemsize
    limit = max(memory_bytes // (4 * max(itemsize, 1)), 1)
    order = two.layout.order
    for index in two.layout.objects.indices():
        for box in pieces(two.layout.objects.box(index), order, limit):
            if not same_bits(load(one, box), load(two, box)):
                yield box


def same_bits(one: Array, two: Array) -> bool:
    """Whether two arrays agree in every bit, byte order apart."""
    native = one.dtype.newbyteorder("=")
    if native != two.dtype.newbyteorder("="):
        return False
    left, right = (np.ascontiguousarray(array.astype(native, copy=False)).reshape(-1) for array in (one, two))
    return bool(np.array_equal(left.view(np.uint8), right.view(np.uint8)))
