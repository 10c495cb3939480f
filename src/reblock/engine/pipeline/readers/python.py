"""Reading: the visits that a read box pays to stored objects, and the bytes that they bring.

A read box meets objects; each meeting is a visit. A raw object is read in pieces, by byte runs or whole, and the
pieces of one visit may be read by several threads; encoded units and shards are read and decoded unit by unit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from threading import Lock
from time import perf_counter, thread_time
from typing import NamedTuple, NoReturn, Self

import numpy as np

from reblock.engine.memory.buffers import STORED
from reblock.engine.native import PROBLEMS, ResultStruct
from reblock.engine.pipeline.readers.opener import Opener, changed
from reblock.engine.report import Times
from reblock.engine.view import Array, View, shaped
from reblock.errors import CorruptError, DiskError
from reblock.geometry import Box
from reblock.geometry.axis import Ints
from reblock.geometry.runs import pieces, runs
from reblock.model import Access, Extent, Flat, Index, Layout, ReadHandle, Scratch, Way, fresh
from reblock.model.medium import DIRECT_BYTES, PAGE_BYTES

#: Gives who decodes a unit the memory for what is between the stages of its codec.
Decoding = Callable[[], AbstractContextManager[Scratch]]


def without_scratch() -> AbstractContextManager[Scratch]:
    """For codecs that need none, or readers that count none."""
    return nullcontext(fresh)


class Loaded(NamedTuple):
    """Elements that have arrived."""

    box: Box
    """What the array covers, in the view's axes."""
    wanted: Box
    """The part of it that belongs to the read box."""
    array: Array | None
    """The elements; None where they are not stored."""
    stored: Flat | None = None
    """The bytes that they were decoded from, by all the filters that there are; None where they are raw."""
    filled: bool = False
    """Whether the format's library gave the elements of a unit that is not stored."""

    @property
    def missing(self) -> bool:
        """Whether the unit is not stored."""
        return self.array is None or self.filled


@dataclass(frozen=True)
class Piece:
    """Elements of one object that are read together."""

    box: Box
    """What is read, in the view's axes, overhang included where whole units are read."""
    wanted: Box
    """The part of it that belongs to the read box."""
    offsets: Ints | None = None
    """Where a raw piece's runs start inside its object, in elements."""
    length: int = 0
    """Length of a raw piece's runs, in elements."""
    unit: Index = ()
    """The unit, where units are read whole."""


@dataclass(frozen=True)
class Visit:
    """One visit of a read box to one object."""

    view: View
    """Where it reads."""
    index: Index
    """The object, in the view's numbering."""
    pieces: tuple[Piece, ...]
    """What it reads, in disk order."""
    raw: bool
    """Whether the pieces are byte runs, each to be read on its own; else the visit decodes units."""
    runs: int
    """Contiguous byte ranges."""
    bytes: int
    """Logical bytes."""
    whole: bool
    """Whether it touches all of the object, so that its runs are no extra seeks."""

    @property
    def number(self) -> int:
        """Number of the object, by which it is known what its file looked like."""
        return self.view.object_number(self.index)

    def corrupt(self, path: str, offset: int, length: int, reason: str) -> CorruptError:
        """An error that names array, chunk, path and byte range."""
        return corrupt(self.view, self.view.object_index(self.index), path, offset, length, reason)


def corrupt(view: View, index: Index, path: str, offset: int, length: int, reason: str) -> CorruptError:
    """An error that names array, chunk, path and byte range."""
    chunk = ",".join(map(str, index))
    return CorruptError(
        f"{view.store.location}: chunk ({chunk}) in {path}, bytes {offset} to {offset + length}: {reason}"
    )


def missing(view: View, index: Index) -> CorruptError:
    """An error that names a chunk that is not stored, and why that is one."""
    chunk = ",".join(map(str, index))
    why = "and missing chunks are errors here" if view.store.fills else "and this format defines no fill for it"
    return CorruptError(f"{view.store.location}: chunk ({chunk}) is missing, {why}")


def raise_problem(view: View, index: Index, path: str, result: ResultStruct) -> NoReturn:
    """What the compiled loop met, as an error."""
    problem = PROBLEMS[result.problem]
    offset, length, found = result.offset, result.length, max(result.found, 0)
    if problem == "missing":
        raise missing(view, index)
    if problem == "wrong size":
        raise corrupt(view, index, path, offset, length, f"the file holds {found} bytes there")
    if problem == "short":
        raise corrupt(view, index, path, offset, length, f"only {found} bytes are there")
    if problem == "changed":
        raise changed(view.store.medium, path)
    raise DiskError.wrap(OSError(result.error, os.strerror(result.error)), doing=problem, path=path)


def full_axes(layout: Layout, access: Access, coalesced: int) -> Collection[int]:
    """The axes along which raw objects are read in full."""
    return range(layout.ndim) if access is Access.UNITS else layout.order[layout.ndim - coalesced :]


