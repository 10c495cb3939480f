"""Cancelling: a cancelled run does not wait for a failing store, and reports an interruption instead of the failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from reblock.errors import DiskError, Interrupted
from reblock.storage.media.patience import waiting


@contextmanager
def cancellable(cancelled: Callable[[], bool]) -> Iterator[None]:
    """While inside, a run can be cancelled, also while requests to a store are repeated."""
    with waiting(cancelled), interruptions(cancelled):
        yield


@contextmanager
def interruptions(cancelled: Callable[[], bool]) -> Iterator[None]:
    """A failed request becomes Interrupted if the run is cancelled: it would have been repeated."""
    try:
        yield
    except DiskError as error:
        if "://" not in error.path or not cancelled():
            raise
        raise Interrupted("the same command resumes") from error
