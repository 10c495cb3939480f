"""Encoded units, many in one call: read, decoded and scattered by the compiled loop, where it has a decoder.

Where it has none, each unit is read by one call, decoded by the store and scattered by another call. Units that are
not stored or lie behind a link are skipped.
"""

from __future__ import annotations

from time import perf_counter, thread_time

import numpy as np

from reblock.engine import native
from reblock.engine.memory.scratch import STORED
from reblock.engine.native.structs import DecoderStruct
from reblock.engine.pipeline.boxes import Buffer
from reblock.engine.pipeline.readers.faults import corrupt
from reblock.engine.pipeline.readers.fetch import Decoding
from reblock.engine.pipeline.readers.protocol import Arrived
from reblock.engine.pipeline.readers.table import UnitFiles, UnitRows
from reblock.engine.pipeline.scatter import Window, completed_buffers
from reblock.engine.report import Times
from reblock.engine.view import View
from reblock.errors import CorruptError, DiskError
from reblock.geometry.axis import Ints
from reblock.model import Extent, Flat, Medium, Scratch, Traffic
from reblock.model.medium import DIRECT_BYTES, PAGE_BYTES


def _visits(number: int, size: int) -> Traffic:
    """The traffic of visits to whole units: their number, and their bytes together."""
    return Traffic(number, number, number, size)


def _stored_bytes(medium: Medium, extent: Extent | None) -> int:
    """Bytes of an extent; 0 if it is not stored."""
    if extent is None:
        return 0
    if extent.length is not None:
        return extent.length
    try:
        return medium.status(extent.path).size - extent.offset
    except (FileNotFoundError, DiskError):
        return 0


class EncodedUnits:
    """Reads rows of encoded units."""

    def __init__(self, view: View, moves: native.Moves, decoding: Decoding, *, verbatim: bool) -> None:
        """`decoding` lends the scratch memory of the codec, which threads may share.

        With `verbatim`, the stored bytes of a unit take the place of the elements of the box that it completes.
        """
        self._view, self._moves, self._decoding, self._verbatim = view, moves, decoding, verbatim
        self._most = view.layout.most_stored_bytes
        self._direct = view.layout.unit_bytes >= DIRECT_BYTES
        self._decoder = None if verbatim else native.decoder(view.store.decoder)

    def __call__(self, rows: UnitRows, chosen: Ints, window: Window, scratch: Scratch) -> tuple[Arrived, list[int]]:
        """Read, decode and scatter some rows; also returns those that were skipped."""
        if self._decoder is not None:
            return self._compiled(self._decoder, rows, chosen, window, scratch)
        places, sizes, counts = self._places(rows, chosen)
        times, complete, odd = Times(), list[Buffer](), list[int]()
        completed, elements = np.empty(len(window.numbers) or 1, np.int64), 0
        for place, at, size, count in zip(places, chosen.tolist(), sizes, counts, strict=True):
            began = perf_counter()
            data = self._fetch(rows, at, scratch)
            times.read += perf_counter() - began
            if data is None:
                odd.append(at)
                continue
            out = scratch("decoded", size)[:size]
            with self._decoding() as coding:
                began = thread_time()
                self._decode(rows.files, at, data, out, coding)
                decoded = thread_time()
            times.decode += decoded - began
            found = self._moves.scatter(window.native, out, place, completed)
            buffers = completed_buffers(window, completed, found)
            self._keep(rows.files, at, data, buffers)
            complete.extend(buffers)
            times.scatter += thread_time() - decoded
            elements += count
        return Arrived(elements, complete, times, _visits(len(chosen), sum(sizes))), odd

    def _compiled(
        self, decoder: DecoderStruct, rows: UnitRows, chosen: Ints, window: Window, scratch: Scratch
    ) -> tuple[Arrived, list[int]]:
        """Read, decode and scatter some rows in one call."""
        result, completed = native.ResultStruct(), np.empty(len(window.numbers) or 1, np.int64)
        table = np.ascontiguousarray(rows.table[chosen])
        memory, most = self._room(rows.files, chosen.tolist(), scratch)
        for row, at in enumerate(chosen.tolist()):
            # Only Python skips filters.
            extent = rows.files.extents[at] if rows.files.extents else None
            if not self._allows(rows.files.names[at]) or (extent is not None and extent.mask):
                table[row, 1] = len(rows.files.paths) - 1  # a name that no file has
        odd = self._moves.decode(
            *(window.native, table, rows.files.paths, decoder),
            *(memory, scratch("decoded", rows.bytes), result, completed),
            most=most,
            direct=self._direct,
        )
        times = Times(read=result.io_ns / 1e9, decode=result.decode_ns / 1e9, scatter=result.scatter_ns / 1e9)
        complete = completed_buffers(window, completed, result.completed)
        traffic = _visits(len(chosen), result.bytes)
        return Arrived(result.elements, complete, times, traffic), chosen[odd].tolist()

    def _allows(self, path: str) -> bool:
        roots = self._view.store.roots
        return bool(path) and (roots is None or roots.allows(path))

    def _fetch(self, rows: UnitRows, at: int, scratch: Scratch) -> Flat | None:
        if not self._allows(rows.files.names[at]):
            return None
        row = native.address(rows.table) + at * rows.table.strides[0]
        memory, most = self._room(rows.files, [at], scratch)
        return self._moves.fetch(row, rows.files.paths, memory, most, direct=self._direct)

    def _room(self, files: UnitFiles, chosen: list[int], scratch: Scratch) -> tuple[Flat, int]:
        """Memory for the stored bytes of a unit, and the most bytes that may be read into it."""
        sized = self._view.layout.stored_bytes
        size = max(_stored_bytes(self._view.store.medium, files.extents[at]) for at in chosen) if sized else self._most
        memory = scratch(STORED, size + 2 * PAGE_BYTES)
        return memory, min(memory.size - 2 * PAGE_BYTES, self._most)

    def _decode(self, files: UnitFiles, at: int, data: Flat, out: Flat, scratch: Scratch) -> None:
        extent = files.extents[at]
        if extent is None:
            raise CorruptError(f"{files.names[at]}: bytes of a chunk that is not stored")
        try:
            self._view.store.decode(data.data, extent, out, scratch)
        except CorruptError as error:
            index = files.objects[at]
            raise corrupt(self._view, index, extent.path, extent.offset, data.size, str(error)) from error

    def _keep(self, files: UnitFiles, at: int, data: Flat, buffers: list[Buffer]) -> None:
        extent = files.extents[at]
        if self._verbatim and extent is not None and not extent.mask:
            for buffer in buffers:
                buffer.keep(data)

    def _places(self, rows: UnitRows, chosen: Ints) -> tuple[Ints, list[int], list[int]]:
        """Per row: strides, origin, start and stop for the compiled loop; bytes of the unit; elements wanted of it."""
        layout = self._view.layout
        bounds = rows.table[chosen, native.HEAD :].reshape(len(chosen), layout.ndim, 6)
        places = np.empty((len(chosen), 4, layout.ndim), np.int64)
        stride = np.full(len(chosen), layout.itemsize, np.int64)
        for axis in reversed(layout.order):
            places[:, 0, axis] = stride
            stride = stride * (bounds[:, axis, 3] - bounds[:, axis, 2])
        places[:, 1], places[:, 2], places[:, 3] = bounds[:, :, 2], bounds[:, :, 4], bounds[:, :, 5]
        return places, stride.tolist(), (bounds[:, :, 5] - bounds[:, :, 4]).prod(1).tolist()
