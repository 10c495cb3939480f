"""Reading in Python: one visit after the other, from any medium, with any conversion of types."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from time import perf_counter, thread_time

from reblock.engine.pipeline.readers.fetch import Decoding, SharedFile, read_raw, read_units
from reblock.engine.pipeline.readers.opener import Opener
from reblock.engine.pipeline.readers.protocol import Arrived, Batch, ReadJob
from reblock.engine.pipeline.readers.visits import Loaded, Piece, Visit, visits
from reblock.engine.pipeline.scatter import Scatter, Window
from reblock.engine.report import Times
from reblock.engine.view import View
from reblock.geometry import Box
from reblock.model import Scratch, Traffic


class PythonReading:
    """Reads each visit in Python: pieces of raw objects by several threads, units of one visit by one thread."""

    def __init__(
        self,
        view: View,
        full: Collection[int],
        piece_bytes: int,
        opener: Opener,
        scatter: Scatter,
        decoding: Decoding,
    ) -> None:
        """Along the `full` axes raw objects are read in full, in pieces of at most `piece_bytes` bytes."""
        self._view, self._full, self._piece_bytes = view, full, piece_bytes
        self._opener, self._scatter, self._decoding = opener, scatter, decoding

    def batches(self, box: Box, window: Window) -> Iterator[Batch]:
        """One batch for each piece of a raw object, and for each visit that decodes units."""
        for visit in visits(self._view, box, self._full, self._piece_bytes):
            if not visit.raw:
                job = partial(self._visit_job, visit, window)
                yield _batch(window, (piece.wanted for piece in visit.pieces), job)
                continue
            shared = SharedFile(visit, self._opener)
            for piece in visit.pieces:
                yield _batch(window, (piece.wanted,), partial(self._piece_job, shared, piece, window))

    def read(self, box: Box, window: Window, scratch: Scratch) -> Iterator[Arrived]:
        """Read the units that a box touches, all in this thread, without counting their traffic."""
        for visit in visits(self._view, box, self._full, self._piece_bytes):
            yield from self._read_units(visit, window, scratch)

    def _visit_job(self, visit: Visit, window: Window, positions: Collection[int]) -> ReadJob | None:
        return partial(self._read_visit, visit, window) if window.has_any(positions) else None

    def _piece_job(
        self, shared: SharedFile, piece: Piece, window: Window, positions: Collection[int]
    ) -> ReadJob | None:
        if not window.has_any(positions):
            shared.done()
            return None
        return partial(self._read_piece, shared, piece, window, shared.traffic())

    def _read_visit(self, visit: Visit, window: Window, scratch: Scratch) -> Iterator[Arrived]:
        yield Arrived(0, (), Times(), visit.traffic)
        yield from self._read_units(visit, window, scratch)

    def _read_units(self, visit: Visit, window: Window, scratch: Scratch) -> Iterator[Arrived]:
        times = Times()
        for loaded in self._load(visit, scratch, times):
            if loaded.missing:
                visit.require_fill()
            yield self._deliver(loaded, window, missing=loaded.missing)
        yield Arrived(0, (), times)

    def _load(self, visit: Visit, scratch: Scratch, times: Times) -> Iterator[Loaded]:
        """The units of a visit, one by one."""
        return read_units(visit, self._opener, scratch, times, self._decoding)

    def _read_piece(
        self, shared: SharedFile, piece: Piece, window: Window, traffic: Traffic, scratch: Scratch
    ) -> Iterator[Arrived]:
        began = perf_counter()
        try:
            opened = shared.open()
            if opened is None:
                shared.visit.require_fill()
            loaded = read_raw(shared.visit, piece, opened, scratch)
            missing = opened is None and shared.count_missing()
            read_seconds = perf_counter() - began
            arrived = self._deliver(loaded, window, missing=missing)
            arrived.times.read = read_seconds
            yield arrived._replace(traffic=traffic)
        finally:
            shared.done()

    def _deliver(self, loaded: Loaded, window: Window, *, missing: bool) -> Arrived:
        began = thread_time()
        complete = self._scatter(loaded, window)
        return Arrived(loaded.wanted.size, complete, Times(scatter=thread_time() - began), missing=int(missing))


def _batch(window: Window, wanted: Iterable[Box], make: Callable[[Collection[int]], ReadJob | None]) -> Batch:
    """A batch that one job reads as a whole."""
    touched = dict.fromkeys(position for box in wanted if box.size for position in window.touching(box))
    positions = list(touched)

    def job(start: int, stop: int) -> ReadJob | None:
        return make(positions) if start < stop else None

    return Batch(1, 1, positions, [0] * len(positions), job)
