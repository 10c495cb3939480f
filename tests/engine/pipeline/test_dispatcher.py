"""The dispatcher: takes memory in plan order, cuts jobs where memory ends, and stops at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from cases import make
from reblock.engine.memory import allocator as allocators
from reblock.engine.memory.allocator import BufferAllocator
from reblock.engine.memory.arena import Arena
from reblock.engine.memory.budget import Stopped
from reblock.engine.pipeline.boxes import Boxes, Buffer
from reblock.engine.pipeline.dispatcher import Dispatcher
from reblock.engine.pipeline.readers.protocol import Arrived, Batch, ReadJob
from reblock.engine.pipeline.readers.threads import Readers
from reblock.engine.pipeline.readers.visits import Loaded
from reblock.engine.pipeline.scatter import Scatter, Window
from reblock.engine.pipeline.stop import Stop
from reblock.engine.pipeline.tally import Tally
from reblock.engine.pipeline.threads import Threads
from reblock.engine.pipeline.writers.target import TargetWriter
from reblock.engine.report import Times
from reblock.engine.watch import Watch
from reblock.errors import Refused
from reblock.geometry import Box, Grid
from reblock.model import Access, Pass, Scratch

#: Elements of two bytes, each a unit of its own, and write boxes of four.
ARRAY = np.arange(12, dtype="u2")
BOX_BYTES = 8


class Elements:
    """Reads an array in memory, one element after the other, in one batch; notes the jobs that are made."""

    def __init__(self, scatter: Scatter, step: int) -> None:
        self._scatter, self._step = scatter, step
        self.jobs: list[tuple[int, int]] = []

    def batches(self, box: Box, window: Window) -> Iterator[Batch]:
        touches = [start - box.start[0] for start in window.cuts[0][:-1]]
        yield Batch(box.size, self._step, range(len(touches)), touches, partial(self._job, window))

    def _job(self, window: Window, start: int, stop: int) -> ReadJob | None:
        part = Box((start,), (stop,))
        if not window.has_any(window.touching(part)):
            return None
        self.jobs.append((start, stop))
        return partial(self._read, window, part)

    def _read(self, window: Window, part: Box, _: Scratch) -> Iterator[Arrived]:
        complete = self._scatter(Loaded(part, part, ARRAY[part.slices]), window)
        yield Arrived(part.size, complete, Times())


class Rig:
    """A dispatcher with everything around it; boxes that are complete are noted and their memory is freed."""

    def __init__(self, folder: Path, limit: int, *, step: int = 12, finished: Collection[int] = ()) -> None:
        store = make(folder, "y", "blocks", ARRAY.shape, (4,))
        whole, writes = Grid.whole(ARRAY.shape), Grid.of(ARRAY.shape, (4,))
        boxes = Boxes(writes, Access.UNITS, store.layout)
        scatter = Scatter(boxes, np.zeros((), "u2"), None, digest=False)
        self.allocator = BufferAllocator(limit, scatter, TargetWriter(store, boxes), finished)
        self.cancelled = False
        self.stop = Stop(lambda: self.cancelled, self.allocator.budget.stop)
        self.tally = Tally(Watch(), 0, 0)
        self.allocator.budget.idle = lambda: self.tally.idle
        self.reading, self.complete = Elements(scatter, step), dict[int, list[int]]()
        self._threads = Threads(2, "test", Arena())
        readers = Readers(self._threads, 4, self.tally, self.stop, self._free)
        sweep = Pass(whole, writes, whole, (0,), Access.RUNS, Access.UNITS)
        self.dispatcher = Dispatcher(sweep, self.reading, self.allocator, readers, self.tally, self.stop)  # type: ignore[arg-type]

    def _free(self, buffers: Collection[Buffer]) -> None:
        self.complete.update({buffer.number: buffer.array.tolist() for buffer in buffers})
        self.allocator.free(list(buffers))

    def run(self) -> list[tuple[int, int]]:
        with self._threads:
            self.dispatcher.run([(0,)])
        if self.stop.error:
            raise self.stop.error
        return self.reading.jobs


EVERYTHING = {number: ARRAY[4 * number : 4 * number + 4].tolist() for number in range(3)}


@pytest.mark.parametrize(
    ("boxes", "step", "jobs"),
    [
        (3, 12, [(0, 12)]),
        (2, 12, [(0, 8), (8, 12)]),
        (1, 12, [(0, 4), (4, 8), (8, 12)]),
        (3, 5, [(0, 5), (5, 10), (10, 12)]),
        (1, 3, [(0, 3), (3, 4), (4, 6), (6, 8), (8, 9), (9, 12)]),
    ],
)
def test_jobs_end_where_memory_ends(boxes: int, step: int, jobs: list[tuple[int, int]], tmp_path: Path) -> None:
    rig = Rig(tmp_path, boxes * BOX_BYTES, step=step)
    assert rig.run() == jobs
    assert rig.complete == EVERYTHING
    assert rig.dispatcher.done
    assert not rig.allocator.open
    assert rig.allocator.budget.peak <= boxes * BOX_BYTES
    assert rig.tally.measured.tasks == 1


def test_boxes_get_memory_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocators, "MAX_BOXES", 1)
    rig = Rig(tmp_path, 3 * BOX_BYTES)
    assert rig.run() == [(0, 4), (4, 8), (8, 12)]
    assert rig.complete == EVERYTHING


def test_finished_boxes_get_no_memory(tmp_path: Path) -> None:
    rig = Rig(tmp_path, BOX_BYTES, finished=(0, 1))
    assert rig.run() == [(0, 12)]
    assert list(rig.complete) == [2]


def test_nothing_is_read_if_all_boxes_are_finished(tmp_path: Path) -> None:
    assert Rig(tmp_path, BOX_BYTES, finished=(0, 1, 2)).run() == []


def test_a_box_that_never_fits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="8 bytes does not fit into the 7"):
        Rig(tmp_path, BOX_BYTES - 1).run()


def test_a_run_that_is_cancelled_dispatches_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path, 3 * BOX_BYTES)
    rig.cancelled = True
    with pytest.raises(Stopped):
        rig.run()
    assert rig.reading.jobs == []
    assert not rig.dispatcher.done
