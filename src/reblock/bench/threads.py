"""Threads against the clock: how much several threads do together in a few seconds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from time import perf_counter


def run_threads(jobs: Sequence[Iterable[int]], seconds: float = math.inf) -> tuple[int, float]:
    """Drain each iterator in its own thread until all end or time is up; returns the sum of items and the seconds."""
    stop = Event()
    began = perf_counter()

    def drain(job: Iterable[int]) -> int:
        done = 0
        for amount in job:
            done += amount
            if stop.is_set() or perf_counter() - began > seconds:
                break
        return done

    with ThreadPoolExecutor(len(jobs), "reblock-bench") as pool:
        futures = [pool.submit(drain, job) for job in jobs]
        try:
            done = sum(future.result() for future in futures)
        except BaseException:
            stop.set()
            raise
        elapsed = perf_counter() - began
    return done, max(elapsed, 1e-9)
