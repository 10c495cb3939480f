"""A crew: other processes carry out the tasks of a plan, here or on other machines.

::

    caller                                      worker, any process that sees source and target
    ──────                                      ───────────────────────────────────────────────
    pass → shares of tasks → executor      →    execute the tasks with its own threads and its own budget
    ledger.record(finished boxes, sums)    ←    make the boxes durable → which boxes, their sums, what was measured

A share may be carried out twice, because two tasks only ever write disjoint bytes and the same task always writes the
same ones. A worker that dies costs its share: it is submitted again, or the run stops and can be resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass, field, replace
from itertools import islice
from time import perf_counter

from reblock.engine.pipeline.chain import ScratchArrays
from reblock.engine.pipeline.execute import execute
from reblock.engine.report import Measured
from reblock.engine.source_state import SourceState
from reblock.engine.view import View
from reblock.engine.watch import Watch
from reblock.errors import StorageError, UsageError, option
from reblock.model import Finished, Index, Pass, Plan, Store, TransferMode

#: The most shares of a pass: schedulers remember each of them.
MAX_SHARES = 2000
#: Shares for each worker, so that a slow one does not keep the others waiting.
_SHARES_PER_WORKER = 4
#: Seconds that a share is to take at least, where there are enough tasks.
_LEAST_SECONDS = 1.0
#: How often a crew of our own is replaced after workers have died.
_MOST_RENEWALS = 5


@dataclass(frozen=True)
class Share:
    """Some tasks of a pass, and everything that a worker needs for them."""

    sweep: Pass
    """The pass."""
    number: int
    """Its number."""
    view: View
    """What it reads."""
    store: Store
    """What it writes, as the worker reaches it."""
    root: str
    """Folder of the array."""
    tasks: tuple[Index, ...]
    """The tasks."""
    finished: frozenset[int]
    """Write boxes of these tasks that are finished already."""
    digest: bool
    """Whether to take digest sums."""
    source: SourceState | None
    """State of the source at the start of the run."""


@dataclass
class Delivery:
    """What a worker returns."""

    boxes: list[Finished] = field(default_factory=list)
    """Write boxes that are durable."""
    measured: Measured = field(default_factory=Measured)
    """What was measured."""


class _ShareLedger:
    """The ledger of a worker: it keeps what is finished until it is delivered."""

    def __init__(self, finished: frozenset[int]) -> None:
        self._finished = finished
        self.boxes: list[Finished] = []

    def finished(self, sweep: int) -> frozenset[int]:  # noqa: ARG002 - a share has one pass
        return self._finished

    def record(self, sweep: int, boxes: Sequence[Finished]) -> None:  # noqa: ARG002 - a share has one pass
        self.boxes.extend(boxes)


def perform(share: Share) -> Delivery:
    """Carry out a share, in a worker."""
    ledger = _ShareLedger(share.finished)
    watch = Watch(None, ledger=ledger, digest=share.digest, source=share.source)
    measured = execute(share.sweep, share.view, share.store, watch=watch, number=share.number, tasks=share.tasks)
    share.store.medium.sync_all({box.path for box in ledger.boxes if box.path}, share.root)
    return Delivery(ledger.boxes, replace(measured, resumed_boxes=0))


@dataclass
class Crew:
    """Workers that carry out shares."""

    executor: Executor
    """Where shares are submitted."""
    workers: int
    """How many of them run at once."""
    renew: Callable[[], Executor] | None = None
    """Makes a new executor after a worker has died; None = that ends the run."""

    def check(self, plan: Plan, store: Store) -> None:
        """UsageError if other processes cannot carry out a plan."""
        if store.writes is not TransferMode.EXTENT:
            raise UsageError(
                f"only one process can write {store.format} with this codec: leave out {option('workers')} and "
                f"{option('cluster')}, or write zarr, or {option('codec', 'none')}"
            )
        if plan.interleaved:
            raise UsageError("this plan interleaves its passes, which only one process can do: give it more memory")

    def execute(
        self,
        plan: Plan,
        view: View,
        scratch: ScratchArrays,
        watch: Watch,
        *,
        seconds: Sequence[float],
        abroad: Callable[[int], tuple[Store, str]],
        home: Callable[[str], str],
    ) -> list[Measured]:
        """Carry out a plan; returns one measurement per pass, in the elapsed time of the whole crew.

        `seconds` are the predicted times of the passes. `abroad` gives the array that a pass writes as workers reach
        it, with its folder; `home` turns a path of theirs into one of ours.
        """
        measured = []
        last = len(plan.passes) - 1
        for number, sweep in enumerate(plan.passes):
            if number < last:
                scratch.make(number)
            there, root = abroad(number)
            began = perf_counter()
            of_pass = watch.of_pass(number)
            shares = self._shares(sweep, number, view, there, root, of_pass, seconds[number])
            measured.append(self._run(shares, sweep, number, of_pass, home))
            measured[-1].seconds = perf_counter() - began
            if number:
                scratch.drop(number - 1)
            view = View.whole(there, checked=view.checked)
        return measured

    def _shares(
        self, sweep: Pass, number: int, view: View, store: Store, root: str, watch: Watch, seconds: float
    ) -> Iterator[Share]:
        """Tasks in their order, some at a time; those that are finished are left out."""
        done = watch.ledger.finished(number) if watch.ledger else ()
        wanted = min(max(int(seconds / _LEAST_SECONDS), _SHARES_PER_WORKER * self.workers), MAX_SHARES)
        size = max(-(-sweep.tasks.count // wanted), 1)
        tasks = iter(sweep.tasks.indices())
        while some := tuple(islice(tasks, size)):
            boxes = _boxes(sweep, some) if done else frozenset[int]()
            finished = frozenset(box for box in boxes if box in done)
            if not done or len(finished) < len(boxes):
                yield Share(sweep, number, view, store, root, some, finished, watch.digest, watch.source)

    def _run(
        self, shares: Iterable[Share], sweep: Pass, number: int, watch: Watch, home: Callable[[str], str]
    ) -> Measured:
        measured, waiting, renewals = Measured(), dict[Future[Delivery], Share](), 0
        coming = iter(shares)
        again: list[Share] = []
        try:
            while True:
                while len(waiting) < 2 * self.workers and (share := again.pop() if again else next(coming, None)):
                    try:
                        waiting[self.executor.submit(perform, share)] = share
                    except BrokenExecutor:
                        again.append(share)
                        break
                if not waiting and not again:
                    return measured
                if watch.cancelled():
                    raise KeyboardInterrupt
                done, _ = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED) if waiting else (set(), None)
                broken = not waiting
                for future in done:
                    share = waiting.pop(future)
                    try:
                        self._take(future.result(), measured, sweep, number, watch, home)
                    except BrokenExecutor:
                        broken = True
                        again.append(share)
                if broken:
                    renewals += 1
                    if self.renew is None or renewals > _MOST_RENEWALS:
                        raise StorageError("a worker has died, and the others with it")
                    again += waiting.values()
                    waiting.clear()
                    self.executor = self.renew()
        finally:
            for future in waiting:
                future.cancel()
            # What is being written now must not meet the next attempt.
            wait(waiting, timeout=60)

    def _take(
        self,
        delivery: Delivery,
        measured: Measured,
        sweep: Pass,
        number: int,
        watch: Watch,
        home: Callable[[str], str],
    ) -> None:
        boxes = [box._replace(path=home(box.path)) for box in delivery.boxes]
        measured.add(delivery.measured)
        if watch.ledger is not None and boxes:
            watch.ledger.record(number, boxes)
        size = sum(sweep.writes.box(sweep.writes.index(box.number)).size for box in boxes)
        watch.tell(number, size, size)


def _boxes(sweep: Pass, tasks: Iterable[Index]) -> frozenset[int]:
    """Numbers of the write boxes of some tasks."""
    writes = sweep.writes
    return frozenset(writes.number(index) for task in tasks for index in writes.touching(sweep.tasks.box(task)))
