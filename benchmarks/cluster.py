"""Race on one Dask cluster of two workers: reblock, dask p2p, cubed; beside threads of one process and a plain copy.

    python benchmarks/cluster.py --dir DIR [--gib 1] [--rounds 5] [--codec none] [--only copy,threads,cluster]

All contenders write the same Zarr array with other chunks from the same Zarr array, in interleaved rounds; the cluster
starts before the clock does. The plain copy moves the same files without rechunking them: the physical limit. cubed
takes part if it is installed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import dask.array
import numpy as np
import zarr
from distributed import Client, LocalCluster

import reblock

SOURCE_CHUNKS, TARGET_CHUNKS = (64, 64, 64), (32, 128, 128)
MEMORY = "256MiB"
#: Against threads, and against the others.
BAR_THREADS, BAR_OTHERS = 1.15, 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", required=True, help="folder on the disk to be measured")
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--codec", default="none", choices=("none", "zstd:1"))
    parser.add_argument("--only", help="names of contenders, with commas between them")
    options = parser.parse_args()
    length = max(int(options.gib * 2**30 / 2 / 1024 / 512) // 128 * 128, 128)
    with (
        tempfile.TemporaryDirectory(dir=options.dir) as folder,
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit=0, local_directory=folder
        ) as cluster,
        Client(cluster) as client,
    ):
        source = Path(folder, "source.zarr")
        _make(source, (length, 1024, 512))
        contenders = _contenders(source, folder, options.codec, client)
        if options.only:
            contenders = {name: contenders[name] for name in options.only.split(",")}
        # Whatever is imported and compiled on the first use.
        for name, run in contenders.items():
            _timed(name, run, source, folder, check=True)
        seconds: dict[str, list[float]] = {name: [] for name in contenders}
        for number in range(options.rounds):
            for name, run in contenders.items():
                seconds[name].append(_timed(name, run, source, folder))
            print(number + 1, {name: round(some[-1], 2) for name, some in seconds.items()}, flush=True)
    _report(seconds)


def _make(path: Path, shape: tuple[int, ...]) -> None:
    made: Any = zarr.create_array(path, shape=shape, chunks=SOURCE_CHUNKS, dtype="u2", compressors=None)
    random = np.random.default_rng(0)
    for start in range(0, shape[0], 64):
        made[start : start + 64] = random.integers(0, 4000, (min(64, shape[0] - start), *shape[1:]), "u2")


def _contenders(source: Path, folder: str, codec: str, client: Any) -> dict[str, Callable[[Path], object]]:
    def plan(target: Path) -> Any:
        return reblock.plan(source, target, chunks=TARGET_CHUNKS, codec=codec, memory=MEMORY)

    def create(target: Path) -> Any:
        codecs = None if codec == "none" else [{"name": "zstd", "configuration": {"level": 1, "checksum": False}}]
        shape = zarr.open_array(source).shape
        return zarr.create_array(target, shape=shape, chunks=TARGET_CHUNKS, dtype="u2", compressors=codecs)

    def p2p(target: Path) -> None:
        blocks = dask.array.from_array(zarr.open_array(source, mode="r"), chunks=(128, 128, 512), name=False)
        dask.array.store(blocks.rechunk(TARGET_CHUNKS, method="p2p"), create(target), lock=False)

    def cubed(target: Path) -> None:
        library, creating = import_module("cubed"), import_module("cubed.runtime.create")
        # Its check looks for workers before its client has heard of them.
        import_module("cubed.runtime.executors.dask").check_runtime_memory = lambda *_: None
        work = Path(folder, "cubed")
        executor = creating.create_executor("dask", {"compute_kwargs": {"address": client.scheduler.address}})
        spec = library.Spec(str(work), allowed_mem=MEMORY.replace("i", ""), executor=executor)
        array = library.from_array(zarr.open_array(source, mode="r"), spec=spec)
        library.store(array.rechunk(TARGET_CHUNKS), create(target))
        shutil.rmtree(work, ignore_errors=True)

    def copy(target: Path) -> None:
        files = [path for path in source.rglob("*") if path.is_file()]
        for one in {target / path.relative_to(source).parent for path in files}:
            one.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(lambda path: shutil.copyfile(path, target / path.relative_to(source)), files))
        os.sync()

    found: dict[str, Callable[[Path], object]] = {
        "copy": copy,
        "threads": lambda target: reblock.run(plan(target)),
        "cluster": lambda target: reblock.run(plan(target), executor=client),
        "dask p2p": p2p,
    }
    if find_spec("cubed") is not None:
        found["cubed"] = cubed
    return found


def _timed(name: str, run: Callable[[Path], object], source: Path, folder: str, *, check: bool = False) -> float:
    target = Path(folder, "target.zarr")
    shutil.rmtree(target, ignore_errors=True)
    os.sync()
    began = time.perf_counter()
    run(target)
    taken = time.perf_counter() - began
    if check and not reblock.verify(source, target).equal:
        sys.exit(f"{name}: the target differs from the source")
    return taken


def _report(seconds: dict[str, list[float]]) -> None:
    for name, some in seconds.items():
        print(f"{name:>9}: {median(some):6.2f} s ({min(some):.2f} to {max(some):.2f})")
    for name, bar in (("threads", BAR_THREADS), ("dask p2p", BAR_OTHERS), ("cubed", BAR_OTHERS)):
        if name in seconds and "cluster" in seconds:
            ratio = median(mine / other for mine, other in zip(seconds["cluster"], seconds[name], strict=True))
            print(f"cluster / {name}: {ratio:.2f}, bar {bar}: {'holds' if ratio <= bar else 'does not hold'}")


if __name__ == "__main__":
    main()
