"""JoinedStore: many stores as one array, whose chunks along one axis are those of its members, one after the other.

::

    members        ├──┬──┬─┤ ├──┬─┤ ├──┬──┬──┬─┤
    joined axis    ├──┬──┬─┬──┬─┬──┬──┬──┬─┤          irregular, planned as one array

The engine reads the members' bytes at the members' extents. A chunk that extends beyond its member, as formats pad the
last one, would overlap the next member: it is decoded beside, and cut.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import nlargest
from itertools import accumulate
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from reblock.errors import UsageError
from reblock.geometry import Axis, Box, Grid
from reblock.geometry.grid import inverse
from reblock.model.layout import Coding, Layout
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.model.store import (
    Bytes,
    Decoder,
    Extent,
    Flat,
    Index,
    Measurable,
    Read,
    Scattered,
    Scratch,
    Store,
    TransferMode,
    fresh,
)

#: Bits of `Extent.mask` that belong to a member; its number is above them.
_MASK_BITS = 32
_MOST_SIZES = 32


@dataclass(frozen=True, eq=False)
class JoinedStore:
    """Many stores as one array. It is only read."""

    location: str
    """Where the members are, as a pattern."""
    members: tuple[Store, ...]
    """The arrays, in their order along the axis."""
    axis: int
    """The axis along which they follow each other."""
    stacked: bool
    """Whether that is a new axis, which the members lack."""
    schema: Schema
    """What the whole is."""
    member_paths: tuple[str, ...]
    """Files and folders of the members."""
    roots: Roots | None = None
    """Where their files may be."""

    # ---------------------------------------------------------------- what it is
    @property
    def format(self) -> str:
        return self.members[0].format

    @property
    def medium(self) -> Medium:
        return self.members[0].medium

    @property
    def reads(self) -> TransferMode:
        box = any(member.reads is TransferMode.BOX for member in self.members)
        return TransferMode.BOX if box else TransferMode.EXTENT

    @property
    def writes(self) -> TransferMode:
        return TransferMode.EXTENT

    @property
    def fills(self) -> bool:
        return all(member.fills for member in self.members)

    @property
    def described_by(self) -> Sequence[str]:
        return list(dict.fromkeys(path for member in self.members for path in member.described_by))

    # ---------------------------------------------------------------- the layout
    @cached_property
    def _cuts_units(self) -> bool:
        """Whether units are cut, because they extend beyond their member along the axis."""
        if self.stacked:
            return False
        return any(one.layout.units.axes[self.axis].trail for one in self.members)

    @cached_property
    def _alike(self) -> bool:
        """Whether any member decodes the units of all."""
        first = self.members[0]
        shapes = {one.layout.units.largest_stored for one in self.members}
        return bool(first.encoding) and len(shapes) == 1 and {one.encoding for one in self.members} == {first.encoding}

    @cached_property
    def by_unit(self) -> bool:
        """Whether every unit is an object: shards that extend beyond their member cannot be."""
        if self.stacked or not any(one.layout.indexed for one in self.members):
            return False
        return any(one.layout.objects.axes[self.axis].trail for one in self.members)

    @cached_property
    def layout(self) -> Layout:
        layouts = [member.layout for member in self.members]
        first, units = layouts[0], self._grid([one.units for one in layouts])
        objects = units if self.by_unit else self._grid([one.objects for one in layouts])
        encoded = any(one.encoded for one in layouts)
        decodes = encoded or self._cuts_units
        made = replace(
            first,
            objects=objects,
            units=units,
            order=self._order(first.order),
            codec=next((one.codec for one in layouts if one.codec), "cut") if decodes else "",
            partial_reads=not decodes and all(one.partial_reads for one in layouts),
            partial_writes=False if decodes else first.partial_writes,
            indexed=first.indexed,
            shards=None,
            stored_bytes=(),
        )
        return replace(made, coding=self._coding(layouts)) if decodes else made

    def _coding(self, layouts: Sequence[Layout]) -> Coding:
        """The memory of the member that takes most, and a copy of a unit that is cut."""
        unit = max(one.unit_bytes for one in layouts)
        copy = 2 * unit if self._cuts_units or len({one.unit_bytes for one in layouts}) > 1 else 0
        return Coding(max(one.decoding_bytes for one in layouts) + copy, 0)

    def _grid(self, grids: Sequence[Grid]) -> Grid:
        axes = list(grids[0].axes)
        if self.stacked:
            axes.insert(self.axis, Axis.regular(len(grids), 1))
            return Grid(tuple(axes))
        lengths = [n for grid in grids for n in grid.axes[self.axis].clipped().lengths()]
        axes[self.axis] = _compact(lengths)
        return Grid(tuple(axes))

    def _order(self, order: tuple[int, ...]) -> tuple[int, ...]:
        if not self.stacked:
            return order
        return (self.axis, *(axis + (axis >= self.axis) for axis in order))

    def measured(self) -> JoinedStore:
        """The same array with the stored sizes of the largest units, if all members know theirs."""
        found = [member.measured() if isinstance(member, Measurable) else member for member in self.members]
        sizes = [one.layout.stored_bytes for one in found]
        if not self.layout.encoded or not all(sizes) or not self.layout.is_measurable:
            return self
        largest = tuple(nlargest(_MOST_SIZES, (size for some in sizes for size in some)))
        again = replace(self, members=tuple(found))
        vars(again)["layout"] = replace(again.layout, stored_bytes=largest)
        return again

    # ---------------------------------------------------------------- where bytes lie
    @cached_property
    def _first_objects(self) -> list[int]:
        """The number of objects along the axis before each member."""
        grids = [one.layout.units if self.by_unit else one.layout.objects for one in self.members]
        return self._firsts(grids)

    @cached_property
    def _first_units(self) -> list[int]:
        return self._firsts([one.layout.units for one in self.members])

    def _firsts(self, grids: Sequence[Grid]) -> list[int]:
        counts = [1 if self.stacked else grid.counts[self.axis] for grid in grids]
        return [0, *accumulate(counts)][:-1]

    def _split(self, index: Index, firsts: Sequence[int]) -> tuple[int, Index]:
        """The member of an object or unit, and its index there."""
        axis, place = self.axis, index[self.axis]
        # Members without elements begin where the next one does.
        number = bisect_right(firsts, place) - 1
        if self.stacked:
            return number, (*index[:axis], *index[axis + 1 :])
        return number, (*index[:axis], place - firsts[number], *index[axis + 1 :])

    def extents(self, index: Index, units: Sequence[Index], read: Read) -> Sequence[Extent | None]:
        number, here = self._split(index, self._first_objects)
        member = self.members[number]
        inside = [self._split(unit, self._first_units)[1] for unit in units]
        if self.by_unit:
            box = member.layout.units.box(here)
            here = next(iter(member.layout.objects.touching(box)))
        found = member.extents(here, inside, read)
        if not self.layout.encoded or (self._alike and not self._cuts_units):
            return found
        above = number << _MASK_BITS
        return [one if one is None else one._replace(mask=one.mask + above) for one in found]

    def place(self, index: Index) -> Extent:  # noqa: ARG002 - never called
        """Not possible: it is only read."""
        self._refuse()

    def preamble(self, index: Index) -> Bytes:  # noqa: ARG002 - never called
        """Not possible: it is only read."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UsageError(f"{self.location} consists of many arrays, which are only read")

    # ---------------------------------------------------------------- what bytes mean
    @cached_property
    def _by_path(self) -> dict[str, Store]:
        """Members that are one file each."""
        return dict(zip(self.member_paths, self.members, strict=True))

    @property
    def encoding(self) -> str:
        """How all units are encoded, if it is the same everywhere."""
        return self.members[0].encoding if self._alike and not self._cuts_units else ""

    @property
    def decoder(self) -> Decoder | None:
        return self.members[0].decoder if self._alike and not self._cuts_units else None

    def decode(self, data: Bytes, extent: Extent, out: Flat, scratch: Scratch = fresh) -> None:
        if self._alike and not self._cuts_units:
            # Any member could; errors name the right one.
            self._by_path.get(extent.path, self.members[0]).decode(data, extent, out, scratch)
            return
        member = self.members[extent.mask >> _MASK_BITS]
        extent = extent._replace(mask=extent.mask & ((1 << _MASK_BITS) - 1))
        layout = member.layout
        axis = layout.units.axes[self.axis] if not self.stacked else None
        if axis is None or not axis.trail:
            member.decode(data, extent, out, scratch)
            return
        self._decode_cut(member, data, extent, out, scratch)

    def _decode_cut(self, member: Store, data: Bytes, extent: Extent, out: Flat, scratch: Scratch) -> None:
        """Decode a unit, and keep the elements that are inside its member."""
        layout = member.layout
        shape = [layout.units.largest_stored[axis] for axis in layout.order]
        place = inverse(layout.order)[self.axis]
        size = int(np.prod(shape, dtype=np.int64)) * layout.itemsize
        if out.size == size:
            member.decode(data, extent, out, scratch)
            return
        whole = scratch("joined", size)[:size]
        member.decode(data, extent, whole, scratch)
        length = out.size // (size // shape[place])
        kept = (*[slice(None)] * place, slice(length))
        inside = whole.reshape(*shape, layout.itemsize)[kept]
        out.reshape(inside.shape)[...] = inside

    def encode(self, data: Flat, room: Flat | None = None, scratch: Scratch = fresh) -> Flat:  # noqa: ARG002 - only read
        return data

    # ---------------------------------------------------------------- through libraries
    def read_box(self, box: Box, out: npt.NDArray[Any]) -> bool:
        """Read a box of one unit through the library of its member."""
        if not box.size:
            return True
        index = tuple(axis.index(start) for axis, start in zip(self.layout.units.axes, box.start, strict=True))
        number, _ = self._split(index, self._first_units)
        member, axis = self.members[number], self.axis
        if self.stacked:
            inside = Box((*box.start[:axis], *box.start[axis + 1 :]), (*box.stop[:axis], *box.stop[axis + 1 :]))
            return member.read_box(inside, np.squeeze(out, axis))
        before = sum(one.layout.shape[axis] for one in self.members[:number])
        return member.read_box(box.shift(tuple(-before if d == axis else 0 for d in range(box.ndim))), out)

    def write_box(self, box: Box, data: npt.NDArray[Any]) -> None:  # noqa: ARG002 - never called
        """Not possible: it is only read."""
        self._refuse()

    def write_unit(self, index: Index, data: Bytes) -> None:  # noqa: ARG002 - never called
        """Not possible: it is only read."""
        self._refuse()

    # ---------------------------------------------------------------- life
    def checkpoint(self) -> None:
        """Nothing to do: it is only read."""

    def commit(self, record: Record = NO_RECORD) -> None:
        """Nothing to do: it is only read."""

    def abort(self) -> None:
        """Close the members."""
        for member in self.members:
            member.abort()


class ScatteredJoinedStore(JoinedStore):
    """The same for members whose objects are files of their own."""

    def object_files(self, outer: Index, last: range) -> Sequence[str]:
        """Files of the objects with these indices along all axes except the last, and those along the last."""
        if self.axis < len(outer):
            number, here = self._split((*outer, 0), self._first_objects)
            member = self.members[number]
            return member.object_files(here[:-1], last) if isinstance(member, Scattered) else []
        found: list[str] = []
        for place in last:
            number, here = self._split((*outer, place), self._first_objects)
            member = self.members[number]
            if isinstance(member, Scattered):
                found += member.object_files(here[:-1], range(here[-1], here[-1] + 1)) if here else ()
        return found


def _compact(lengths: Sequence[int]) -> Axis:
    """Blocks of these lengths, as a regular axis if they are."""
    step = lengths[0] if lengths else 1
    total = sum(lengths)
    if all(n == step for n in lengths[:-1]) and (not lengths or 0 < lengths[-1] <= step):
        return Axis.regular(total, step)
    return Axis.of(tuple(lengths))
