"""Tables of units: the units that a read box meets, as rows for the compiled loop.

The module `visits` makes one visit at a time; this one makes rows for many units at once, so that small chunks are not
slowed down by the interpreter. Raw objects that are read in several pieces are left to `visits`.

Units in shards come shard by shard, so that each index is read once. Along one axis, a read box that meets eight units
in three shards walks through them like this ::

    shards   │     0     │        1        │   2  │        groups   2, 4, 2
    units    │  0  │  1  │ 2  │  3 │ 4 │ 5 │ 6│ 7 │
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from reblock.engine import native
from reblock.engine.pipeline.readers.fetch import no_index
from reblock.engine.pipeline.scatter import Window
from reblock.engine.view import View
from reblock.geometry import Box
from reblock.geometry.axis import Ints
from reblock.model import Extent, Index, Layout

#: Units whose rows are made together, and the number of such groups that are cached.
_BLOCK, _KNOWN = 256, 32


#: Per axis, how many units of each shard a read box meets; None where every unit is an object.
Groups = tuple[tuple[int, ...], ...] | None


class UnitFiles(NamedTuple):
    """Some units, and where they lie; several read boxes may visit them."""

    objects: list[Index]
    """The objects that the units lie in, in the store's own numbering."""
    units: list[Index]
    """Indices of the units; the same where every unit is an object."""
    names: list[str]
    """Their files."""
    extents: list[Extent | None]
    """Where the units lie in these files; None for a unit that is not stored."""
    paths: bytes
    """The file names for the compiled loop."""
    columns: Ints
    """Per unit: no open file, where its name and its bytes start, the number of its bytes (-1 = unknown, up to the end
    of the file), whether the file ends there, whether the unit is read whole, and its object."""


class UnitRows(NamedTuple):
    """Rows of some units, in plan order."""

    first: int
    """Number of the first unit among those of the read box."""
    table: Ints
    """One row per visit: see `moves.h`."""
    files: UnitFiles
    """The units."""
    bytes: int
    """The most bytes that are read of one unit."""


class UnitTable:
    """Makes the rows of the units that a read box meets."""

    def __init__(self, view: View, full: Collection[int]) -> None:
        """Along the `full` axes units are read in full."""
        self._view, self._full = view, full
        self._files = lru_cache(maxsize=_KNOWN)(self._find)

    def __call__(self, box: Box) -> Iterator[UnitRows]:
        """The rows of one read box, some at a time."""
        layout = self._view.layout
        axes, shape = _axes(layout, box, self._full)
        firsts, groups = tuple(meets.start for meets in _meets(layout, box)), _groups(layout, box)
        count = prod(shape)
        for first in range(0, count, _BLOCK):
            files = self._files(firsts, shape, groups, first)
            steps = _steps(shape, groups, first)
            bounds = np.stack([columns[step] for columns, step in zip(axes, steps, strict=True)], 1) if shape else None
            table = np.empty((len(files.units), native.HEAD + 6 * len(shape)), np.int64)
            table[:, : native.HEAD] = files.columns
            most = layout.itemsize
            if bounds is not None:
                table[:, native.HEAD :] = bounds.reshape(len(bounds), -1)
                table[:, 5] = (bounds[:, :, :2] == bounds[:, :, 2:4]).all((1, 2))
                most *= int(np.max((bounds[:, :, 3] - bounds[:, :, 2]).prod(1)))
            yield UnitRows(first, table, files, most)

    def _find(self, firsts: Index, shape: tuple[int, ...], groups: Groups, first: int) -> UnitFiles:
        """Some units that a read box meets, and where they lie; in shards only the index has the positions."""
        view, steps = self._view, _steps(shape, groups, first)
        found = np.stack(steps, 1) + np.array(firsts, np.int64) if shape else np.zeros((1, 0), np.int64)
        units = view.unit_indices(found)
        if not view.layout.indexed:
            extents = view.store.extents
            files = locate(units, units, [extents(unit, (unit,), no_index)[0] for unit in units])
            files.columns[:, 6] = view.object_numbers(found)
            if not view.layout.encoded:
                files.columns[:, 3] = self._sizes(firsts, shape, steps)
            return files
        pairs = zip(view.layout.units.axes, view.layout.objects.axes, strict=True)
        homes = [within.indices(axis.starts(found[:, number])) for number, (axis, within) in enumerate(pairs)]
        home = np.stack(homes, 1) if homes else found
        columns = np.array([[-1, 0, 0, -1, 0, 1, 0]], np.int64).repeat(len(units), 0)
        columns[:, 6] = view.object_numbers(home)
        return UnitFiles(view.object_indices(home), units, [], [], b"", columns)

    def _sizes(self, firsts: Index, shape: tuple[int, ...], steps: tuple[Ints, ...]) -> Ints:
        """Bytes of raw units as they are stored."""
        layout = self._view.layout
        sizes: Ints = np.array(layout.itemsize, np.int64)
        for axis, low, count, step in zip(layout.units.axes, firsts, shape, steps, strict=True):
            bounds = axis.bounds(low, low + count)
            sizes = sizes * (bounds[:, 1] - bounds[:, 0])[step]
        return sizes


