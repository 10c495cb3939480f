"""Source state: records the files of a source when a run begins, and checks later whether they have changed.

A run reads the array that existed when it began. Its files are checked at the start, at each read and at the end ::

    start     all files of the region   → two sums, the number of files, the newest change; a stamp for each object
    reading   the file that was opened, or is missing   → its stamp must be that of the start
    end       all files again           → the sums must be those of the start

The sums do not depend on the order of files, and take no memory; the journal keeps them, so that a resumed run can
compare them too. `firm` adds up number, inode, size and time of the last write, or the absence of the file. `full` adds
the time of the last change of the inode, which cannot be set: it changes with each write, and with rights and names.

The sums do not show a folder that was moved away and back between two checks, because no time of its files changes.
Stamps do: sixteen bits for each object. More than two million objects share stamps; a shared stamp says whether all of
its objects exist, none, or some.
"""

from __future__ import annotations

import ctypes
import errno
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from functools import partial
from itertools import chain, product
from math import prod
from typing import NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from reblock.engine import native
from reblock.engine.native import Stamps
from reblock.engine.view import View
from reblock.errors import DiskError, ReblockError
from reblock.model import Composite, Extent, Index, Medium, Scattered, Status, Store, TransferMode
from reblock.model.medium import Surveyor

#: The most stamps, of two bytes each, and the most suspects that are listed.
_MOST_STAMPS, _MOST_SUSPECTS = 1 << 21, 1 << 14
#: The most stamps that are sent to other processes.
_MOST_CARRIED = 1 << 14
#: Files that are checked in one call, and threads that check.
_BATCH, _THREADS = 1 << 10, 8
#: Stamps: absent, unknown, and the first that describes a file.
_ABSENT, _UNKNOWN, _PRESENT = 0, 1, 2
_STAMPS = 2**16 - _PRESENT
_PRIME = np.uint64(0x9E3779B97F4A7C15)
_NEVER = 2**63 - 1

_Longs = npt.NDArray[np.uint64]
#: Number of the first object, and their files.
_Batch = tuple[int, Sequence[str]]


class SourceSnapshot(NamedTuple):
    """All files of a source at one moment."""

    firm: int
    """Sum of everything that changes only with the bytes."""
    full: int
    """The same with the times of the last change of inodes."""
    present: int
    """Number of files that exist."""
    newest_ns: int
    """The latest of these times, by the clock of the source."""
    suspects: tuple[int, ...] | None
    """Objects whose files differ, or were touched since; None = too many, or unknown."""


