"""A crew: other processes, here or on other machines, carry out the tasks of a plan.

::

    caller                                      worker, any process that sees source and target
    ──────                                      ───────────────────────────────────────────────
    pass → shares of tasks → executor      →    execute the tasks with its own threads and its own budget
    take(finished boxes, sums, stamps)     ←    which boxes are finished, their sums, what was measured

A worker that dies costs its shares: they are submitted again, or the run stops and can be resumed. Only a few shares
for each worker are submitted at a time, and never more than `MAX_SHARES` in all, however many chunks there are.

A run that stops for any reason stops its workers too, and takes what they have finished: when `execute` returns, none
of them writes any more, except those that do not answer, which stop by themselves (`tether`).
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from time import perf_counter

from reblock.engine.pipeline.chain import ScratchArrays
from reblock.engine.pipeline.share import Around, Delivery, Share, Site, no_context, perform, this_host
from reblock.engine.pipeline.tether import halt
from reblock.engine.report import Measured
from reblock.engine.view import View
from reblock.engine.watch import Cancelled, Watch
from reblock.errors import DiskError, ReblockError, StorageError, UsageError, option
from reblock.model import Pass, Plan, Store, TransferMode
from reblock.model.shares import share_size

#: Shares of each worker submitted at a time: it carries out one, and the next one is already there.
_SUBMITTED = 2
#: How often each worker may be lost without another share being finished.
_MOST_LOSSES = 5
#: How long shares may take to end when the run stops: those of workers that are told so, and of others.
_HALT_SECONDS, _LAST_SECONDS = 10, 60
#: How long to wait for a share before the crew is checked.
_LOOK_SECONDS = 0.2


@dataclass
class Crew:
    """Workers that carry out shares."""

    executor: Executor
    """Where shares are submitted."""
    workers: int
    """How many of them run at once."""
    renew: Callable[[Cancelled], Executor] | None = None
    """The executor to use after a worker was lost, which may be the same; None = that ends the run."""
    cores: int | None = None
    """Cores of each worker; None = as planned."""
    has_lost: Callable[[], bool] = lambda: False
    """Whether the executor has silently replaced a lost worker."""
    check: Callable[[], None] = lambda: None
    """Called several times a second while shares are carried out; raises if no worker is left."""
    halt: Callable[[str], None] | None = None
    """Tells all workers to stop the shares of a run; None = they cannot be told."""
    lost: bool = False
    """Whether a worker was lost."""
    run: str = field(default_factory=lambda: secrets.token_hex(8))
    """The name of the run."""
    _unfence: Callable[[], None] | None = None
    _around: Around = no_context

    def may_repeat(self) -> bool:
        """Whether a task may have been carried out twice."""
        return self.lost or self.has_lost()

    def can_write(self, store: Store) -> bool:
        """Whether several processes can write an array."""
        return store.writes is TransferMode.EXTENT

    def refuse(self, store: Store) -> UsageError:
        """The error for an array that only one process can write."""
        return UsageError(
            f"only one process can write {store.format} with this codec: leave out {option('workers')} and "
            f"{option('cluster')}, or write zarr, or a file without compression ({option('codec', 'none')}, .nii)"
        )

    def execute(
        self,
        plan: Plan,
        view: View,
        scratch: ScratchArrays,
        watch: Watch,
        *,
        seconds: Sequence[float],
        place: Callable[[int], Site],
        take: Callable[[int, Delivery], None],
        unfence: Callable[[], None] | None,
        spare: ScratchArrays,
        around: Around = no_context,
    ) -> list[Measured]:
        """Carry out a plan; returns one measurement per pass, in the elapsed time of the whole crew.

        `seconds` are the predicted times of the passes. `place` gives the array that a pass writes as workers reach it,
        and `take` takes what they return. `unfence` removes the fence that they watch, if there is one. `spare` makes
        the intermediate arrays of interleaved passes in workers. They carry out each share inside `around`.
        """
        self._unfence, self._around = unfence, around
        last = len(plan.passes) - 1
        if plan.interleaved:
            began, there = perf_counter(), place(last)
            shares = self._shares(plan, last, view, there, watch, sum(seconds), spare)
            measured = self._run(shares, last, watch, take, count=last + 1)
            for one in measured:
                one.seconds = (perf_counter() - began) / len(measured)
            return measured
        measured = []
        for number in range(last + 1):
            if number < last:
                scratch.make(number)
            began, there, of_pass = perf_counter(), place(number), watch.of_pass(number)
            shares = self._shares(plan, number, view, there, of_pass, seconds[number], None)
            measured += self._run(shares, number, of_pass, take)
            measured[-1].seconds = perf_counter() - began
            if number:
                scratch.drop(number - 1)
            view = View.whole(there.store, checked=view.checked)
        return measured

    def _shares(
        self,
        plan: Plan,
        number: int,
        view: View,
        place: Site,
        watch: Watch,
        seconds: float,
        scratch: ScratchArrays | None,
    ) -> Iterator[Share]:
        """Tasks in their order, some at a time; those that are finished are left out."""
        sweep, passes = plan.passes[number], 1 if plan.interleaved else len(plan.passes)
        done = watch.ledger.finished(number) if watch.ledger else ()
        size = share_size(sweep.tasks.count, self.workers, seconds, passes)
        source = None if watch.source is None else watch.source.carried()
        identity, caller = _identity(place), this_host()
        for start in range(0, sweep.tasks.count, size):
            some = (start, min(start + size, sweep.tasks.count))
            boxes = _boxes(sweep, some) if done else frozenset[int]()
            finished = frozenset(box for box in boxes if box in done)
            if not done or len(finished) < len(boxes):
                yield Share(
                    *(plan, number, view, place, identity, some, finished),
                    *(watch.digest, source, scratch, caller, self.run),
                )

    def _run(
        self,
        shares: Iterable[Share],
        number: int,
        watch: Watch,
        take: Callable[[int, Delivery], None],
        *,
        count: int = 1,
    ) -> list[Measured]:
        measured, coming = [Measured() for _ in range(count)], _with_heirs(shares, self.workers)
        waiting = _Waiting()
        again: list[Share] = []
        losses = 0

        def collect(future: Future[Delivery]) -> str:
            delivery = future.result()
            for one, more in zip(measured, delivery.measured, strict=True):
                one.add(more)
            take(number, delivery)
            return delivery.halted

        try:
            while True:
                broken = not self._submit(waiting, again, coming)
                if not waiting.shares and not again and not broken:
                    return measured
                if watch.cancelled():
                    raise KeyboardInterrupt
                self.check()
                for future in waiting.some_done():
                    share, executor = waiting.shares.pop(future)
                    try:
                        halted = collect(future)
                        losses = 0
                    except (BrokenExecutor, CancelledError):
                        again.append(share)
                        losses += 1
                        broken = broken or executor is self.executor
                        continue
                    if halted:
                        stopped = StorageError(f"a worker on {halted} was stopped, or another process has taken over")
                        raise KeyboardInterrupt if watch.cancelled() else stopped
                if broken:
                    self.lost = True
                    losses += 1
                    if self.renew is None or losses > _MOST_LOSSES * _SUBMITTED * self.workers:
                        raise StorageError("a worker has died, and the others with it")
                    self.executor = self.renew(watch.cancelled)
        finally:
            if waiting.shares:
                self._drain(list(waiting.shares), collect)

    def _drain(self, futures: Sequence[Future[Delivery]], collect: Callable[[Future[Delivery]], str]) -> None:
        """Stop the workers, and take what they have finished.

        What is being written now must not meet the next attempt; what is finished need not be done again.
        """
        seconds = _LAST_SECONDS
        # Workers may be threads of this process.
        halt(self.run)
        if self.halt is None and self._unfence is None:
            for future in futures:
                future.cancel()
        else:
            # Shares that have not begun return at once.
            seconds = _HALT_SECONDS
            with suppress(ReblockError):
                if self._unfence is not None:
                    self._unfence()
            if self.halt is not None:
                self.halt(self.run)
        done, late = wait(futures, timeout=seconds)
        for future in late:
            future.cancel()
        for future in done:
            with suppress(ReblockError, BrokenExecutor, CancelledError):
                collect(future)

    def _submit(self, waiting: _Waiting, again: list[Share], coming: Iterator[Share]) -> bool:
        """Submit as many shares as the workers can use; False if the executor is broken."""
        while len(waiting.shares) < _SUBMITTED * self.workers and (
            share := again.pop() if again else next(coming, None)
        ):
            try:
                waiting.add(self.executor.submit(perform, share, self._around), share, self.executor)
            except BrokenExecutor:
                again.append(share)
                return False
        return True


def _with_heirs(shares: Iterable[Share], workers: int) -> Iterator[Share]:
    """The shares: each leaves its memory to another one, except the last of each worker, so that none keeps it."""
    held: deque[Share] = deque()
    for share in shares:
        held.append(share)
        if len(held) > workers:
            yield replace(held.popleft(), leaves=True)
    yield from held


class _Waiting:
    """Shares that are submitted; however many there are, one that is done is found at once."""

    def __init__(self) -> None:
        self.shares: dict[Future[Delivery], tuple[Share, Executor]] = {}
        self._done: SimpleQueue[Future[Delivery]] = SimpleQueue()

    def add(self, future: Future[Delivery], share: Share, executor: Executor) -> None:
        """Wait for a share."""
        self.shares[future] = share, executor
        future.add_done_callback(self._done.put)

    def some_done(self) -> Iterator[Future[Delivery]]:
        """Those that are done; waits a moment for the first."""
        with suppress(Empty):
            if self.shares:
                yield self._done.get(timeout=_LOOK_SECONDS)
            while True:
                yield self._done.get_nowait()


def _identity(place: Site) -> int | None:
    """The identity of the folder of an array, by which workers recognise it; None where folders have none."""
    medium = place.store.medium
    if not medium.is_local:
        return None
    try:
        return medium.status(place.root).identity
    except (FileNotFoundError, DiskError):
        return None


def _boxes(sweep: Pass, tasks: tuple[int, int]) -> frozenset[int]:
    """Numbers of the write boxes of some tasks."""
    writes, grid = sweep.writes, sweep.tasks
    return frozenset(
        writes.number(index) for task in range(*tasks) for index in writes.touching(grid.box(grid.index(task)))
    )
