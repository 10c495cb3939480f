"""Reading through a library: stores whose own library reads boxes, one call at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from threading import Lock
from time import perf_counter

from reblock.engine.pipeline.readers.fetch import without_scratch
from reblock.engine.pipeline.readers.opener import Opener
from reblock.engine.pipeline.readers.protocol import ReadJob
from reblock.engine.pipeline.readers.python import PythonReading
from reblock.engine.pipeline.readers.visits import Loaded, Visit, raw_visit
from reblock.engine.pipeline.scatter import Deliver, Window
from reblock.engine.report import Times
from reblock.engine.view import View
from reblock.geometry import Box
from reblock.model import Index, Scratch, fresh


class LibraryReading(PythonReading):
    """Reads the pieces of each visit through the store's library; other threads read while one scatters."""

    def __init__(
        self,
        view: View,
        full: Collection[int],
        piece_bytes: int,
        opener: Opener,
        deliver: Deliver,
        stop: Callable[[], bool],
    ) -> None:
        super().__init__(view, full, piece_bytes, opener, deliver, without_scratch)
        self._stop, self._serial = stop, Lock()

    def _part_jobs(self, index: Index, parts: Sequence[Box], window: Window) -> Iterator[ReadJob]:
        for part in parts:
            visit = raw_visit(self._view, index, part, self._full, self._piece_bytes)
            yield partial(self._read_units, visit, window)

    def _load(self, visit: Visit, scratch: Scratch, times: Times) -> Iterator[Loaded]:
        boxes = read_boxes(visit, scratch)
        while True:
            began = perf_counter()
            with self._serial:
                # Other threads may have read for a long time.
                loaded = None if self._stop() else next(boxes, None)
            times.read += perf_counter() - began
            if loaded is None:
                return
            yield loaded


def read_boxes(visit: Visit, scratch: Scratch = fresh) -> Iterator[Loaded]:
    """The pieces of a visit, read by the store's library into scratch memory: the next piece may replace the last."""
    view, counted = visit.view, False
    for piece in visit.pieces:
        if not piece.wanted.size:
            continue
        box = view.store_box(piece.wanted)
        size = box.size * view.layout.itemsize
        out = scratch("decoded", size)[:size].view(view.layout.dtype).reshape(box.shape)
        filled = not view.store.read_box(box, out) and not counted
        # An object that is not stored counts once, not for each of its pieces.
        counted = counted or (filled and piece.offsets is not None)
        yield Loaded(piece.wanted, piece.wanted, out.transpose(view.axes), filled=filled)
