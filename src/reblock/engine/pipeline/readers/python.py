"""Reading in Python: one visit after the other, from any medium, with any conversion of types."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from time import perf_counter, thread_time

from reblock.engine.pipeline.readers.fetch import Decoding, SharedFile, read_raw, read_units
from reblock.engine.pipeline.readers.opener import Opener
from reblock.engine.pipeline.readers.protocol import Arrived, Batch, ReadJob
from reblock.engine.pipeline.readers.visits import Loaded, Piece, Visit, part_elements, raw_visit, visits
from reblock.engine.pipeline.scatter import Deliver, Window
from reblock.engine.report import Times
from reblock.engine.view import View
from reblock.geometry import Box
from reblock.geometry.runs import pieces
from reblock.model import Index, Scratch, Traffic


class PythonReading:
    """Reads each visit in Python: pieces of raw objects by several threads, units of one visit by one thread."""

    def __init__(
        self,
        view: View,
        full: Collection[int],
        piece_bytes: int,
        opener: Opener,
        deliver: Deliver,
        decoding: Decoding,
        max_units: int | None = None,
    ) -> None:
        """Along the `full` axes raw objects are read in full, in pieces of at most `piece_bytes` bytes.

        One visit decodes at most `max_units` units.
        """
        self._view, self._full, self._piece_bytes = view, full, piece_bytes
        self._opener, self._deliver, self._decoding = opener, deliver, decoding
        self._max_units = max_units

    def batches(self, box: Box, window: Window) -> Iterator[Batch]:
        """One batch for each piece of a raw object, and for each visit that decodes units."""
        for visit in self._visits(box):
            if not visit.raw:
                job = partial(self._visit_job, visit, window)
                yield _batch(window, (piece.wanted for piece in visit.pieces), job)
                continue
            shared = SharedFile(visit, self._opener)
            for piece in visit.pieces:
                yield _batch(window, (piece.wanted,), partial(self._piece_job, shared, piece, window))

    def jobs(self, box: Box, window: Window) -> Iterator[ReadJob]:
        """One job for each visit, and for each part of a raw object, whose file is opened once."""
        layout = self._view.layout
        if layout.encoded or layout.indexed:
            yield from (partial(self._read_units, visit, window) for visit in self._visits(box))
            return
        for index in layout.objects.touching(box):
            reach = layout.objects.box(index).intersect(box)
            if reach is not None:
                most = part_elements(layout, reach, self._full, self._piece_bytes)
                yield from self._part_jobs(index, list(pieces(reach, layout.order, most)), window)

    def _part_jobs(self, index: Index, parts: Sequence[Box], window: Window) -> Iterator[ReadJob]:
        shared: SharedFile | None = None
        for part in parts:
            visit = raw_visit(self._view, index, part, self._full, 2 * self._piece_bytes)
            shared = shared or SharedFile(visit, self._opener, len(parts))
            yield partial(self._read_part, visit, shared, window)

    def read(self, box: Box, window: Window, scratch: Scratch) -> Iterator[Arrived]:
        """Read the units that a box touches, all in this thread, without counting their traffic."""
        for visit in self._visits(box):
            yield from self._read_units(visit, window, scratch)

    def read_visit(self, visit: Visit, window: Window, scratch: Scratch) -> Iterator[Arrived]:
        """Read the units of one visit, without counting its traffic."""
        return self._read_units(visit, window, scratch)

    def _visits(self, box: Box) -> Iterator[Visit]:
        return visits(self._view, box, self._full, self._piece_bytes, self._max_units)

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
            yield self._arrive(loaded, window, missing=loaded.missing)
        yield Arrived(0, (), times)

    def _read_part(self, visit: Visit, shared: SharedFile, window: Window, scratch: Scratch) -> Iterator[Arrived]:
        try:
            opened = shared.open()
            if opened is None:
                visit.require_fill()
            for piece in visit.pieces:
                if piece.wanted.size:
                    yield self._arrive(read_raw(visit, piece, opened, scratch), window, missing=opened is None)
        finally:
            shared.done()

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
            arrived = self._arrive(loaded, window, missing=missing)
            arrived.times.read = read_seconds
            yield arrived._replace(traffic=traffic)
        finally:
            shared.done()

    def _arrive(self, loaded: Loaded, window: Window, *, missing: bool) -> Arrived:
        began = thread_time()
        complete = self._deliver(loaded, window)
        return Arrived(loaded.wanted.size, complete, Times(scatter=thread_time() - began), missing=int(missing))


def _batch(window: Window, wanted: Iterable[Box], make: Callable[[Collection[int]], ReadJob | None]) -> Batch:
    """A batch that one job reads as a whole."""
    touched = dict.fromkeys(position for box in wanted if box.size for position in window.touching(box))
    positions = list(touched)

    def job(start: int, stop: int) -> ReadJob | None:
        return make(positions) if start < stop else None

    return Batch(1, 1, positions, [0] * len(positions), job)
