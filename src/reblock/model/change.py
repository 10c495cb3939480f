"""Change: the part of an existing array that a run writes, and the protocols of stores and media that allow it.

::

    before   ├──0──┼──1──┤                   appended along the axis: objects 2 and 3 are new
    after    ├──0──┼──1──┼──2──┼─3─┤
    box                  ├─────────┤         a patch has these objects, numbered from 0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from reblock.geometry import Box, Grid
from reblock.model.schema import Record
from reblock.model.store import Index, Store


@dataclass(frozen=True)
class Change:
    """The part of an existing array that a run writes: a region, or what is appended along an axis."""

    box: Box
    """The part, in the array as it will be after the change; whole objects."""
    before: tuple[int, ...]
    """Shape of the array before it."""
    after: tuple[int, ...]
    """Shape of the array after it."""
    along: int | None = None
    """The axis that becomes longer; None = none."""

    @property
    def identity(self) -> Any:
        """What makes two changes the same: the region, or the axis of an append, wherever it ends."""
        if self.along is not None:
            return {"append along": self.along}
        return {"region": [list(pair) for pair in zip(self.box.start, self.box.stop, strict=True)]}

    def first(self, objects: Grid) -> Index:
        """Index of the first object of the box, in the grid of the array as it will be."""
        pairs = zip(objects.axes, self.box.start, self.box.stop, strict=True)
        return tuple(axis.index(start) if start < stop else 0 for axis, start, stop in pairs)

    def to_json(self) -> dict[str, Any]:
        """The change as JSON values, for a journal."""
        return {
            "start": list(self.box.start),
            "stop": list(self.box.stop),
            "before": list(self.before),
            "after": list(self.after),
            "along": self.along,
        }

    @classmethod
    def from_json(cls, value: Any) -> Change:
        """Inverse of `to_json`; ValueError for anything else."""
        try:
            lists = [tuple(map(int, value[key])) for key in ("start", "stop", "before", "after")]
            along = value["along"]
        except (LookupError, TypeError) as error:
            raise ValueError(f"not a change: {value!r}") from error
        if len({len(one) for one in lists}) != 1 or not (along is None or along in range(len(lists[0]))):
            raise ValueError(f"not a change: {value!r}")
        return cls(Box(lists[0], lists[1]), lists[2], lists[3], along)


@runtime_checkable
class Patchable(Store, Protocol):
    """A store with one file per object, whose objects can be replaced and added one by one."""

    def check_patchable(self) -> None:
        """Raise UsageError if no part of this array can be written."""

    def part(self, path: str, change: Change) -> Patchable:
        """A new array at a path that consists of the objects of a change, numbered from 0; nothing is made yet."""

    def grown(self, shape: Sequence[int]) -> Patchable:
        """The same array with other lengths, for the places of its objects."""

    @property
    def object_grid(self) -> Grid:
        """The grid of the objects that have their own files."""

    def object_path(self, index: Index) -> str:
        """The file of an object."""

    def describe(self, shape: Sequence[int], record: Record) -> None:
        """Replace shape and record in the stored metadata, atomically and durably; the rest of it stays."""


@runtime_checkable
class Mover(Protocol):
    """A medium that can give objects new keys without copying them."""

    def check_moves(self, folder: str, target: str) -> None:
        """Raise UsageError if objects in a folder cannot be moved below the target."""

    def move(self, pairs: Sequence[tuple[str, str]], target: str) -> None:
        """Give objects other keys below the target, replacing those that are there; durable when this returns.

        An object that is gone was moved before; StorageError if there is none at its new key either.
        """
