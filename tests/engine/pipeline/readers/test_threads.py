"""Reader threads: errors stop the run, the queue is bounded, and buffers for stored bytes go back after each job."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import pytest

from reblock.engine.memory.arena import Arena
from reblock.engine.memory.budget import Stopped
from reblock.engine.memory.scratch import STORED, EncodedBufferPool
from reblock.engine.pipeline.readers.protocol import Arrived
from reblock.engine.pipeline.readers.threads import Readers
from reblock.engine.pipeline.stop import Stop
from reblock.engine.pipeline.tally import Tally
from reblock.engine.pipeline.threads import Threads
from reblock.engine.report import Times
from reblock.engine.watch import Watch
from reblock.model import Scratch, Traffic


class Crew:
    """Two threads that read, with a queue of three."""

    def __init__(self, berths: EncodedBufferPool | None = None) -> None:
        self.told: list[int] = []
        self.cancelled = threading.Event()
        self.stop = Stop(self.cancelled.is_set, lambda: None)
        self.tally = Tally(Watch(progress=lambda _, arrived, __: self.told.append(arrived)), 0, 0)
        self.threads = Threads(2, "test", Arena(), berths)
        self.readers = Readers(self.threads, 3, self.tally, self.stop, lambda _: None)


def units(count: int, _: Scratch) -> Iterator[Arrived]:
    for _unit in range(count):
        yield Arrived(5, (), Times(read=1.0), Traffic(1, 2, 3, 4), missing=1)


def test_arrivals_are_counted_and_told() -> None:
    crew = Crew()
    with crew.readers:
        for _ in range(4):
            crew.readers.submit(partial(units, 3))
    measured = crew.tally.measured
    assert (measured.source, measured.missing_chunks) == (Traffic(12, 24, 36, 48), 12)
    assert (measured.held_elements, measured.times.read) == (60, 12.0)
    assert crew.told == [5] * 12
    assert crew.tally.idle


def test_the_first_error_stops_everything() -> None:
    crew, begun = Crew(), []

    def fail(_: Scratch) -> Iterator[Arrived]:
        begun.append(1)
        yield Arrived(1, (), Times())
        raise ValueError("broken")

    def submit_all() -> None:
        for _ in range(1000):
            crew.readers.submit(fail)

    with crew.readers, pytest.raises(Stopped):
        submit_all()
    assert isinstance(crew.stop.error, ValueError)
    # The queue of three, and jobs that two threads had begun.
    assert len(begun) <= 5
    assert crew.tally.idle


def test_a_job_ends_early_when_the_run_is_cancelled() -> None:
    crew, read = Crew(), []

    def cancel(_: Scratch) -> Iterator[Arrived]:
        for number in range(9):
            read.append(number)
            if number == 2:
                crew.cancelled.set()
            yield Arrived(1, (), Times())

    with crew.readers:
        crew.readers.submit(cancel)
    assert read == [0, 1, 2]
    assert crew.stop.cancelled


def test_the_queue_is_bounded() -> None:
    crew, gate = Crew(), threading.Event()

    def wait(_: Scratch) -> Iterator[Arrived]:
        gate.wait(20)
        return iter(())

    def submit_all() -> None:
        for number in range(6):
            crew.readers.submit(wait)
            submitted.append(number)

    submitted: list[int] = []
    with crew.readers:
        filler = threading.Thread(target=submit_all)
        filler.start()
        filler.join(0.5)
        assert submitted == [0, 1, 2]
        gate.set()
        filler.join(20)
    assert len(submitted) == 6


def test_one_buffer_for_stored_bytes_serves_all_jobs() -> None:
    """A job that kept the buffer would make the next one wait forever."""
    crew, sizes = Crew(EncodedBufferPool([100_000], Arena())), []

    def read(scratch: Scratch) -> Iterator[Arrived]:
        sizes.append(scratch(STORED, 1000).size)
        yield Arrived(1, (), Times())

    with crew.readers:
        for _ in range(9):
            crew.readers.submit(read)
    assert sizes == [100_000] * 9
