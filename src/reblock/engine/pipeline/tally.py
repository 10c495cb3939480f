"""Tally: the counters of a running pass, shared by all its threads under one lock."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from reblock.engine.pipeline.boxes import Buffer
from reblock.engine.pipeline.readers.protocol import Arrived
from reblock.engine.report import Measured, Times
from reblock.engine.watch import Watch
from reblock.model import Finished, Sums, Traffic


class Tally:
    """Counts what a pass has done, and the jobs that are under way."""

    def __init__(self, watch: Watch, number: int, resumed_boxes: int) -> None:
        """Progress is reported to the watch, with the number of the pass."""
        self.measured = Measured(resumed_boxes=resumed_boxes)
        """The counters so far."""
        self._watch, self._number = watch, number
        self._lock = Lock()
        self._jobs = self._held = 0

    @property
    def idle(self) -> bool:
        """Whether no job is under way that could still give memory back."""
        return not self._jobs

    def begin(self) -> None:
        """Count a job that is queued. A job that makes another one counts it before it ends itself."""
        with self._lock:
            self._jobs += 1

    def end(self) -> None:
        """Count a job that has ended."""
        with self._lock:
            self._jobs -= 1

    def task_done(self) -> None:
        """Count a task whose reads are all dispatched."""
        self.measured.tasks += 1

    def arrived(self, arrived: Arrived) -> None:
        """Count elements that have been scattered."""
        measured = self.measured
        with self._lock:
            self._held += arrived.elements
            measured.held_elements = max(measured.held_elements, self._held)
            # A complete box no longer counts as held: it only waits for the disk.
            self._held -= sum(buffer.elements for buffer in arrived.complete)
            measured.source += arrived.traffic
            measured.missing_chunks += arrived.missing
            measured.times.add(arrived.times)
        if arrived.elements:
            self._watch.tell(self._number, arrived.elements, 0)

    def encoded(self, times: Times) -> None:
        """Count the time of encoding."""
        with self._lock:
            self.measured.times.add(times)

    def written(self, buffers: Sequence[Buffer], finished: Sequence[Finished], traffic: Traffic, times: Times) -> None:
        """Count write boxes that are written."""
        measured = self.measured
        with self._lock:
            measured.sums += Sums.of(one.sums for one in finished)
            measured.target += traffic
            measured.write_boxes += len(buffers)
            measured.times.add(times)
        self._watch.tell(self._number, 0, sum(buffer.elements for buffer in buffers))
