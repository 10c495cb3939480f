"""Chooses between the three ways of reading: compiled, Python, and the library of a format."""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import prod

from reblock.engine import native
from reblock.engine.memory.arena import Arena
from reblock.engine.memory.scratch import ScratchPool
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
from reblock.engine.pipeline.scatter import Deliver
from reblock.engine.view import View
from reblock.model import Access, Layout, Pass, TransferMode
from reblock.model.accounting import visit_shape


def choose_reading(
    view: View,
    deliver: Deliver,
    *,
    full: Collection[int],
    piece_bytes: int,
    coders: int,
    batch_size: int,
    opener: Opener,
    arena: Arena,
    moves: native.Moves | None,
    verbatim: bool = False,
    finished: Collection[int] = (),
    stop: Callable[[], bool] = lambda: False,
    max_units: int | None = None,
) -> Reading:
    """How read boxes are read.

    ::

        the store's library reads boxes                                library
        local files, and a compiled loop that may read them            compiled
        other media, raw objects in several pieces, another type       Python

    Along the `full` axes raw objects are read in full, in pieces of at most `piece_bytes` bytes. `coders` units are
    decoded at once, and `batch_size` raw units are requested in one system call. `moves` is None if units are read in
    several pieces, or converted. One visit in Python decodes at most `max_units` units.
    """
    if view.store.reads is TransferMode.BOX:
        return LibraryReading(view, full, piece_bytes, opener, deliver, stop)
    # Memory between the stages of a codec is counted for this many units only.
    decoding: Decoding = ScratchPool(coders, arena) if view.layout.decoding_bytes else without_scratch
    python = PythonReading(view, full, piece_bytes, opener, deliver, decoding, max_units)
    if moves is None or not view.store.medium.is_local:
        return python
    read: ReadRows
    if view.layout.encoded:
        read = EncodedUnits(view, moves, decoding, verbatim=verbatim)
    else:
        read = RawUnits(view, moves, opener, batch_size)
    found = shards(view, moves) if view.layout.indexed else None
    return CompiledReading(view, UnitTable(view, full), read, found, python, finished)


def is_in_one_piece(sweep: Pass, source: Layout, piece_bytes: int) -> bool:
    """Whether a pass reads units, each in one piece of at most `piece_bytes` bytes."""
    if source.encoded:
        return sweep.read_access is Access.UNITS
    part = source.units.largest_stored
    if sweep.read_access is Access.RUNS:
        part = visit_shape(sweep, source)
    return prod(part) * source.itemsize <= piece_bytes
