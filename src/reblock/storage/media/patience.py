"""Patience with servers: a cancelled run repeats no failing request, and knows which request delays its end.

Requests are sent by many threads, far from the code that cancels a run. So the question whether the run is still
wanted is kept here, for the whole process: while several runs are active, one that is wanted is enough.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident

#: Seconds between two looks during a pause.
_SLICE_SECONDS = 0.1

_cancelled: list[Callable[[], bool]] = []
_sent: dict[int, float] = {}


@contextmanager
def waiting(cancelled: Callable[[], bool]) -> Iterator[None]:
    """While inside, requests that fail are repeated until `cancelled` returns true."""
    _cancelled.append(cancelled)
    try:
        yield
    finally:
        _cancelled.remove(cancelled)


def is_over() -> bool:
    """Whether all runs of this process are to stop."""
    return bool(_cancelled) and all(cancelled() for cancelled in list(_cancelled))


def pause(seconds: float) -> bool:
    """Wait; returns early, with False, if all runs are to stop."""
    end = time.monotonic() + seconds
    while not is_over():
        left = end - time.monotonic()
        if left <= 0:
            return True
        time.sleep(min(left, _SLICE_SECONDS))
    return False


@contextmanager
def sending() -> Iterator[None]:
    """Note that this thread waits for a response."""
    me = get_ident()
    _sent[me] = time.monotonic()
    try:
        yield
    finally:
        _sent.pop(me, None)


def is_stuck(since: float, seconds: float) -> bool:
    """Whether a request has waited for its response for some seconds after a moment."""
    sent = min(list(_sent.values()), default=None)
    return sent is not None and time.monotonic() - max(sent, since) > seconds
