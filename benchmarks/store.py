"""Runs on an object store against the client library alone, which moves the same bytes without rechunking.

    python benchmarks/store.py [--rounds 5] [--url s3://bucket/prefix] [--faults]

Without --url, a server of the tests (SeaweedFS) is started on this machine. The array has 256 MiB in objects of 1 MiB,
uncompressed; the target's objects have another shape and the same size. Rounds are interleaved. The library moves
objects with as many requests at once as the plan has readers, and again with as many as readers and writers together;
the faster of both counts. With --faults, runs go through a proxy that answers 20 % of requests by 503, cuts 5 % of the
bodies and loses 2 % of the responses, and through the same proxy without faults; the bar is 3 × the time.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

import numpy as np
import obstore

import reblock
from reblock.storage.media.registry import medium_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from s3_proxy import Proxy
from s3_server import BUCKET, S3Server, options_for

#: The least rate, as a part of the library's, and the most time with faults, as a multiple of the time without.
BAR, FAULTS_BAR = 0.8, 3.0
CHUNKS, TARGET_CHUNKS = (64, 64, 64), (128, 32, 64)
SHAPE, SMALL_SHAPE = (512, 256, 512), (256, 128, 256)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--url", help="prefix on a store that the environment gives access to")
    parser.add_argument("--faults", action="store_true", help="measure runs with faults, on 32 MiB")
    options = parser.parse_args()
    with _store(options.url) as (url, server):
        prefix = f"{url}/reblock-bench-{uuid4().hex[:8]}"
        try:
            if options.faults and server is not None:
                _faults(prefix, server, options.rounds)
            else:
                _race(prefix, options.rounds)
        finally:
            if server is not None:
                reblock.connect(url, **server.options)
            medium_of(prefix).remove_folder(prefix)


@contextmanager
def _store(url: str | None) -> Iterator[tuple[str, S3Server | None]]:
    if url is not None:
        yield url.rstrip("/"), None
        return
    server = S3Server()
    try:
        server.start()
        reblock.connect(f"s3://{BUCKET}", **server.options)
        yield f"s3://{BUCKET}", server
    finally:
        server.remove()


def _fill(source: str, shape: tuple[int, ...]) -> int:
    """Write the source; returns its bytes."""
    data = np.random.default_rng(0).integers(0, 2**31, shape, "<i4")
    reblock.repartition(data, source, chunks=CHUNKS, codec="none")
    return data.nbytes


def _race(prefix: str, rounds: int) -> None:
    source = f"{prefix}/source.zarr"
    size = _fill(source, SHAPE)
    medium: Any = medium_of(prefix)
    keys = [one["path"] for one in medium.listed(f"{source}/c")]
    job = reblock.plan(source, f"{prefix}/target.zarr", chunks=TARGET_CHUNKS, codec="none", memory="256MiB")
    execution = job.plan.passes[0].execution
    threads = execution.readers, execution.readers + execution.writers
    contenders: dict[str, Callable[[], None]] = {
        f"obstore, {count} at once": lambda count=count: _move(medium, keys, count) for count in threads
    }
    contenders[f"reblock, {execution.readers} readers and {execution.writers} writers"] = lambda: _run(source, prefix)
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        names = list(contenders)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            began = time.perf_counter()
            contenders[name]()
            found[name].append(time.perf_counter() - began)
            for folder in ("moved", "target.zarr"):
                medium.remove_folder(f"{prefix}/{folder}")
    print(f"{size >> 20} MiB in {len(keys)} objects, {rounds} rounds, load {os.getloadavg()[0]:.1f}")
    rates = {name: size / median(seconds) / 1e6 for name, seconds in found.items()}
    for name, seconds in found.items():
        spread = f"{size / max(seconds) / 1e6:.1f} to {size / min(seconds) / 1e6:.1f}"
        print(f"{name}: {rates[name]:.1f} MB/s ({spread})")
    *library, ours = rates.values()
    ratio = ours / max(library)
    print(f"at least {BAR} × the library's rate: {ratio:.2f}, {'held' if ratio >= BAR else 'NOT held'}")


def _run(source: str, prefix: str) -> None:
    reblock.repartition(source, f"{prefix}/target.zarr", chunks=TARGET_CHUNKS, codec="none", memory="256MiB")


def _move(medium: Any, keys: list[str], threads: int) -> None:
    """Read objects and write them under other keys, as the library does it."""

    def move(key: str) -> None:
        body = obstore.get(medium.store, key).bytes()
        obstore.put(medium.store, key.replace("source.zarr", "moved"), body, use_multipart=False)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(move, keys))


def _faults(prefix: str, server: S3Server, rounds: int) -> None:
    source = f"{prefix}/source.zarr"
    size = _fill(source, SMALL_SHAPE)
    found: dict[str, list[float]] = {"without faults": [], "with faults": []}
    with Proxy(server.port) as plain, Proxy(server.port, busy=0.2, cut=0.05, lost=0.02) as bad:
        for _ in range(rounds):
            for name, proxy in zip(found, (plain, bad), strict=True):
                reblock.connect(prefix, **options_for(proxy.endpoint))
                began = time.perf_counter()
                _run(source, prefix)
                found[name].append(time.perf_counter() - began)
                reblock.connect(prefix, **server.options)
                if not reblock.verify(source, f"{prefix}/target.zarr").equal:
                    raise SystemExit(f"{name}: the result is wrong")
                medium_of(prefix).remove_folder(f"{prefix}/target.zarr")
        print(f"{size >> 20} MiB, {rounds} rounds, faults: {dict(bad.faults)}, load {os.getloadavg()[0]:.1f}")
    for name, seconds in found.items():
        print(f"{name}: {median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})")
    ratio = median(found["with faults"]) / median(found["without faults"])
    print(f"at most {FAULTS_BAR} × the time: {ratio:.2f}, {'held' if ratio <= FAULTS_BAR else 'NOT held'}")


if __name__ == "__main__":
    main()
