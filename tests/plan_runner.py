"""Executes plans from JSON in a process of its own, with as many cores as it is told, and prints what it measured.

The first line of standard input is the number of cores that the process is to believe in, every other line a plan with
its source and its target. The answer has one line per plan: traffic and peak of every pass, and a digest.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from reblock.engine import View, digest, execute_plan
from reblock.model import Codec, Plan, Schema
from reblock.storage import registry
from reblock.testing.scratch import ScratchFolder


def believe_in(cores: int) -> None:
    """Whoever asks for the number of cores is told this one."""
    os.cpu_count = lambda: cores  # type: ignore[assignment]
    os.sched_getaffinity = lambda _: set(range(cores))  # type: ignore[assignment]


def schema_of(array: dict[str, Any]) -> Schema:
    """The schema of an array of the tests: two-byte elements."""
    wanted = Schema(
        tuple(array["shape"]),
        np.dtype("<u2"),
        tuple(array["chunks"]),
        shards=tuple(array["shards"]) if array["shards"] else None,
        codec=Codec.parse(array["codec"]),
    )
    return registry.get(array["format"]).adapt(wanted, {"chunks", "shards", "codec"})


def execute(order: dict[str, Any]) -> dict[str, Any]:
    plan, array = Plan.from_json(order["plan"]), order["target"]
    view = View.whole(registry.open(order["source"]))
    store = registry.get(array["format"]).create(array["path"], "", schema_of(array))
    with ScratchFolder(plan, str(Path(array["path"]).parent)) as scratch:
        measured = execute_plan(plan, view, store, scratch)
    store.commit()
    return {
        "passes": [
            {"source": asdict(one.source), "target": asdict(one.target), "peak_bytes": one.peak_bytes}
            for one in measured
        ],
        "digest": digest.text(measured[-1].sums, store.layout.dtype, store.layout.shape),
    }


if __name__ == "__main__":
    believe_in(int(sys.stdin.readline()))
    for line in sys.stdin:
        print(json.dumps(execute(json.loads(line))), flush=True)
