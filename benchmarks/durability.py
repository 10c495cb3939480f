"""The cost of durability: the same plan by the engine alone and as a whole run, both until everything is on disk.

::

    python benchmarks/durability.py [FOLDER] [--size 512MiB] [--rounds 5]

The engine alone writes only chunks. A run also keeps a journal, syncs in groups and publishes by a rename; it is timed
without and with digests. Rounds are interleaved, so that all see the same machine. Prints the medians, and their ratios
to the engine alone.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import reblock
from reblock.engine import Watch, execute_plan
from reblock.runs.staging import remove_tree
from reblock.testing.scratch import ScratchFolder
from reblock.units import format_seconds, format_size, parse_size

#: 4 MiB of float32.
CHUNK = (128, 128, 64)
#: The most time that a run may take, as a multiple of the engine alone.
BAR = 1.10


def engine_alone(job: reblock.Job, path: str) -> None:
    """Write the array without a journal, intermediate syncs or a final rename."""
    assert job.source is not None
    assert job.format is not None
    store = job.format.create(path, "", job.schema)
    with ScratchFolder(job.plan, os.path.dirname(path)) as scratch:
        execute_plan(job.plan, job.source, store, scratch, watch=Watch(digest=False))
    store.commit()


def make_source(path: Path, size: int) -> None:
    """Random elements, which no disk can compress."""
    planes = max(size // (4 * 512 * 512), 1)
    chance = np.random.default_rng(0)
    source = np.lib.format.open_memmap(path, "w+", "<f4", (planes, 512, 512))
    for plane in range(planes):
        source[plane] = chance.random((512, 512), "f4")
    source.flush()


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("folder", nargs="?", default=".", help="where the arrays are made")
    asked.add_argument("--size", default="512MiB")
    asked.add_argument("--rounds", type=int, default=5)
    given = asked.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        make_source(folder / "x.npy", parse_size(given.size))
        target = str(folder / "y")
        job = reblock.plan(folder / "x.npy", target, to_format="rawblocks", chunks=CHUNK, memory="256MiB")
        ways: dict[str, Callable[[], object]] = {
            "engine alone": lambda: engine_alone(job, target),
            "run, no digest": lambda: reblock.run(job, digest=False),
            "run": lambda: reblock.run(job),
        }
        took: dict[str, list[float]] = {way: [] for way in ways}
        for turn in range(given.rounds + 1):
            for way, call in ways.items():
                os.sync()
                began = time.perf_counter()
                call()
                os.sync()
                if turn:  # the first round warms the page cache
                    took[way].append(time.perf_counter() - began)
                remove_tree(target)
        size = format_size(job.cost.bytes_written)
    print(f"{size} in chunks of 4 MiB, strategy {job.plan.strategy}, medians of {given.rounds} rounds")
    alone = statistics.median(took["engine alone"])
    for way, times in took.items():
        middle = statistics.median(times)
        spread = f"{format_seconds(min(times))} to {format_seconds(max(times))}"
        print(f"{way:16}{format_seconds(middle):>10}  {middle / alone:5.2f} ×   ({spread})")
    ratio = statistics.median(took["run"]) / alone
    print(f"durability costs {ratio:.2f} × of the engine alone, the bar is {BAR:.2f}")


if __name__ == "__main__":
    main()
