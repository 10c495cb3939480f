"""The threaded engine: reading, scattering and writing overlap, inside the memory of the plan.

::

    dispatcher (plan order)      readers                          encoders            writers
    ───────────────────────      ───────                          ────────            ───────
    next units                →  read → decode → scatter       →  encode in place  →  write → ledger
    memory of write boxes        into the write boxes' buffers                        memory back to the budget
    (waits for the budget)       box complete? ───────────────────┘

`execute` builds these parts for one pass, runs them, and returns the measurements.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter, process_time

from reblock.engine.memory.allocator import make_allocator
from reblock.engine.memory.arena import Arena, return_freed_memory
from reblock.engine.memory.budget import Stopped
from reblock.engine.memory.scratch import encoded_pool
from reblock.engine.pipeline.boxes import Boxes, fill_element
from reblock.engine.pipeline.dispatcher import Dispatcher
from reblock.engine.pipeline.readers.choose import choose_reading, is_in_one_piece
from reblock.engine.pipeline.readers.opener import Opener
from reblock.engine.pipeline.readers.threads import Readers
from reblock.engine.pipeline.readers.visits import full_axes
from reblock.engine.pipeline.scatter import Scatter, compiled_moves
from reblock.engine.pipeline.stop import Stop
from reblock.engine.pipeline.tally import Tally
from reblock.engine.pipeline.threads import Threads
from reblock.engine.pipeline.writers.target import TargetWriter, is_verbatim
from reblock.engine.pipeline.writers.threads import Writers
from reblock.engine.report import Measured
from reblock.engine.view import View
from reblock.engine.watch import Watch
from reblock.errors import UsageError
from reblock.model import Execution, Index, Pass, Store
from reblock.model.accounting import with_records


def execute(
    sweep: Pass,
    view: View,
    store: Store,
    *,
    watch: Watch | None = None,
    number: int = 0,
    tasks: Iterable[Index] | None = None,
) -> Measured:
    """Carry out one pass, or some of its tasks, as its `execution` says."""
    if sweep.execution is None:
        raise UsageError("this pass has no execution: the planner fills it in when it chooses a plan")
    every = sweep.tasks.indices() if tasks is None else tasks
    try:
        return _execute(sweep, sweep.execution, view, store, watch or Watch(), number, every)
    finally:
        return_freed_memory()


def _execute(
    sweep: Pass, how: Execution, view: View, store: Store, watch: Watch, number: int, tasks: Iterable[Index]
) -> Measured:
    began, worked = perf_counter(), process_time()
    # An empty tuple is searched much faster than an empty set of another kind.
    finished = (watch.ledger.finished(number) if watch.ledger else ()) or ()
    fill, arena = fill_element(view.store), Arena(how.flight_bytes)
    stamps = None if watch.source is None else watch.source.stamps
    moves = compiled_moves(view, store.layout, fill, digest=watch.digest, stamps=stamps)
    boxes = Boxes(sweep.writes, sweep.write_access, store.layout)
    verbatim = is_verbatim(sweep, view, store)
    scatter = Scatter(boxes, fill, moves, digest=watch.digest, verbatim=verbatim, checked=view.checked)
    target = TargetWriter(store, boxes, moves)
    allocator = make_allocator(how, scatter, target, finished, watch.spare)
    tally = Tally(watch, number, len(finished))
    stop = Stop(watch.cancelled, allocator.budget.stop)
    allocator.budget.idle = lambda: not stop() and tally.idle
    compiled = view.layout.dtype == store.layout.dtype and is_in_one_piece(sweep, view.layout, how.piece_bytes)
    reading = choose_reading(
        *(view, scatter),
        full=full_axes(view.layout, sweep.read_access, sweep.coalesced),
        piece_bytes=how.piece_bytes,
        coders=how.coders,
        batch_size=how.batch_size,
        opener=Opener(view.store, watch.source),
        arena=arena,
        moves=moves if compiled else None,
        verbatim=scatter.verbatim,
        finished=finished,
        stop=stop,
    )
    encoding, writing = Threads(how.coders, "reblock-encode", arena), Threads(how.writers, "reblock-write", arena)
    fetching = Threads(how.readers, "reblock-read", arena, encoded_pool(view.layout, how.units_in_flight, arena))
    writers = Writers(encoding, writing, target, allocator, tally, stop, watch.ledger, number)
    readers = Readers(fetching, how.queued, tally, stop, writers.take)
    dispatcher = Dispatcher(sweep, reading, allocator, readers, tally, stop)
    # Exits run in reverse: the readers end before the writers that they feed.
    with writers, readers:
        try:
            dispatcher.run(tasks)
            writers.settle()
        except Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again below, after the threads have ended
            stop.fail(error)
    # The next pass has the same budget.
    allocator.budget.close()
    measured = tally.measured
    # A run that is cancelled after its last write is complete.
    written = len(finished) + measured.write_boxes == sweep.writes.count or (dispatcher.done and not allocator.open)
    if stop.error is not None and not (stop.cancelled and written):
        raise stop.error
    measured.times.wait += allocator.waited
    measured.peak_bytes = with_records(allocator.budget.peak, sweep.writes.count, store.layout) + how.flight_bytes
    measured.seconds, measured.processor_seconds = perf_counter() - began, process_time() - worked
    return measured
