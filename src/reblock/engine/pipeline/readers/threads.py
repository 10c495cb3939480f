"""Reader threads: carry out read jobs, and pass on the write boxes that they complete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Semaphore
from typing import Self

from reblock.engine.memory.budget import PATIENCE_SECONDS
from reblock.engine.memory.scratch import ScratchBuffers
from reblock.engine.pipeline.boxes import Buffer
from reblock.engine.pipeline.readers.protocol import ReadJob
from reblock.engine.pipeline.stop import Stop
from reblock.engine.pipeline.tally import Tally
from reblock.engine.pipeline.threads import Threads


class Readers:
    """Threads that read, decode and scatter."""

    def __init__(
        self, threads: Threads, queued: int, tally: Tally, stop: Stop, hand_on: Callable[[Sequence[Buffer]], None]
    ) -> None:
        """At most `queued` jobs are waiting or running; `hand_on` gets complete write boxes."""
        self._threads, self._queue = threads, Semaphore(queued)
        self._tally, self._stop, self._hand_on = tally, stop, hand_on

    def submit(self, job: ReadJob) -> None:
        """Queue a job, as soon as the queue has room; Stopped if the run stops before that."""
        while not self._queue.acquire(timeout=PATIENCE_SECONDS):
            self._stop.check()
        self._stop.check()
        self._tally.begin()
        self._threads.submit(self._run, job)

    def _run(self, scratch: ScratchBuffers, job: ReadJob) -> None:
        try:
            if not self._stop():
                for arrived in job(scratch):
                    self._tally.arrived(arrived)
                    self._hand_on(arrived.complete)
                    if self._stop():
                        break
        except BaseException as error:  # noqa: BLE001 - raised by the dispatcher's thread
            self._stop.fail(error)
        finally:
            scratch.leave()
            self._tally.end()
            self._queue.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self._threads.__exit__(*reason)
