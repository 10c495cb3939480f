"""Accounting: memory that the planner predicts and the engine counts, by the same arithmetic."""

from __future__ import annotations

from math import prod

from reblock.model.layout import Layout, room_bytes
from reblock.model.plan import Pass

#: The part of a slab that is counted for the unused rest of its last page.
SLAB_PART = 64
#: Memory of the record that the engine keeps of a write box, and the number of boxes whose records are not counted.
RECORD_BYTES, FEW_BOXES = 1 << 10, 4096
#: The smallest budget for reading a region: less would save nothing.
LEAST_READING_BYTES = 64 << 10


def with_room(size: int, target: Layout) -> int:
    """Bytes that count for write boxes of a size: boxes that are encoded in place have room for poor compression."""
    return room_bytes(size) if target.in_place else size


def with_pages(size: int) -> int:
    """Bytes that count for slabs of a size: the system gives whole pages."""
    return size + size // SLAB_PART


def with_records(size: int, boxes: int, target: Layout) -> int:
    """Bytes that count for write boxes of `size` bytes and their records, in a pass that writes `boxes` of them."""
    whole = max(array_bytes(target), 1)
    return size + max(size * boxes * RECORD_BYTES // whole - FEW_BOXES * RECORD_BYTES, 0)


def without_records(room: int, boxes: int, target: Layout) -> int:
    """The most bytes of write boxes that fit into a room together with their records."""
    whole = max(array_bytes(target), 1)
    most = ((room + FEW_BOXES * RECORD_BYTES + 1) * whole - 1) // (whole + boxes * RECORD_BYTES)
    return max(min(room, most), 0)


def array_bytes(target: Layout) -> int:
    """Bytes of write boxes that hold a whole array, overhang included."""
    return with_room(prod(axis.length + axis.trail for axis in target.objects.axes) * target.itemsize, target)


def visit_shape(sweep: Pass, source: Layout) -> tuple[int, ...]:
    """Shape of the largest part of a raw object that one visit reads, by runs."""
    full = source.order[source.ndim - sweep.coalesced :]
    return tuple(
        axis.largest_stored if number in full else min(largest, axis.largest)
        for number, (axis, largest) in enumerate(zip(source.objects.axes, sweep.reads.largest, strict=True))
    )