def locate(objects: list[Index], units: list[Index], extents: list[Extent | None]) -> UnitFiles:
    """Units, and the extents where they lie."""
    # A unit that is not stored has no name, and a file without a name does not exist either.
    names = ["" if one is None else one.path for one in extents]
    columns = np.zeros((len(units), native.HEAD), np.int64)
    paths, columns[:, 1] = native.joined(names)
    columns[:, 0], columns[:, 2] = -1, [0 if one is None else one.offset for one in extents]
    columns[:, 3] = [-1 if one is None or one.length is None else one.length for one in extents]
    columns[:, 4], columns[:, 5] = [one is not None and one.length is None for one in extents], True
    return UnitFiles(objects, units, names, extents, paths, columns)


def _meets(layout: Layout, box: Box) -> list[range]:
    """Per axis the units that a box meets."""
    return [axis.touching(a, b) for axis, a, b in zip(layout.units.axes, box.start, box.stop, strict=True)]


def _groups(layout: Layout, box: Box) -> Groups:
    """How the units that a read box meets lie in shards."""
    if not layout.indexed:
        return None
    groups = []
    for axis, within, meets in zip(layout.units.axes, layout.objects.axes, _meets(layout, box), strict=True):
        _, counts = np.unique(within.indices(axis.starts(np.arange(meets.start, meets.stop))), return_counts=True)
        groups.append(tuple(counts.tolist()))
    return tuple(groups)


@lru_cache(maxsize=256)
def _steps(shape: tuple[int, ...], groups: Groups, first: int) -> tuple[Ints, ...]:
    """Per axis the positions of some units among those that a read box meets: shard by shard, in C order in each."""
    numbers = np.arange(first, min(first + _BLOCK, prod(shape)))
    if groups is None:
        return np.unravel_index(numbers, shape) if shape else ()
    rest, inside = prod(shape), np.ones(len(numbers), np.int64)
    found = []
    for count, along in zip(shape, groups, strict=True):
        rest //= count
        starts, lengths = _starts(along)
        home = np.searchsorted(starts, numbers // (inside * rest), "right") - 1
        numbers = numbers - inside * starts[home] * rest
        inside = inside * lengths[home]
        found.append((starts[home], lengths[home]))
    steps = []
    for start, length in reversed(found):
        steps.append(start + numbers % length)
        numbers = numbers // length
    return tuple(reversed(steps))


def _starts(along: tuple[int, ...]) -> tuple[Ints, Ints]:
    """Along one axis: units before each shard, and units in it."""
    lengths = np.array(along, np.int64)
    return np.cumsum(lengths) - lengths, lengths


def _axes(layout: Layout, box: Box, full: Collection[int]) -> tuple[list[Ints], tuple[int, ...]]:
    """Per axis and unit: bounds of the unit as it is stored, of what is read of it, and of what is wanted."""
    axes = []
    for number, (axis, start, stop) in enumerate(zip(layout.units.axes, box.start, box.stop, strict=True)):
        meets = axis.touching(start, stop)
        stored = axis.bounds(meets.start, meets.stop)
        wanted = np.clip(stored, start, stop)
        axes.append(np.hstack([stored, stored if number in full else wanted, wanted]))
    return axes, tuple(len(rows) for rows in axes)


def wanted(rows: UnitRows, at: int) -> Box:
    """The elements of a unit that belong to the read box."""
    bounds = rows.table[at, native.HEAD :].reshape(-1, 6)
    return Box(tuple(bounds[:, 4].tolist()), tuple(bounds[:, 5].tolist()))


def first_touches(window: Window, layout: Layout, box: Box) -> tuple[Ints, Ints]:
    """Positions of the boxes of a window in the order in which units touch them first, and the numbers of these units.

    The first unit that touches a box is the nearest one along every axis, in whatever order units are walked.
    """
    before: Ints = np.zeros((), np.int64)
    inside: Ints = np.ones((), np.int64)
    rank: Ints = np.zeros((), np.int64)
    groups, axes = _groups(layout, box), layout.units.axes
    for number, (axis, meets, start) in enumerate(zip(axes, _meets(layout, box), box.start, strict=True)):
        steps = np.array([axis.index(max(cut, start)) - meets.start for cut in window.cuts[number][:-1]], np.int64)
        shard, length = steps, np.ones_like(steps)
        if groups is not None:
            starts, lengths = _starts(groups[number])
            home = np.searchsorted(starts, steps, "right") - 1
            shard, length = starts[home], lengths[home]
        # Units in whole shards before this one; units in this one; rank among these.
        before = before[..., None] * len(meets) + inside[..., None] * shard
        inside = inside[..., None] * length
        rank = rank[..., None] * length + (steps - shard)
    touched = (before + rank).ravel()
    order = np.argsort(touched, kind="stable")
    return order, touched[order]
