"""The memory of buffers: one count for all threads of a process, and memory that is used again.

Fresh memory costs time: the system finds and clears every page on first touch. So large arrays are lent from blocks
that come back when the last array on them is gone, whoever holds it by then.
"""

from __future__ import annotations

import mmap
import weakref
from collections import deque
from contextlib import suppress
from math import prod
from threading import Lock, RLock
from typing import Any

import numpy as np
import numpy.typing as npt

#: Arrays with fewer bytes are allocated by numpy.
_LENT_BYTES = 1 << 20


class BufferMemory:
    """Counts the bytes of all buffers of this process, and never waits."""

    def __init__(self) -> None:
        # Garbage collection may return bytes while this thread takes some.
        self._lock = RLock()
        self.used = 0
        """Bytes in buffers now."""
        self.peak = 0
        """The most bytes since `reset`."""

    def take(self, size: int, limit: int) -> bool:
        """Reserve bytes; returns False if there would then be more than `limit`."""
        with self._lock:
            if self.used + size > limit:
                return False
            self.used += size
            self.peak = max(self.peak, self.used)
            return True

    def add(self, size: int) -> None:
        """Count bytes that are here already, such as those of a buffer that another worker has sent."""
        with self._lock:
            self.used += size
            self.peak = max(self.peak, self.used)

    def give(self, size: int) -> None:
        """Return bytes."""
        with self._lock:
            self.used -= size


class _Lent(np.ndarray[Any, np.dtype[np.uint8]]):
    """The owner of lent memory: every array on it has it as its base."""


class Lender:
    """Lends memory for arrays, and keeps as many bytes of it for later as it is told."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._free: dict[int, list[mmap.mmap]] = {}
        self._returned: deque[mmap.mmap] = deque()
        self._kept_bytes = 0
        self.keep_bytes = 0
        """The most bytes to keep."""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """An array with arbitrary elements."""
        size = prod(shape) * dtype.itemsize
        if size < _LENT_BYTES or dtype.hasobject:
            return np.empty(shape, dtype)
        block = self._take(size)
        # Straight on the block: numpy would skip an owner that is itself a view of an array.
        owner = _Lent((size,), np.uint8, buffer=block)
        weakref.finalize(owner, self._give, block).atexit = False
        array: npt.NDArray[Any] = np.ndarray(shape, dtype, buffer=owner)
        return array

    def _take(self, size: int) -> mmap.mmap:
        whole = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        with self._lock:
            block = self._pop(whole)
        self._settle()
        if block is not None:
            return block
        block = mmap.mmap(-1, whole)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):
                block.madvise(mmap.MADV_HUGEPAGE)
        return block

    def _give(self, block: mmap.mmap) -> None:
        """Take memory back; garbage collection calls this at any moment, so it waits for nothing."""
        self._returned.append(block)
        self._settle()

    def _settle(self) -> None:
        """Keep or free what was returned, unless another call is about to do that."""
        while self._returned and self._lock.acquire(blocking=False):
            try:
                while self._returned:
                    self._keep(self._returned.popleft())
            finally:
                self._lock.release()

    def _keep(self, block: mmap.mmap) -> None:
        while self._free and self._kept_bytes + len(block) > self.keep_bytes:
            self._pop(next(iter(self._free)))
        if self._kept_bytes + len(block) <= self.keep_bytes:
            self._free.setdefault(len(block), []).append(block)
            self._kept_bytes += len(block)

    def _pop(self, size: int) -> mmap.mmap | None:
        """A free block, which is no longer kept."""
        if size not in self._free:
            return None
        block = self._free[size].pop()
        self._kept_bytes -= size
        if not self._free[size]:
            del self._free[size]
        return block

    def forget(self) -> None:
        """Free all memory that is kept."""
        with self._lock:
            self._free.clear()
            self._kept_bytes = 0
        self._settle()


#: The memory of this process.
MEMORY = BufferMemory()
LENDER = Lender()