def visits(view: View, box: Box, full: Collection[int], piece_bytes: int) -> Iterator[Visit]:
    """The visits that one read box pays; along the `full` axes raw objects are read in full."""
    layout = view.layout
    raw = not (layout.encoded or layout.indexed)
    for index in layout.objects.touching(box):
        reach = layout.objects.box(index).intersect(box)
        if reach is None:
            continue
        visit = raw_visit(view, index, reach, full, piece_bytes) if raw else unit_visit(view, index, reach)
        # A store that reads boxes itself is asked for the same pieces, so that they fit and count as planned.
        yield replace(visit, raw=False) if view.store.reads is Way.BOX else visit


def raw_visit(view: View, index: Index, reach: Box, full: Collection[int], piece_bytes: int) -> Visit:
    """A visit that reads byte runs of a raw object, in pieces."""
    layout = view.layout
    stored = layout.objects.stored(index)
    sides = [stored if axis in full else reach for axis in range(layout.ndim)]
    part = Box(
        tuple(side.start[axis] for axis, side in enumerate(sides)),
        tuple(side.stop[axis] for axis, side in enumerate(sides)),
    )
    parts: list[Piece] = []
    count, end = 0, -1
    for piece in pieces(part, layout.order, max(piece_bytes // layout.itemsize, 1)):
        offsets, length = runs(stored, piece, layout.order)
        count += len(offsets) - (int(offsets[0]) == end)
        end = int(offsets[-1]) + length
        wanted = piece.intersect(reach)
        parts.append(Piece(piece, wanted or Box(piece.start, piece.start), offsets, length))
    return Visit(view, index, tuple(parts), True, count, part.size * layout.itemsize, part == stored)


def unit_visit(view: View, index: Index, reach: Box, units: Iterable[Index] | None = None) -> Visit:
    """A visit that decodes whole units: all that meet a box, or some of them."""
    layout = view.layout
    parts: list[Piece] = []
    for unit in layout.units.touching(reach) if units is None else units:
        wanted = layout.units.box(unit).intersect(reach)
        if wanted is not None:
            parts.append(Piece(layout.units.stored(unit), wanted, unit=unit))
    size = sum(piece.box.size for piece in parts) * layout.itemsize
    count = len(parts) + 1 if layout.indexed else 1
    return Visit(view, index, tuple(parts), False, count, size, not layout.indexed)


def open_raw(opener: Opener, visit: Visit) -> tuple[ReadHandle, int] | None:
    """The file of a raw object and where the object starts in it; None where it is not stored."""
    index = visit.view.object_index(visit.index)
    (extent,) = visit.view.store.extents(index, [index], no_index)
    if extent is None:
        return None
    try:
        handle = opener.reader(extent.path, direct=_is_large(visit), number=visit.number)
        found = handle.size() - extent.offset
    except FileNotFoundError:
        return None
    expected = visit.view.layout.objects.stored(visit.index).size * visit.view.layout.itemsize
    if found < expected or (extent.length is None and found > expected):
        handle.close()
        raise visit.corrupt(extent.path, extent.offset, expected, f"the file holds {max(found, 0)} bytes there")
    return handle, extent.offset


def _is_large(visit: Visit) -> bool:
    """Whether every piece is one long run, which is worth to be read past the page cache."""
    first = visit.pieces[0]
    return visit.runs == 1 and first.length * visit.view.layout.itemsize >= DIRECT_BYTES


def read_raw(visit: Visit, piece: Piece, opened: tuple[ReadHandle, int] | None, staging: Scratch) -> Loaded:
    """One piece of a raw object."""
    if opened is None or piece.offsets is None:
        return Loaded(piece.box, piece.wanted, None)
    layout = visit.view.layout
    handle, origin = opened
    size = piece.box.size * layout.itemsize
    step = piece.length * layout.itemsize
    if len(piece.offsets) == 1:
        begin = origin + int(piece.offsets[0]) * layout.itemsize
        flat, got = handle.read_run(staging("stored", size + 2 * PAGE_BYTES), begin, size)
        if got < size:
            raise visit.corrupt(handle.key, begin, size, f"only {got} bytes are there")
        return Loaded(piece.box, piece.wanted, shaped(flat, piece.box, layout))
    flat = staging("stored", size)[:size]
    memory = flat.data
    for number, offset in enumerate(piece.offsets.tolist()):
        begin = origin + offset * layout.itemsize
        got = handle.read(memory[number * step : (number + 1) * step], begin)
        if got < step:
            raise visit.corrupt(handle.key, begin, step, f"only {got} bytes are there")
    return Loaded(piece.box, piece.wanted, shaped(flat, piece.box, layout))


class Shared:
    """The file of a raw visit, opened by the first piece and closed by the last."""

    def __init__(self, visit: Visit, opener: Opener) -> None:
        self.visit = visit
        self._opener = opener
        self._lock = Lock()
        self._left = len(visit.pieces)
        self._opened: tuple[ReadHandle, int] | None = None
        self._tried = False
        self._counted = False
        self._error: Exception | None = None

    def open(self) -> tuple[ReadHandle, int] | None:
        """The file and where the object starts in it; None where it is not stored."""
        with self._lock:
            if not self._tried:
                self._tried = True
                try:
                    self._opened = open_raw(self._opener, self.visit)
                except Exception as error:
                    # Every piece must see it: an object that cannot be opened is not one that is not stored.
                    self._error = error
                    raise
            if self._error is not None:
                raise self._error
            return self._opened

    def count_missing(self) -> bool:
        """True for the first piece that asks: an object that is not stored counts once."""
        with self._lock:
            first, self._counted = not self._counted, True
            return first

    def done(self) -> None:
        """One piece less."""
        with self._lock:
            self._left -= 1
            if not self._left and self._opened:
                self._opened[0].close()


def read_units(
    visit: Visit,
    opener: Opener,
    staging: Scratch,
    times: Times | None = None,
    decoding: Decoding | None = None,
) -> Iterator[Loaded]:
    """Every unit of a visit that decodes; the array is valid until the next one is asked for.

    Who decodes takes scratch memory, which may be shared.
    """
    times = times or Times()
    store = visit.view.store
    if store.reads is Way.BOX:
        counted = False
        for piece in visit.pieces:
            if not piece.wanted.size:
                continue
            box = visit.view.store_box(piece.wanted)
            out = np.empty(box.shape, visit.view.layout.dtype)
            filled = not store.read_box(box, out) and not counted
            # An object that is not stored counts once, not for each of its pieces.
            counted = counted or (filled and piece.offsets is not None)
            yield Loaded(piece.wanted, piece.wanted, out.transpose(visit.view.axes), filled=filled)
        return
    with _Files(opener, visit.number, direct=visit.view.layout.unit_bytes >= DIRECT_BYTES) as files:

        def read_index(extent: Extent) -> bytes:
            return _fetch(visit, files, extent, staging, "index").tobytes()

        wanted = [visit.view.unit_index(piece.unit) for piece in visit.pieces]
        try:
            found = store.extents(visit.view.object_index(visit.index), wanted, read_index)
        except FileNotFoundError:  # a shard without its file has no index either
            found = [None] * len(wanted)
        for piece, extent in zip(visit.pieces, found, strict=True):
            try:
                none = Loaded(piece.box, piece.wanted, None)
                yield (
                    none
                    if extent is None
                    else _unit(visit, piece, extent, files, staging, times, decoding or without_scratch)
                )
            except FileNotFoundError:
                yield none


def _unit(
    visit: Visit,
    piece: Piece,
    extent: Extent,
    files: _Files,
    staging: Scratch,
    times: Times,
    decoding: Decoding,
) -> Loaded:
    layout = visit.view.layout
    began = perf_counter()
    data = _fetch(visit, files, extent, staging, STORED)
    times.read += perf_counter() - began
    size = piece.box.size * layout.itemsize
    if not layout.encoded:
        if data.size != size:
            raise visit.corrupt(extent.path, extent.offset, data.size, f"{size} bytes were expected")
        return Loaded(piece.box, piece.wanted, shaped(data, piece.box, layout))
    out = staging("decoded", size)[:size]
    try:
        with decoding() as scratch:
            began = thread_time()
            visit.view.store.decode(data.data, extent, out, scratch)
            times.decode += thread_time() - began
    except CorruptError as error:
        raise visit.corrupt(extent.path, extent.offset, data.size, str(error)) from error
    return Loaded(piece.box, piece.wanted, shaped(out, piece.box, layout), None if extent.mask else data)


def _fetch(visit: Visit, files: _Files, extent: Extent, staging: Scratch, slot: str) -> Flat:
    """The bytes of an extent, checked against the file's size and against what a unit may take."""
    handle = files.open(extent.path)
    size = handle.size()
    offset = extent.offset if extent.offset >= 0 else size + extent.offset
    length = size - offset if extent.length is None else extent.length
    if offset < 0 or length < 0 or offset + length > size:
        raise visit.corrupt(extent.path, extent.offset, length, f"the file has {size} bytes")
    limit = visit.view.layout.most_stored_bytes
    if slot == STORED and length > limit:
        when = "" if not visit.view.layout.stored_bytes else ", or did when the run was planned"
        raise visit.corrupt(extent.path, offset, length, f"a chunk here takes at most {limit} bytes{when}")
    alone = extent.length is None and not extent.offset
    flat, got = handle.read_run(staging(slot, length + 2 * PAGE_BYTES), offset, length, once=alone)
    if got < length:
        raise visit.corrupt(extent.path, offset, length, f"only {got} bytes are there")
    return flat


class _Files:
    """Files of one visit, each opened once."""

    def __init__(self, opener: Opener, number: int, *, direct: bool) -> None:
        self._opener, self._number, self._direct = opener, number, direct
        self._handles: dict[str, ReadHandle] = {}

    def open(self, path: str) -> ReadHandle:
        if path not in self._handles:
            self._handles[path] = self._opener.reader(path, direct=self._direct, number=self._number)
        return self._handles[path]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles.values():
            handle.close()


def no_index(extent: Extent) -> bytes:
    """What raw objects answer when asked for the bytes that tell where others lie."""
    raise CorruptError(f"{extent.path}: a raw object has no index")
