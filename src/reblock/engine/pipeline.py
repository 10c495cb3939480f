"""The threaded engine: read, scatter and write overlap; memory is granted in plan order.

::

    dispatcher (plan order)      readers (depth threads)          writers (depth threads)
    ───────────────────────      ───────────────────────          ───────────────────────
    next piece                →  pread → decode → scatter      →  encode → pwrite
    buffers it touches first     into the write boxes' buffers    buffer back to the budget
    (waits for the budget)       last element in? ───────────────┘

The dispatcher alone takes memory, and takes it in the order in which the plan was priced. Whatever was dispatched
before can finish without new memory, so waiting for the budget always ends, and the peak is the one predicted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock, Semaphore, local
from time import perf_counter

from reblock.cost.memory import PIECE_BYTES, flight_bytes
from reblock.engine.buffers import Buffers, Staging, Stopped
from reblock.engine.disk import Disk, Handle
from reblock.engine.reading import Loaded, Piece, Visit, open_raw, read_raw, read_units, visits
from reblock.engine.reference import require_fill, visit_traffic
from reblock.engine.report import Measured
from reblock.engine.scatter import Scatter, Window
from reblock.engine.view import View
from reblock.engine.writing import Buffer, Writer, fill_scalar
from reblock.model import Index, Pass, Store, Way

#: Called with the logical bytes that have just been written.
Progress = Callable[[int], None]
#: Asked at moments when a run can be stopped. Ctrl-C must end here and not as an exception out of nowhere: Python's
#: own locks are left locked by one.
Cancelled = Callable[[], bool]


def execute(
    sweep: Pass,
    view: View,
    store: Store,
    *,
    memory_bytes: int,
    depth: int,
    disk: Disk | None = None,
    progress: Progress | None = None,
    cancelled: Cancelled = lambda: False,
    tasks: Iterable[Index] | None = None,
) -> Measured:
    """Carry out one pass, or some of its tasks, with `depth` units in flight inside a memory budget."""
    pipeline = _Pipeline(sweep, view, store, memory_bytes, depth, disk or Disk(), progress, cancelled)
    return pipeline.run(sweep.tasks.indices() if tasks is None else tasks)


class _Pipeline:
    def __init__(
        self,
        sweep: Pass,
        view: View,
        store: Store,
        memory_bytes: int,
        depth: int,
        disk: Disk,
        progress: Progress | None,
        cancelled: Cancelled,
    ) -> None:
        self._sweep, self._view, self._disk = sweep, view, disk
        self._flight = depth * flight_bytes(sweep, view.layout, store.layout)
        self._buffers = Buffers(memory_bytes - self._flight)
        self._writer = Writer(store, sweep.write_access, disk)
        self._scatter = Scatter(sweep.writes, store.layout, sweep.write_access, fill_scalar(view.store))
        self._progress = progress or (lambda _: None)
        self._cancelled = cancelled
        self._depth = depth
        self._queue = Semaphore(2 * depth)
        self._open: dict[Index, Buffer] = {}
        self._claimed: Window | None = None
        self._lock, self._serial = Lock(), Lock()
        self._staging = local()
        self._stopped = Event()
        self._error: BaseException | None = None
        self._held = 0
        self.measured = Measured()

    def run(self, tasks: Iterable[Index]) -> Measured:
        began = perf_counter()
        # Left in reverse: the readers end before the writers they feed.
        with (
            ThreadPoolExecutor(self._depth, "reblock-write") as self._writers,
            ThreadPoolExecutor(self._depth, "reblock-read") as self._readers,
        ):
            try:
                self._dispatch(tasks)
                self._settle()
            except Stopped:
                pass
            except BaseException as error:  # noqa: BLE001 - raised again below, once the threads have ended
                self._fail(error)
        if self._error is not None:
            raise self._error
        self.measured.peak_bytes = self._buffers.peak + self._flight
        self.measured.seconds = perf_counter() - began
        return self.measured

    # ---------------------------------------------------------------- dispatcher
    def _dispatch(self, tasks: Iterable[Index]) -> None:
        sweep = self._sweep
        for task in tasks:
            for index in sweep.reads.touching(sweep.tasks.box(task), sweep.order):
                for visit in visits(self._view, sweep.reads.box(index), sweep.read_access, PIECE_BYTES):
                    self._start(visit)
            self.measured.tasks += 1

    def _settle(self) -> None:
        """Wait for the last write, but not if the run is cancelled; the executors' own wait would."""
        while self._open and not self._stopped.wait(0.01):
            self._check()

    def _check(self) -> None:
        if self._cancelled():
            raise KeyboardInterrupt

    def _start(self, visit: Visit) -> None:
        self._check()
        self.measured.source += visit_traffic(visit)
        if not visit.raw:
            windows = [self._claim(piece) for piece in visit.pieces]
            self._submit(self._read_units, visit, windows)
            return
        shared = _Shared(visit, self._disk)
        for piece in visit.pieces:
            self._submit(self._read_piece, shared, piece, self._claim(piece))

    def _claim(self, piece: Piece) -> Window:
        """Take memory for the write boxes that a piece touches first."""
        window = self._scatter.window(piece.wanted)
        if window is not self._claimed:
            for index in window.indices:
                if index not in self._open:
                    self._open[index] = self._writer.buffer(self._sweep.writes.box(index), self._buffers.take)
            # A box of the window that is finished meanwhile got all its elements: no later piece has any for it.
            self._claimed = window
        return window

    def _submit(self, job: Callable[..., None], *arguments: object) -> None:
        while not self._queue.acquire(timeout=0.5):
            self._check()
            if self._stopped.is_set():
                raise Stopped
        if self._stopped.is_set():
            raise Stopped
        self._readers.submit(self._guard, job, *arguments)

    def _guard(self, job: Callable[..., None], *arguments: object) -> None:
        try:
            if not self._stopped.is_set():
                job(*arguments)
        except BaseException as error:  # noqa: BLE001 - handed to the dispatcher
            self._fail(error)
        finally:
            self._queue.release()

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            if self._error is None:
                self._error = error
        self._stopped.set()
        self._buffers.stop()

    # ---------------------------------------------------------------- readers
    def _read_piece(self, shared: _Shared, piece: Piece, window: Window) -> None:
        try:
            opened = shared.open()
            if opened is None:
                require_fill(shared.visit)
            loaded = read_raw(shared.visit, piece, opened, self._thread_staging())
            self._deliver(loaded, window, missing=opened is None and piece is shared.visit.pieces[0])
        finally:
            shared.done()

    def _read_units(self, visit: Visit, windows: list[Window]) -> None:
        if visit.view.store.reads is Way.BOX:
            with self._serial:
                arrived = list(read_units(visit, self._disk, self._thread_staging()))
            for loaded, window in zip(arrived, windows, strict=True):
                self._deliver(loaded, window, missing=False)
            return
        units = read_units(visit, self._disk, self._thread_staging())
        for loaded, window in zip(units, windows, strict=True):
            if loaded.array is None:
                require_fill(visit)
            self._deliver(loaded, window, missing=loaded.array is None)

    def _thread_staging(self) -> Staging:
        if not hasattr(self._staging, "slots"):
            self._staging.slots = Staging()
        slots: Staging = self._staging.slots
        return slots

    def _deliver(self, loaded: Loaded, window: Window, *, missing: bool) -> None:
        """Copy elements into their write boxes; boxes that are complete go to the writers."""
        complete = []
        copied = self._scatter(loaded, window, self._open)
        with self._lock:
            for index, count in copied:
                buffer = self._open[index]
                buffer.missing -= count
                if not buffer.missing:
                    complete.append((index, buffer))
            self._held += loaded.wanted.size
            self.measured.held_elements = max(self.measured.held_elements, self._held)
            self.measured.missing_chunks += missing
        for index, buffer in complete:
            self._writers.submit(self._write, index, buffer)

    # ---------------------------------------------------------------- writers
    def _write(self, index: Index, buffer: Buffer) -> None:
        if self._stopped.is_set() and self._error is not None:
            return
        try:
            self._check()
            traffic = self._writer.write(buffer)
        except BaseException as error:  # noqa: BLE001 - handed to the dispatcher
            self._fail(error)
            return
        with self._lock:
            del self._open[index]
            self.measured.target += traffic
            self.measured.write_boxes += 1
            self._held -= buffer.box.size
        self._buffers.give(buffer.flat)
        self._progress(buffer.box.size * buffer.array.itemsize)


class _Shared:
    """The file of a raw visit, opened by the first piece and closed by the last."""

    def __init__(self, visit: Visit, disk: Disk) -> None:
        self.visit = visit
        self._disk = disk
        self._lock = Lock()
        self._left = len(visit.pieces)
        self._opened: tuple[Handle, int] | None = None
        self._tried = False
        self._error: Exception | None = None

    def open(self) -> tuple[Handle, int] | None:
        with self._lock:
            if not self._tried:
                self._tried = True
                try:
                    self._opened = open_raw(self._disk, self.visit)
                except Exception as error:
                    # Every piece must see it: an object that cannot be opened is not one that is not stored.
                    self._error = error
                    raise
            if self._error is not None:
                raise self._error
            return self._opened

    def done(self) -> None:
        with self._lock:
            self._left -= 1
            if not self._left and self._opened:
                self._opened[0].close()
