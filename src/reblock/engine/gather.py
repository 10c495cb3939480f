"""Gathering: follows a plan that reads many boxes of a view together, each unit once for all of them.

::

    step   → memory for the pieces that it touches first → read, decode, scatter into all pieces that need a unit
           → pieces that are complete go to the caller, who writes them; their memory is free again
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from reblock.engine.memory.arena import Arena
from reblock.engine.memory.scratch import ScratchPool, encoded_pool
from reblock.engine.pipeline.boxes import Buffer, fill_element
from reblock.engine.pipeline.readers.fetch import Decoding, without_scratch
from reblock.engine.pipeline.readers.jobs import run_jobs
from reblock.engine.pipeline.readers.library import LibraryReading
from reblock.engine.pipeline.readers.opener import Opener
from reblock.engine.pipeline.readers.protocol import ReadJob
from reblock.engine.pipeline.readers.python import PythonReading
from reblock.engine.pipeline.readers.visits import Loaded, Visit, raw_visit, unit_visit
from reblock.engine.pipeline.scatter import NO_WINDOW, Window
from reblock.engine.region import Copies, full_axes, hull, unit_bytes
from reblock.engine.view import Array, View
from reblock.geometry import Box
from reblock.model import PIECE_BYTES, Index, Traffic, TransferMode
from reblock.model.accounting import LEAST_READING_BYTES
from reblock.model.gather import GatherPlan, GatherStep

#: Copies of elements that only a library can decode: in its process, in transit, and here.
_COPIES = 3


def reading_bytes(view: View, memory_bytes: int, threads: int) -> tuple[int, int]:
    """The memory that reading takes beside pieces, a quarter of a budget or one unit; and the number of threads."""
    unit = max(unit_bytes(view.layout, view.store.reads), LEAST_READING_BYTES)
    if view.store.reads is TransferMode.BOX:
        threads = 1
    threads = max(min(threads, memory_bytes // 4 // unit), 1)
    encoded = view.layout.encoded or view.layout.indexed
    return (unit * threads if encoded else max(min(memory_bytes // 4, 2 * threads * PIECE_BYTES), unit)), threads


def gather(
    view: View,
    plan: GatherPlan,
    pieces: Sequence[Box],
    *,
    take: Callable[[int], Array],
    done: Callable[[int, Array], None],
    whole: bool,
    memory_bytes: int,
    threads: int,
    cancelled: Callable[[], bool] = lambda: False,
) -> Traffic:
    """Read all pieces as planned; returns the traffic.

    `take` gives the array of a piece, and `done` gets it back with its elements; both are called by this thread, in the
    order of the plan. With `whole`, raw objects are read whole. `memory_bytes` are for reading alone.
    """
    return _Gatherer(view, pieces, memory_bytes, threads, whole=whole).run(plan, take, done, cancelled)


class _Gatherer:
    """One gathering: the arrays that receive elements now, and the jobs that read them."""

    def __init__(self, view: View, pieces: Sequence[Box], memory_bytes: int, threads: int, *, whole: bool) -> None:
        self._view, self._pieces, self._whole, self._threads = view, pieces, whole, threads
        self._arena = Arena()
        self._deliver = _HeldPieces(fill_element(view.store))
        layout = view.layout
        full = range(layout.ndim) if whole else full_axes(view)
        self._units = layout.encoded or layout.indexed
        self._full, self._piece_bytes = full, max(min(memory_bytes // threads // 2, PIECE_BYTES), 1)
        opener = Opener(view.store)
        if view.store.reads is TransferMode.BOX:
            room = max(memory_bytes // _COPIES, 1)
            self._reading: PythonReading = LibraryReading(view, full, room, opener, self._deliver, lambda: False)
        else:
            decoding: Decoding = ScratchPool(threads, self._arena) if layout.decoding_bytes else without_scratch
            self._reading = PythonReading(view, full, self._piece_bytes, opener, self._deliver, decoding)
        self._traffic = Traffic()

    def run(
        self,
        plan: GatherPlan,
        take: Callable[[int], Array],
        done: Callable[[int, Array], None],
        cancelled: Callable[[], bool],
    ) -> Traffic:
        held: dict[int, Array] = {}
        pool = encoded_pool(self._view.layout, self._threads, self._arena)
        for step in plan.steps:
            if cancelled():
                raise KeyboardInterrupt
            for number in step.opens:
                held[number] = take(number)
            self._deliver.replace([(self._pieces[number], array) for number, array in held.items()])
            run_jobs(self._jobs(step), self._threads, self._arena, pool)
            for number in step.closes:
                done(number, held.pop(number))
        return self._traffic

    def _jobs(self, step: GatherStep) -> Iterator[ReadJob]:
        if self._units:
            yield from self._unit_jobs(step)
            return
        objects = self._view.layout.objects
        if self._whole:
            # Several pieces touch the same object, which is read once.
            boxes = [
                objects.box(index) for index in dict.fromkeys(i for box in step.reads for i in objects.touching(box))
            ]
        else:
            boxes = list(step.reads)
        for box in boxes:
            for index in objects.touching(box):
                reach = objects.box(index).intersect(box)
                if reach is not None:
                    self._count(raw_visit(self._view, index, reach, self._full, self._piece_bytes))
            yield from self._reading.jobs(box, NO_WINDOW)

    def _unit_jobs(self, step: GatherStep) -> Iterator[ReadJob]:
        """One job for each object, which reads all units that any piece needs."""
        layout = self._view.layout
        touched: dict[Index, list[Box]] = {}
        for box in step.reads:
            for index in layout.objects.touching(box):
                shared = layout.objects.box(index).intersect(box)
                if shared is not None:
                    touched.setdefault(index, []).append(shared)
        for index, boxes in touched.items():
            units = dict.fromkeys(unit for box in boxes for unit in layout.units.touching(box))
            visit = unit_visit(self._view, index, hull(boxes), sorted(units))
            self._count(visit)
            yield partial(self._reading.read_visit, visit, NO_WINDOW)

    def _count(self, visit: Visit) -> None:
        self._traffic += visit.traffic


class _HeldPieces:
    """Copies elements into the pieces that are held now."""

    def __init__(self, fill: Array) -> None:
        self._fill = fill
        self._copies = Copies([], fill)

    def replace(self, parts: Sequence[tuple[Box, Array]]) -> None:
        """Use other pieces from now on."""
        self._copies = Copies(parts, self._fill)

    def __call__(self, loaded: Loaded, window: Window) -> list[Buffer]:
        """Copy elements into every piece that they meet; no two threads have the same elements."""
        return self._copies(loaded, window)
