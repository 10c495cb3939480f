"""Races two versions of reblock on the workloads W1 to W6, cold, in alternating rounds.

    python benchmarks/versions.py --old OLD/bin/python --dir DIR [--rounds 5] [W1 ...]

OLD is an environment in which the other version is installed. Times are those of the report: planning and the engine,
with all that is written durable.
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

from reblock.bench.files import evict_array
from reblock.bench.peers.run import clear, make_source, source_path
from reblock.bench.peers.workloads import Workload, find_workloads

#: The limit of new over old.
BAR = 1.05
WORKLOADS = ("W1", "W2", "W3", "W4", "W5", "W6")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", required=True, help="Python of the other version")
    parser.add_argument("--dir", required=True, help="folder on the disk to be measured")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("workloads", nargs="*", default=WORKLOADS)
    options = parser.parse_args()
    os.makedirs(options.dir, exist_ok=True)
    pythons = {"old": options.old, "new": sys.executable}
    for workload in find_workloads(options.workloads):
        source = source_path(workload, "zarr", options.dir)
        if not os.path.exists(source):
            make_source(workload, "zarr", options.dir)
        found: dict[str, list[float]] = {"old": [], "new": []}
        # The first round warms memory up.
        for number in range(options.rounds + 1):
            for name in ("old", "new") if number % 2 else ("new", "old"):
                seconds = _run(pythons[name], workload, source, Path(options.dir, f"{workload.name}-{name}"))
                if number:
                    found[name].append(seconds)
        old, new = median(found["old"]), median(found["new"])
        spread = max((max(times) - min(times)) / median(times) for times in found.values())
        print(
            f"{workload.name}: old {old:.2f} s, new {new:.2f} s, ratio {new / old:.3f}, spread {spread:.0%}: "
            f"{'held' if new <= BAR * old else 'NOT held'}",
            flush=True,
        )
    clear(options.dir)


def _run(python: str, workload: Workload, source: str, target: Path) -> float:
    """Seconds of one cold run."""
    inner = "::/data" if workload.source_format == "hdf5" else ""
    out = str(target) + {"hdf5": ".h5", "zarr": ".zarr"}[workload.target_format]
    scratch = target.with_suffix(".scratch")
    scratch.mkdir()
    words = [python, "-m", "reblock", "run", source + inner, out + inner, "--json", "--scratch", str(scratch)]
    words += ["--chunks", ",".join(map(str, workload.chunks)), "--memory", str(workload.memory_bytes)]
    if workload.shards:
        words += ["--shards", ",".join(map(str, workload.shards))]
    os.sync()
    evict_array(source)
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}\n{done.stderr}")
        return float(json.loads(done.stdout)["measured"]["seconds"])
    finally:
        shutil.rmtree(scratch)
        shutil.rmtree(out) if os.path.isdir(out) else os.unlink(out)


if __name__ == "__main__":
    main()
