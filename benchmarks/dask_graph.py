"""Processor time that buffers add to the optimisation of a graph of 100,000 loads, and the nodes that they add.

    python benchmarks/dask_graph.py [--side 320] [--rounds 5]

dask optimises the same graph alone in the same rounds. What buffers take is the difference. Nothing is read.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import dask.array as da
import h5py
from dask.array.optimization import optimize
from dask.core import flatten

from reblock.dask import optimize_graph

#: Seconds that our part may take, and nodes that one buffer may add.
BAR, NODES = 2.0, 2
CHUNK = 10
MEMORY = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=320, help="loads along each of two axes")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    length = options.side * CHUNK
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.h5")
        with h5py.File(path, "w") as file:
            file.create_dataset("x", shape=(length, length), dtype="u1")
        with h5py.File(path) as file:
            loads = da.from_array(file["x"], chunks=(CHUNK, CHUNK), lock=False)
            for name, collection in (("loads", loads), ("loads and a task each", loads + 1)):
                _compare(name, collection, options.rounds)


def _compare(name: str, collection: Any, rounds: int) -> None:
    keys = list(flatten(collection.__dask_keys__()))
    alone, ours = [], []
    for _ in range(rounds):
        # A graph remembers what was asked of it: each call gets its own.
        seconds, plain = _timed(lambda graph: optimize(graph, keys), dict(collection.__dask_graph__()))
        alone.append(seconds)
        seconds, made = _timed(
            lambda graph: optimize_graph(graph, keys, memory=MEMORY), dict(collection.__dask_graph__())
        )
        ours.append(seconds)
    buffers = sum("-buffer" in str(key) and "token" not in str(key) for key in made)
    added, part = len(made) - len(plain), median(ours) - median(alone)
    print(f"{name}: dask alone {median(alone):.2f} s, with buffers {median(ours):.2f} s, our part {part:.2f} s")
    print(f"  {len(plain):,} nodes, {buffers} buffers, {added} nodes added")
    held = part <= BAR and added <= NODES * buffers
    print(f"  at most {BAR} s and {NODES} nodes per buffer: {'held' if held else 'NOT held'}")


def _timed(call: Callable[[Any], Any], graph: Any) -> tuple[float, Any]:
    began = time.thread_time()
    made = call(graph)
    return time.thread_time() - began, made


if __name__ == "__main__":
    main()
