"""Shards: finds units through the index inside their object.

The threads that read also look up indices, for many units at once. Units are skipped if the index of their object
cannot be read in one call, because the file is missing, lies behind a link or is damaged.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import groupby, pairwise

import numpy as np

from reblock.engine import native
from reblock.engine.pipeline.readers.table import UnitFiles, UnitRows, locate
from reblock.engine.view import View
from reblock.geometry.axis import Ints
from reblock.model import Extent, Index, Traffic

#: Indices that are cached: several threads may read units of one object.
_KNOWN = 4


class _OddError(Exception):
    """An index that cannot be read in one call."""


class Shards:
    """Finds units through the indices of their objects."""

    def __init__(self, view: View, moves: native.Moves) -> None:
        self._view, self._moves = view, moves
        self._read = lru_cache(maxsize=_KNOWN)(self._fetch)
        self._visited: Index | None = None

    def begin_box(self) -> None:
        """Note that another read box begins."""
        self._visited = None

    def traffic(self, rows: UnitRows, chosen: Ints) -> Traffic:
        """The traffic of the next rows of a read box: the index of each object, and each unit."""
        objects = [rows.files.objects[at] for at in chosen.tolist()]
        opens = sum(one != before for before, one in pairwise([self._visited, *objects]))
        self._visited, runs = objects[-1], len(objects) + opens
        return Traffic(opens, runs, opens + runs, self._unit_bytes([rows.files.units[at] for at in chosen.tolist()]))

    def _unit_bytes(self, units: Sequence[Index]) -> int:
        """Decoded bytes of units; those of arrays that consist of several differ in length."""
        layout = self._view.store.layout
        if all(axis.length + axis.trail == axis.count * axis.largest_stored for axis in layout.units.axes):
            return len(units) * layout.unit_bytes
        return sum(layout.units.stored(unit).size for unit in units) * layout.itemsize

    def __call__(self, rows: UnitRows, chosen: Ints) -> tuple[UnitRows, list[int]]:
        """Some rows with the extents of their units, and the rows that were skipped."""
        objects, units = rows.files.objects, rows.files.units
        found: list[tuple[int, Extent | None]] = []
        odd: list[int] = []
        for index, group in groupby(chosen.tolist(), key=objects.__getitem__):
            some = list(group)
            try:
                read = partial(self._read, int(rows.table[some[0], 6]))
                found += zip(some, self._view.store.extents(index, [units[at] for at in some], read), strict=True)
            except _OddError:
                odd += some
        kept = [at for at, _ in found]
        files = locate([objects[at] for at in kept], [units[at] for at in kept], [extent for _, extent in found])
        table = rows.table[kept]
        # The last columns are known already: whether a unit is read whole, and its object.
        table[:, :5] = files.columns[:, :5]
        return rows._replace(table=table, files=files), odd

    def _fetch(self, number: int, extent: Extent) -> bytes:
        roots = self._view.store.roots
        if extent.length is None or not (roots is None or roots.allows(extent.path)):
            raise _OddError
        row = np.array([-1, 0, extent.offset, extent.length, 0, 0, number], np.int64)
        memory = np.empty(extent.length, np.uint8)
        path = os.fsencode(extent.path) + b"\0"
        data = self._moves.fetch(native.address(row), path, memory, extent.length, direct=False)
        if data is None:
            raise _OddError
        return data.tobytes()


class NumberedParts(Shards):
    """The compiled loop finds these units by their numbers, which take the place of their offsets."""

    def __init__(self, view: View, moves: native.Moves) -> None:
        super().__init__(view, moves)
        layout = view.store.layout
        pairs = zip(layout.objects.largest_stored, layout.units.largest_stored, strict=True)
        self._counts = np.array([whole // part for whole, part in pairs], np.int64)
        self._strides = np.ones(layout.ndim, np.int64)
        for inner, axis in pairwise(reversed(layout.order)):
            self._strides[axis] = self._strides[inner] * self._counts[inner]

    def __call__(self, rows: UnitRows, chosen: Ints) -> tuple[UnitRows, list[int]]:
        at, place = chosen.tolist(), self._view.store.place
        objects, units = [rows.files.objects[k] for k in at], [rows.files.units[k] for k in at]
        names = [place(index).path for index in objects]
        table = rows.table[chosen]
        paths, table[:, 1] = native.joined(names)
        table[:, 2] = (np.array(units) - np.array(objects) * self._counts) @ self._strides
        return rows._replace(table=table, files=UnitFiles(objects, units, names, [], paths, table)), []


def shards(view: View, moves: native.Moves) -> Shards:
    """How the units of a source are found."""
    found = native.decoder(view.store.decoder)
    return NumberedParts(view, moves) if found is not None and found.table_bytes else Shards(view, moves)
