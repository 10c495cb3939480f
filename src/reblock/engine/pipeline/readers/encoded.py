"""Encoded units, many in a job: read, decoded and scattered by the compiled loop, where it can decode them.

Where it cannot, each is read in one call, decoded in another and scattered in a third. What is out of the ordinary,
such as a unit that is not stored or lies behind a link, is left to `python`, which does the same one step at a time
and has the words for what is wrong.
"""

from __future__ import annotations

from time import perf_counter, thread_time
from typing import NamedTuple

import numpy as np

from reblock.engine import native
from reblock.engine.memory.buffers import STORED
from reblock.engine.native.structs import DecoderStruct
from reblock.engine.pipeline.readers.python import Decoding, corrupt
from reblock.engine.pipeline.readers.table import Files, Rows
from reblock.engine.pipeline.scatter import Window, take
from reblock.engine.pipeline.writers.target import Buffer
from reblock.engine.report import Times
from reblock.engine.view import View
from reblock.errors import CorruptError, DiskError
from reblock.geometry.axis import Ints
from reblock.model import Extent, Flat, Medium, Scratch, Traffic
from reblock.model.medium import DIRECT_BYTES, PAGE_BYTES


class Done(NamedTuple):
    """What became of some units."""

    elements: int
    """How many arrived."""
    complete: list[Buffer]
    """Write boxes that they completed."""
    odd: list[int]
    """Rows that are out of the ordinary, and still to be read."""
    traffic: Traffic
    """What that is to the source, those included."""
    times: Times
    """What it took."""
    missing: int = 0
    """Units that are not stored, and were filled."""


def _visits(number: int, size: int) -> Traffic:
    """Visits to so many units, each whole."""
    return Traffic(number, number, number, size)


def _stored_bytes(medium: Medium, extent: Extent | None) -> int:
    """Bytes of an extent; 0 where they are not there."""
    if extent is None:
        return 0
    if extent.length is not None:
        return extent.length
    try:
        return medium.status(extent.path).size - extent.offset
    except (FileNotFoundError, DiskError):
        return 0


class Units:
    """Reads the encoded units of a source."""

    def __init__(self, view: View, moves: native.Moves, decoding: Decoding, *, verbatim: bool) -> None:
        """Who decodes takes scratch memory, which may be shared.

        With `verbatim` what is stored takes the place of the elements of a box that it completes.
        """
        self._view, self._moves, self._decoding, self._verbatim = view, moves, decoding, verbatim
        self._most = view.layout.most_stored_bytes
        self._direct = view.layout.unit_bytes >= DIRECT_BYTES
        self._decoder = None if verbatim else native.decoder(view.store.decoder)

    def __call__(self, some: Rows, chosen: Ints, window: Window, staging: Scratch) -> Done:
        """Read, decode and scatter some rows."""
        if self._decoder is not None:
            return self._compiled(self._decoder, some, chosen, window, staging)
        places, sizes, counts = self._places(some, chosen)
        done = Done(0, [], [], _visits(len(chosen), sum(sizes)), Times())
        completed, elements = np.empty(len(window.numbers) or 1, np.int64), 0
        for place, at, size, count in zip(places, chosen.tolist(), sizes, counts, strict=True):
            began = perf_counter()
            data = self._fetch(some, at, staging)
            done.times.read += perf_counter() - began
            if data is None:
                done.odd.append(at)
                continue
            out = staging("decoded", size)[:size]
            with self._decoding() as scratch:
                began = thread_time()
                self._decode(some.files, at, data, out, scratch)
                decoded = thread_time()
            done.times.decode += decoded - began
            buffers = take(window, completed, self._moves.scatter(window.native, out, place, completed))
            self._keep(some.files, at, data, buffers)
            done.complete.extend(buffers)
            done.times.scatter += thread_time() - decoded
            elements += count
        return done._replace(elements=elements)

    def _compiled(self, decoder: DecoderStruct, some: Rows, chosen: Ints, window: Window, staging: Scratch) -> Done:
        """The same without the interpreter."""
        result, completed = native.ResultStruct(), np.empty(len(window.numbers) or 1, np.int64)
        table = np.ascontiguousarray(some.table[chosen])
        memory, most = self._room(some.files, chosen.tolist(), staging)
        for row, at in enumerate(chosen.tolist()):
            if not self._allows(some.files.names[at]):
                table[row, 1] = len(some.files.paths) - 1  # a name that no file has
        odd = self._moves.decode(
            *(window.native, table, some.files.paths, decoder),
            *(memory, staging("decoded", some.bytes), result, completed),
            most=most,
            direct=self._direct,
        )
        times = Times(read=result.io_ns / 1e9, decode=result.decode_ns / 1e9, scatter=result.scatter_ns / 1e9)
        complete = take(window, completed, result.completed)
        return Done(result.elements, complete, chosen[odd].tolist(), _visits(len(chosen), result.bytes), times)

    def _allows(self, path: str) -> bool:
        roots = self._view.store.roots
        return bool(path) and (roots is None or roots.allows(path))

    def _fetch(self, some: Rows, at: int, staging: Scratch) -> Flat | None:
        if not self._allows(some.files.names[at]):
            return None
        row = native.address(some.table) + at * some.table.strides[0]
        memory, most = self._room(some.files, [at], staging)
        return self._moves.fetch(row, some.files.paths, memory, most, direct=self._direct)

    def _room(self, files: Files, rows: list[int], staging: Scratch) -> tuple[Flat, int]:
        """Memory for what is stored of each of some units, and the most bytes that may be read into it."""
        sized = self._view.layout.stored_bytes
        size = max(_stored_bytes(self._view.store.medium, files.extents[at]) for at in rows) if sized else self._most
        memory = staging(STORED, size + 2 * PAGE_BYTES)
        return memory, min(memory.size - 2 * PAGE_BYTES, self._most)

    def _decode(self, files: Files, at: int, data: Flat, out: Flat, scratch: Scratch) -> None:
        extent = files.extents[at]
        if extent is None:
            raise CorruptError(f"{files.names[at]}: bytes of a chunk that is not stored")
        try:
            self._view.store.decode(data.data, extent, out, scratch)
        except CorruptError as error:
            index = files.objects[at]
            raise corrupt(self._view, index, extent.path, extent.offset, data.size, str(error)) from error

    def _keep(self, files: Files, at: int, data: Flat, buffers: list[Buffer]) -> None:
        extent = files.extents[at]
        if self._verbatim and extent is not None and not extent.mask:
            for buffer in buffers:
                buffer.keep(data)

    def _places(self, some: Rows, chosen: Ints) -> tuple[Ints, list[int], list[int]]:
        """Per row: strides, origin, start and stop for the compiled loop; bytes of the unit; elements wanted of it."""
        layout = self._view.layout
        bounds = some.table[chosen, native.HEAD :].reshape(len(chosen), layout.ndim, 6)
        places = np.empty((len(chosen), 4, layout.ndim), np.int64)
        stride = np.full(len(chosen), layout.itemsize, np.int64)
        for axis in reversed(layout.order):
            places[:, 0, axis] = stride
            stride = stride * (bounds[:, axis, 3] - bounds[:, axis, 2])
        places[:, 1], places[:, 2], places[:, 3] = bounds[:, :, 2], bounds[:, :, 4], bounds[:, :, 5]
        return places, stride.tolist(), (bounds[:, :, 5] - bounds[:, :, 4]).prod(1).tolist()
