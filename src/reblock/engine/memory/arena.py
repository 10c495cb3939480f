"""Arena: provides the engine's memory, aligned for direct transfers, in huge pages where that is fast."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from functools import cache, partial
from threading import Lock
from time import thread_time

import numpy as np

from reblock.model import Flat
from reblock.model.medium import DIRECT_BYTES, round_up

#: Smaller buffers come from the allocator; larger ones are mapped, so that they are aligned for direct transfers and
#: returning them really frees them.
MAPPED_BYTES = DIRECT_BYTES
#: From this size on huge pages are requested: fewer faults at the first touch.
_HUGE_BYTES = 2 << 20
#: A huge page that takes longer than this costs more than small pages: the host must assemble it first.
_SLOW_SECONDS = 1.5e-3

#: Gives memory back to the system.
Release = Callable[[], None]


class Arena:
    """The source of buffers: those of medium size are cut from one mapping, so that they share huge pages.

    A mapping takes only the memory that is touched, up to the end of a huge page, and ends with its last buffer. Huge
    pages are requested as long as the first one of each mapping comes quickly.
    """

    def __init__(self, size: int = 0) -> None:
        """`size` bytes are mapped at a time, at least a huge page."""
        self._bytes = max(size, _HUGE_BYTES)
        self._lock = Lock()
        self._mapping: mmap.mmap | None = None
        self._next = 0
        self._huge = True

    def cut(self, size: int) -> tuple[Flat, Release]:
        """Fresh memory, and a function that returns it to the system even if others share the mapping."""
        if size < MAPPED_BYTES:
            return allocate(size), nothing
        if size >= _HUGE_BYTES:
            own = self._map(size)
            return np.frombuffer(own, np.uint8, size), partial(_release, own, 0, len(own))
        with self._lock:
            mapping, start = self._mapping, self._next
            if mapping is None or start + size > len(mapping):
                mapping, start = self._mapping, self._next = self._map(self._bytes), 0
            self._next = start + round_up(size)
        return np.frombuffer(mapping, np.uint8, size, start), partial(_release, mapping, start, round_up(size))

    def _map(self, size: int) -> mmap.mmap:
        mapping = _mapped(size, huge=self._huge)
        if self._huge and _is_slow(mapping):
            self._huge = False
            mapping.madvise(mmap.MADV_NOHUGEPAGE)
        return mapping


def untouched(size: int) -> tuple[Flat, Release]:
    """Memory that takes only the pages that are touched, and a function that returns these to the system."""
    mapping = _mapped(size, huge=False)
    return np.frombuffer(mapping, np.uint8, size), partial(_release, mapping, 0, len(mapping))


def allocate(size: int) -> Flat:
    """Fresh memory, page-aligned if it is large."""
    return np.empty(size, np.uint8) if size < MAPPED_BYTES else np.frombuffer(_mapped(size), np.uint8, size)


def _is_slow(mapping: mmap.mmap) -> bool:
    """Touch the first huge page of a mapping; returns whether that took long in processor time of this thread."""
    start = -ctypes.addressof(ctypes.c_char.from_buffer(mapping)) % _HUGE_BYTES
    if start + _HUGE_BYTES > len(mapping) or not hasattr(mmap, "MADV_NOHUGEPAGE"):
        return False
    began = thread_time()
    mapping[start] = 0
    return thread_time() - began > _SLOW_SECONDS


def _mapped(size: int, *, huge: bool = True) -> mmap.mmap:
    # By default Python maps shared memory, which gets no huge pages.
    if hasattr(mmap, "MAP_PRIVATE"):
        mapping = mmap.mmap(-1, round_up(size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    else:
        mapping = mmap.mmap(-1, round_up(size))
    if size >= _HUGE_BYTES and hasattr(mmap, "MADV_HUGEPAGE"):
        mapping.madvise(mmap.MADV_HUGEPAGE if huge else mmap.MADV_NOHUGEPAGE)
    return mapping


def _release(mapping: mmap.mmap, start: int, length: int) -> None:
    if hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED, start, length)


def nothing() -> None:
    """Memory from the allocator is freed when the last reference is dropped."""


@cache
def _trim() -> Callable[[int], int] | None:
    """Glibc's `malloc_trim`, if that is the allocator."""
    try:
        found = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    found.restype, found.argtypes = ctypes.c_int, [ctypes.c_size_t]
    return found


def return_freed_memory() -> None:
    """Make the allocator return the memory that codecs freed, because the next pass has the same budget.

    This is a request, not a setting. The allocator's settings belong to the process that called us: glibc cannot report
    them, and setting one ends its automatic adjustment for good.
    """
    if trim := _trim():
        trim(0)
