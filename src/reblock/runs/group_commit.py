"""Group commits: finished write boxes become durable together, and only then does the journal name them.

::

    engine's writers          this thread, after a second or half of the most bytes or boxes
    ────────────────          ──────────────────────────────────────────────────────────────
    record(boxes)    →        sync the boxes' files and folders, or the store's own checkpoint
    settle(durable boxes) →   → is the source still the same?
    (waits while the          → append one line to the journal, and sync that
    most of them wait)

Boxes that worker processes have made durable wait here for their line only: however many shares come back in a second,
they are one line.

A crash costs at most the boxes that wait here and those in flight. A failed sync is final: its data may be lost even if
a second sync succeeds, so every later call fails with the same error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import attrgetter
from threading import Condition, Lock, Thread
from time import monotonic
from types import TracebackType
from typing import Self

import numpy as np

from reblock.model import Finished, Pass, Store, Sums, TransferMode
from reblock.model.workspace import TargetMedium
from reblock.runs.journal import Group, Integers, Journal, join_groups
from reblock.runs.numbers import Numbers
from reblock.storage.media.registry import target_medium

#: Called with the numbers of boxes that have become durable.
Listener = Callable[[Integers], None]
#: The most seconds that a finished box waits.
AGE_SECONDS = 1.0
#: The most boxes that wait, however small they are: each takes some memory.
MOST_BOXES = 1 << 14


@dataclass(frozen=True)
class Destination:
    """The destination of the boxes of one pass."""

    store: Store
    """The array."""
    root: str
    """Folder of the array; the names below it are also made durable."""
    alone: bool
    """Whether every box is a file of its own, whose times show whether it was changed."""
    others: tuple[str, ...] = ()
    """More such folders, on other disks."""

    @cached_property
    def medium(self) -> TargetMedium:
        """The medium of the folder."""
        return target_medium(self.root)

    def sync(self, paths: set[str]) -> None:
        """Make objects and their names durable, on each disk."""
        for root in self.others:
            here = {path for path in paths if path.startswith(f"{root}/")}
            if here:
                self.medium.sync_all(here, root)
            paths = paths - here
        if paths or not self.others:
            self.medium.sync_all(paths, self.root)


class GroupCommit:
    """The ledger of a run that keeps a journal; a context that ends with the last commit."""

    def __init__(
        self,
        journal: Journal,
        *,
        most_bytes: int,
        digest: bool = True,
        unchanged: Callable[[], None] = lambda: None,
        settle: Callable[[Sequence[str]], Integers] | None = None,
    ) -> None:
        """At most `most_bytes` wait. `unchanged` is called before each line and raises if the source has changed.

        `settle` reads the state of durable local files, if there is a faster way than that of the medium.
        """
        self.digest = digest
        self._journal = journal
        self._enough, self._most = max(most_bytes // 2, 1), max(most_bytes, 1)
        self._unchanged, self._settle = unchanged, settle
        self._sides: dict[int, Destination] = {}
        self._finished: dict[int, Numbers] = {}
        self._listeners: dict[int, Listener] = {}
        self._totals: dict[int, Sums] = {}
        self._state = Condition()
        self._writing = Lock()
        self._waiting: dict[int, list[Finished]] = {}
        self._settled: dict[int, list[Group]] = {}
        # Of the boxes that are not durable yet, including those in a commit.
        self._boxes = self._bytes = 0
        self._each: Counter[int] = Counter()
        self._since = 0.0
        self._urgent = self._closed = False
        self._error: BaseException | None = None
        self._thread = Thread(target=self._work, name="reblock-journal", daemon=True)
        self.commits = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._state:
            self._closed = True
            self._state.notify_all()
        self._thread.join()
        if error is None and self._error is not None:
            raise self._error

    # ---------------------------------------------------------------- what there is
    def watch(self, sweep: int, side: Destination) -> None:
        """Set the destination of the boxes of a pass, before any is recorded."""
        self._sides[sweep] = side

    def listen(self, sweep: int, listener: Listener) -> None:
        """Call a function with the numbers of boxes of a pass when they are durable; it must not take long."""
        self._listeners[sweep] = listener

    def trust(self, sweep: int, boxes: Numbers, sums: Sums) -> None:
        """Set the boxes of a pass that an earlier attempt has finished, and the sums of all their elements."""
        self._finished[sweep], self._totals[sweep] = boxes, sums

    def finished(self, sweep: int) -> Numbers:
        """Numbers of the write boxes of a pass that an earlier attempt has finished."""
        return self._finished.get(sweep, Numbers())

    def total(self, sweep: int) -> Sums:
        """Sums of all elements of a pass that were ever recorded."""
        with self._state:
            return self._totals.get(sweep, Sums())

    # ---------------------------------------------------------------- what is new
    def record(self, sweep: int, boxes: Sequence[Finished]) -> None:
        """Record written boxes of a pass; waits while too much is not durable yet. Ignores other passes."""
        if sweep not in self._sides or not boxes:
            return
        with self._state:
            self._raise()
            if not self._boxes:
                self._since = monotonic()
            self._waiting.setdefault(sweep, []).extend(boxes)
            self._boxes += len(boxes)
            self._each[sweep] += len(boxes)
            self._bytes += sum(box.bytes for box in boxes)
            self._totals[sweep] = Sums.of([self._totals.get(sweep, Sums()), *(box.sums for box in boxes)])
            # The thread sleeps until the first box arrives, and then until that box is old enough.
            if self._boxes == len(boxes) or self._is_enough():
                self._state.notify_all()
            while self._bytes > self._most or self._boxes > MOST_BOXES:
                self._state.wait()
                self._raise()

    def settle(
        self, sweep: int, boxes: Integers, sizes: Integers, sums: Integers, seen: Integers | None = None
    ) -> None:
        """Record boxes of a pass that others have made durable, with the state of their files. Ignores other passes.

        They count as done once the journal names them, with everything else that waits for that.
        """
        if sweep not in self._sides or not boxes.size:
            return
        group = Group(
            sweep,
            boxes,
            int(sizes.sum()),
            sums if self.digest else None,
            stamps(seen) if seen is not None and self._sides[sweep].alone else None,
        )
        total = Sums(*sums.sum(axis=0, dtype=np.uint64).tolist())
        with self._state:
            self._raise()
            if not self._boxes:
                self._since = monotonic()
            self._settled.setdefault(sweep, []).append(group)
            self._boxes += boxes.size
            self._each[sweep] += boxes.size
            self._totals[sweep] = self._totals.get(sweep, Sums()) + total
            self._state.notify_all()
            while self._boxes > MOST_BOXES:
                self._state.wait()
                self._raise()

    def flush(self, sweeps: Collection[int] | None = None) -> None:
        """Make everything durable that has been recorded so far, or all boxes of some passes, which end with these."""
        with self._state:
            self._urgent = self._is_waiting
            self._state.notify_all()
            while self._error is None and self._left(sweeps):
                self._state.wait()
            self._raise()

    def _left(self, sweeps: Collection[int] | None) -> int:
        """Boxes of some passes, or of all, that are not durable yet."""
        return self._boxes if sweeps is None else sum(self._each[sweep] for sweep in sweeps)

    def note(self, after: Collection[int] | None = None, /, **line: object) -> None:
        """Add a line of another kind, after everything that was recorded before of some passes, or of all."""
        self.flush(after)
        with self._writing:
            self._journal.append(line)

    def part(self, first: int) -> ArrayLedger:
        """The ledger of one array, whose passes are numbered from `first` on."""
        return ArrayLedger(self, first)

    def release(self, sweep: int) -> None:
        """Forget the destination of a pass whose array is finished."""
        self.flush([sweep])
        self._sides.pop(sweep, None)
        self._listeners.pop(sweep, None)

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    # ---------------------------------------------------------------- the thread
    def _work(self) -> None:
        while True:
            with self._state:
                while not self._due():
                    if self._closed and not self._is_waiting:
                        return
                    left = self._since + AGE_SECONDS - monotonic() if self._is_waiting else None
                    self._state.wait(left)
                group, self._waiting = self._waiting, {}
                settled, self._settled = self._settled, {}
                # The clock for newly waiting boxes starts now.
                self._since, self._urgent = monotonic(), False
            try:
                for sweep in sorted({*group, *settled}):
                    self._commit(sweep, group.get(sweep, ()), settled.get(sweep, ()))
            except BaseException as error:  # noqa: BLE001 - raised by the next `record` or `flush`
                with self._state:
                    self._error = error
                    self._state.notify_all()
                return
            with self._state:
                self._boxes -= sum(map(len, group.values()))
                self._each.subtract({sweep: len(boxes) for sweep, boxes in group.items()})
                for sweep, some in settled.items():
                    count = sum(one.boxes.size for one in some)
                    self._boxes -= count
                    self._each[sweep] -= count
                self._bytes -= sum(box.bytes for boxes in group.values() for box in boxes)
                self._state.notify_all()

    @property
    def _is_waiting(self) -> bool:
        return bool(self._waiting or self._settled)

    def _due(self) -> bool:
        if not self._is_waiting:
            return False
        late = monotonic() >= self._since + AGE_SECONDS
        return late or self._urgent or self._closed or self._is_enough()

    def _is_enough(self) -> bool:
        return self._bytes >= self._enough or self._boxes >= MOST_BOXES // 2

    def _commit(self, sweep: int, boxes: Sequence[Finished], settled: Sequence[Group]) -> None:
        """Make boxes durable, and name them in one line with those that are durable already."""
        side = self._sides[sweep]
        if boxes:
            side.sync({box.path for box in boxes if box.path})
            if not all(box.path for box in boxes):
                side.store.checkpoint()
        self._unchanged()
        groups = [*settled, self._group(sweep, side, boxes)] if boxes else settled
        self._append(join_groups(groups))

    def _group(self, sweep: int, side: Destination, boxes: Sequence[Finished]) -> Group:
        """The line of boxes that are durable now."""
        medium = side.medium
        boxes = sorted(boxes, key=attrgetter("number"))
        settle = self._settle if self._settle is not None and medium.is_local else medium.settle
        return Group(
            sweep,
            np.array([box.number for box in boxes], np.uint64),
            sum(box.bytes for box in boxes),
            np.fromiter(chain.from_iterable(box.sums for box in boxes), np.uint64).reshape(-1, 2)
            if self.digest
            else None,
            stamps(settle([box.path for box in boxes])) if side.alone else None,
        )

    def _append(self, group: Group) -> None:
        with self._writing:
            self._journal.append(group.to_json())
            self.commits += 1
            if group.number in self._listeners:
                self._listeners[group.number](group.boxes)


@dataclass(frozen=True)
class ArrayLedger:
    """The ledger of one array of a run: its passes are numbered from 0."""

    whole: GroupCommit
    """The ledger of the run."""
    first: int
    """Number of the array's first pass in the run."""

    def watch(self, sweep: int, side: Destination) -> None:
        """As `GroupCommit.watch`."""
        self.whole.watch(self.first + sweep, side)

    def listen(self, sweep: int, listener: Listener) -> None:
        """As `GroupCommit.listen`."""
        self.whole.listen(self.first + sweep, listener)

    def trust(self, sweep: int, boxes: Numbers, sums: Sums) -> None:
        """As `GroupCommit.trust`."""
        self.whole.trust(self.first + sweep, boxes, sums)

    def finished(self, sweep: int) -> Numbers:
        """As `GroupCommit.finished`."""
        return self.whole.finished(self.first + sweep)

    def total(self, sweep: int) -> Sums:
        """As `GroupCommit.total`."""
        return self.whole.total(self.first + sweep)

    def record(self, sweep: int, boxes: Sequence[Finished]) -> None:
        """As `GroupCommit.record`."""
        self.whole.record(self.first + sweep, boxes)

    def settle(
        self, sweep: int, boxes: Integers, sizes: Integers, sums: Integers, seen: Integers | None = None
    ) -> None:
        """As `GroupCommit.settle`."""
        self.whole.settle(self.first + sweep, boxes, sizes, sums, seen)

    def forget(self, sweep: int) -> None:
        """Note that finished boxes of a pass no longer count."""
        self.whole.note(forget=[self.first + sweep])

    def drop(self, sweep: int) -> None:
        """Note that the array that a pass wrote has been read completely."""
        self.whole.note(drop=[self.first + sweep])


def destination_of(store: Store, sweep: Pass, root: str, others: tuple[str, ...] = ()) -> Destination:
    """The destination of the boxes of a pass; `others` are folders on more disks."""
    objects = store.layout.objects
    alone = store.writes is TransferMode.EXTENT and objects.count > 0 and sweep.writes == objects.clipped()
    if alone:
        first = (0,) * objects.ndim
        place = store.place(first)
        nexts = [(*first[:a], 1, *first[a + 1 :]) for a, count in enumerate(objects.counts) if count > 1]
        alone = (
            place.offset == len(store.preamble(first))
            and bool(nexts)
            and all(store.place(index).path != place.path for index in nexts)
        )
    return Destination(store, root, alone, others)


def stamps(seen: Integers) -> Integers:
    """The state of files, each mixed into one number; 0 = the file does not exist."""
    found = np.zeros(len(seen), np.uint64)
    for column in seen.T:
        found = (found ^ column) * np.uint64(0x9E3779B97F4A7C15)
        found ^= found >> np.uint64(32)
    return np.where(seen.any(1), found | np.uint64(1), np.uint64(0))
