"""Trials: measure a codec's speed and ratio on a small excerpt of the source.

A table of speeds by codec and level can be wrong by a factor of ten, because speed depends on the data. So a codec that
no run has measured is tried: at most 1 MiB of the source is read, through its store and its medium, and each codec gets
at most 50 ms, once its library is loaded. Errors are ignored here: the run will meet them again and report them.
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
from reblock.engine.casting import convert
from reblock.errors import MisfitError, ReblockError
from reblock.model import Codec, Extent, Flat, Store, TransferMode
from reblock.storage.codecs.chain import Chain

#: The most bytes that are read from the source, and the most that are encoded.
MAX_BYTES = 1 << 20
#: The longest time for one codec.
MAX_SECONDS = 0.05
#: The most bytes that an excerpt is decoded to.
MAX_DECODED = 8 << 20
#: A decoder is tried only if it would finish in time even when slower than the table by this factor.
_SLOWER = 8
#: Bytes that are encoded first; the number doubles while there is time.
_FIRST_BYTES = 16 << 10
#: Assumed factor in time for twice as many bytes.
_GROWTH = 2.5
#: How often a codec repeats the same bytes, if there is time.
_REPEATS = 3
#: Errors of reading and coding.
_FAILURES = (ReblockError, OSError, ValueError, RuntimeError, TypeError, MemoryError)


@dataclass(frozen=True)
class Trial:
    """Result of one trial."""

    bytes_per_second: float
    """Bytes of elements per processor second."""
    stored_part: float
    """Stored bytes divided by bytes of elements."""
    bytes: int
    """Bytes of elements that were tried."""


@dataclass(frozen=True)
class Excerpt:
    """An excerpt of the source."""

    elements: Flat
    """Bytes of elements, as they lie in a unit."""
    decoding: Trial | None = None
    """How decoding them went; None if they are raw."""


def excerpt(store: Store, memory_bytes: int) -> Excerpt | None:
    """Read a unit from the middle of an array, or a part of a raw one; None if it is too large or cannot be read."""
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
    """Bytes that a decoder can finish in time, even if it is much slower than usual."""
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
    """Least processor seconds of several calls, because the first meets cold memory; wall seconds; the result.

    The call is repeated while time is left since `began`.
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
    """Stored bytes of an extent: all if they are at most `most`, or the first ones."""
    with store.medium.reader(extent.path, roots=store.roots) as handle:
        offset = extent.offset if extent.offset >= 0 else handle.size() + extent.offset
        length = handle.size() - offset if extent.length is None else extent.length
        if length > most and whole:
            raise ValueError(f"{length} bytes")
        found = np.empty(max(min(length, most), 0), np.uint8)
        return found[: handle.read(found.data, offset)]


def _load(codec: Codec, dtype: np.dtype[Any]) -> None:
    """Load the library of a codec, which takes longer than a trial and is not timed."""
    with suppress(*_FAILURES):
        Chain(codec, dtype).encode(np.zeros(64 * dtype.itemsize, np.uint8))


def made_up(dtype: np.dtype[Any]) -> Flat:
    """A smooth field with noise in its last digits, for a source that gives no excerpt."""
    count = MAX_BYTES // 4 // dtype.itemsize
    random = np.random.default_rng(0)
    if dtype.kind not in "iufc":
        return random.integers(0, 16, count * dtype.itemsize, np.uint8)
    values = np.sin(np.linspace(0, 40, count)) * 100 + random.integers(0, 16, count) / 16
    return np.ascontiguousarray((np.abs(values) if dtype.kind == "u" else values).astype(dtype)).view(np.uint8)


def try_encoding(codec: Codec, dtype: np.dtype[Any], elements: Flat) -> Trial | None:
    """Encode a growing number of elements until all are encoded or time is up; None if encoding fails."""
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
    made = np.zeros(whole.shape, after)
    # Text that cannot be converted is reported when it is read.
    with suppress(MisfitError):
        convert(whole, made, checked=False)
    return made.view(np.uint8)
