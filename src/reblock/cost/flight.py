"""What is on its way through the engine, beside the write buffers: units that are read, decoded and encoded.

::

    depth units      stored bytes, elements          read, and scattered into write boxes
    coders of them   copies between stages           decoded at the same time
    coders boxes     what will be stored, or scratch encoded at the same time
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from reblock.model import Access, Layout, Pass

#: Raw objects are read in pieces of at most this many bytes.
PIECE_BYTES = 4 << 20
#: Reading less than this at a time saves no memory worth having.
SMALL_PIECE_BYTES = 1 << 12

#: A thread reads raw units of these sizes several together, of so many bytes: smaller ones come through the page cache,
#: and larger ones keep a device busy one by one.
LEAST_TOGETHER, MOST_TOGETHER, TOGETHER_BYTES = 64 << 10, 256 << 10, 512 << 10
#: Where no more requests than this are to be in flight, they are single ones: memory is short, or the device is slow.
FEW_IN_FLIGHT = 8

#: Bytes of encoded units that are read at once where they are large.
ENCODED_BYTES = 96 << 20


def flight_bytes(sweep: Pass, source: Layout, target: Layout, depth: int = 1, coders: int = 1) -> int:
    """Bytes of so many units on their way through the engine, or of all there are, beside the write buffers."""
    units = units_in_flight(sweep, source, depth, coders)
    decoders, encoders = min(coders, units), min(coders, target.objects.count)
    coding = decoders * source.decoding_bytes * source.encoded + encoders * target.encoding_bytes
    return _reading_bytes(sweep, source, units) + coding


def units_in_flight(sweep: Pass, source: Layout, depth: int, coders: int) -> int:
    """Units that are read at once."""
    many = together(sweep, source, depth)
    units = many * readers(source, depth, coders, many)
    # A large raw unit is read in pieces, of which several may be on their way.
    return min(units, source.units.count) if source.encoded or source.indexed or many > 1 else units


def together(sweep: Pass, source: Layout, depth: int) -> int:
    """Units that a thread reads together, where so many requests are to be in flight."""
    size = source.unit_bytes
    if depth <= FEW_IN_FLIGHT or source.encoded or not LEAST_TOGETHER <= size <= MOST_TOGETHER:
        return 1
    whole = sweep.read_access is Access.UNITS or visit_shape(sweep, source) == source.units.largest_stored
    return TOGETHER_BYTES // size if whole else 1


def readers(source: Layout, depth: int, coders: int, many: int = 1) -> int:
    """Threads that read: half of them keep the device busy where each reads many units together.

    Encoded units that are large are read by one thread more than decode: a device is kept busy by those few.
    """
    if many > 1:
        return min(depth, 2 * -(-depth // many))
    if source.encoded:
        return min(depth, max(ENCODED_BYTES // max(source.unit_bytes, 1), coders + 1))
    return depth


def _reading_bytes(sweep: Pass, source: Layout, units: int) -> int:
    """Bytes that reading so many units takes."""
    if source.encoded:
        return sum(source.largest_stored_bytes(units)) + units * source.unit_bytes
    if source.indexed:
        return units * source.unit_bytes
    visit = source.objects.largest_stored
    if sweep.read_access is Access.RUNS:
        visit = visit_shape(sweep, source)
    return int(units * piece_bytes(prod(visit), source))


def decoding_bytes(source: Layout) -> int:
    """Bytes that decoding a unit takes: its stored bytes, its elements, and copies between the stages of a codec."""
    return source.most_stored_bytes + source.unit_bytes + source.decoding_bytes


def visit_shape(sweep: Pass, source: Layout) -> tuple[int, ...]:
    """The most that one visit reads of a raw object, by runs."""
    full = source.order[source.ndim - sweep.coalesced :]
    return tuple(
        axis.largest_stored if number in full else min(largest, axis.largest)
        for number, (axis, largest) in enumerate(zip(source.objects.axes, sweep.reads.largest, strict=True))
    )


def piece_bytes(visit: Any, source: Layout) -> Any:
    """Bytes of the piece in which raw elements are read: of a visit's size, but for the smallest and the largest."""
    least = min(SMALL_PIECE_BYTES, prod(source.objects.largest) * source.itemsize)
    size = visit * source.itemsize
    # Numpy takes long over single numbers.
    return np.clip(size, least, PIECE_BYTES) if isinstance(size, np.ndarray) else min(max(size, least), PIECE_BYTES)
