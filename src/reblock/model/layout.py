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
    """How one side of a pass touches its objects."""

    RUNS = "runs"
    """Byte runs: only the elements that are wanted."""
    UNITS = "units"
    """Whole units, overhang included."""


@dataclass(frozen=True, slots=True)
class Coding:
    """Memory that encoding and decoding take, beside elements and what is stored of them."""

    decoding_bytes: int
    """For a unit, while it is decoded."""
    encoding_bytes: int
    """For an object, while it is encoded; what will be stored is counted here, unless it is made in place."""
    in_place: bool = False
    """Whether an object is encoded in the memory of its elements, which has a little more room for that."""


#: Units that are smaller take little memory whatever is stored of them, and more than so many take long to look at.
MEASURED_BYTES, MOST_MEASURED = 1 << 20, 1 << 14
#: Sizes that are kept of them: about as many as are in flight.
_MOST_SIZES = 32


def most_stored_bytes(unit_bytes: int) -> int:
    """No codec makes a unit much longer than it is: an eighth, and a page for headers."""
    return unit_bytes + unit_bytes // 8 + 4096


#: Units that are encoded in place have so much room more, as a part of them, for those that do not compress.
_ROOM_PART = 128


def room_bytes(size: int) -> int:
    """Memory of a unit that is encoded in place."""
    return size + size // _ROOM_PART


@dataclass(frozen=True)
class Layout:
    """Where an array's elements lie, in the terms of seeks and bytes."""

    dtype: np.dtype[Any]
    """Type of an element as it is stored, byte order included."""
    objects: Grid
    """What is opened: files, chunks or shards. The last may stick out of the array."""
    units: Grid
    """Smallest pieces that can be read whole; equal to `objects` but inside a shard."""
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
    """Files that hold several objects, each at its own place (new shards of raw chunks); None = objects tell."""
    coding: Coding | None = None
    """What encoding and decoding take; None = what a codec of so many stages takes at the most."""
    stored_bytes: tuple[int, ...] = ()
    """Bytes that are stored of the units with most of them, the largest first; none = as a codec may make them."""
    stored_part: float = 1.0
    """Stored bytes over bytes of elements, as far as known: devices move stored bytes. Only time depends on it."""

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
        """Shards, where there are any."""
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
        """Most bytes that are stored of a unit, or may be."""
        return self.largest_stored_bytes(1)[0]

    def largest_stored_bytes(self, units: int) -> list[int]:
        """The same for so many units at a time: the largest that there are, or may be."""
        largest = self.stored_bytes or (most_stored_bytes(self.unit_bytes),)
        return [*largest[:units], *largest[-1:] * (units - len(largest))]

    @property
    def is_measurable(self) -> bool:
        """Whether it is worth to look how much is stored of every unit."""
        return self.encoded and self.units.count <= MOST_MEASURED and self.unit_bytes >= MEASURED_BYTES

    def measured(self, sizes: Iterable[int]) -> Layout:
        """The same where so many bytes are stored of the units, if a codec can have made that of them."""
        largest = tuple(nlargest(_MOST_SIZES, sizes))
        return replace(self, stored_bytes=largest) if largest and 0 < largest[0] <= self.most_stored_bytes else self

    @property
    def decoding_bytes(self) -> int:
        """Bytes that decoding a unit takes beside those that are stored and its elements."""
        return self.unit_bytes * ("+" in self.codec) if self.coding is None else self.coding.decoding_bytes

    @property
    def unit_memory_bytes(self) -> int:
        """Bytes that decoding a unit takes in all: its stored bytes, its elements, and copies between stages."""
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
        """The same layout, whose bytes are stored as those of another layout of the same array."""
        return replace(self, stored_part=other.stored_part)

    def view(self, region: Box, axes: Sequence[int]) -> Layout:
        """The layout of `array[region].transpose(axes)`."""
        if sorted(axes) != list(range(self.ndim)):
            raise UsageError(f"{tuple(axes)} is no permutation of {self.ndim} axes")
        places = inverse(axes)
        return replace(
            self,
            objects=self.objects.crop(region).permute(axes),
            units=self.units.crop(region).permute(axes),
            shards=self.shards and self.shards.crop(region).permute(axes),
            order=tuple(places[axis] for axis in self.order),
        )

    def to_json(self) -> dict[str, Any]:
        """For people and for `plan --json`."""
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
