"""Writer threads: boxes are recorded before their memory is free, and an error stops the run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from cases import make
from reblock.engine import View, load
from reblock.engine.memory.allocator import BufferAllocator
from reblock.engine.memory.arena import Arena
from reblock.engine.pipeline.boxes import Boxes, Buffer
from reblock.engine.pipeline.scatter import Scatter
from reblock.engine.pipeline.stop import Stop
from reblock.engine.pipeline.tally import Tally
from reblock.engine.pipeline.threads import Threads
from reblock.engine.pipeline.writers import threads as writing
from reblock.engine.pipeline.writers.target import TargetWriter
from reblock.engine.pipeline.writers.threads import Writers
from reblock.engine.watch import Watch
from reblock.geometry import Box
from reblock.model import Access, Finished
from reblock.model.codec import Codec

ARRAY = np.arange(12, dtype="u2")


class Rig:
    """Writers of three boxes of an array, all of them complete."""

    def __init__(self, folder: Path, codec: str) -> None:
        self.store = make(folder, "y.zarr", "zarr", ARRAY.shape, (4,), codec=Codec.parse(codec))
        boxes = Boxes(self.store.layout.objects, Access.UNITS, self.store.layout)
        scatter = Scatter(boxes, np.zeros((), "u2"), None, digest=False)
        self.target = TargetWriter(self.store, boxes)
        self.allocator = BufferAllocator(1 << 20, scatter, self.target, ())
        self.stop, self.tally = Stop(lambda: False, self.allocator.budget.stop), Tally(Watch(), 0, 0)
        self.recorded: list[list[tuple[int, bool]]] = []
        threads = [Threads(1, name, Arena()) for name in ("encode", "write")]
        self.writers = Writers(*threads, self.target, self.allocator, self.tally, self.stop, self, 7)
        window = self.allocator.window(Box.whole(ARRAY.shape))
        self.allocator.allocate(window, range(3), 0, 3)
        self.buffers: list[Buffer] = []
        for buffer in window.buffers:
            assert buffer is not None
            buffer.array[...] = ARRAY[buffer.box.slices]
            self.buffers.append(buffer)

    def finished(self, _: int) -> list[int]:
        return []

    def record(self, sweep: int, boxes: Sequence[Finished]) -> None:
        assert sweep == 7
        self.recorded.append([(box.number, box.number in self.allocator.open) for box in boxes])


@pytest.mark.parametrize("codec", ["none", "gzip:1"])
@pytest.mark.parametrize("together", [64, 1])
def test_boxes_are_recorded_before_their_memory_is_free(
    codec: str, together: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_MAX_BOXES", together)
    rig = Rig(tmp_path, codec)
    with rig.writers:
        rig.writers.take(rig.buffers)
        rig.writers.settle()
        assert not rig.allocator.open
    assert rig.stop.error is None
    assert rig.recorded == ([[(0, True), (1, True), (2, True)]] if together > 1 else [[(n, True)] for n in range(3)])
    assert (rig.tally.measured.write_boxes, rig.tally.measured.target.opens) == (3, 3)
    assert rig.tally.idle
    rig.store.commit()
    assert np.array_equal(load(View.whole(rig.store), Box.whole(ARRAY.shape)), ARRAY)


@pytest.mark.parametrize("step", ["encode", "write"])
def test_an_error_stops_the_run_and_keeps_memory_counted(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_MAX_BOXES", 1)
    rig, calls = Rig(tmp_path, "gzip:1"), []

    def fail(*_: object) -> None:
        calls.append(step)
        raise OSError(28, "the disk is full")

    monkeypatch.setattr(rig.target, step, fail)
    with rig.writers:
        rig.writers.take(rig.buffers)
        rig.writers.settle()
    assert isinstance(rig.stop.error, OSError)
    assert len(calls) == 1
    assert (len(rig.allocator.open), rig.tally.measured.write_boxes) == (3, 0)
    assert rig.tally.idle
