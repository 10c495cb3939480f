"""Raw pieces, many in a job: read and scattered by the compiled loop."""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack
from functools import partial

import numpy as np

from reblock.engine import native
from reblock.engine.pipeline.readers.encoded import Done
from reblock.engine.pipeline.readers.opener import Opener
from reblock.engine.pipeline.readers.python import raise_problem
from reblock.engine.pipeline.readers.table import Rows
from reblock.engine.pipeline.scatter import Window, take
from reblock.engine.report import Times
from reblock.engine.view import Array, View
from reblock.engine.watch import Watch
from reblock.geometry.axis import Ints
from reblock.model import Scratch, Store, Traffic
from reblock.model.medium import DIRECT_BYTES, PAGE_BYTES, round_up


class Raw:
    """Reads the raw pieces of a source."""

    def __init__(self, view: View, moves: native.Moves, opener: Opener, together: int) -> None:
        """So many are read together."""
        self._view, self._moves, self._opener, self._together = view, moves, opener, together

    def __call__(self, some: Rows, chosen: Ints, window: Window, staging: Scratch) -> Done:
        """Read and scatter some rows."""
        table, files = np.ascontiguousarray(some.table[chosen]), some.files
        result, completed = native.ResultStruct(), np.empty(len(window.numbers), np.int64)
        room, roots = round_up(some.bytes + 2 * PAGE_BYTES), self._view.store.roots
        read = partial(self._moves.read, room=room, batch_size=self._together)
        memory = staging("stored", room * self._together)
        with ExitStack() as opened:

            def follow(row: int, at: int) -> None:
                """A link, or a file behind one: it is read if that does not lead outside."""
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
        return Done(result.elements, take(window, completed, result.completed), [], traffic, times, result.missing)


def compiled_moves(view: View, store: Store, fill: Array, watch: Watch) -> native.Moves | None:
    """The compiled loop for this pass; None where there is none, or arrays have too many axes for it."""
    if native.library() is None or store.layout.ndim > native.MAX_AXES:
        return None
    return native.Moves(
        shape=store.layout.shape,
        dtype=store.layout.dtype,
        source_order=view.layout.order,
        target_order=store.layout.order,
        fill=fill,
        fills=view.fills,
        direct=DIRECT_BYTES,
        digest=watch.digest,
        flags=0 if view.store.roots is None else os.O_NOFOLLOW,
        stamps=None if watch.seen is None else watch.seen.stamps,
    )
