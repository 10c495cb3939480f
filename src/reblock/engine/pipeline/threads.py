"""Threads: a pool whose threads have scratch memory of their own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import local
from typing import Self

from reblock.engine.memory.arena import Arena
from reblock.engine.memory.scratch import EncodedBufferPool, ScratchBuffers


class Threads:
    """A pool of threads; each calls its jobs with its own scratch memory."""

    def __init__(self, count: int, name: str, arena: Arena, encoded: EncodedBufferPool | None = None) -> None:
        self._local = local()
        # Not a method: the pool would keep this object alive, and with it the scratch memory.
        self._pool = ThreadPoolExecutor(count, name, _begin, (self._local, arena, encoded))

    def submit(self, job: Callable[..., None], *arguments: object) -> None:
        """Have a thread call `job(scratch, *arguments)`; the job handles its own errors."""
        self._pool.submit(_run, self._local, job, arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=True)


def _begin(own: local, arena: Arena, encoded: EncodedBufferPool | None) -> None:
    own.scratch = ScratchBuffers(arena, encoded)


def _run(own: local, job: Callable[..., None], arguments: tuple[object, ...]) -> None:
    job(own.scratch, *arguments)
