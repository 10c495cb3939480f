"""Running read jobs without a plan: the calling thread and some others take jobs until none is left."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock

from reblock.engine.memory.arena import Arena
from reblock.engine.memory.scratch import EncodedBufferPool, ScratchBuffers
from reblock.engine.pipeline.readers.protocol import ReadJob
from reblock.engine.pipeline.threads import Threads


def run_jobs(jobs: Iterator[ReadJob], threads: int, arena: Arena, pool: EncodedBufferPool | None) -> None:
    """Carry out all jobs with that many threads, the calling one included; raises the first error of any of them."""
    lock, errors = Lock(), list[BaseException]()

    def work(scratch: ScratchBuffers) -> None:
        try:
            while not errors:
                with lock:
                    job = next(jobs, None)
                if job is None:
                    return
                for _ in job(scratch):
                    if errors:
                        return
                scratch.leave()
        except BaseException as error:  # noqa: BLE001 - raised by the calling thread
            errors.append(error)
        finally:
            scratch.leave()

    if threads == 1:
        work(ScratchBuffers(arena, pool))
    else:
        with Threads(threads - 1, "reblock-load", arena, pool) as others:
            for _ in range(threads - 1):
                others.submit(work)
            work(ScratchBuffers(arena, pool))
    if errors:
        raise errors[0]
