"""The target of a pass: how complete write boxes become bytes of a store."""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from contextlib import AbstractContextManager
from threading import Lock
from time import perf_counter, thread_time

import numpy as np

from reblock.engine import native
from reblock.engine.memory.budget import Memory
from reblock.engine.pipeline.boxes import Boxes, Buffer, fill_element
from reblock.engine.report import Times
from reblock.engine.view import View, part
from reblock.errors import DiskError
from reblock.geometry import Box
from reblock.geometry.runs import runs
from reblock.model import Access, Extent, Finished, Flat, Index, Pass, Scratch, Store, Traffic, TransferMode, fresh
from reblock.model.medium import DIRECT_BYTES, PAGE_BYTES


class TargetWriter:
    """Encodes complete write boxes of one pass, and writes them to the target."""

    def __init__(
        self,
        store: Store,
        boxes: Boxes,
        moves: native.Moves | None = None,
        serial: AbstractContextManager[object] | None = None,
    ) -> None:
        self.store = store
        self.boxes = boxes
        layout = store.layout
        self.encodes = (layout.encoded or layout.indexed) and store.writes is not TransferMode.BOX
        """Whether complete buffers have to be encoded before they are written."""
        compiled = boxes.access is Access.UNITS and store.writes is TransferMode.EXTENT and store.medium.is_local
        self._moves = moves if compiled else None
        self._serial = serial or Lock()
        self._made: set[Index] = set()
        self._making = Lock()

    def buffer(self, number: int, elements: int, memory: Memory) -> Buffer:
        """A new buffer for a write box; only its overhang is filled."""
        buffer = Buffer(self.boxes, number, elements, memory)
        if elements * self.store.layout.itemsize != memory.flat.size:
            self.pad(buffer, buffer.stored)
        return buffer

    def pad(self, buffer: Buffer, part: Box) -> None:
        """Fill a part of a buffer, if the buffer extends beyond the array."""
        if buffer.elements * self.store.layout.itemsize != buffer.memory.flat.size:
            buffer.array[part.within(buffer.stored).slices] = fill_element(self.store)

    # ---------------------------------------------------------------- many boxes
    def encode(self, buffers: Sequence[Buffer], times: Times, scratch: Scratch = fresh) -> bool:
        """Encode complete buffers; returns whether all results lie in the buffers, so that scratch memory is free."""
        began, own = thread_time(), True
        for buffer in buffers:
            if buffer.data is None:
                memory = buffer.memory
                encoded = self.store.encode(memory.flat, memory.room if self.store.layout.in_place else None, scratch)
                if not buffer.keep(encoded):
                    # Buffers that are encoded together are small; the next one needs the scratch memory.
                    buffer.data, own = encoded if len(buffers) == 1 else encoded.copy(), False
        times.encode += thread_time() - began
        return own

    def write(self, buffers: Sequence[Buffer], times: Times) -> tuple[Traffic, list[Finished]]:
        """Write complete buffers; returns the traffic, and a record of each finished box."""
        if self._moves is not None:
            return self._write_compiled(self._moves, buffers, times)
        traffic, finished = Traffic(), []
        for buffer in buffers:
            one, path = self._write_one(buffer, times)
            traffic += one
            finished.append(self._finished(buffer, path))
        return traffic, finished

    def _finished(self, buffer: Buffer, path: str) -> Finished:
        return Finished(buffer.number, path, buffer.elements * self.store.layout.itemsize, buffer.sums)

    def _write_compiled(
        self, moves: native.Moves, buffers: Sequence[Buffer], times: Times
    ) -> tuple[Traffic, list[Finished]]:
        finished, rows = [], array("q")
        kept: list[object] = []
        owners = self.boxes.indices([buffer.number for buffer in buffers])
        for buffer, owner in zip(buffers, owners, strict=True):
            place, before = self.store.place(owner), self.store.preamble(owner)
            data = buffer.memory.flat if buffer.data is None else buffer.data
            size, own = data.size, buffer.data is None or native.address(data) == buffer.memory.start
            direct = own and size >= DIRECT_BYTES and _aligned(place, size)
            # No other reference keeps these bytes alive until they are written.
            kept += () if own and not before else (before, data)
            start = buffer.memory.start if own else native.address(data)
            head = native.address(np.frombuffer(before, np.uint8)) if before else 0
            exact, whole = place.length is None, place.whole or 0
            rows.extend((start, head, 0, place.offset, size, len(before), direct, exact, whole))
            finished.append(self._finished(buffer, place.path))
        table = np.frombuffer(rows, np.int64).reshape(len(buffers), -1)
        paths, table[:, 2] = native.joined([one.path for one in finished])
        result = native.ResultStruct()
        if not moves.write(table, paths, result):
            wrong, path = OSError(result.error, os.strerror(result.error)), finished[result.row].path
            raise DiskError.wrap(wrong, doing=native.PROBLEMS[result.problem], path=path)
        times.write += result.io_ns / 1e9
        logical = sum(buffer.memory.flat.size for buffer in buffers)
        return Traffic(result.opens, result.opens, result.opens, logical), finished

    # ---------------------------------------------------------------- one box
    def _write_one(self, buffer: Buffer, times: Times) -> tuple[Traffic, str]:
        """Write a complete buffer; returns the traffic, and the file."""
        size = buffer.memory.flat.size
        began = perf_counter()
        if self.store.writes is TransferMode.BOX:
            with self._serial:
                self.store.write_box(buffer.box, part(buffer.array, buffer.box.within(buffer.stored)))
            times.write += perf_counter() - began
            return self._whole(buffer, size), ""
        if self.boxes.access is Access.RUNS:
            done = self._write_runs(buffer, size)
            times.write += perf_counter() - began
            return done
        path = self._hand_over(buffer, buffer.memory.flat if buffer.data is None else buffer.data)
        times.write += perf_counter() - began
        return self._whole(buffer, size), path

    def _hand_over(self, buffer: Buffer, data: Flat) -> str:
        """Write the bytes of an object; returns the file."""
        if self.store.writes is TransferMode.UNIT:
            with self._serial:
                self.store.write_unit(buffer.owner, data.data)
            return ""
        place = self.store.place(buffer.owner)
        before = self.store.preamble(buffer.owner)
        if place.whole is None and place.offset == len(before):
            self.store.medium.write(place.path, [before, data.data])
        else:
            with self.store.medium.writer(place.path) as handle:
                handle.write([before, data.data], place.offset - len(before))
        return place.path

    def _whole(self, buffer: Buffer, size: int) -> Traffic:
        """The traffic of a box that is written at once: a visit, and its runs if it is a part of an object."""
        stored = self.store.layout.objects.stored(buffer.owner)
        if buffer.stored == stored:
            return Traffic(1, 1, 1, size)
        offsets, _ = runs(stored, buffer.stored, self.store.layout.order)
        return Traffic(1, len(offsets), 1 + len(offsets), size)

    def _write_runs(self, buffer: Buffer, size: int) -> tuple[Traffic, str]:
        layout = self.store.layout
        stored = layout.objects.stored(buffer.owner)
        place = self.store.place(buffer.owner)
        before = self.store.preamble(buffer.owner)
        offsets, length = runs(stored, buffer.box, layout.order)
        step = length * layout.itemsize
        data = buffer.memory.flat.data
        with self.store.medium.writer(place.path) as handle:
            if place.offset == len(before) and self._first(buffer.owner):
                handle.write([before], 0)
                handle.resize(place.offset + stored.size * layout.itemsize)
            for number, offset in enumerate((offsets * layout.itemsize).tolist()):
                handle.write([data[number * step : (number + 1) * step]], place.offset + offset)
        inside = 0 if buffer.box == stored else len(offsets)
        return Traffic(1, len(offsets), 1 + inside, size), place.path

    def _first(self, index: Index) -> bool:
        """Whether this is the first piece of an object with a file of its own."""
        with self._making:
            if index in self._made:
                return False
            self._made.add(index)
            return True


def _aligned(place: Extent, size: int) -> bool:
    """Whether bytes can bypass the page cache: the rest of the last page is cut off where the file ends there."""
    if place.whole is None:
        return not place.offset
    return not (place.offset % PAGE_BYTES or size % PAGE_BYTES)


def is_verbatim(sweep: Pass, view: View, store: Store) -> bool:
    """Whether every write box is a source object that the target would store in the same bytes."""
    source, target = view.layout, store.layout
    return (
        bool(store.encoding)
        and view.store.encoding == store.encoding
        and not (source.indexed or target.indexed)
        and view.region == Box.whole(view.store.layout.shape)
        and source.dtype == target.dtype
        and source.order == target.order == view.store.layout.order
        and source.objects == target.objects
        and sweep.writes.counts == target.objects.counts
    )
