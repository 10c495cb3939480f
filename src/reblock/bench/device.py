"""Calibration: measures the storage at a path and the cores of this machine, and returns a Device.

Plans divide latencies by the number of requests in flight. So the calibration first finds the depth up to which more
requests at once are faster, then measures every latency at that depth and multiplies it by the depth. ::

    seconds for n seeks = n · seek_seconds / depth       (reblock.cost.estimate)
    seek_seconds        = depth / (random reads per second with depth threads)

Reads bypass the page cache where the file system supports O_DIRECT; elsewhere pages are dropped first. Writes are timed
until they are on the device. Codecs are timed through the storage adapters, as the engine calls them. Three kinds
of real runs measure what a byte, a visit and a new object cost the engine (`bench/trial_runs.py`).
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from mmap import mmap
from statistics import median
from time import perf_counter

import numpy as np
import numpy.typing as npt

from reblock.api.devices import find_device, subject_of
from reblock.bench.files import check_result_file, evict, write_result
from reblock.bench.notify import Notify, silent
from reblock.bench.store_speed import measure_store
from reblock.bench.threads import run_threads
from reblock.bench.trial_runs import learn_from_runs
from reblock.cost.learn import DEPTH
from reblock.engine.memory.arena import Arena
from reblock.errors import DiskError, UsageError
from reblock.model import PIECE_BYTES, Bytes, Codec, Device, Extent, Flat, Schema, Store
from reblock.runs.experience import RUNS, Sample, keep
from reblock.storage import registry
from reblock.storage.location import Where
from reblock.storage.media.object_url import is_object
from reblock.units import format_size, parse_size

#: Default number of bytes to write and read.
DEFAULT_SIZE = "256MiB"

#: Numbers of requests in flight to try.
DEPTHS = (1, 2, 4, 8, 16)
#: Gain in random reads per second that justifies more requests in flight.
MIN_GAIN = 1.2

#: Codecs to measure, and the formats to look for them in.
CODECS = ("gzip", "zlib", "zstd", "lz4", "blosc", "lzf", "shuffle", "bz2", "lzma")
_FORMATS = ("zarr2", "zarr", "hdf5")

_PAGE = 4096
_STREAMS = 4
_FILES = 1024
_SLICE_SECONDS = 0.3
_UNIT = (64, 64, 64)
_FRESH_BYTES = 16 << 20
_CACHED_BYTES = 64 << 20


def measure_device(
    path: Where, *, size: str | int = DEFAULT_SIZE, name: str = "measured", notify: Notify = silent
) -> Device:
    """Measure the storage that holds a folder or a prefix of a store, and this machine's memory and codecs.

    Temporary files of about `size` bytes are created in the folder and always removed again.
    """
    size_bytes = parse_size(size) // _PAGE * _PAGE
    if is_object(os.fspath(path)):
        return _rounded(_measure_store(os.fspath(path), size_bytes, name, notify))
    with _temporary_folder(os.fspath(path), size_bytes) as folder:
        flag = _direct_flag(folder)
        notify("sequential writes and reads")
        file = os.path.join(folder, "large")
        write_rate = _write_rate(file, size_bytes, flag)
        read_rate = _read_rate(file, size_bytes, flag)
        notify("random reads")
        depth, seek = _seeks(file, size_bytes, flag)
        os.unlink(file)
        notify("memory")
        fresh = _fresh_rate(file, size_bytes)
        decode, encode = _codec_rates(folder, notify)
        base = Device(
            name,
            read_bytes_per_second=read_rate,
            write_bytes_per_second=write_rate,
            # Opening costs no more than a random read; the runs measure the processor time on top.
            open_seconds=seek,
            seek_seconds=seek,
            create_seconds=seek,
            depth=depth,
            fresh_bytes_per_second=fresh,
            decode_bytes_per_second=decode,
            encode_bytes_per_second=encode,
        )
        found = learn_from_runs(folder, size_bytes, _FILES, base, notify)
    return _rounded(found)


def _measure_store(url: str, size_bytes: int, name: str, notify: Notify) -> Device:
    """A device from requests to a store; memory and codecs are measured in the temporary folder."""
    speeds = measure_store(url, size_bytes, notify)
    with _temporary_folder(tempfile.gettempdir(), _CACHED_BYTES) as folder:
        notify("memory")
        fresh = _fresh_rate(os.path.join(folder, "fresh"), _CACHED_BYTES)
        decode, encode = _codec_rates(folder, notify)
    cores = _cores()
    return Device(
        name,
        read_bytes_per_second=speeds.read_rate,
        write_bytes_per_second=speeds.write_rate,
        open_seconds=speeds.read_seconds,
        seek_seconds=speeds.read_seconds,
        create_seconds=speeds.write_seconds,
        depth=speeds.depth,
        fresh_bytes_per_second=fresh,
        visit_seconds=speeds.read_work_seconds / cores,
        make_seconds=speeds.write_work_seconds / cores,
        decode_bytes_per_second=decode,
        encode_bytes_per_second=encode,
    )


def _rounded(device: Device) -> Device:
    document = device.to_json()
    return Device.from_json(
        {key: _round(value) if isinstance(value, float) else value for key, value in document.items()}
    )


def check_output(path: Where) -> None:
    """Refuse an output file that would overwrite anything but an earlier calibration."""
    check_result_file(path, _is_calibration, "a calibration")


def _is_calibration(path: str) -> bool:
    try:
        find_device(os.path.abspath(path))
    except UsageError:
        return False
    return True


def keep_for_auto(device: Device, path: Where) -> None:
    """Keep the measurements of an object store for plans with `--device auto`; runs measure disks."""
    if not is_object(os.fspath(path)):
        return
    subject = subject_of(os.fspath(path))
    found = {
        "read large": device.read_bytes_per_second,
        "write large": device.write_bytes_per_second,
        "open": device.open_seconds,
        "seek": device.seek_seconds,
        "create": device.create_seconds,
        DEPTH: float(device.depth),
        RUNS: 1.0,
    }
    keep(Sample(subject, quantity, value) for quantity, value in found.items())


def save_device(device: Device, path: Where) -> None:
    """Write a calibration for `--device FILE`, atomically."""
    check_output(path)
    write_result(device.to_json(), path)


def _round(value: float) -> float:
    """Round to four digits, the precision of a measurement."""
    return float(f"{value:.4g}")


@contextmanager
def _temporary_folder(parent: str, size_bytes: int) -> Iterator[str]:
    """A temporary folder inside a folder with enough free space."""
    if size_bytes < 1 << 20:
        raise UsageError(f"a size of {format_size(size_bytes)} is too small to measure: give at least 1 MiB")
    try:
        free = shutil.disk_usage(parent).free
        if free < 2 * size_bytes:
            raise UsageError(f"{parent} has {format_size(free)} free: {format_size(size_bytes)} would leave too little")
        with tempfile.TemporaryDirectory(prefix=".reblock-bench-", dir=parent) as folder:
            yield folder
    except OSError as error:
        raise DiskError.wrap(error, doing="measuring", path=parent) from error


def _buffer(size: int) -> mmap:
    """Page-aligned memory filled with bytes that no device can compress."""
    memory = mmap(-1, size)
    memory[:] = np.random.default_rng(0).bytes(size)
    return memory


# ---------------------------------------------------------------- one large file
def _direct_flag(folder: str) -> int:
    """O_DIRECT, or 0 where the file system does not support it."""
    flag = getattr(os, "O_DIRECT", 0)
    path = os.path.join(folder, "direct")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | flag)
        try:
            os.pwrite(descriptor, _buffer(_PAGE), 0)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
        flag = 0
    os.unlink(path)
    return flag


@contextmanager
def _opened(path: str, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write_rate(path: str, size: int, flag: int) -> float:
    memory = _buffer(PIECE_BYTES)
    with _opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | flag) as descriptor:

        def write(offsets: Iterable[int]) -> Iterator[int]:
            for offset in offsets:
                yield os.pwrite(descriptor, memoryview(memory)[: size - offset], offset)

        began = perf_counter()
        done, _ = run_threads([write(offsets) for offsets in _stream_offsets(size)])
        os.fsync(descriptor)
        elapsed = perf_counter() - began
        if done < size:
            # Only a full disk, or a signal, makes a write short.
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        evict(descriptor)
    return done / elapsed


def _read_rate(path: str, size: int, flag: int) -> float:
    with _opened(path, os.O_RDONLY | flag) as descriptor:

        def read(offsets: Iterable[int], memory: mmap) -> Iterator[int]:
            for offset in offsets:
                yield os.preadv(descriptor, [memoryview(memory)[: size - offset]], offset)

        done, elapsed = run_threads([read(offsets, _buffer(PIECE_BYTES)) for offsets in _stream_offsets(size)])
        evict(descriptor)
    return done / elapsed


def _stream_offsets(size: int) -> list[range]:
    """Offsets of pieces for each stream, round robin."""
    return [range(stream * PIECE_BYTES, size, _STREAMS * PIECE_BYTES) for stream in range(_STREAMS)]


def _seeks(path: str, size: int, flag: int) -> tuple[int, float]:
    """Best number of requests in flight, and the seconds of one random read at that depth."""
    rates: dict[int, float] = {}
    best = 1
    with _opened(path, os.O_RDONLY | flag) as descriptor:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        memories = [_buffer(_PAGE) for _ in range(max(DEPTHS))]

        def read(pages: Sequence[int], memory: mmap) -> Iterator[int]:
            for page in pages:
                os.preadv(descriptor, [memory], page * _PAGE)
                yield 1

        pages = list(range(size // _PAGE))
        for depth in DEPTHS:
            random.Random(depth).shuffle(pages)  # noqa: S311 - offsets are not secret
            evict(descriptor)
            done, elapsed = run_threads([read(pages[n::depth], memories[n]) for n in range(depth)], _SLICE_SECONDS)
            rates[depth] = done / elapsed
            if rates[depth] > MIN_GAIN * rates[best]:
                best = depth
    return best, best / rates[best]


# ---------------------------------------------------------------- cores
def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _fresh_rate(path: str, size: int) -> float:
    """Bytes per second of touching fresh memory, the process's own or that of the page cache: the slower of both."""

    def touch() -> Iterator[int]:
        while True:
            # A new mapping each time; the previous one is returned to the system.
            memory, _ = Arena().cut(_FRESH_BYTES)
            memory[::_PAGE] = 1
            yield memory.size

    done, elapsed = run_threads([touch() for _ in range(_cores())], _SLICE_SECONDS)
    pages, memory = min(size, _CACHED_BYTES) // PIECE_BYTES or 1, _buffer(PIECE_BYTES)
    with _opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
        began = perf_counter()
        cached = sum(os.pwrite(descriptor, memory, number * PIECE_BYTES) for number in range(pages))
        writing = perf_counter() - began
    os.unlink(path)
    return min(done / elapsed, cached / max(writing, 1e-9))


