"""The speed of an object store: how long requests take, how many it serves at once, and how fast bytes move.

Small objects are read with more and more requests at once, until more of them are no faster: that is the depth. Plans
divide latencies by the depth, so a latency is the depth divided by the requests per second at that depth. Large objects
are written and read at that depth; what requests alone take is subtracted from their time ::

    seconds for n objects of b bytes = n · latency / depth + n · b / rate       (reblock.cost.estimate)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import process_time
from uuid import uuid4

import numpy as np

from reblock.bench.notify import Notify
from reblock.bench.threads import run_threads
from reblock.errors import ReblockError, UsageError
from reblock.model.workspace import TargetMedium
from reblock.storage.media.registry import target_medium
from reblock.units import format_size

#: Numbers of requests at once to try.
DEPTHS = (1, 2, 4, 8, 16, 32, 64)
#: Gain in requests per second that justifies more requests at once.
MIN_GAIN = 1.2
#: Seconds of one measurement of small requests.
_SLICE_SECONDS = 0.5
_SMALL_BYTES, _SMALL_OBJECTS = 1024, 128
_LARGE_BYTES = 4 << 20
#: At least this part of a measured time counts as moving bytes, however long requests seem to take.
_LEAST_PART = 0.25


@dataclass(frozen=True)
class StoreSpeed:
    """What was measured."""

    depth: int
    """Requests at once that the store serves."""
    read_seconds: float
    """Latency of a small read at that depth, multiplied by the depth."""
    write_seconds: float
    """The same of a small write."""
    read_rate: float
    """Bytes per second of reading large objects at that depth."""
    write_rate: float
    """Bytes per second of writing them."""
    read_work_seconds: float
    """Processor time of a small read."""
    write_work_seconds: float
    """Processor time of a small write."""


def measure_store(url: str, size_bytes: int, notify: Notify) -> StoreSpeed:
    """Measure the store of a URL, with temporary objects below it that are removed again."""
    if size_bytes < 1 << 20:
        raise UsageError(f"a size of {format_size(size_bytes)} is too small to measure: give at least 1 MiB")
    medium = target_medium(url)
    folder = f"{url.rstrip('/')}/.reblock-bench-{uuid4().hex[:12]}"
    medium.check_folder(url, "the bucket")
    try:
        return _measure(medium, folder, size_bytes, notify)
    finally:
        with suppress(ReblockError):
            medium.remove_folder(folder)


def _measure(medium: TargetMedium, folder: str, size_bytes: int, notify: Notify) -> StoreSpeed:
    notify("small objects")
    small = [f"{folder}/small/{number}" for number in range(_SMALL_OBJECTS)]
    body = np.random.default_rng(0).bytes(_SMALL_BYTES)
    run_threads([_write(medium, small[n::8], body) for n in range(8)])
    depth, reads = _find_depth(medium, small)
    worked = process_time()
    done, elapsed = run_threads([_read(medium, small[n::depth]) for n in range(depth)], _SLICE_SECONDS)
    read_work, reads = (process_time() - worked) / done, max(reads, done / elapsed)
    worked = process_time()
    done, elapsed = run_threads([_write(medium, _forever(small[n::depth]), body) for n in range(depth)], _SLICE_SECONDS)
    write_work, writes = (process_time() - worked) / done, done / elapsed
    notify("large objects")
    count = max(size_bytes // _LARGE_BYTES, 1)
    length = min(_LARGE_BYTES, size_bytes)
    large = [f"{folder}/large/{number}" for number in range(count)]
    body = np.random.default_rng(1).bytes(length)
    _, writing = run_threads([_write(medium, large[n::depth], body) for n in range(min(depth, count))])
    _, reading = run_threads([_read(medium, large[n::depth], once=True) for n in range(min(depth, count))])
    return StoreSpeed(
        depth,
        depth / reads,
        depth / writes,
        _rate(count * length, reading, count / reads),
        _rate(count * length, writing, count / writes),
        read_work,
        write_work,
    )


def _rate(size: int, seconds: float, requests: float) -> float:
    """Bytes per second, without the time that requests alone take."""
    return size / max(seconds - requests, _LEAST_PART * seconds)


def _find_depth(medium: TargetMedium, keys: Sequence[str]) -> tuple[int, float]:
    """The number of requests at once beyond which more gain nothing, and its requests per second."""
    best, rate = 1, 0.0
    for depth in DEPTHS:
        done, elapsed = run_threads([_read(medium, keys[n::depth]) for n in range(depth)], _SLICE_SECONDS)
        if done / elapsed > MIN_GAIN * rate:
            best, rate = depth, done / elapsed
    return best, rate


def _forever(keys: Sequence[str]) -> Iterator[str]:
    while True:
        yield from keys


def _read(medium: TargetMedium, keys: Sequence[str], *, once: bool = False) -> Iterator[int]:
    """Read objects whole, one request each."""
    for key in keys if once else _forever(keys):
        with medium.reader(key) as handle:
            body = bytearray(handle.size())
            handle.read(memoryview(body), 0)
        yield 1


def _write(medium: TargetMedium, keys: Sequence[str] | Iterator[str], body: bytes) -> Iterator[int]:
    for key in keys:
        medium.write(key, [body])
        yield 1
