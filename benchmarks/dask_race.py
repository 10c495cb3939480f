"""Races dask with buffers against plain dask: one contiguous HDF5 dataset of 1400³ bytes, and blocks of 280³.

    python benchmarks/dask_race.py --dir DIR [--rounds 5] [--side 1400]

Both run on as many threads as there are cores, cold, in alternating rounds. Times are those of the computation, and of
the sync that makes the target durable.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from reblock.bench.files import empty, evict_array

ENGINES = ("dask", "buffers")
#: Blocks along an axis.
PARTS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", required=True, help="folder on the disk to be measured")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--side", type=int, default=1400, help="length of the array along an axis")
    parser.add_argument("--memory", default="1GiB", help="budget of buffers")
    options = parser.parse_args()
    folder = Path(options.dir)
    folder.mkdir(parents=True, exist_ok=True)
    for job, source, target in (("split", "big.h5", "blocks.zarr"), ("merge", "blocks.zarr", "big.h5")):
        _run(folder / "none", folder / source, "make", options)
        found: dict[str, list[float]] = {name: [] for name in ENGINES}
        # The first round warms memory up.
        for number in range(options.rounds + 1):
            for name in ENGINES[:: 1 if number % 2 else -1]:
                _remove(folder / target)
                evict_array(str(folder / source))
                seconds = _run(folder / source, folder / target, name, options)
                if number:
                    found[name].append(seconds)
        plain, ours = (median(found[name]) for name in ENGINES)
        spread = max((max(times) - min(times)) / median(times) for times in found.values())
        held = ours <= plain * (1 + spread)
        print(
            f"{job}: dask {plain:.2f} s, buffers {ours:.2f} s, ratio {ours / plain:.2f}, spread {spread:.0%}: "
            f"{'held' if held else 'NOT held'}  {json.dumps({k: [round(t, 2) for t in v] for k, v in found.items()})}",
            flush=True,
        )
        for path in (folder / source, folder / target):
            _remove(path)


def _run(source: Path, target: Path, engine: str, options: argparse.Namespace) -> float:
    """Seconds of one job that makes its target, and of the sync after it."""
    shape = (options.side,) * 3
    blocks = tuple(n // PARTS for n in shape)
    job: dict[str, Any] = {"source": str(source), "target": str(target), "engine": engine, "memory": options.memory}
    job |= {"chunks": blocks, "shape": shape, "threads": os.cpu_count(), "dtype": "u1"}
    if target.suffix == ".zarr":
        job["target_chunks"] = blocks
    command = [sys.executable, "-m", "reblock.dask.experiment", json.dumps(job)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    began = perf_counter()
    os.sync()
    return float(json.loads(done.stdout).get("seconds", 0)) + perf_counter() - began


def _remove(path: Path) -> None:
    """Remove a file or a folder; truncated first, so that its pages are not written."""
    if path.is_dir():
        empty(str(path))
        shutil.rmtree(path)
    elif path.exists():
        os.truncate(path, 0)
        path.unlink()


if __name__ == "__main__":
    main()
