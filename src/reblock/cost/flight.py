"""Units in flight: memory that the engine takes beside the write buffers to read, decode and encode.

::

    units in flight   stored bytes, elements             read, and scattered into write boxes
    coders of them    copies between stages of a codec   decoded at the same time
    coders boxes      encoded bytes, or scratch          encoded at the same time
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from reblock.model import PIECE_BYTES, Access, Layout, Pass
from reblock.model.accounting import visit_shape

#: Reading less than this at a time saves no memory worth having.
SMALL_PIECE_BYTES = 1 << 12
#: Where memory is short, raw objects are read in pieces of fewer bytes than usual, but at least this many, and of a
#: visit at most this many pieces: there is a record of each.
LEAST_PIECE_BYTES, MAX_PIECES = 32 << 10, 128

#: A reader requests several raw units of these sizes in one call, TOGETHER_BYTES of them: smaller units come through
#: the page cache, and larger ones keep a device busy one by one.
LEAST_TOGETHER, MOST_TOGETHER, TOGETHER_BYTES = 64 << 10, 256 << 10, 512 << 10
#: Up to this many requests in flight, each is for a single unit: memory is short, or the device is slow.
FEW_IN_FLIGHT = 8

#: Bytes of large encoded units that are read at once.
ENCODED_BYTES = 96 << 20

#: What the response to a request takes in the buffers of the client, beside the memory into which it is read: at most
#: this, and nothing worth counting if it is small.
BODY_BYTES, SMALL_BODY_BYTES = 1 << 20, 64 << 10


def flight_bytes(
    sweep: Pass, source: Layout, target: Layout, depth: int = 1, coders: int = 1, piece_bytes: int = PIECE_BYTES
) -> int:
    """Memory beside the write buffers where `depth` requests are to be in flight."""
    return units_bytes(sweep, source, target, units_in_flight(sweep, source, depth, coders), coders, piece_bytes)


def least_flight_bytes(sweep: Pass, source: Layout, target: Layout) -> int:
    """Memory beside the write buffers at the least: for one unit, or a small piece of a raw one."""
    return flight_bytes(sweep, source, target, piece_bytes=least_piece_bytes(visit_bytes(sweep, source), source))


def units_bytes(
    sweep: Pass, source: Layout, target: Layout, units: int, coders: int, piece_bytes: int = PIECE_BYTES
) -> int:
    """Memory beside the write buffers for a number of units in flight."""
    decoders, encoders = min(coders, units), min(coders, target.objects.count)
    coding = decoders * source.decoding_bytes * source.encoded + encoders * target.encoding_bytes
    return _reading_bytes(sweep, source, units, piece_bytes) + coding


def units_in_flight(sweep: Pass, source: Layout, depth: int, coders: int) -> int:
    """Units that are read at once."""
    many = batch_size(sweep, source, depth)
    units = many * readers(source, depth, coders, many)
    # A large raw unit is read in pieces, and several of them may be in flight.
    return min(units, source.units.count) if source.encoded or source.indexed or many > 1 else units


def batch_size(sweep: Pass, source: Layout, depth: int) -> int:
    """Raw units that a reader requests in one call, where `depth` requests are to be in flight."""
    size = source.unit_bytes
    if depth <= FEW_IN_FLIGHT or source.encoded or source.remote or not LEAST_TOGETHER <= size <= MOST_TOGETHER:
        return 1
    whole = sweep.read_access is Access.UNITS or visit_shape(sweep, source) == source.units.largest_stored
    return TOGETHER_BYTES // size if whole else 1


def readers(source: Layout, depth: int, coders: int, many: int = 1) -> int:
    """Threads that read.

    With batches, half of the readers keep the device busy while the others scatter. Large encoded units are read by one
    thread more than decode: so few are enough to keep a device busy.
    """
    if many > 1:
        return min(depth, 2 * -(-depth // many))
    if source.encoded and not source.remote:
        return min(depth, max(ENCODED_BYTES // max(source.unit_bytes, 1), coders + 1))
    return depth


def _reading_bytes(sweep: Pass, source: Layout, units: int, piece_bytes: int) -> int:
    """Memory that reading a number of units takes."""
    if source.encoded:
        stored = source.largest_stored_bytes(units)
        return sum(stored) + units * source.unit_bytes + sum(body_bytes(source, one) for one in stored)
    if source.indexed:
        return units * (source.unit_bytes + body_bytes(source, source.unit_bytes))
    size = int(read_bytes(visit_bytes(sweep, source), source, piece_bytes))
    return units * (size + body_bytes(source, size))


def body_bytes(source: Layout, size: int) -> int:
    """What the response to a request of a size in bytes takes in the buffers of the client."""
    return min(size, BODY_BYTES) if source.remote and size >= SMALL_BODY_BYTES else 0


def visit_bytes(sweep: Pass, source: Layout) -> int:
    """Bytes of the largest part of a raw object that one visit reads."""
    shape = visit_shape(sweep, source) if sweep.read_access is Access.RUNS else source.objects.largest_stored
    return prod(shape) * source.itemsize


def read_bytes(visit: Any, source: Layout, piece_bytes: Any = PIECE_BYTES) -> Any:
    """Bytes of the pieces in which visits of a size in bytes are read: at least a page, at most `piece_bytes`."""
    return _clip(visit, min(SMALL_PIECE_BYTES, prod(source.objects.largest) * source.itemsize), piece_bytes)


def least_piece_bytes(visit: Any, source: Layout) -> Any:
    """The smallest limit for the pieces of a visit of a size in bytes."""
    return _clip(visit // MAX_PIECES, min(max(LEAST_PIECE_BYTES, source.itemsize), PIECE_BYTES), PIECE_BYTES)


def _clip(size: Any, least: Any, most: Any) -> Any:
    # Numpy is slow on single numbers.
    return np.clip(size, least, most) if isinstance(size, np.ndarray) else min(max(size, least), most)
