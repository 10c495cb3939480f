"""Layout: all that a planner may know of a stored array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
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