def _field() -> npt.NDArray[np.float32]:
    """A smooth field with noise in its last digits, typical input of codecs."""
    x, y, z = np.ogrid[tuple(slice(0, 1, complex(0, n)) for n in _UNIT)]
    noise = np.random.default_rng(0).normal(scale=0.01, size=_UNIT)
    field: npt.NDArray[np.float32] = np.round(np.sin(9 * x) * np.cos(7 * y) + z + noise, 3).astype(np.float32)
    return field


def _codec_rates(folder: str, notify: Notify) -> tuple[dict[str, float], dict[str, float]]:
    """Decoded bytes per second of decoding and of encoding, by codec."""
    flat = np.ascontiguousarray(_field()).reshape(-1).view(np.uint8)
    decode: dict[str, float] = {}
    encode: dict[str, float] = {}
    for name in CODECS:
        store = _empty_store(os.path.join(folder, name), name)
        if store is None:
            continue
        notify(f"codec {name}")
        try:
            decode[name], encode[name] = _codec_rate(store, flat)
        finally:
            store.abort()
    for rates in (decode, encode):
        if rates:
            rates["default"] = _round(median(rates.values()))
    return decode, encode


def _empty_store(path: str, codec: str) -> Store | None:
    """An empty array with a codec, in the first format that supports it."""
    schema = Schema(_UNIT, np.dtype("<f4"), _UNIT, codec=Codec.parse(codec))
    for name in _FORMATS:
        try:
            kind = registry.get(name)
            return kind.create(path, "", kind.adapt(schema, {"codec"}))
        except UsageError:
            continue
    return None


def _codec_rate(store: Store, flat: Flat) -> tuple[float, float]:
    stored = bytes(store.encode(flat))
    extent = Extent(store.location, 0, len(stored))

    def encode() -> Iterator[int]:
        while True:
            store.encode(flat)
            yield flat.size

    def decode(data: Bytes, out: Flat) -> Iterator[int]:
        while True:
            store.decode(data, extent, out)
            yield flat.size

    count = _cores()
    outs = [np.full(flat.size, 1, np.uint8) for _ in range(count)]
    decoded, decoding = run_threads([decode(stored, out) for out in outs], _SLICE_SECONDS)
    encoded, encoding = run_threads([encode() for _ in range(count)], _SLICE_SECONDS)
    return _round(decoded / decoding), _round(encoded / encoding)
