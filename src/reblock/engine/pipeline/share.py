"""Shares: the tasks that a worker carries out in one go, and what it returns.

A worker is any process that sees source and target under the names that the caller uses. It carries out one share at a
time, with its own threads and within its own budget, whatever the number of threads that call `perform`.

A share may be carried out twice, even at the same time: two tasks only ever write disjoint bytes, and the same task
always writes the same ones. A worker stops when its run does (`tether`), and returns the boxes that it has finished.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from itertools import starmap
from threading import Lock, Timer, current_thread
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reblock.engine import native
from reblock.engine.memory.budget import SpareMemory
from reblock.engine.pipeline.chain import ScratchArrays, run_tasks
from reblock.engine.pipeline.execute import execute
from reblock.engine.pipeline.tether import End, Tether
from reblock.engine.report import Measured
from reblock.engine.source_state import SourceState
from reblock.engine.view import View
from reblock.engine.watch import Cancelled, Watch
from reblock.errors import ReblockError, StorageError, UsageError
from reblock.model import Finished, Plan, Store, Sums

#: Where Linux keeps an ID of the present boot: processes with the same ID share a page cache.
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
#: A process carries out one share at a time, because each may take the whole budget.
_ALONE = Lock()
#: How long memory is kept for the next share of the same pass.
_KEEP_SECONDS = 2.0

Integers = npt.NDArray[np.uint64]


class Host(NamedTuple):
    """Where a process runs."""

    host: str
    """Name of the machine."""
    boot: str
    """The same for all processes whose writes this one can make durable; "" = none."""
    version: str
    """Version of reblock."""


@cache
def this_host() -> Host:
    """Where this process runs."""
    boot = ""
    with suppress(OSError), open(_BOOT_ID, encoding="ascii") as file:
        boot = file.read().strip()
    # Loaded here: it takes 30 ms, and only crews need it.
    metadata = import_module("importlib.metadata")
    return Host(os.uname().nodename, boot, metadata.version("reblock"))


@dataclass(frozen=True)
class Site:
    """The array that a pass writes, as workers reach it."""

    store: Store
    """The array."""
    root: str
    """Its folder."""
    alone: bool
    """Whether every write box is its own file, whose state is to be returned."""
    fence: str | None = None
    """A file that exists as long as workers may write; None = there is none."""


@dataclass(frozen=True)
class Share:
    """Some tasks of a pass, and everything that a worker needs for them."""

    plan: Plan
    """The plan."""
    number: int
    """Number of the pass; all passes if the plan interleaves them."""
    view: View
    """What it reads."""
    place: Site
    """What it writes."""
    identity: int | None
    """Identity of the folder that it writes in; None = unknown."""
    tasks: tuple[int, int]
    """Numbers of the tasks, in C order: the first, and the one after the last."""
    finished: frozenset[int]
    """Write boxes of these tasks that are finished already."""
    digest: bool
    """Whether to take digest sums."""
    source: SourceState | None
    """State of the source at the start of the run."""
    scratch: ScratchArrays | None
    """Makes the intermediate arrays of interleaved passes."""
    caller: Host
    """Where the caller runs."""
    run: str
    """The name of the run, by which its workers are told to stop."""
    leaves: bool = False
    """Whether it leaves its memory to another share of the pass."""

    @property
    def name(self) -> str:
        """The name of the pass in dashboards."""
        count = len(self.plan.passes)
        return "passes" if self.plan.interleaved and count > 1 else f"pass {self.number + 1} of {count}"


@dataclass(frozen=True)
class Delivery:
    """What a worker returns: columns with one row for each write box that it has finished."""

    numbers: Integers
    """Numbers of the boxes."""
    sizes: Integers
    """Their logical bytes."""
    sums: Integers
    """Their two digest sums."""
    paths: tuple[str, ...] | None
    """Their files, which the caller makes durable; None = they are durable."""
    seen: Integers | None
    """The state of their files, if they are durable and each box has its own file."""
    measured: list[Measured] = field(default_factory=list)
    """What was measured in each pass that was carried out."""
    halted: str = ""
    """The machine of a worker that was told to stop before all boxes of the share were finished; "" = they are."""

    def boxes(self) -> list[Finished]:
        """The boxes that the caller makes durable."""
        sums = starmap(Sums, self.sums.tolist())
        return list(
            map(Finished, self.numbers.tolist(), self.paths or (), self.sizes.tolist(), sums),
        )


class _ShareLedger:
    """The ledger of a worker: it keeps what is finished until it is delivered."""

    def __init__(self, finished: frozenset[int], last: int) -> None:
        self._finished, self._last = finished, last
        self.boxes: list[Finished] = []

    def finished(self, sweep: int) -> frozenset[int]:
        return self._finished if sweep == self._last else frozenset()

    def record(self, sweep: int, boxes: Sequence[Finished]) -> None:
        # Intermediate arrays of interleaved passes live only as long as their task.
        if sweep == self._last:
            self.boxes.extend(boxes)


class _Keeping:
    """Memory for the next share of a run; it is returned to the system soon if there is none."""

    def __init__(self) -> None:
        self._run = ""
        self._spare = SpareMemory()
        self._timer: Timer | None = None

    @contextmanager
    def of(self, share: Share) -> Iterator[SpareMemory]:
        """The memory that shares of the same run have left; only one share uses it at a time."""
        if self._timer is not None:
            self._timer.cancel()
        if self._run != share.run:
            self._spare.clear()
        self._run = share.run
        try:
            yield self._spare
        finally:
            if share.leaves:
                self._timer = Timer(_KEEP_SECONDS, self._forget)
                self._timer.daemon = True
                self._timer.start()
            else:
                self._spare.clear()

    def _forget(self) -> None:
        with _ALONE:
            # A share that began while this was waiting has cancelled it too late.
            if self._timer is current_thread():
                self._spare.clear()


_KEEPING = _Keeping()


#: A context for the time in which a share is carried out; its argument tells whether to stop.
Around = Callable[[Cancelled], AbstractContextManager[None]]


def no_context(_cancelled: Cancelled) -> AbstractContextManager[None]:
    """The context that does nothing."""
    return nullcontext()


def perform(share: Share, around: Around = no_context) -> Delivery:
    """Carry out a share, in a worker."""
    here = this_host()
    if here.version != share.caller.version:
        raise UsageError(
            f"a worker on {here.host} has reblock {here.version}, the run began with {share.caller.version}"
        )
    with _ALONE, _no_collection(), _KEEPING.of(share) as spare:
        return _perform(share, here, spare, around)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Collect no garbage on Python 3.11, which deadlocks if that happens while Dask inspects its threads.

    A collection inside sys._current_frames waits for a thread that is being started, which waits for the collection
    (python/cpython#106883). The engine starts many threads, and its memory does not depend on the collector.
    """
    if sys.version_info >= (3, 12) or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _perform(share: Share, here: Host, spare: SpareMemory, around: Around) -> Delivery:
    place = share.place
    medium = place.store.medium
    tether = Tether(medium, place.root, share.identity, place.fence, share.run)
    if tether() and tether.end is End.GONE:
        raise UsageError(
            f"a worker on {here.host} does not see {place.root}: the run is over, or the folder is not shared"
        )
    ledger = _ShareLedger(share.finished, share.number)
    watch = Watch(None, tether, ledger=ledger, digest=share.digest, source=share.source, spare=spare)
    halted = ""
    try:
        with around(tether):
            measured = _execute(share, watch)
    except KeyboardInterrupt:
        if tether.end is End.GONE:
            raise StorageError(f"{place.root} is gone: the run is over") from None
        halted, measured = here.host, [Measured() for _ in (share.plan.passes if share.plan.interleaved else (0,))]
    boxes = sorted(ledger.boxes)
    paths: tuple[str, ...] | None = tuple(box.path for box in boxes)
    seen = None
    if not (here.boot and here.boot == share.caller.boot and medium.is_local):
        medium.sync_all({path for path in paths or () if path}, place.root)
        if place.alone:
            settle = native.settle if medium.is_local and native.library() else medium.settle  # type: ignore[attr-defined]
            seen = settle(list(paths or ()))
        paths = None
    return Delivery(
        np.array([box.number for box in boxes], np.uint64),
        np.array([box.bytes for box in boxes], np.uint64),
        np.array([box.sums for box in boxes], np.uint64).reshape(-1, 2),
        paths,
        seen,
        measured,
        halted,
    )


def _execute(share: Share, watch: Watch) -> list[Measured]:
    plan, number = share.plan, share.number
    grid = plan.passes[number].tasks
    tasks = [grid.index(task) for task in range(*share.tasks)]
    if not plan.interleaved:
        done = execute(plan.passes[number], share.view, share.place.store, watch=watch, number=number, tasks=tasks)
        return [replace(done, resumed_boxes=0)]
    if share.scratch is None:
        raise ReblockError("a share of interleaved passes has no scratch")
    measured = [Measured() for _ in plan.passes]
    for task in tasks:
        run_tasks(plan, share.view, share.place.store, share.scratch, measured, [task], watch)
    return [replace(one, resumed_boxes=0) for one in measured]
