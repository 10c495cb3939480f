"""Fetching: the bytes of a visit, read through the medium of its store, and decoded by the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from time import perf_counter, thread_time
from typing import Self

from reblock.engine.memory.scratch import STORED
from reblock.engine.pipeline.readers.opener import Opener
from reblock.engine.pipeline.readers.visits import Loaded, Piece, Visit
from reblock.engine.report import Times
from reblock.engine.view import shaped
from reblock.errors import CorruptError
from reblock.model import Extent, Flat, ReadHandle, Scratch, Traffic, fresh
from reblock.model.medium import DIRECT_BYTES, PAGE_BYTES

#: Lends the memory that a codec needs between its stages.
Decoding = Callable[[], AbstractContextManager[Scratch]]


def without_scratch() -> AbstractContextManager[Scratch]:
    """For codecs that need no scratch memory, and for readers that count none."""
    return nullcontext(fresh)


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
    """Whether every piece is one run that is long enough to bypass the page cache."""
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


class SharedFile:
    """The file of a raw visit: the first piece opens it, and the last one closes it."""

    def __init__(self, visit: Visit, opener: Opener, users: int | None = None) -> None:
        """Each user calls `done` once; without a number, the pieces of the visit are the users."""
        self.visit = visit
        self._opener = opener
        self._lock = Lock()
        self._left = len(visit.pieces) if users is None else users
        self._opened: tuple[ReadHandle, int] | None = None
        self._tried = False
        self._charged = self._counted = False
        self._error: Exception | None = None

    def open(self) -> tuple[ReadHandle, int] | None:
        """The file and where the object starts in it; None where it is not stored."""
        with self._lock:
            if not self._tried:
                self._tried = True
                try:
                    self._opened = open_raw(self._opener, self.visit)
                except Exception as error:
                    # Every piece must raise it: an object that cannot be opened must not count as missing.
                    self._error = error
                    raise
            if self._error is not None:
                raise self._error
            return self._opened

    def traffic(self) -> Traffic:
        """The traffic of the visit, for the first piece; none for the others."""
        first, self._charged = not self._charged, True
        return self.visit.traffic if first else Traffic()

    def count_missing(self) -> bool:
        """Whether this piece is the first to find that the object is not stored: it counts once."""
        with self._lock:
            first, self._counted = not self._counted, True
            return first

    def done(self) -> None:
        """Report that a piece no longer needs the file."""
        with self._lock:
            self._left -= 1
            if not self._left and self._opened:
                self._opened[0].close()


def read_units(
    visit: Visit,
    opener: Opener,
    staging: Scratch,
    times: Times | None = None,
    decoding: Decoding = without_scratch,
) -> Iterator[Loaded]:
    """Read and decode every unit of a visit; an array is valid until the next one is read.

    `decoding` lends the scratch memory of the codec, which threads may share.
    """
    times = times or Times()
    store = visit.view.store
    with _OpenFiles(opener, visit.number, direct=visit.view.layout.unit_bytes >= DIRECT_BYTES) as files:

        def read_index(extent: Extent) -> bytes:
            return _fetch(visit, files, extent, staging, "index").tobytes()

        wanted = [visit.view.unit_index(piece.unit) for piece in visit.pieces]
        try:
            found = store.extents(visit.view.object_index(visit.index), wanted, read_index)
        except FileNotFoundError:  # a shard without its file has no index either
            found = [None] * len(wanted)
        for piece, extent in zip(visit.pieces, found, strict=True):
            try:
                loaded = Loaded(piece.box, piece.wanted, None)
                if extent is not None:
                    loaded = _unit(visit, piece, extent, files, staging, times, decoding)
            except FileNotFoundError:
                pass
            yield loaded


def _unit(
    visit: Visit,
    piece: Piece,
    extent: Extent,
    files: _OpenFiles,
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


def _fetch(visit: Visit, files: _OpenFiles, extent: Extent, staging: Scratch, slot: str) -> Flat:
    """The bytes of an extent, checked against the file's size and against the largest size of a unit."""
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


class _OpenFiles:
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
    """The index reader of raw objects, which have no index."""
    raise CorruptError(f"{extent.path}: a raw object has no index")
