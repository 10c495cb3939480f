"""Reading by the compiled loop: tables of units, many in one call.

Units that the loop skips, such as one that is not stored or lies behind a link, are read in Python, which also reports
what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial

import numpy as np

from reblock.engine.pipeline.readers.protocol import Arrived, Batch, ReadJob
from reblock.engine.pipeline.readers.python import PythonReading
from reblock.engine.pipeline.readers.shards import Shards
from reblock.engine.pipeline.readers.table import UnitRows, UnitTable, first_touches, wanted
from reblock.engine.pipeline.scatter import Window
from reblock.engine.view import View
from reblock.geometry import Box
from reblock.geometry.axis import Ints
from reblock.model import Scratch, Traffic

#: The most units of one job, and the most bytes that they have together.
_MAX_UNITS, _MAX_BYTES = 64, 2 << 20

#: Reads, decodes and scatters some rows; also returns the rows that it skipped.
ReadRows = Callable[[UnitRows, Ints, Window, Scratch], tuple[Arrived, list[int]]]


class CompiledReading:
    """Reads units from tables, many in one call."""

    def __init__(
        self,
        view: View,
        table: UnitTable,
        read: ReadRows,
        shards: Shards | None,
        python: PythonReading,
        finished: Collection[int],
    ) -> None:
        """`shards` finds units through the index of their object; `finished` are write boxes that need no elements."""
        self._view, self._table, self._read_rows = view, table, read
        self._shards, self._python, self._finished = shards, python, finished

    def batches(self, box: Box, window: Window) -> Iterator[Batch]:
        """Some hundred units in each batch."""
        positions, touches = first_touches(window, self._view.layout, box)
        if self._shards is not None:
            self._shards.begin_box()
        for rows in self._table(box):
            count = len(rows.table)
            low, high = np.searchsorted(touches, [rows.first, rows.first + count]).tolist()
            yield Batch(
                count,
                max(min(_MAX_BYTES // max(rows.bytes, 1), _MAX_UNITS), 1),
                positions[low:high].tolist(),
                (touches[low:high] - rows.first).tolist(),
                partial(self._job, rows, window),
            )

    def jobs(self, box: Box, window: Window) -> Iterator[ReadJob]:
        """Some units in each job."""
        for batch in self.batches(box, window):
            for start in range(0, batch.units, batch.step):
                job = batch.job(start, min(start + batch.step, batch.units))
                if job is not None:
                    yield job

    def _job(self, rows: UnitRows, window: Window, start: int, stop: int) -> ReadJob | None:
        chosen = np.arange(start, stop)
        if self._finished:
            chosen = chosen[[window.has_any(window.touching(wanted(rows, at))) for at in chosen.tolist()]]
        if not chosen.size:
            return None
        if self._shards is None:
            return partial(self._read, rows, chosen, window)
        # How often an index is read depends on the order of units, so the dispatcher counts the traffic.
        traffic = self._shards.traffic(rows, chosen)
        return partial(self._read_shards, self._shards, rows, chosen, window, traffic)

    def _read(self, rows: UnitRows, chosen: Ints, window: Window, scratch: Scratch) -> Iterator[Arrived]:
        arrived, odd = self._read_rows(rows, chosen, window, scratch)
        yield arrived
        yield from self._read_odd(rows, odd, window, scratch)

    def _read_shards(
        self, shards: Shards, rows: UnitRows, chosen: Ints, window: Window, traffic: Traffic, scratch: Scratch
    ) -> Iterator[Arrived]:
        found, unfound = shards(rows, chosen)
        arrived, odd = self._read_rows(found, np.arange(len(found.table)), window, scratch)
        yield arrived._replace(traffic=traffic)
        yield from self._read_odd(found, odd, window, scratch)
        yield from self._read_odd(rows, unfound, window, scratch)

    def _read_odd(self, rows: UnitRows, odd: list[int], window: Window, scratch: Scratch) -> Iterator[Arrived]:
        for at in odd:
            yield from self._python.read(wanted(rows, at), window, scratch)
