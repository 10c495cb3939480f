"""View: a source store seen through a crop and an axis permutation.

Everything above a view uses the target's axes; only `View` knows the store's own numbering.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import UsageError
from reblock.geometry import Box
from reblock.geometry.axis import Ints
from reblock.geometry.grid import inverse
from reblock.model import Divisible, Flat, Index, Layout, Plan, Store

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class View:
    """`store[region].transpose(axes)`, unit by unit."""

    store: Store
    """Where the elements come from."""
    region: Box
    """The part wanted, in the store's axes."""
    axes: tuple[int, ...]
    """Permutation of the store's axes that gives the view's."""
    strict: bool = False
    """Whether chunks that are not stored are an error even where the format defines them as fill."""
    checked: bool = False
    """Whether a value that does not survive in the target's type is an error."""

    @classmethod
    def whole(cls, store: Store, *, checked: bool = False) -> View:
        """All of a store, with its own axes."""
        return cls(store, Box.whole(store.layout.shape), tuple(range(store.layout.ndim)), checked=checked)

    def in_parts(self) -> View | None:
        """The same view with parts of chunks as units; None if the codec cannot decode them separately."""
        parts = self.store.divided() if isinstance(self.store, Divisible) else None
        return None if parts is None else replace(self, store=parts)

    def as_planned(self, plan: Plan) -> View:
        """The view as a plan reads it: chunks whole, or in parts."""
        if plan.divided == self.layout.divided:
            return self
        parts = self.in_parts() if plan.divided else None
        if parts is None:
            how = "in parts" if plan.divided else "whole"
            raise UsageError(f"the plan reads chunks {how}, but those of {self.store.location} cannot be read that way")
        return parts

    @property
    def fills(self) -> bool:
        """Whether chunks that are not stored count as fill."""
        return self.store.fills and not self.strict

    @cached_property
    def layout(self) -> Layout:
        """The layout in the view's axes."""
        return self.store.layout.view(self.region, self.axes)

    @cached_property
    def _firsts(self) -> tuple[Index, Index]:
        """Index of the first object and of the first unit inside the region, in the store's axes."""
        layout = self.store.layout
        return (
            tuple(axis.index(x) for axis, x in zip(layout.objects.axes, self.region.start, strict=True)),
            tuple(axis.index(x) for axis, x in zip(layout.units.axes, self.region.start, strict=True)),
        )

    @cached_property
    def _places(self) -> tuple[int, ...]:
        return inverse(self.axes)

    def object_index(self, index: Index) -> Index:
        """The store's own index of an object."""
        return tuple(index[place] + first for place, first in zip(self._places, self._firsts[0], strict=True))

    def object_indices(self, indices: Ints) -> list[Index]:
        """The store's own indices of many objects, one per row."""
        return list(map(tuple, (indices[:, list(self._places)] + self._firsts[0]).tolist()))

    def unit_indices(self, indices: Ints) -> list[Index]:
        """The store's own indices of many units, one per row."""
        return list(map(tuple, (indices[:, list(self._places)] + self._firsts[1]).tolist()))

    def unit_index(self, index: Index) -> Index:
        """The store's own index of a unit."""
        return tuple(index[place] + first for place, first in zip(self._places, self._firsts[1], strict=True))

    @cached_property
    def span(self) -> tuple[Index, Index]:
        """The first object inside the region and the number of objects along each axis, in the store's axes."""
        counts = self.layout.objects.counts
        return self._firsts[0], tuple(counts[place] for place in self._places)

    @cached_property
    def _strides(self) -> Index:
        """Per axis of the view, the difference between the numbers of neighbouring objects."""
        strides, step = [1] * len(self.axes), 1
        for place, count in zip(reversed(self._places), reversed(self.span[1]), strict=True):
            strides[place] = step
            step *= count
        return tuple(strides)

    def object_number(self, index: Index) -> int:
        """The number of an object among those inside the region, in the store's axes and in C order."""
        return sum(i * stride for i, stride in zip(index, self._strides, strict=True))

    def object_numbers(self, indices: Ints) -> Ints:
        """The same for many, one per row."""
        return indices @ np.array(self._strides, np.int64)

    def object_at(self, number: int) -> Index:
        """The object with a number, in the view's numbering."""
        counts = self.layout.objects.counts
        return tuple(number // stride % count for stride, count in zip(self._strides, counts, strict=True))

    def store_box(self, box: Box) -> Box:
        """A box in the store's own axes and coordinates."""
        return box.permute(self._places).shift(self.region.start)


def shaped(flat: Flat, box: Box, layout: Layout) -> Array:
    """A box's bytes in disk order as an array in the layout's axes."""
    sizes = [box.stop[a] - box.start[a] for a in layout.order]
    array: Array = flat[: box.size * layout.itemsize].view(layout.dtype).reshape(sizes)
    return array.transpose(inverse(layout.order))


def part(array: Array, box: Box) -> Array:
    """A box of an array, always as a view, even without axes."""
    index: Any = (*box.slices, ...)
    found: Array = array[index]
    return found
