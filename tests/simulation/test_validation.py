"""Simulated runs take as long as real ones: S3 through a proxy that delays each request by 50 ms.

Server, proxy, workers and whatever else runs share the cores, so requests take longer than these 50 ms, and the longer
the more workers there are. The prediction uses the latency of a request during the run; that for a device that was
measured before the run, by requests of the same sizes, is printed beside it (`-s`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

import reblock
import s3_server
from reblock.cost import PRESETS
from reblock.engine import Report
from reblock.model import Device
from s3_proxy import Proxy

pytestmark = [
    pytest.mark.slow,
    pytest.mark.faults,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(s3_server.program() is None, reason="weed, the program of SeaweedFS, is not installed"),
]

#: What the proxy adds to each request, and how far predictions may be off.
DELAY_SECONDS, TOLERANCE = 0.05, 0.25
DEPTH = 2
#: Another program may use the cores meanwhile, so a round that is off is repeated.
ROUNDS = 3
BUCKET = f"s3://{s3_server.BUCKET}"
Pools = Callable[[int], Executor]


@pytest.fixture(scope="module")
def server() -> Iterator[s3_server.S3Server]:
    made = s3_server.S3Server()
    made.start()
    yield made
    made.remove()


@pytest.fixture(scope="module")
def endpoint(server: s3_server.S3Server) -> Iterator[str]:
    with Proxy(server.port, delay=DELAY_SECONDS) as proxy:
        yield proxy.endpoint


@pytest.fixture(scope="module")
def pools() -> Iterator[Pools]:
    """Processes as `--workers` starts them, that have loaded everything: a start is not part of a makespan."""
    made: dict[int, Executor] = {}

    def pool(workers: int) -> Executor:
        if workers not in made:
            made[workers] = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
            warm = f"{BUCKET}/warm-{workers}.zarr"
            reblock.run(reblock.plan(f"{BUCKET}/warm.zarr", warm, chunks=(1, 2), device="s3"), executor=made[workers])
        return made[workers]

    yield pool
    for one in made.values():
        one.shutdown()


def latency(request: Callable[[int], Any], count: int = 48) -> float:
    """Seconds of a request, of which DEPTH are under way."""
    with ThreadPoolExecutor(DEPTH) as threads:
        list(threads.map(request, range(DEPTH)))
        began = time.perf_counter()
        list(threads.map(request, range(count)))
        return (time.perf_counter() - began) * DEPTH / count


def measured_device(endpoint: str, size: int) -> Device:
    obstore = pytest.importorskip("obstore")
    store = obstore.store.from_url(BUCKET, config=s3_server.options_for(endpoint), client_options={"allow_http": True})
    body = bytes(size)
    put = latency(lambda number: obstore.put(store, f"probe/{number}", body, use_multipart=False))
    get = latency(lambda number: bytes(obstore.get(store, f"probe/{number}").bytes()))
    return replace(
        PRESETS["s3"],
        open_seconds=get,
        seek_seconds=get,
        create_seconds=max(put - get, 0.0),
        depth=DEPTH,
        # The latencies include the bytes.
        read_bytes_per_second=1e12,
        write_bytes_per_second=1e12,
    )


def seen_device(device: Device, report: Report) -> Device:
    """The device with the latencies that threads saw during a run: server, proxy and workers share the cores."""
    gets, puts = (sum(getattr(one, side).seeks for one in report.passes) for side in ("source", "target"))
    get, put = report.times.read / gets, report.times.write / puts
    return replace(device, open_seconds=get, seek_seconds=get, create_seconds=put - get)


CASES = {
    # Chunks of one row of the grid, so that the caller's own requests are few.
    "rows": ((24, 16 * 240), (24, 16), (24, 24)),
    # Tasks read more than they write at a time.
    "merge": ((32, 16 * 240), (32, 16), (32, 64)),
}


@pytest.mark.parametrize("name", CASES)
def test_predicted_makespans_are_real(server: s3_server.S3Server, endpoint: str, pools: Pools, name: str) -> None:
    shape, before, after = CASES[name]
    data = np.random.default_rng(0).integers(0, 60000, shape, "<u2")
    reblock.connect(BUCKET, **server.options)
    reblock.repartition(data, f"{BUCKET}/{name}.zarr", to_format="zarr", chunks=before, codec="none")
    reblock.repartition(
        data[:8, :8], f"{BUCKET}/warm.zarr", to_format="zarr", chunks=(2, 1), codec="none", overwrite=True
    )
    reblock.connect(BUCKET, **s3_server.options_for(endpoint))
    found: list[dict[int, float]] = []
    for number in range(ROUNDS):
        ratios = {}
        for workers in (1, 2, 4):
            before_run = measured_device(endpoint, int(np.prod(before)) * 2)
            target = f"{BUCKET}/{name}-{number}-{workers}.zarr"
            job = reblock.plan(f"{BUCKET}/{name}.zarr", target, chunks=after, memory="64MiB", device=before_run)
            report = reblock.run(job, executor=pools(workers))
            assert report.measured.seeks == report.predicted.seeks
            real = sum(one.seconds for one in report.passes)
            devices = before_run, seen_device(before_run, report)
            first, last = (
                reblock.simulate(job, workers=workers, device=device).makespan_seconds / real for device in devices
            )
            ratios[workers] = last
            print(
                f"{name}: {workers} workers, {real:.1f} s; predicted {first * real:.1f} s = {first:.2f} × with "
                f"{devices[0].open_seconds * 1e3:.0f} ms before the run, {last * real:.1f} s = {last:.2f} × with "
                f"{devices[1].open_seconds * 1e3:.0f} ms during the run"
            )
        found.append(ratios)
        if all(abs(ratio - 1) <= TOLERANCE for ratio in ratios.values()):
            return
    raise AssertionError(f"predicted / real, by the number of workers: {found}")
