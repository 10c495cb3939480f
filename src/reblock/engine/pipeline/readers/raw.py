"""Raw units, many in one call: read and scattered by the compiled loop."""

from __future__ import annotations

import errno
from contextlib import ExitStack
from functools import partial

import numpy as np

from reblock.engine import native
from reblock.engine.pipeline.readers.faults import raise_problem
from reblock.engine.pipeline.readers.opener import Opener
from reblock.engine.pipeline.readers.protocol import Arrived
from reblock.engine.pipeline.readers.table import UnitRows
from reblock.engine.pipeline.scatter import Window, completed_buffers
from reblock.engine.report import Times
from reblock.engine.view import View
from reblock.geometry.axis import Ints
from reblock.model import Scratch, Traffic
from reblock.model.medium import PAGE_BYTES, round_up


class RawUnits:
    """Reads rows of raw units."""

    def __init__(self, view: View, moves: native.Moves, opener: Opener, batch_size: int) -> None:
        """`batch_size` units are requested in one system call."""
        self._view, self._moves, self._opener, self._batch_size = view, moves, opener, batch_size

    def __call__(self, rows: UnitRows, chosen: Ints, window: Window, scratch: Scratch) -> tuple[Arrived, list[int]]:
        """Read and scatter some rows; none is skipped."""
        table, files = np.ascontiguousarray(rows.table[chosen]), rows.files
        result, completed = native.ResultStruct(), np.empty(len(window.numbers), np.int64)
        room, roots = round_up(rows.bytes + 2 * PAGE_BYTES), self._view.store.roots
        read = partial(self._moves.read, room=room, batch_size=self._batch_size)
        memory = scratch("stored", room * self._batch_size)
        with ExitStack() as opened:

            def follow(row: int, at: int) -> None:
                """Open a link, or a file behind one, unless it leads out of the source's folders."""
                handle = self._opener.reader(files.names[at], number=int(table[row, 6]))
                table[row, 0] = opened.enter_context(handle).fileno()

            for row, at in enumerate(chosen.tolist()):
                if roots is not None and files.names[at] and not roots.allows(files.names[at]):
                    follow(row, at)
            while not read(window.native, table, files.paths, memory, result, completed):
                at = int(chosen[result.row])
                if result.error != errno.ELOOP or roots is None:
                    raise_problem(self._view, files.objects[at], files.names[at], result)
                follow(result.row, at)
                result.error = 0
        times = Times(read=result.io_ns / 1e9, scatter=result.scatter_ns / 1e9)
        traffic = Traffic(result.opens, result.runs, result.seeks, result.bytes)
        complete = completed_buffers(window, completed, result.completed)
        return Arrived(result.elements, complete, times, traffic, result.missing), []
