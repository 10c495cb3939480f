"""Time of a small run that passes outside the engine: start of Python, imports, planning, publishing.

    python benchmarks/start.py --dir DIR [--rounds 10]

Every round converts 7.5 MiB from .npy to Zarr twice, with and without `--json`. The engine's time is the measured time
of the report. Processor time is printed beside wall time: on a busy machine it varies less.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

#: Seconds outside the engine.
BAR = 0.35
SHAPE = (125, 125, 126)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", required=True, help="folder on the disk to be measured")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {"text": [], "json": []}
    engine: list[float] = []
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        source = Path(folder, "small.npy")
        np.save(source, np.random.default_rng(0).normal(size=SHAPE).astype("<f4"))
        _run(source, [])  # compiles what is not compiled yet
        for _ in range(options.rounds):
            for name, words in (("text", []), ("json", ["--json"])):
                wall, processor, said = _run(source, words)
                found[name].append((wall, processor))
                if words:
                    engine.append(json.loads(said)["measured"]["seconds"])
    inside = median(engine)
    print(f"engine {inside:.3f} s, load {os.getloadavg()[0]:.1f}")
    for name, rounds in found.items():
        wall, processor = (median(column) for column in zip(*rounds, strict=True))
        print(f"{name}: wall {wall:.3f} s, processor {processor:.3f} s, outside the engine {wall - inside:.3f} s")
    worst = max(median(wall for wall, _ in rounds) for rounds in found.values()) - inside
    print(f"at most {BAR} s: {'held' if worst <= BAR else 'NOT held'}")


def _run(source: Path, words: list[str]) -> tuple[float, float, str]:
    """Wall seconds, processor seconds and standard output of one run."""
    target = source.with_suffix(".zarr")
    shutil.rmtree(target, ignore_errors=True)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "reblock", "run", str(source), str(target), "--chunks", "32,32,32", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


if __name__ == "__main__":
    main()
