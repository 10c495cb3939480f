"""Writer threads: encode complete write boxes, write them, record them in the ledger, and give their memory back."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event
from typing import Self

from reblock.engine.memory.allocator import BufferAllocator
from reblock.engine.memory.scratch import ScratchBuffers
from reblock.engine.pipeline.boxes import Buffer
from reblock.engine.pipeline.stop import Stop
from reblock.engine.pipeline.tally import Tally
from reblock.engine.pipeline.threads import Threads
from reblock.engine.pipeline.writers.target import TargetWriter
from reblock.engine.report import Times
from reblock.model import Finished, Ledger

#: The most write boxes of one job, and the most bytes that they have together.
_MAX_BOXES, _MAX_BYTES = 64, 2 << 20
#: Seconds between two checks for cancellation while the last boxes are written.
_PATIENCE_SECONDS = 0.01


class Writers:
    """Threads that encode, and threads that write.

    There are at most as many encoding threads as cores: more would evict each other's tables from the caches, and each
    keeps scratch memory. More writing threads than cores keep the device busy.
    """

    def __init__(
        self,
        encoders: Threads,
        writers: Threads,
        target: TargetWriter,
        allocator: BufferAllocator,
        tally: Tally,
        stop: Stop,
        ledger: Ledger | None,
        number: int,
    ) -> None:
        """The ledger records finished boxes, with the number of the pass."""
        self._encoders, self._writers, self._target, self._allocator = encoders, writers, target, allocator
        self._tally, self._stop, self._ledger, self._number = tally, stop, ledger, number
        self._nothing_open = Event()

    def take(self, complete: Sequence[Buffer]) -> None:
        """Queue complete write boxes, several small ones together."""
        if not complete:
            return
        step = max(min(_MAX_BYTES // max(complete[0].memory.flat.size, 1), _MAX_BOXES), 1)
        for start in range(0, len(complete), step):
            self._tally.begin()
            some = complete[start : start + step]
            if self._target.encodes:
                self._encoders.submit(self._encode, some)
            else:
                self._writers.submit(self._write, some)

    def settle(self) -> None:
        """Wait for the last write, unless the run is cancelled: leaving the pools would wait in any case."""
        self._nothing_open.clear()
        while self._allocator.open and not self._stop():
            self._nothing_open.wait(_PATIENCE_SECONDS)

    def _encode(self, scratch: ScratchBuffers, buffers: Sequence[Buffer]) -> None:
        """Encode boxes, and queue them for writing; boxes whose result lies in scratch memory are written at once."""
        times, own, encoded = Times(), False, False
        try:
            if not self._stop():
                own, encoded = self._target.encode(buffers, times, scratch), True
                self._tally.encoded(times)
        except BaseException as error:  # noqa: BLE001 - raised by the dispatcher's thread
            self._stop.fail(error)
        if not encoded:
            self._tally.end()
        elif own and not self._stop():
            self._writers.submit(self._write, buffers)
        else:
            self._write(scratch, buffers, in_flight=True)

    def _write(self, _: ScratchBuffers, buffers: Sequence[Buffer], *, in_flight: bool = False) -> None:
        """Write boxes. A run that is cancelled still writes those that were being encoded."""
        times = Times()
        try:
            if self._stop() and (self._stop.failed or not in_flight):
                return
            traffic, finished = self._target.write(buffers, times)
            self._record(finished)
            self._allocator.free(buffers)
            self._tally.written(buffers, finished, traffic, times)
            if not self._allocator.open:
                self._nothing_open.set()
        except BaseException as error:  # noqa: BLE001 - raised by the dispatcher's thread
            self._stop.fail(error)
        finally:
            self._tally.end()

    def _record(self, finished: list[Finished]) -> None:
        if self._ledger is not None:
            self._ledger.record(self._number, finished)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        # Encoders end first, because they feed the writers.
        self._encoders.__exit__(*reason)
        self._writers.__exit__(*reason)
