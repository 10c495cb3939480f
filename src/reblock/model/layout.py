"""Layout: all that a planner may know of a stored array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from heapq import nlargest
from math import prod
from typing import Any

import numpy as np

from reblock.errors import UsageError
from reblock.geometry import Box, Grid
from reblock.geometry.grid import inverse


class Access(StrEnum):
    """How one side of a pass accesses its objects."""

    RUNS = "runs"
    """Byte runs that hold only the wanted elements."""
    UNITS = "units"
    """Whole units, overhang included."""


@dataclass(frozen=True, slots=True)
class Coding:
    """Memory for encoding and decoding, beside the elements and their stored bytes."""

    decoding_bytes: int
    """For a unit while it is decoded."""
    encoding_bytes: int
    """For an object while it is encoded, including its stored bytes unless it is encoded in place."""
    in_place: bool = False
    """Whether an object is encoded in the memory of its elements, which has some spare room for that."""


#: Stored sizes are looked up only for units of at least this many bytes, and only if there are at most this many.
MEASURED_BYTES, MOST_MEASURED = 1 << 20, 1 << 14
#: The most sizes that are kept: about as many as there are units in flight.
_MOST_SIZES = 32


def most_stored_bytes(unit_bytes: int) -> int:
    """The most stored bytes of a unit: no codec adds more than an eighth, and a page for headers."""
    return unit_bytes + unit_bytes // 8 + 4096


#: Units that are encoded in place have spare room for data that does not compress: their size divided by this.
_ROOM_PART = 128


def room_bytes(size: int) -> int:
    """Memory of a unit that is encoded in place, spare room included."""
    return size + size // _ROOM_PART


@dataclass(frozen=True)
class Layout:
    """Where an array's elements lie, in terms of seeks and bytes."""

    dtype: np.dtype[Any]
    """Type of an element as it is stored, byte order included."""
    objects: Grid
    """Grid of the objects that are opened: files, chunks or shards. The last ones may extend beyond the array."""
    units: Grid
    """Grid of the smallest pieces that can be decoded; equal to `objects` except in shards."""
    order: tuple[int, ...]
    """The array's axes as they lie on disk inside a unit, outermost first."""
    codec: str = ""
    """Text of the codec that encodes a unit; empty = the unit's bytes are its elements."""
    partial_reads: bool = True
    """Whether byte runs inside an object can be read."""
    partial_writes: bool = True
    """Whether byte runs inside an object can be written."""
    indexed: bool = False
    """Whether units are found through an index inside the object (a shard, or a chunk that is divided)."""
    divided: bool = False
    """Whether units are parts of a chunk that its codec decodes one by one; objects are the chunks."""
    shards: Grid | None = None
    """Grid of shards, where each chunk is an object (new shards of raw chunks); else None."""
    coding: Coding | None = None
    """Memory for encoding and decoding; None = the most that a codec with this number of stages needs."""
    stored_bytes: tuple[int, ...] = ()
    """Stored bytes of the largest units, in descending order; empty = unknown, so the codec's limit applies."""
    stored_part: float = 1.0
    """Stored bytes divided by bytes of elements, if known. Devices move stored bytes; only time depends on it."""
    remote: bool = False
    """Whether each read is a request over a network, so that many of them are in flight, one for each thread."""

    @classmethod
    def raw(cls, dtype: Any, objects: Grid, order: Sequence[int] | None = None) -> Layout:
        """A layout whose every byte can be read and written on its own, as in the papers."""
        return cls(np.dtype(dtype), objects, objects, tuple(order if order is not None else range(objects.ndim)))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.objects.shape

    @property
    def ndim(self) -> int:
        return self.objects.ndim

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def files(self) -> Grid | None:
        """Grid of the shards; None without shards."""
        return self.objects if self.indexed and not self.divided else self.shards

    @property
    def encoded(self) -> bool:
        """Whether units must be decoded and encoded."""
        return bool(self.codec)

    @property
    def nbytes(self) -> int:
        """Logical bytes of the array."""
        return prod(self.shape) * self.itemsize

    @property
    def unit_bytes(self) -> int:
        """Decoded bytes of the largest unit, overhang included."""
        return prod(self.units.largest_stored) * self.itemsize

    @cached_property
    def object_bytes(self) -> int:
        """Decoded bytes of the largest object, overhang included."""
        return prod(self.objects.largest_stored) * self.itemsize

    @property
    def most_stored_bytes(self) -> int:
        """The most stored bytes of any unit: known, or the codec's limit."""
        return self.largest_stored_bytes(1)[0]

    def largest_stored_bytes(self, units: int) -> list[int]:
        """Stored bytes of the largest units, as many as `units`: known, or the codec's limit."""
        largest = self.stored_bytes or (most_stored_bytes(self.unit_bytes),)
        return [*largest[:units], *largest[-1:] * (units - len(largest))]

    @property
    def is_measurable(self) -> bool:
        """Whether looking up the stored size of every unit is worthwhile."""
        return self.encoded and self.units.count <= MOST_MEASURED and self.unit_bytes >= MEASURED_BYTES

    def measured(self, sizes: Iterable[int]) -> Layout:
        """The same layout with known stored sizes of units, if a codec can have produced them."""
        largest = tuple(nlargest(_MOST_SIZES, sizes))
        return replace(self, stored_bytes=largest) if largest and 0 < largest[0] <= self.most_stored_bytes else self

    @property
    def decoding_bytes(self) -> int:
        """Bytes that decoding a unit takes, beside its stored bytes and its elements."""
        return self.unit_bytes * ("+" in self.codec) if self.coding is None else self.coding.decoding_bytes

    @property
    def unit_memory_bytes(self) -> int:
        """All bytes that decoding a unit takes: stored bytes, elements, and copies between stages."""
        return self.most_stored_bytes + self.unit_bytes + self.decoding_bytes

    @property
    def encoding_bytes(self) -> int:
        """Bytes that encoding an object takes beside its elements."""
        if not (self.encoded or self.indexed):
            return 0
        if self.coding is not None:
            return self.coding.encoding_bytes
        return most_stored_bytes(self.object_bytes) + self.unit_bytes * ("+" in self.codec)

    @property
    def in_place(self) -> bool:
        """Whether objects are encoded in the memory of their elements."""
        return self.coding is not None and self.coding.in_place

    def stored_like(self, other: Layout) -> Layout:
        """The same layout with two properties of another layout of the array: stored part, and whether it is remote."""
        return replace(self, stored_part=other.stored_part, remote=other.remote)

    def view(self, region: Box, axes: Sequence[int]) -> Layout:
        """The layout of `array[region].transpose(axes)`."""
        if sorted(axes) != list(range(self.ndim)):
            raise UsageError(f"{tuple(axes)} is not a permutation of {self.ndim} axes")
        places = inverse(axes)
        return replace(
            self,
            objects=self.objects.crop(region).permute(axes),
            units=self.units.crop(region).permute(axes),
            shards=self.shards and self.shards.crop(region).permute(axes),
            order=tuple(places[axis] for axis in self.order),
        )

    def to_json(self) -> dict[str, Any]:
        """The description in `plan --json`."""
        return {
            "shape": list(self.shape),
            "dtype": self.dtype.str,
            "chunks": (self.objects if self.divided else self.units).to_json(),
            "shards": self.files.to_json() if self.files else None,
            "parts": self.units.to_json() if self.divided else None,
            "order": list(self.order),
            "codec": self.codec or None,
            "partial_reads": self.partial_reads,
            "partial_writes": self.partial_writes,
        }
