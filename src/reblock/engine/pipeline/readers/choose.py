"""The choice between the three ways of reading: compiled, Python, and the library of a format."""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import prod

from reblock.engine import native
from reblock.engine.memory.buffers import Coders, Region
from reblock.engine.pipeline.readers.compiled import CompiledReading, ReadRows
from reblock.engine.pipeline.readers.encoded import EncodedUnits
from reblock.engine.pipeline.readers.fetch import Decoding, without_scratch
from reblock.engine.pipeline.readers.library import LibraryReading
from reblock.engine.pipeline.readers.opener import Opener
from reblock.engine.pipeline.readers.protocol import Reading
from reblock.engine.pipeline.readers.python import PythonReading
from reblock.engine.pipeline.readers.raw import RawUnits
from reblock.engine.pipeline.readers.shards import shards
from reblock.engine.pipeline.readers.table import UnitTable
from reblock.engine.pipeline.readers.visits import full_axes
from reblock.engine.pipeline.scatter import Scatter
from reblock.engine.view import View
from reblock.model import Access, Execution, Layout, Pass, Way
from reblock.model.accounting import visit_shape


def choose_reading(
    sweep: Pass,
    how: Execution,
    view: View,
    scatter: Scatter,
    *,
    opener: Opener,
    region: Region,
    moves: native.Moves | None,
    finished: Collection[int],
    stop: Callable[[], bool],
) -> Reading:
    """How the read boxes of a pass are read.

    ::

        the store reads boxes itself                               library
        local files, units in one piece each, type kept            compiled
        anything else: other media, large raw objects, new type    Python
    """
    full = full_axes(view.layout, sweep.read_access, sweep.coalesced)
    if view.store.reads is Way.BOX:
        return LibraryReading(view, full, how.piece_bytes, opener, scatter, stop)
    # Memory between the stages of a codec is counted for this many units only.
    decoding: Decoding = Coders(how.coders, region) if view.layout.decoding_bytes else without_scratch
    python = PythonReading(view, full, how.piece_bytes, opener, scatter, decoding)
    local = view.store.medium.is_local and view.layout.dtype == scatter.dtype
    if moves is None or not local or not _in_one_piece(sweep, view.layout, how.piece_bytes):
        return python
    read: ReadRows
    if view.layout.encoded:
        read = EncodedUnits(view, moves, decoding, verbatim=scatter.verbatim)
    else:
        read = RawUnits(view, moves, opener, how.batch_size)
    found = shards(view, moves) if view.layout.indexed else None
    return CompiledReading(view, UnitTable(view, full), read, found, python, finished)


def _in_one_piece(sweep: Pass, source: Layout, piece_bytes: int) -> bool:
    """Whether a pass reads units, each in one piece of at most `piece_bytes` bytes."""
    if source.encoded:
        return sweep.read_access is Access.UNITS
    part = source.units.largest_stored
    if sweep.read_access is Access.RUNS:
        part = visit_shape(sweep, source)
    return prod(part) * source.itemsize <= piece_bytes
