"""The reference executor: carries out a pass exactly as it is defined, one box after the other.

The threaded engine is tested against it: it counts the elements that are held, and a recording medium sees every
opening and every byte range.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

from reblock.engine.memory.arena import Arena
from reblock.engine.memory.budget import Memory
from reblock.engine.memory.scratch import ScratchBuffers
from reblock.engine.pipeline.boxes import Boxes, Buffer, fill_element
from reblock.engine.pipeline.readers.fetch import open_raw, read_raw, read_units
from reblock.engine.pipeline.readers.library import read_boxes
from reblock.engine.pipeline.readers.opener import Opener
from reblock.engine.pipeline.readers.visits import Loaded, Visit, full_axes, visits
from reblock.engine.pipeline.writers.target import TargetWriter
from reblock.engine.report import Measured, Times
from reblock.engine.view import View
from reblock.model import PIECE_BYTES, Index, Pass, Store, TransferMode


def execute_in_order(sweep: Pass, view: View, store: Store) -> Measured:
    """Carry out one pass in plan order on one thread."""
    opener = Opener(view.store)
    began = perf_counter()
    boxes = Boxes(sweep.writes, sweep.write_access, store.layout)
    writer = TargetWriter(store, boxes)
    fill = fill_element(view.store)
    full = full_axes(view.layout, sweep.read_access, sweep.coalesced)
    piece_bytes = sweep.execution.piece_bytes if sweep.execution else PIECE_BYTES
    measured = Measured()
    arena = Arena()
    staging = ScratchBuffers(arena)
    for task in sweep.tasks.indices():
        opened: dict[Index, Buffer] = {}
        held = 0
        for index in sweep.reads.touching(sweep.tasks.box(task), sweep.order):
            box = sweep.reads.box(index)
            for visit in visits(view, box, full, piece_bytes):
                measured.source += visit.traffic
                for loaded in load_visit(visit, opener, staging):
                    if loaded.missing:
                        visit.require_fill()
                        measured.missing_chunks += 1
                    for place in sweep.writes.touching(loaded.wanted):
                        if place not in opened:
                            number = sweep.writes.number(place)
                            size = boxes.stored(number).size * store.layout.itemsize
                            memory = Memory(size, *arena.cut(size))
                            opened[place] = writer.buffer(number, boxes.box(number).size, memory)
                        taken = opened[place].take(loaded, fill, store.layout.shape, checked=view.checked)
                        opened[place].arrived(*taken)
            held += box.size
            measured.held_elements = max(measured.held_elements, held)
            allocated = sum(buffer.memory.flat.size for buffer in opened.values())
            measured.peak_bytes = max(measured.peak_bytes, allocated)
            for place in [place for place, buffer in opened.items() if not buffer.memory.record[1]]:
                buffer = opened.pop(place)
                if writer.encodes:
                    writer.encode([buffer], Times())
                measured.target += writer.write([buffer], Times())[0]
                measured.sums += buffer.sums
                measured.write_boxes += 1
                held -= buffer.elements
        measured.tasks += 1
    measured.seconds = perf_counter() - began
    return measured


def load_visit(visit: Visit, opener: Opener, staging: ScratchBuffers) -> Iterator[Loaded]:
    """All pieces or units of a visit, in disk order; an array is valid until the next one is read."""
    if visit.view.store.reads is TransferMode.BOX:
        yield from read_boxes(visit)
        return
    if not visit.raw:
        yield from read_units(visit, opener, staging)
        return
    opened = open_raw(opener, visit)
    if opened is None:
        for piece in visit.pieces:
            yield Loaded(piece.box, piece.wanted, None)
        return
    with opened[0]:
        for piece in visit.pieces:
            yield read_raw(visit, piece, opened, staging)
