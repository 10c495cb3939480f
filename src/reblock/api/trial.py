"""Trials: how fast a codec is on a little of the source's own data, and how much it leaves of it.

A table of speeds by codec and level can be wrong by a factor of ten, since speed depends on the data. So a codec that
no run has measured is tried: at most 1 MiB of the source is read, through its store and its medium, and at most 50 ms
are spent on each codec, once its library is loaded. What goes wrong here goes wrong again in the run, which has the
words for it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from time import perf_counter, thread_time
from typing import Any

import numpy as np

from reblock.cost import PRESETS
from reblock.cost.codecs import codec_rate
from reblock.errors import ReblockError
from reblock.model import Codec, Extent, Flat, Store, TransferMode
from reblock.storage.codecs.chain import Chain

#: Most bytes that are read of the source, and that are encoded.
MAX_BYTES = 1 << 20
#: Most seconds for one codec.
MAX_SECONDS = 0.05
#: Most bytes that those of the source are decoded to.
MAX_DECODED = 8 << 20
#: How many times slower than a table says a decoder may be that has no more time than that.
_SLOWER = 8
#: Bytes that are encoded first; then twice as many, while there is time.
_FIRST_BYTES = 16 << 10
#: How many times longer twice as many bytes may take.
_GROWTH = 2.5
#: How often a codec is tried on the same bytes, if there is time.
_REPEATS = 3
#: What reading and coding may raise.
_FAILURES = (ReblockError, OSError, ValueError, RuntimeError, TypeError, MemoryError)


@dataclass(frozen=True)
class Trial:
    """How a codec did."""

    bytes_per_second: float
    """Bytes of elements per processor second."""
    stored_part: float
    """Stored bytes over bytes of elements."""
    bytes: int
    """Bytes of elements that were tried."""


@dataclass(frozen=True)
class Excerpt:
    """A little of the source."""

    elements: Flat
    """Bytes of elements, as they lie in a unit."""
    decoding: Trial | None = None
    """How long it took to decode them; None where they are raw."""


def excerpt(store: Store, memory_bytes: int) -> Excerpt | None:
    """Read a unit from the middle of an array, or a part of a raw one; None where that is too much or not possible."""
    layout = store.layout
    size = layout.unit_bytes if layout.encoded else min(layout.unit_bytes, MAX_BYTES)
    memory = layout.unit_memory_bytes if layout.encoded else size
    if (
        store.reads is TransferMode.BOX
        or not layout.nbytes
        or memory > memory_bytes
        or size > _most_decoded(layout.codec)
    ):
        return None
    try:
        return _excerpt(store, size)
    except _FAILURES:
        return None


def _most_decoded(codec: str) -> int:
    """Bytes that a decoder has time for, even if it is much slower than usual."""
    usual = codec_rate(PRESETS["nvme"].decode_bytes_per_second, codec, encoding=False)
    return int(min(usual * MAX_SECONDS / _SLOWER, MAX_DECODED))


def _excerpt(store: Store, size: int) -> Excerpt | None:
    layout = store.layout
    unit = tuple(count // 2 for count in layout.units.counts)
    start = layout.units.box(unit).start
    owner = tuple(axis.index(x) for axis, x in zip(layout.objects.axes, start, strict=True))
    (extent,) = store.extents(owner, [unit], lambda one: _fetch(store, one, MAX_BYTES).tobytes())
    if extent is None or extent.mask:
        return None
    if not layout.encoded:
        return Excerpt(_fetch(store, extent, size, whole=False))
    stored, out = _fetch(store, extent, MAX_BYTES), np.empty(size, np.uint8)
    _load(store.schema.codec, layout.dtype)
    worked, _, _ = _work(lambda: store.decode(stored.data, extent, out), perf_counter())
    return Excerpt(out, Trial(size / worked, stored.size / size, size))


def _work(call: Callable[[], Flat | None], began: float) -> tuple[float, float, Flat | None]:
    """Processor seconds of a call, the fewest of some: the first one meets cold memory; those of the clock; its result.

    It is repeated as long as time is left since `began`.
    """
    worked, took = inf, 0.0
    for _ in range(_REPEATS):
        first, before = perf_counter(), thread_time()
        result = call()
        worked, took = min(worked, thread_time() - before), perf_counter() - first
        if perf_counter() - began + took > MAX_SECONDS:
            break
    return max(worked, 1e-9), took, result


def _fetch(store: Store, extent: Extent, most: int, *, whole: bool = True) -> Flat:
    """Stored bytes of an extent: all of them, which may not be more than `most`, or the first ones."""
    with store.medium.reader(extent.path, roots=store.roots) as handle:
        offset = extent.offset if extent.offset >= 0 else handle.size() + extent.offset
        length = handle.size() - offset if extent.length is None else extent.length
        if length > most and whole:
            raise ValueError(f"{length} bytes")
        found = np.empty(max(min(length, most), 0), np.uint8)
        return found[: handle.read(found.data, offset)]


def _load(codec: Codec, dtype: np.dtype[Any]) -> None:
    """Have the library of a codec loaded: that takes longer than a trial, and is no part of it."""
    with suppress(*_FAILURES):
        Chain(codec, dtype).encode(np.zeros(64 * dtype.itemsize, np.uint8))


def made_up(dtype: np.dtype[Any]) -> Flat:
    """A smooth field with noise in its last digits, for a source that cannot be read in little pieces."""
    count = MAX_BYTES // 4 // dtype.itemsize
    random = np.random.default_rng(0)
    if dtype.kind not in "iufc":
        return random.integers(0, 16, count * dtype.itemsize, np.uint8)
    values = np.sin(np.linspace(0, 40, count)) * 100 + random.integers(0, 16, count) / 16
    return np.ascontiguousarray((np.abs(values) if dtype.kind == "u" else values).astype(dtype)).view(np.uint8)


def try_encoding(codec: Codec, dtype: np.dtype[Any], elements: Flat) -> Trial | None:
    """Encode more and more of some elements, until all of them are or time is up; None where that is not possible."""
    chain, found = Chain(codec, dtype), None
    _load(codec, dtype)
    began, most = perf_counter(), min(elements.size, MAX_BYTES)
    size = min(_FIRST_BYTES, most)
    with suppress(*_FAILURES):
        while size := size // dtype.itemsize * dtype.itemsize:
            some = elements[:size].copy()
            worked, took, stored = _work(partial(chain.encode, some), began)
            found = Trial(size / worked, 1.0 if stored is None else stored.size / size, size)
            if size * 2 > most or perf_counter() - began + _GROWTH * took > MAX_SECONDS:
                break
            size *= 2
    return found


def cast(elements: Flat, before: np.dtype[Any], after: np.dtype[Any]) -> Flat:
    """The same elements as another type."""
    if before == after:
        return elements
    whole = elements[: elements.size // before.itemsize * before.itemsize].view(before)
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(whole.astype(after)).view(np.uint8)
