"""The dispatcher: walks the plan, takes memory in plan order, and hands read jobs to the readers.

Only the dispatcher takes memory for write boxes, and it takes it in the order in which the plan was priced. A job that
was dispatched never needs more memory to finish, so waiting for memory always ends, and the peak is the predicted one.

::

    task → read box → batch of units:    │ u0 │ u1 │ u2 │ u3 │ u4 │ u5 │
    write boxes that they touch first      A    B              C            memory for A and B, but not yet for C
    dispatched                           ├── one job ────────┤ wait ├──── the next job
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from reblock.engine.memory.allocator import BufferAllocator
from reblock.engine.pipeline.readers.protocol import Batch, Reading
from reblock.engine.pipeline.readers.threads import Readers
from reblock.engine.pipeline.scatter import Window
from reblock.engine.pipeline.stop import Stop
from reblock.engine.pipeline.tally import Tally
from reblock.model import Index, Pass


class Dispatcher:
    """Walks the tasks of one pass, in one thread."""

    def __init__(
        self, sweep: Pass, reading: Reading, allocator: BufferAllocator, readers: Readers, tally: Tally, stop: Stop
    ) -> None:
        self._sweep, self._reading, self._allocator = sweep, reading, allocator
        self._readers, self._tally, self._stop = readers, tally, stop
        self.done = False
        """Whether all tasks are dispatched."""

    def run(self, tasks: Iterable[Index]) -> None:
        """Dispatch the reads of some tasks; Stopped if the run stops before that."""
        sweep = self._sweep
        for task in tasks:
            for index in sweep.reads.touching(sweep.tasks.box(task), sweep.order):
                box = sweep.reads.box(index)
                window = self._allocator.window(box)
                for batch in self._reading.batches(box, window):
                    self._dispatch(batch, window)
            self._tally.task_done()
        self.done = True

    def _dispatch(self, batch: Batch, window: Window) -> None:
        start = allocated = 0
        while start < batch.units:
            stop = min(start + batch.step, batch.units)
            touched = bisect_left(batch.touches, stop, allocated)
            allocated = self._allocator.allocate(window, batch.positions, allocated, touched)
            while allocated < touched:
                # Memory becomes free only if the units that fill the boxes so far are being read.
                first = batch.touches[allocated]
                self._submit(batch, start, first)
                start = max(start, first)
                allocated = self._allocator.allocate(window, batch.positions, allocated, touched, wait=True)
            self._submit(batch, start, stop)
            start = stop

    def _submit(self, batch: Batch, start: int, stop: int) -> None:
        self._stop.check()
        job = batch.job(start, stop) if start < stop else None
        if job is not None:
            self._readers.submit(job)
