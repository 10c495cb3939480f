"""Settling: make written arrays durable and close them, if possible while the next ones are made.

The memory of an array is free when its last box is written; only the disk is still busy with it ::

    making      │ array 0 ──────│ array 1 ──────│ array 2 ──────│
    settling                    │ sync, commit ─│ sync, commit ─│ sync, commit │
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Lock
from time import perf_counter
from types import TracebackType
from typing import Self

from reblock.engine import digest
from reblock.engine.memory.budget import SpareMemory
from reblock.engine.watch import Cancelled
from reblock.errors import ReblockError
from reblock.model import Record, Store
from reblock.runs.group_commit import GroupCommit
from reblock.runs.journal import JournalPart
from reblock.runs.source import Source
from reblock.runs.work import Work

#: Arrays that settle at once, and the most that wait for it: small arrays take longer to sync than to write.
_THREADS, _MOST = 4, 16


class Settling:
    """Settles the arrays of a run; a context that ends with the last of them."""

    def __init__(
        self, ledger: GroupCommit, record_of: Callable[[Work], Record], cancelled: Cancelled, *, digest: bool
    ) -> None:
        """`record_of` returns the record that is stored with an array."""
        self._ledger, self._record_of, self._cancelled, self._digest = ledger, record_of, cancelled, digest
        self._pool = ThreadPoolExecutor(_THREADS, "reblock-settle")
        self._begun: deque[Future[None]] = deque()
        self.budget = Lock()
        """Held by whatever takes the memory budget."""
        self.spare = SpareMemory()
        """Memory that arrays leave to each other; it is in use while the budget is held."""

    def begin(self, work: Work, store: Store, source: Source, journal: JournalPart) -> None:
        """Settle an array while others are made; waits while many settle, and raises the error of one that failed."""
        while self._begun and (self._begun[0].done() or len(self._begun) >= _MOST):
            self._begun.popleft().result()
        self._begun.append(self._pool.submit(self.settle, work, store, source, journal))

    def wait(self) -> None:
        """Wait for all arrays, and return their memory; raises the error of the first that failed."""
        self.spare.clear()
        while self._begun:
            self._begun.popleft().result()

    def settle(self, work: Work, store: Store, source: Source, journal: JournalPart) -> None:
        """Make the last boxes durable, see whether the source is still the same, and close the array."""
        passes = range(work.first, work.first + work.last + 1)
        try:
            self._look(work, store, source, journal, passes)
            if self._digest:
                total = self._ledger.part(work.first).total(work.last)
                work.sums = digest.text(total, store.layout.dtype, store.layout.shape)
            store.commit(self._record_of(work))
        except BaseException:
            with suppress(ReblockError):
                store.abort()
            raise
        self._ledger.note(passes, done=work.name, digest=work.sums)
        for number in passes:
            self._ledger.release(number)

    def _look(self, work: Work, store: Store, source: Source, journal: JournalPart, passes: range) -> None:
        began, started = journal.journal.header["sources"][work.name], perf_counter()
        with ThreadPoolExecutor(1, "reblock-last-look") as aside:
            # All reads are done. The last writes become durable meanwhile.
            looked = aside.submit(source.look_again, began)
            self._ledger.flush(passes)
        # A pass ends when its output is durable.
        work.measured[-1].seconds += perf_counter() - started
        sweep, memory, now = work.plan.passes[work.last], work.plan.memory_bytes, looked.result()
        settle = partial(source.settle, now, began, journal, sweep, work.last, store.layout, memory, self._cancelled)
        if not source.is_suspect(now, began):
            work.notes += settle()
            return
        with self.budget:
            self.spare.clear()
            work.notes += settle()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True)
