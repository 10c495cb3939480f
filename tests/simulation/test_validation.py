"""Simulated runs take as long as real ones: S3 through a proxy that delays each request by 50 ms.

Server, proxy, workers and whatever else runs share the cores, so requests take longer than these 50 ms, and the longer
the more workers there are. The forecast uses only what was measured before the run, by requests of the same sizes:
their latency, and the processor time that each takes. What it would be with the latency during the run is printed
beside it (`-s`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

import numpy as np
import psutil
import pytest

import reblock
import s3_server
from reblock.api.machine import cores
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


def probe(server: s3_server.S3Server, request: Callable[[int], Any], count: int = 48) -> tuple[float, float]:
    """Seconds of a request, of which DEPTH are under way, and processor seconds of client, proxy and server."""
    with ThreadPoolExecutor(DEPTH) as threads:
        list(threads.map(request, range(DEPTH)))
        began, worked = time.perf_counter(), processor_seconds(server)
        list(threads.map(request, range(count)))
        taken = time.perf_counter() - began
        return taken * DEPTH / count, (processor_seconds(server) - worked) / count


def processor_seconds(server: s3_server.S3Server) -> float:
    """Processor time of this process, which has the client and the proxy, and of the server."""
    return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in (os.getpid(), server.pid))


def measured_device(server: s3_server.S3Server, endpoint: str, size: int) -> Device:
    """The store as one client sees it before the run, and what a request takes of the cores that all of them share."""
    obstore = pytest.importorskip("obstore")
    store = obstore.store.from_url(BUCKET, config=s3_server.options_for(endpoint), client_options={"allow_http": True})
    body = bytes(size)
    put, making = probe(server, lambda number: obstore.put(store, f"probe/{number}", body, use_multipart=False))
    get, visiting = probe(server, lambda number: bytes(obstore.get(store, f"probe/{number}").bytes()))
    preset = PRESETS["s3"]
    return replace(
        preset,
        open_seconds=get,
        seek_seconds=get,
        create_seconds=max(put - get, 0.0),
        visit_seconds=preset.visit_seconds + visiting / cores(),
        make_seconds=preset.make_seconds + max(making - visiting, 0.0) / cores(),
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
            device = measured_device(server, endpoint, int(np.prod(before)) * 2)
            target = f"{BUCKET}/{name}-{number}-{workers}.zarr"
            job = reblock.plan(f"{BUCKET}/{name}.zarr", target, chunks=after, memory="64MiB", device=device)
            report = reblock.run(job, executor=pools(workers))
            assert report.measured.seeks == report.predicted.seeks
            real = sum(one.seconds for one in report.passes)
            forecast = reblock.simulate(job, workers=workers, per_host=workers, device=device).makespan_seconds
            seen = seen_device(device, report)
            after_all = reblock.simulate(job, workers=workers, device=seen).makespan_seconds
            ratios[workers] = forecast / real
            work = device.visit_seconds * cores() * 1e3
            print(
                f"{name}: {workers} workers, {real:.1f} s; forecast {forecast:.1f} s = {forecast / real:.2f} × with "
                f"{device.open_seconds * 1e3:.0f} ms and {work:.1f} ms of a core before the run; "
                f" {after_all / real:.2f} × with {seen.open_seconds * 1e3:.0f} ms during the run"
            )
        found.append(ratios)
        if all(abs(ratio - 1) <= TOLERANCE for ratio in ratios.values()):
            return
    raise AssertionError(f"predicted / real, by the number of workers: {found}")
