"""Peak memory of Dask workers in random plans, over their size after a warm-up.

    python benchmarks/cluster_memory.py --dir DIR [--plans 50] [--seed 0]

The kernel's high-water mark of each worker process is reset before each run and read after it. A worker may take its
budget and 16 MiB more than it took after a run of another array.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

import reblock
from reblock.units import format_size

SPARE_BYTES = 16 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", required=True, help="folder for the arrays")
    parser.add_argument("--plans", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance, worst = random.Random(options.seed), 0
    with (
        tempfile.TemporaryDirectory(dir=options.dir) as folder,
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit=0) as cluster,
        Client(cluster) as client,
    ):
        for codec in ("none", "zstd:1", "gzip:1", "blosc"):
            _run(chance, Path(folder), client, codec)
        pids = list(client.run(os.getpid).values())
        base = {pid: _size(pid, "VmRSS") for pid in pids}
        for number in range(options.plans):
            for pid in pids:
                Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")
            before = {pid: _size(pid, "VmRSS") for pid in pids}
            job = _run(chance, Path(folder), client)
            over = max(_size(pid, "VmHWM") - base[pid] for pid in pids) - job.plan.memory_bytes
            worst = max(worst, over)
            print(
                f"{number + 1:3}: budget {format_size(job.decision.problem.memory_bytes):>9}, plan "
                f"{format_size(job.plan.memory_bytes):>9}, {over / 2**20:6.1f} MiB over it; the process had grown by "
                f"{max(before[pid] - base[pid] for pid in pids) / 2**20:.1f} MiB",
                flush=True,
            )
    print(f"at most {worst / 2**20:.1f} MiB over the budget, bar {SPARE_BYTES >> 20} MiB")
    sys.exit(worst > SPARE_BYTES)


def _run(chance: random.Random, folder: Path, client: Any, codec: str | None = None) -> Any:
    """Run a random job with the cluster, and check its result."""
    shape = [chance.randint(40, 300) for _ in range(3)]
    source, target = folder / "source.zarr", folder / "target.zarr"
    for path in (source, target):
        shutil.rmtree(path, ignore_errors=True)
    data = folder / "data.npy"
    np.save(data, np.random.default_rng(chance.randrange(10**9)).integers(0, 5000, shape, "u2"))
    codecs = ("none", "zstd:1", "gzip:1", "blosc")
    first = tuple(chance.randint(4, length) for length in shape)
    reblock.repartition(data, source, chunks=first, codec=codec or chance.choice(codecs), memory="256MiB")
    while True:
        chunks = tuple(chance.randint(4, length) for length in shape)
        memory = chance.choice((8, 16, 32, 64)) << 20
        try:
            job = reblock.plan(source, target, chunks=chunks, codec=codec or chance.choice(codecs), memory=memory)
            break
        except reblock.InfeasibleError:
            continue
    report = reblock.run(job, executor=client)
    if report.digest != reblock.verify(data, target).source_digest:
        sys.exit("the target differs from the source")
    return job


def _size(pid: int, field: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    main()