class SourceState:
    """The files of a source as they were at the start."""

    def __init__(self, view: View, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Checks all files; KeyboardInterrupt if that is cancelled."""
        self._view, self._medium = view, view.store.medium
        self._scattered = view.store if isinstance(view.store, Scattered) else None
        self._shared = _shared_files(view)
        self._count = prod(view.span[1]) if self._shared is None else len(self._shared)
        share = max(-(-self._count // _MOST_STAMPS), 1)
        table = np.zeros(max(-(-self._count // share), 1), np.uint16)
        self._own = Stamps(table, share, share == 1)
        self.start = self._look(fresh=True, cancelled=cancelled)
        self.stamps = self._own if self._shared is None else self._stamp_of_all()

    def carried(self) -> SourceState:
        """The same with few enough stamps to send it to other processes many times.

        Objects that share a stamp are only checked for their presence while they are read; the caller checks each of
        them again at the end.
        """
        table, share, _ = self.stamps
        if table.size <= _MOST_CARRIED:
            return self
        group = -(-table.size // _MOST_CARRIED)
        kinds = np.minimum(table, _PRESENT)
        starts = np.arange(0, table.size, group)
        least, most = np.minimum.reduceat(kinds, starts), np.maximum.reduceat(kinds, starts)
        small = copy(self)
        few = np.where(least == most, least, _UNKNOWN).astype(np.uint16)
        small.stamps = small._own = Stamps(few, share * group, exact=False)  # noqa: SLF001 - of the same class
        return small

    def again(self, since_ns: int) -> SourceSnapshot:
        """The files as they are now; suspects are those that differ, and those changed at that moment or later."""
        return self._look(since_ns=since_ns)

    def files(self) -> Iterator[str]:
        """All files; an empty name for an object that is not stored."""
        return chain.from_iterable(self._rows())

    def knows(self, number: int, status: Status | None) -> bool:
        """Whether the file of an object looks as it did; None = it does not exist."""
        before = int(self.stamps.table[number // self.stamps.share])
        return _is_known(before, status, exact=self.stamps.exact)

    def path(self, number: int) -> str:
        """The file of a suspect."""
        if self._shared is not None:
            return self._shared[number]
        index = self._view.object_index(self._view.object_at(number))
        return self._paths(index[:-1], (index[-1], index[-1] + 1) if index else ())[0]

    @property
    def shared(self) -> bool:
        """Whether every object may lie in any of the files."""
        return self._shared is not None

    def differing(self, now: SourceSnapshot) -> list[str]:
        """Files that differ, as far as stamps show."""
        table, share, exact = self._own
        paths = {number: self.path(number) for number in now.suspects or ()}
        return [
            path
            for number, path in paths.items()
            if not _is_known(int(table[number // share]), _status(self._medium, path), exact=exact)
        ]

    def touched(self, now: SourceSnapshot, since_ns: int) -> list[str]:
        """Files that changed after a moment; if there are none, those that changed at that very moment."""
        times = {path: _changed_ns(self._medium, path) for path in map(self.path, now.suspects or ())}
        return [path for path, time in times.items() if time > since_ns] or list(times)

    # ---------------------------------------------------------------- one check
    def _look(
        self, *, fresh: bool = False, since_ns: int = _NEVER, cancelled: Callable[[], bool] = lambda: False
    ) -> SourceSnapshot:
        """Check all files with several threads: a remote file system makes each of them wait."""
        table, share, exact = self._own
        compiled = self._medium.is_local and native.library() is not None
        look = native.look if compiled else partial(_look_slowly, self._medium, table)

        def some(batch: _Batch) -> SourceSnapshot:
            if cancelled():
                raise KeyboardInterrupt
            listed = np.empty(len(batch[1]), np.int64)
            into = native.LookStruct(newest=-_NEVER, fresh=fresh, share=share, exact=exact, since=since_ns)
            into.stamps, into.list = native.address(table), native.address(listed)
            into.stamp_count, into.list_count = table.size, listed.size
            look(batch[1], batch[0], into)
            return SourceSnapshot(
                into.firm, into.full, into.present, into.newest, tuple(listed[: into.suspects].tolist())
            )

        batches = self._batches()
        if self._count <= _BATCH:
            return _sum(map(some, batches))
        with ThreadPoolExecutor(_THREADS, "reblock-look") as threads:
            return _sum(_in_turn(threads, some, batches))

    # ---------------------------------------------------------------- which files
    def _batches(self) -> Iterator[_Batch]:
        """All files in the order of their objects, many at a time, with the number of the first.

        Objects that share a stamp are in one batch.
        """
        size, number = self._own.share * -(-_BATCH // self._own.share), 0
        waiting: list[str] = []
        for paths in self._rows():
            waiting += paths
            while len(waiting) >= size:
                yield number, waiting[:size]
                waiting, number = waiting[size:], number + size
        if waiting:
            yield number, waiting

    def _rows(self) -> Iterator[Sequence[str]]:
        """The files of objects, row by row along the last axis."""
        if self._shared is not None:
            yield self._shared
            return
        first, counts = self._view.span
        if not counts:
            yield self._paths(first, ())
            return
        stop = first[-1] + counts[-1]
        rows = [(start, min(start + _BATCH, stop)) for start in range(first[-1], stop, _BATCH)]
        for index in product(*(range(a, a + n) for a, n in zip(first[:-1], counts[:-1], strict=True))):
            for row in rows:
                yield self._paths(index, row)

    def _paths(self, outer: Index, last: tuple[int, ...]) -> Sequence[str]:
        store = self._view.store
        if not last:
            return [_path(store, outer)]
        if self._scattered is not None:
            return self._scattered.object_files(outer, range(*last))
        return [_path(store, (*outer, index)) for index in range(*last)]

    def _stamp_of_all(self) -> Stamps:
        """One stamp for all objects of shared files: the stamp of the one file that holds them."""
        # The first objects of an array that consists of others may be in one file; the rest is not.
        homes = set() if isinstance(self._view.store, Composite) else _homes(self._view)
        stamps, share = self._own.table, max(prod(self._view.span[1]), 1)
        if len(homes) == 1 and self._shared is not None:
            at = self._shared.index(homes.pop())
            return Stamps(stamps[at : at + 1], share, exact=True)
        kind = _PRESENT if (stamps >= _PRESENT).all() else _UNKNOWN
        return Stamps(np.array([kind], np.uint16), share, exact=False)


def _in_turn(
    threads: ThreadPoolExecutor, look: Callable[[_Batch], SourceSnapshot], batches: Iterable[_Batch]
) -> Iterator[SourceSnapshot]:
    """Check batches in order; only a few are made ahead."""
    ahead: deque[Future[SourceSnapshot]] = deque()
    for batch in batches:
        ahead.append(threads.submit(look, batch))
        if len(ahead) > 2 * _THREADS:
            yield ahead.popleft().result()
    while ahead:
        yield ahead.popleft().result()


def _sum(looks: Iterable[SourceSnapshot]) -> SourceSnapshot:
    """The sum of the snapshots of all batches."""
    firm = full = present = 0
    newest, few = -_NEVER, True
    suspects: list[int] = []
    for one in looks:
        firm, full, present = firm + one.firm, full + one.full, present + one.present
        newest = max(newest, one.newest_ns)
        few = few and len(suspects) + len(one.suspects or ()) <= _MOST_SUSPECTS
        suspects += one.suspects or () if few else ()
    return SourceSnapshot(firm % 2**64, full % 2**64, present, newest, tuple(suspects) if few else None)


def _shared_files(view: View) -> list[str] | None:
    """The files that hold all elements, if objects have no files of their own."""
    store = view.store
    if isinstance(store, Scattered):
        return None
    described = list(store.described_by)
    return described if store.reads is TransferMode.BOX or _homes(view) <= set(described) else None


def _homes(view: View) -> set[str]:
    """The files of some objects: the first one inside the region, and its neighbours."""
    first, counts = view.span
    some = [first, *((*first[:a], x + 1, *first[a + 1 :]) for a, x in enumerate(first) if counts[a] > 1)]
    return {path for path in (_path(view.store, index) for index in some) if path} if prod(counts) else set()


def _path(store: Store, index: Index) -> str:
    """The file of an object; "" if it is not stored, or if finding it fails, which a reader will report."""
    asked: list[str] = []

    def read(extent: Extent) -> NoReturn:
        asked.append(extent.path)
        raise FileNotFoundError

    units = store.layout.units.touching(store.layout.objects.box(index))
    try:
        extents = store.extents(index, [next(iter(units))], read)
    except (ReblockError, FileNotFoundError):
        extents = [None]
    return asked[0] if asked else extents[0].path if extents[0] else ""


def _changed_ns(medium: Medium, key: str) -> int:
    found = _status(medium, key)
    return _NEVER if found is None else found.changed_ns


def _status(medium: Medium, key: str) -> Status | None:
    """The status of an object; None if it has none."""
    try:
        return medium.status(key)
    except (FileNotFoundError, DiskError):
        return None


def _is_known(before: int, status: Status | None, *, exact: bool) -> bool:
    """Whether a file fits its stamp."""
    if status is None:
        return before < _PRESENT
    return before in (_UNKNOWN, _stamp(status)) if exact else before != _ABSENT


# ---------------------------------------------------------------- the counterpart of `looking.c` in Python
def _look_slowly(
    medium: Medium, table: npt.NDArray[np.uint16], paths: Sequence[str], number: int, into: native.LookStruct
) -> None:
    numbers = np.arange(number, number + len(paths), dtype=np.uint64)
    errors, seen = _stat_all(medium, paths)
    there = errors == 0
    looks = _scramble(np.uint64(0), *seen.T[:3])
    stamps = np.where(there, _PRESENT + looks % np.uint64(_STAMPS), np.minimum(errors ^ np.uint64(errno.ENOENT), 1))
    firm = np.where(there, _scramble(numbers, looks, np.uint64(1)), _scramble(numbers, errors))
    full = _scramble(np.where(there, _scramble(firm, seen[:, 3]), firm), np.uint64(2))
    into.firm = (into.firm + int(firm.sum(dtype=np.uint64))) % 2**64
    into.full = (into.full + int(full.sum(dtype=np.uint64))) % 2**64
    into.present += int(there.sum())
    changed = np.where(there, seen[:, 3].view(np.int64), -_NEVER)
    into.newest = max(into.newest, int(changed.max(initial=-_NEVER)))
    slots = numbers.astype(np.int64) // into.share
    if into.fresh and into.exact:
        table[slots] = stamps
    elif into.fresh:
        for at, slot, kind in zip(numbers.tolist(), slots.tolist(), np.minimum(stamps, _PRESENT), strict=True):
            table[slot] = kind if at % into.share == 0 or table[slot] == kind else _UNKNOWN
    else:
        differs = table[slots] != stamps if into.exact else np.zeros(len(paths), bool)
        found = numbers[differs | (changed >= into.since)].astype(np.int64)
        ctypes.memmove(into.list, native.address(found), found.nbytes)
        into.suspects = len(found)


def _stat_all(medium: Medium, paths: Sequence[str]) -> tuple[_Longs, _Longs]:
    """Errors; identity, size, times of the last write and of the last change."""
    errors, seen = np.zeros(len(paths), np.uint64), np.zeros((len(paths), 4), np.int64)
    if isinstance(medium, Surveyor):
        for row, status in enumerate(medium.survey(paths)):
            if status is None:
                errors[row] = errno.ENOENT
            else:
                seen[row] = _signed(status.identity), status.size, status.modified_ns, status.changed_ns
        return errors, seen.view(np.uint64)
    for row, path in enumerate(paths):
        try:
            found = medium.status(path)
        except FileNotFoundError:
            errors[row] = errno.ENOENT
        except DiskError as error:
            errors[row] = error.errno or errno.EIO
        else:
            seen[row] = _signed(found.identity), found.size, found.modified_ns, found.changed_ns
    return errors, seen.view(np.uint64)


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _stamp(status: Status) -> int:
    found = 0
    for value in (status.identity, status.size, status.modified_ns):
        found = (found ^ value % 2**64) * int(_PRIME) % 2**64
        found ^= found >> 32
    return _PRESENT + found % _STAMPS


def _scramble(found: _Longs | np.uint64, *columns: _Longs | np.uint64) -> _Longs:
    """Mix columns of numbers into a hash."""
    for column in columns:
        mixed = np.asarray(found ^ column) * _PRIME
        found = mixed ^ (mixed >> np.uint64(32))
    return np.asarray(found)
