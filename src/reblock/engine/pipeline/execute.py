"""The threaded engine: read, scatter and write overlap; memory is granted in plan order.

::

    dispatcher (plan order)      readers (depth threads)          encoders (coders)   writers (fewer than depth)
    ───────────────────────      ───────────────────────          ─────────────────   ──────────────────────────
    next pieces               →  pread → decode → scatter      →  encode in place  →  pwrite → ledger
    buffers they touch first     into the write boxes' buffers                        buffers back to the budget
    (waits for the budget)       last element in? ───────────────┘

The dispatcher alone takes memory, and takes it in the order in which the plan was priced. Whatever was dispatched
before can finish without new memory, so waiting for the budget always ends, and the peak is the one predicted.
Objects that are read in one piece go to readers many at a time, raw ones through the compiled loop; others one by one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock, Semaphore, local
from time import perf_counter, process_time, thread_time

import numpy as np

from reblock.engine.memory.allocator import MOST_CLAIMS, claims
from reblock.engine.memory.buffers import (
    PATIENCE_SECONDS,
    Berths,
    Coders,
    Leaving,
    Region,
    Staging,
    Stopped,
    berths,
    keep_freed_memory,
    return_freed_memory,
)
from reblock.engine.pipeline.readers import table as rows
from reblock.engine.pipeline.readers.encoded import Units
from reblock.engine.pipeline.readers.opener import Opener
from reblock.engine.pipeline.readers.python import (
    Decoding,
    Loaded,
    Piece,
    Shared,
    Visit,
    full_axes,
    read_raw,
    read_units,
    visits,
    without_scratch,
)
from reblock.engine.pipeline.readers.raw import Raw, compiled_moves
from reblock.engine.pipeline.readers.shards import Shards, shards
from reblock.engine.pipeline.scatter import Scatter, Window
from reblock.engine.pipeline.stop import Stop
from reblock.engine.pipeline.writers.target import Boxes, Buffer, Writer, fill_element, is_verbatim
from reblock.engine.reference import require_fill, visit_traffic
from reblock.engine.report import Measured, Times
from reblock.engine.view import View
from reblock.engine.watch import Watch
from reblock.errors import UsageError
from reblock.geometry import Box
from reblock.geometry.axis import Ints
from reblock.model import Execution, Index, Pass, Store, Sums, Way
from reblock.model.accounting import with_records

#: Raw pieces and complete boxes that go to a thread together: at most so many, and so many bytes.
_BATCH, _BATCH_BYTES = 64, 2 << 20


def execute(
    sweep: Pass,
    view: View,
    store: Store,
    *,
    watch: Watch | None = None,
    number: int = 0,
    tasks: Iterable[Index] | None = None,
) -> Measured:
    """Carry out one pass, or some of its tasks, as its `execution` says.

    The compiled loop reads from and writes to local media only.
    """
    how = sweep.execution
    if how is None:
        raise UsageError("this pass has no execution: the planner fills it in when it chooses a plan")
    keep_freed_memory()
    every = sweep.tasks.indices() if tasks is None else tasks
    measured = _Pipeline(sweep, how, view, store, watch or Watch(), number).run(every)
    return_freed_memory()
    return measured


class _Pipeline:
    def __init__(
        self,
        sweep: Pass,
        how: Execution,
        view: View,
        store: Store,
        watch: Watch,
        number: int,
    ) -> None:
        self._sweep, self._how, self._view, self._watch, self._number = sweep, how, view, watch, number
        self._source = Opener(view.store, watch.seen)
        self._full = full_axes(view.layout, sweep.read_access, sweep.coalesced)
        self._region = Region(how.flight_bytes)
        fill = fill_element(view.store)
        moves = compiled_moves(view, store, fill, watch)
        self._visits = rows.Visits(view, self._full)
        local_moves = moves if view.store.medium.is_local else None
        fits = rows.fits(sweep, view.layout, view.store.reads, how.piece_bytes)
        self._moves = local_moves if fits and view.layout.dtype == store.layout.dtype else None
        self._verbatim = is_verbatim(sweep, view, store)
        # Memory between the stages of a codec is counted for this many units only.
        self._decoding: Decoding = Coders(how.coders, self._region) if view.layout.decoding_bytes else without_scratch
        self._berths = berths(view.layout, how.units_in_flight, self._region)
        self._shards = shards(view, local_moves) if local_moves and view.layout.indexed else None
        boxes = Boxes(sweep.writes, sweep.write_access, store.layout)
        self._writer = Writer(store, boxes, moves)
        self._scatter = Scatter(boxes, fill, moves, digest=watch.digest)
        if local_moves is not None:
            self._pieces = (
                Units(view, local_moves, self._decoding, verbatim=self._verbatim)
                if view.layout.encoded
                else Raw(view, local_moves, self._source, how.batch_size)
            )
        self._queue = Semaphore(how.queued)
        # An empty tuple is asked much faster than an empty set of another kind.
        self._finished: Collection[int] = (watch.ledger.finished(number) if watch.ledger else ()) or ()
        self._claims = claims(how, self._scatter, self._writer, self._finished)
        self._buffers, self._open = self._claims.buffers, self._claims.open
        self._lock, self._serial = Lock(), Lock()
        self._thread, self._nothing_open = local(), Event()
        self._stop = Stop(watch.cancelled, self._buffers.stop)
        self._held = self._busy = 0
        self._dispatched = False
        self._buffers.idle = lambda: not self._stop() and not self._busy
        self.measured = Measured(resumed_boxes=len(self._finished))

    def run(self, tasks: Iterable[Index]) -> Measured:
        began, worked, own = perf_counter(), process_time(), (self._thread, self._region)
        # Left in reverse: the readers end before the writers they feed.
        with (
            ThreadPoolExecutor(self._how.writers, "reblock-write", _begin, own) as self._writers,
            ThreadPoolExecutor(self._how.coders, "reblock-encode", _begin, own) as self._encoders,
            ThreadPoolExecutor(self._how.readers, "reblock-read", _begin, (*own, self._berths)) as self._readers,
        ):
            try:
                self._dispatch(tasks)
                self._dispatched = True
                self._settle()
            except Stopped:
                pass
            except BaseException as error:  # noqa: BLE001 - raised again below, once the threads have ended
                self._stop.fail(error)
            finally:
                # Threads that end return theirs.
                return_freed_memory()
        # The next pass has the same budget.
        self._buffers.close()
        if self._stop.error is not None and not (self._stop.cancelled and self._is_complete()):
            raise self._stop.error
        self.measured.times.wait += self._claims.waited
        buffers = with_records(self._buffers.peak, self._sweep.writes.count, self._writer.store.layout)
        self.measured.peak_bytes = buffers + self._how.flight_bytes
        self.measured.seconds = perf_counter() - began
        self.measured.processor_seconds = process_time() - worked
        return self.measured

    # ---------------------------------------------------------------- dispatcher
    def _dispatch(self, tasks: Iterable[Index]) -> None:
        sweep = self._sweep
        for task in tasks:
            for index in sweep.reads.touching(sweep.tasks.box(task), sweep.order):
                box = sweep.reads.box(index)
                window = self._claims.window(box)
                if self._moves is not None:
                    self._start_rows(box, window)
                else:
                    for visit in visits(self._view, box, self._full, self._how.piece_bytes):
                        self._start(visit, window)
            self.measured.tasks += 1

    def _settle(self) -> None:
        """Wait for the last write, but not if the run is cancelled; the executors' own wait would."""
        self._nothing_open.clear()
        while self._open and not self._stop():
            self._nothing_open.wait(0.01)

    def _check(self) -> None:
        if self._stop():
            raise Stopped

    def _start(self, visit: Visit, window: Window) -> None:
        """Dispatch a visit that is made one by one."""
        self._check()
        if not visit.raw:
            # Every piece is claimed, wanted or not by an earlier one.
            if any([self._claims.claim_all(window, piece.wanted) for piece in visit.pieces]):  # noqa: C419
                self.measured.source += visit_traffic(visit)
                self._submit(self._read_units, visit, window)
            return
        shared, wanted = Shared(visit, self._source), False
        for piece in visit.pieces:
            if not self._claims.claim_all(window, piece.wanted):
                shared.done()
                continue
            if not wanted:
                wanted = True
                self.measured.source += visit_traffic(visit)
            self._submit(self._read_piece, shared, piece, window)

    def _start_rows(self, box: Box, window: Window) -> None:
        """Dispatch the visits of a read box to units, many at a time."""
        positions, touches = rows.first_touches(window, self._view.layout, box)
        claimed = 0
        if self._shards is not None:
            self._shards.visit()
        for some in self._visits(box):
            start, count = 0, len(some.table)
            step = max(min(_BATCH_BYTES // max(some.bytes, 1), _BATCH), 1)
            while start < count:
                stop = min(start + step, count)
                touched = bisect_left(touches, some.first + stop, claimed)
                claimed += self._claims.claim(window, positions[claimed : min(touched, claimed + MOST_CLAIMS)])
                while claimed < touched:
                    # What was claimed can only become free if what goes there is on its way.
                    first = touches[claimed] - some.first
                    self._send(some, start, first, window)
                    start = max(start, first)
                    some_more = positions[claimed : min(touched, claimed + MOST_CLAIMS)]
                    claimed += self._claims.claim(window, some_more, wait=True)
                self._send(some, start, stop, window)
                start = stop

    def _send(self, some: rows.Rows, start: int, stop: int, window: Window) -> None:
        self._check()
        chosen = np.arange(start, stop)
        if self._finished:
            wanted = (any(window.buffers[p] for p in window.touching(rows.wanted(some, at))) for at in chosen.tolist())
            chosen = chosen[list(wanted)]
        if chosen.size and self._shards is not None:
            self.measured.source += self._shards.traffic(some, chosen)
            self._submit(self._read_shards, self._shards, some, chosen, window)
        elif chosen.size:
            self._submit(self._read_rows, some, chosen, window)

    def _submit(self, job: Callable[..., None], *arguments: object) -> None:
        while not self._queue.acquire(timeout=PATIENCE_SECONDS):
            self._check()
        self._check()
        self._count(1)
        self._readers.submit(self._guard, job, *arguments)

    def _count(self, jobs: int) -> None:
        """Note jobs that are on their way, or no longer."""
        with self._lock:
            self._busy += jobs

    def _guard(self, job: Callable[..., None], *arguments: object) -> None:
        try:
            if not self._stop():
                job(*arguments)
        except BaseException as error:  # noqa: BLE001 - handed to the dispatcher
            self._stop.fail(error)
        finally:
            self._staging().leave()
            self._count(-1)
            self._queue.release()

    def _is_complete(self) -> bool:
        """Whether all boxes are written: a run that is cancelled too late to save anything is finished."""
        written = len(self._finished) + self.measured.write_boxes
        return written == self._sweep.writes.count or (self._dispatched and not self._open)

    # ---------------------------------------------------------------- readers
    def _staging(self) -> Staging:
        slots: Staging = self._thread.staging
        return slots

    def _read_rows(self, some: rows.Rows, chosen: Ints, window: Window) -> None:
        """Many units, each in one piece; those out of the ordinary one by one."""
        done = self._pieces(some, chosen, window, self._staging())
        with self._lock:
            self.measured.missing_chunks += done.missing
            if self._shards is None:
                self.measured.source += done.traffic
        self._arrived(done.elements, done.complete, done.times)
        self._read_odd(some, done.odd, window)

    def _read_shards(self, shards: Shards, some: rows.Rows, chosen: Ints, window: Window) -> None:
        """The same where an index tells where units lie."""
        found, odd = shards(some, chosen)
        self._read_rows(found, np.arange(len(found.table)), window)
        self._read_odd(some, odd, window)

    def _read_odd(self, some: rows.Rows, odd: list[int], window: Window) -> None:
        for at in odd:
            for visit in visits(self._view, rows.wanted(some, at), self._full, self._how.piece_bytes):
                if self._stop():
                    return
                self._read_units(visit, window)

    def _read_piece(self, shared: Shared, piece: Piece, window: Window) -> None:
        began = perf_counter()
        try:
            opened = shared.open()
            if opened is None:
                require_fill(shared.visit)
            loaded = read_raw(shared.visit, piece, opened, self._staging())
            missing = opened is None and shared.count_missing()
            self._deliver(loaded, window, Times(read=perf_counter() - began), missing=missing)
        finally:
            shared.done()

    def _read_units(self, visit: Visit, window: Window) -> None:
        times = Times()
        arrived = read_units(visit, self._source, self._staging(), times, self._decoding)
        if visit.view.store.reads is Way.BOX:
            arrived = self._one_at_a_time(arrived, times)
        for loaded in arrived:
            if loaded.missing:
                require_fill(visit)
            self._deliver(loaded, window, Times(), missing=loaded.missing)
            if self._stop():
                break
        with self._lock:
            self.measured.times.add(times)

    def _one_at_a_time(self, some: Iterator[Loaded], times: Times) -> Iterator[Loaded]:
        """The same, where only one thread may read; it lets others read while it copies."""
        while True:
            began = perf_counter()
            with self._serial:
                loaded = None if self._stop() else next(some, None)
            times.read += perf_counter() - began
            if loaded is None:
                return
            yield loaded

    def _deliver(self, loaded: Loaded, window: Window, times: Times, *, missing: bool) -> None:
        """Copy elements into their write boxes."""
        began = thread_time()
        complete = self._scatter(loaded, window)
        if self._verbatim and loaded.stored is not None:
            for buffer in complete:
                buffer.keep(loaded.stored)
        times.scatter += thread_time() - began
        if missing:
            with self._lock:
                self.measured.missing_chunks += 1
        self._arrived(loaded.wanted.size, complete, times)

    def _arrived(self, elements: int, complete: list[Buffer], times: Times) -> None:
        """Note what has arrived; boxes that are complete go to the writers, some together."""
        with self._lock:
            self._held += elements
            self.measured.held_elements = max(self.measured.held_elements, self._held)
            # Complete boxes are counted with what is behind, not with what is held: they only wait for the disk.
            self._held -= sum(buffer.elements for buffer in complete)
            self.measured.times.add(times)
        self._watch.tell(self._number, elements, 0)
        if complete:
            step = max(min(_BATCH_BYTES // max(complete[0].memory.flat.size, 1), _BATCH), 1)
            for start in range(0, len(complete), step):
                self._count(1)
                some = complete[start : start + step]
                if self._writer.encodes:
                    self._encoders.submit(self._encode, some)
                else:
                    self._writers.submit(self._write, some)

    # ---------------------------------------------------------------- encoders
    def _encode(self, buffers: list[Buffer]) -> None:
        """Encode complete boxes, which then wait for the disk; what has no room in their memory is written at once.

        More threads than cores would only push each other's tables out of the caches, and each keeps scratch memory.
        """
        times, own, encoded = Times(), False, False
        try:
            if not self._stop():
                own, encoded = self._writer.encode(buffers, times, self._staging()), True
                with self._lock:
                    self.measured.times.add(times)
        except BaseException as error:  # noqa: BLE001 - handed to the dispatcher
            self._stop.fail(error)
        if not encoded:
            self._count(-1)
        elif own and not self._stop():
            self._writers.submit(self._write, buffers)
        else:
            self._write(buffers, in_flight=True)

    # ---------------------------------------------------------------- writers
    def _write(self, buffers: list[Buffer], *, in_flight: bool = False) -> None:
        """Write complete boxes. A run that is cancelled still writes those that were being encoded."""
        times = Times()
        try:
            if self._stop() and (self._stop.failed or not in_flight):
                return
            traffic, finished = self._writer.write(buffers, times)
            if self._watch.ledger is not None:
                self._watch.ledger.record(self._number, finished)
            with self._lock:
                for buffer in buffers:
                    del self._open[buffer.number]
                self.measured.sums += Sums.of(one.sums for one in finished)
                self.measured.target += traffic
                self.measured.write_boxes += len(buffers)
                self.measured.times.add(times)
            self._buffers.give([buffer.memory for buffer in buffers])
            self._watch.tell(self._number, 0, sum(buffer.elements for buffer in buffers))
            if not self._open:
                self._nothing_open.set()
        except BaseException as error:  # noqa: BLE001 - handed to the dispatcher
            self._stop.fail(error)
        finally:
            self._count(-1)


def _begin(thread: local, region: Region, places: Berths | None = None) -> None:
    """What every thread does first."""
    thread.leaving, thread.staging = Leaving(), Staging(region, places)
