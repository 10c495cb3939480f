"""Visits: which parts of which stored objects a read box reads.

A read box meets objects; each meeting is a visit. A visit reads a raw object in pieces, by byte runs or whole, and
several threads may read the pieces of one visit. A visit to encoded units or to a shard reads and decodes whole units.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from math import prod
from typing import NamedTuple

from reblock.engine.pipeline.readers.faults import corrupt, missing
from reblock.engine.view import Array, View
from reblock.errors import CorruptError
from reblock.geometry import Box
from reblock.geometry.axis import Ints
from reblock.geometry.runs import pieces, runs
from reblock.model import Access, Flat, Index, Layout, Traffic, TransferMode

#: Memory for each run while its piece is read, beside its elements.
_RUN_BYTES = 64


class Loaded(NamedTuple):
    """Elements that have been read."""

    box: Box
    """The box that the array covers, in the view's axes."""
    wanted: Box
    """The part of it that belongs to the read box."""
    array: Array | None
    """The elements; None if they are not stored."""
    stored: Flat | None = None
    """The stored bytes, if all filters were applied to decode them; else None."""
    filled: bool = False
    """Whether the format's library made up the elements of a unit that is not stored."""

    @property
    def missing(self) -> bool:
        """Whether the unit is not stored."""
        return self.array is None or self.filled


@dataclass(frozen=True)
class Piece:
    """Elements of one object that are read together."""

    box: Box
    """The box that is read, in the view's axes; it includes the overhang where whole units are read."""
    wanted: Box
    """The part of it that belongs to the read box."""
    offsets: Ints | None = None
    """Where the runs of a raw piece start inside its object, in elements."""
    length: int = 0
    """Length of the runs of a raw piece, in elements."""
    unit: Index = ()
    """The unit, where units are read whole."""


@dataclass(frozen=True)
class Visit:
    """One visit of a read box to one object."""

    view: View
    """The view that the visit reads."""
    index: Index
    """The object, in the view's numbering."""
    pieces: tuple[Piece, ...]
    """The pieces that the visit reads, in disk order."""
    raw: bool
    """Whether the pieces are byte runs, each read on its own; otherwise the visit decodes units."""
    runs: int
    """Contiguous byte ranges."""
    bytes: int
    """Logical bytes."""
    whole: bool
    """Whether the visit reads the whole object, so that its runs are no extra seeks."""

    @property
    def number(self) -> int:
        """Number of the object, by which the state of its file at the start is found."""
        return self.view.object_number(self.index)

    @property
    def traffic(self) -> Traffic:
        """The traffic of the visit."""
        return Traffic(1, self.runs, 1 if self.whole else 1 + self.runs, self.bytes)

    def require_fill(self) -> None:
        """Raise an error unless units that are not stored count as fill."""
        if not self.view.fills:
            raise missing(self.view, self.view.object_index(self.index))

    def corrupt(self, path: str, offset: int, length: int, reason: str) -> CorruptError:
        """An error that names array, chunk, path and byte range."""
        return corrupt(self.view, self.view.object_index(self.index), path, offset, length, reason)


def full_axes(layout: Layout, access: Access, coalesced: int) -> Collection[int]:
    """The axes along which raw objects are read in full."""
    return range(layout.ndim) if access is Access.UNITS else layout.order[layout.ndim - coalesced :]


def visits(
    view: View, box: Box, full: Collection[int], piece_bytes: int, max_units: int | None = None
) -> Iterator[Visit]:
    """The visits of one read box; along the `full` axes raw objects are read in full.

    A visit reads raw pieces of at most `piece_bytes` bytes, or at most `max_units` units.
    """
    layout = view.layout
    raw = not (layout.encoded or layout.indexed)
    for index in layout.objects.touching(box):
        reach = layout.objects.box(index).intersect(box)
        if reach is None:
            continue
        if raw:
            visit = raw_visit(view, index, reach, full, piece_bytes)
            # A store whose library reads boxes gets the same pieces, so that memory and counts are those of the plan.
            yield replace(visit, raw=False) if view.store.reads is TransferMode.BOX else visit
            continue
        units = layout.units.touching(reach)
        while some := tuple(islice(units, max_units)):
            yield unit_visit(view, index, reach, some)


def raw_visit(view: View, index: Index, reach: Box, full: Collection[int], piece_bytes: int) -> Visit:
    """A visit that reads byte runs of a raw object, in pieces."""
    layout = view.layout
    stored = layout.objects.stored(index)
    sides = [stored if axis in full else reach for axis in range(layout.ndim)]
    part = Box(
        tuple(side.start[axis] for axis, side in enumerate(sides)),
        tuple(side.stop[axis] for axis, side in enumerate(sides)),
    )
    parts: list[Piece] = []
    count, end = 0, -1
    for piece in pieces(part, layout.order, max(piece_bytes // layout.itemsize, 1)):
        offsets, length = runs(stored, piece, layout.order)
        count += len(offsets) - (int(offsets[0]) == end)
        end = int(offsets[-1]) + length
        wanted = piece.intersect(reach)
        parts.append(Piece(piece, wanted or Box(piece.start, piece.start), offsets, length))
    return Visit(view, index, tuple(parts), True, count, part.size * layout.itemsize, part == stored)


def part_elements(layout: Layout, reach: Box, full: Collection[int], part_bytes: int) -> int:
    """Elements of a raw object that fit into `part_bytes` with everything that is read and kept for them."""
    row = prod(layout.objects.largest_stored[axis] for axis in full)
    # Elements that are read for each wanted one, and the least length of a run.
    more, run = row // max(prod(reach.shape[axis] for axis in full), 1), row
    if len(full) < layout.ndim:
        run *= reach.shape[layout.order[layout.ndim - len(full) - 1]]
    element = (more + 1) * layout.itemsize + more * _RUN_BYTES // max(run, 1) + 1
    return max(part_bytes // element, 1)


def unit_visit(view: View, index: Index, reach: Box, units: Iterable[Index]) -> Visit:
    """A visit that decodes some units of an object that meet a box."""
    layout = view.layout
    parts: list[Piece] = []
    for unit in units:
        wanted = layout.units.box(unit).intersect(reach)
        if wanted is not None:
            parts.append(Piece(layout.units.stored(unit), wanted, unit=unit))
    size = sum(piece.box.size for piece in parts) * layout.itemsize
    count = len(parts) + 1 if layout.indexed else 1
    return Visit(view, index, tuple(parts), False, count, size, not layout.indexed)
