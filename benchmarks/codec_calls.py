"""Functions of codec libraries called on given memory, compared with the public Python calls of the same libraries.

    python benchmarks/codec_calls.py [--rounds 15]

Two threads encode or decode chunks of 64 KiB to 16 MiB into memory that they keep. Both ways alternate within a round,
and the best round of each counts. Processor time is the steadier figure on a busy machine; wall time also shows whether
a call holds the interpreter's lock. A private function stays if the public call takes more than 1.05 times as long.
The last lines load an array of small chunks with and without decoders that the compiled loop can call.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Thread, local

import deflate
import numcodecs
import numcodecs.blosc
import numpy as np
import numpy.typing as npt

import reblock
from reblock.storage.codecs import blosc, zlib_streams, zstd
from reblock.storage.codecs.registry import CODECS
from reblock.storage.codecs.zlib_streams import Container

Bytes = npt.NDArray[np.uint8]
Call = Callable[[], object]
SIZES = (1 << 16, 1 << 20, 4 << 20, 8 << 20, 16 << 20)
THREADS = 2
#: Elements along each axis of the array that is loaded, and of its chunks.
LENGTH, CHUNKS = 256, (16, 32)


class Memory(local):
    """Scratch memory of a thread, by name."""

    def __init__(self) -> None:
        self.held: dict[str, Bytes] = {}

    def __call__(self, name: str, size: int) -> Bytes:
        if name not in self.held or self.held[name].size < size:
            self.held[name] = np.ones(size, np.uint8)
        return self.held[name]


def field(size: int) -> npt.NDArray[np.float32]:
    """Values with few digits that change slowly."""
    steps = np.random.default_rng(1).normal(size=size)
    return (10 * np.cumsum(steps)).round(0).astype("<f4")


def measure(calls: dict[str, Call], count: int, rounds: int, threads: int) -> dict[str, tuple[float, float]]:
    """Best seconds of processor and wall time per call."""
    best = dict.fromkeys(calls, (np.inf, np.inf))
    for _ in range(rounds):
        for name, call in calls.items():

            def work(call: Call = call) -> None:
                for _ in range(count):
                    call()

            workers = [Thread(target=work) for _ in range(threads)]
            wall, worked = time.perf_counter(), time.process_time()
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            wall, worked = time.perf_counter() - wall, time.process_time() - worked
            number = count * threads
            best[name] = (min(best[name][0], worked / number), min(best[name][1], wall / number))
    return best


def copy_into(out: Bytes, data: object) -> bool:
    found = np.frombuffer(data, np.uint8)  # type: ignore[call-overload]
    out[: found.size] = found
    return bool(found.size)


def check(name: str, calls: dict[str, Call]) -> None:
    """Both ways must have a result, and encoders the same number of bytes within 1 %."""
    results = {way: call() for way, call in calls.items()}
    if any(result is None or result is False for result in results.values()):
        raise SystemExit(f"{name}: one of the ways has no result: {results}")
    sizes = {len(result) for result in results.values() if isinstance(result, bytes | bytearray | np.ndarray)}
    if sizes and max(sizes) > 1.01 * min(sizes):
        raise SystemExit(f"{name}: results of {sorted(sizes)} bytes")


def calls_of(size: int) -> dict[str, dict[str, Call]]:
    """By name: the private way, and the public one."""
    memory, data = Memory(), field(size // 4).view(np.uint8)
    planes = np.ascontiguousarray(data.reshape(-1, 4).T).reshape(-1)
    stream = np.frombuffer(deflate.zlib_compress(planes.data, 4), np.uint8)
    # Enough for every codec; with less, the private functions give up and return None.
    room = size + size // 128 + 4096
    found: dict[str, dict[str, Call]] = {
        "zlib:4 decode": {
            "private": lambda: zlib_streams.decompress(stream, memory("out", size)[:size], Container.ZLIB),
            "public": lambda: copy_into(memory("out", size), deflate.zlib_decompress(stream.data, size)),
        },
        "zlib:4 encode": {
            "private": lambda: zlib_streams.compress(planes, 4, Container.ZLIB, memory("stored", room), memory),
            "public": lambda: zlib_streams.compress(planes, 4, Container.ZLIB),
        },
    }
    by_zstd = numcodecs.Zstd(3)
    found["zstd:3 encode"] = {
        "private": lambda: zstd.compress(data, memory("stored", room), memory, 3, checksum=False),
        "public": lambda: by_zstd.encode(data),
    }
    for text, name, level in (("zstd:3", "zstd", 3), ("lz4:5", "lz4", 5)):
        by_blosc = numcodecs.Blosc(name, level, 1, typesize=4)
        settings = blosc.BloscSettings(name, level, 1, 4, 0)
        found[f"blosc:{text} encode"] = {
            "private": lambda settings=settings: blosc.compress(  # type: ignore[misc]
                data, memory("stored", room)[: size + 16], memory, settings
            ),
            "public": lambda by_blosc=by_blosc: by_blosc.encode(data),  # type: ignore[misc]
        }
    return found


@contextmanager
def without_decoder(name: str) -> Iterator[None]:
    """As if the codec's library exported nothing: chunks are decoded by its public call."""
    codec = CODECS[name]
    CODECS[name] = replace(codec, decoder=lambda: None)
    try:
        yield
    finally:
        CODECS[name] = codec


def loads_of(folder: str, codec: str, chunk: int) -> dict[str, Call]:
    """Load an array of cubic chunks with the compiled loop's decoder, and without."""
    path = f"{folder}/{codec.replace(':', '-')}-{chunk}.zarr"
    reblock.repartition(field(LENGTH**3).reshape((LENGTH,) * 3), path, chunks=(chunk,) * 3, codec=codec)

    def load() -> None:
        _ = reblock.open(path)[...]

    def load_by_call() -> None:
        with without_decoder(codec.split(":", maxsplit=1)[0]):
            load()

    return {"private": load, "public": load_by_call}


def show(size: int, name: str, found: dict[str, tuple[float, float]]) -> None:
    (mine, my_wall), (theirs, their_wall) = found["private"], found["public"]
    print(
        f"{size >> 10:>5} KiB  {name:<20} {1e3 * mine:>8.3f} ms {1e3 * theirs:>8.3f} ms"
        f"  {theirs / mine:>8.2f} × {their_wall / my_wall:>5.2f} ×",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    numcodecs.blosc.use_threads = False
    print(f"{'chunk':>9}  {'codec':<20} {'private':>11} {'public':>11}  processor   wall")
    for size in SIZES:
        for name, calls in calls_of(size).items():
            check(name, calls)
            show(size, name, measure(calls, max((8 << 20) // size, 1), options.rounds, THREADS))
    with tempfile.TemporaryDirectory() as folder:
        for codec in ("zstd:3", "blosc:lz4:5"):
            for chunk in CHUNKS:
                calls = loads_of(folder, codec, chunk)
                show(4 * chunk**3, f"{codec} load", measure(calls, 1, options.rounds, 1))


if __name__ == "__main__":
    main()
