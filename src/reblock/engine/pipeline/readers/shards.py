"""Shards: where the units of a source lie that are found through an index inside their object.

Indices are asked in the threads that read, for many units at once. One that is out of the ordinary, such as that of a
file that is not there or lies behind a link, is left to `python`, which has the words for what is wrong.
"""

from __future__ import annotations

import os
from functools import lru_cache, partial
from itertools import groupby, pairwise

import numpy as np

from reblock.engine import native
from reblock.engine.pipeline.readers.table import Files, Rows, locate
from reblock.engine.view import View
from reblock.geometry.axis import Ints
from reblock.model import Extent, Index, Traffic

#: Indices that are remembered: units of one object may be asked for by several threads.
_KNOWN = 4


class _OddError(Exception):
    """An index that cannot be read in one call."""


class Shards:
    """Finds units through the indices of their objects."""

    def __init__(self, view: View, moves: native.Moves) -> None:
        self._view, self._moves = view, moves
        self._read = lru_cache(maxsize=_KNOWN)(self._fetch)
        self._visited: Index | None = None

    def visit(self) -> None:
        """Another read box begins."""
        self._visited = None

    def traffic(self, some: Rows, chosen: Ints) -> Traffic:
        """What the next rows of a read box add to the counts: of every object its index, and units one by one."""
        objects = [some.files.objects[at] for at in chosen.tolist()]
        opens = sum(one != before for before, one in pairwise([self._visited, *objects]))
        self._visited, runs = objects[-1], len(objects) + opens
        return Traffic(opens, runs, opens + runs, len(objects) * self._view.layout.unit_bytes)

    def __call__(self, some: Rows, chosen: Ints) -> tuple[Rows, list[int]]:
        """Some rows, with the places of their units; and which of them are out of the ordinary, and left out."""
        objects, units = some.files.objects, some.files.units
        found: list[tuple[int, Extent | None]] = []
        odd: list[int] = []
        for index, group in groupby(chosen.tolist(), key=objects.__getitem__):
            rows = list(group)
            try:
                read = partial(self._read, int(some.table[rows[0], 6]))
                found += zip(rows, self._view.store.extents(index, [units[at] for at in rows], read), strict=True)
            except _OddError:
                odd += rows
        kept = [at for at, _ in found]
        files = locate([objects[at] for at in kept], [units[at] for at in kept], [extent for _, extent in found])
        table = some.table[kept]
        # Whether a unit is read whole is known already, and in which object it lies.
        table[:, :5] = files.columns[:, :5]
        return some._replace(table=table, files=files), odd

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
    """Has the compiled loop find units by their numbers, which take the place of their offsets."""

    def __init__(self, view: View, moves: native.Moves) -> None:
        super().__init__(view, moves)
        layout = view.store.layout
        pairs = zip(layout.objects.largest_stored, layout.units.largest_stored, strict=True)
        self._counts = np.array([whole // part for whole, part in pairs], np.int64)
        self._strides = np.ones(layout.ndim, np.int64)
        for inner, axis in pairwise(reversed(layout.order)):
            self._strides[axis] = self._strides[inner] * self._counts[inner]

    def __call__(self, some: Rows, chosen: Ints) -> tuple[Rows, list[int]]:
        at, place = chosen.tolist(), self._view.store.place
        objects, units = [some.files.objects[k] for k in at], [some.files.units[k] for k in at]
        names = [place(index).path for index in objects]
        table = some.table[chosen]
        paths, table[:, 1] = native.joined(names)
        table[:, 2] = (np.array(units) - np.array(objects) * self._counts) @ self._strides
        return some._replace(table=table, files=Files(objects, units, names, [], paths, table)), []


def shards(view: View, moves: native.Moves) -> Shards:
    """How the units of a source are found."""
    found = native.decoder(view.store.decoder)
    return NumberedParts(view, moves) if found is not None and found.table_bytes else Shards(view, moves)
