"""Peak memory of random problems, each in a fresh process, compared with the prediction.

    python benchmarks/memory.py --dir /data [--problems 300] [--seed 0]

Budgets start at the smallest feasible one, unless a run would take hours with it. The process takes at most the
prediction plus 16 MiB above its start, and the prediction is at most the budget. The engine reserves at most the
prediction. If the prediction is 256 MiB or more, it is at most 1.15 times what was reserved and at most 1.15 times what
the process took. Exit 1 if one of these does not hold for every problem.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from math import prod
from typing import Any

import numpy as np

import reblock
from reblock.bench.peers.scripts.measure import peak_of, resident
from reblock.units import format_size

SLACK_BYTES, LARGE_BYTES, MOST_OVER = 16 << 20, 256 << 20, 1.15
#: Formats, and the codecs to try with each.
CODECS = {
    "npy": ("none",),
    "blocks": ("none",),
    "zarr": ("none", "zstd:1", "blosc:lz4:1", "gzip:1"),
    "hdf5": ("none", "shuffle+gzip:1", "gzip:1"),
}
SUFFIX = {"npy": ".npy", "blocks": "/", "zarr": ".zarr", "hdf5": ".h5"}
#: Arrays from 1 MiB up, and every third one large enough for a budget of some hundred MiB.
SMALL, LARGE = (1 << 20, 48 << 20), (600 << 20, 800 << 20)
MOST_CHUNKS = 1500
#: The longest time and the most steps of a run; a problem that exceeds them gets more memory, by at most a quarter of
#: its array at a time.
LONG_SECONDS, MANY_STEPS = 10, 5000


def draw(rng: random.Random, *, large: bool) -> dict[str, Any]:
    """Shape, chunks, formats and codecs of a problem."""
    dtype = rng.choice(("u1", "<u2", "<f4", "<f8"))
    ndim = rng.randint(1, 4)
    elements = rng.randint(*(LARGE if large else SMALL)) // np.dtype(dtype).itemsize
    weights = [rng.uniform(0.5, 1.5) for _ in range(ndim)]
    shape = [max(1, round(elements ** (weight / sum(weights)))) for weight in weights]
    source, target = (rng.choice(sorted(CODECS)) for _ in range(2))
    before, after = ([rng.randint(1, max(1, n // (1 if large else 2))) for n in shape] for _ in range(2))
    while any(prod(-(-n // c) for n, c in zip(shape, chunks, strict=True)) > MOST_CHUNKS for chunks in (before, after)):
        before, after = ([min(n, 2 * c) for n, c in zip(shape, chunks, strict=True)] for chunks in (before, after))
    return {
        "dtype": dtype,
        "shape": shape,
        "source_format": source,
        "target_format": target,
        "source_chunks": before,
        "chunks": after,
        "source_codec": rng.choice(CODECS[source]),
        "codec": rng.choice(CODECS[target]),
        # A quarter of the problems gets the least memory.
        "factor": 1.0 if rng.random() < 0.25 else rng.uniform(1, 6),
        "source_shards": draw_shards(rng, shape, before) if source == "zarr" else None,
        "shards": draw_shards(rng, shape, after) if target == "zarr" else None,
    }


def draw_shards(rng: random.Random, shape: list[int], chunks: list[int]) -> list[int] | None:
    """A shard of several chunks, for every other array."""
    many = [rng.randint(1, min(4, -(-n // c))) for n, c in zip(shape, chunks, strict=True)]
    return [k * c for k, c in zip(many, chunks, strict=True)] if rng.random() < 0.5 else None


def prepare(problem: dict[str, Any], folder: str) -> dict[str, Any]:
    """Store the source, and find the smallest budget."""
    seed = os.path.join(folder, "seed.npy")
    values = np.random.default_rng(0).integers(0, 200, problem["shape"], "u1").astype(problem["dtype"])
    np.save(seed, values)
    source = os.path.join(folder, "source") + SUFFIX[problem["source_format"]]
    stored = {"chunks": problem["source_chunks"], "shards": problem["source_shards"], "codec": problem["source_codec"]}
    reblock.repartition(seed, source, **stored, memory="4GiB")
    target = os.path.join(folder, "target") + SUFFIX[problem["target_format"]]
    wanted = {"chunks": problem["chunks"], "shards": problem["shards"], "codec": problem["codec"]}
    try:
        reblock.plan(source, target, memory=1, **wanted)
        least = 1
    except reblock.InfeasibleError as error:
        least = error.needs_memory_bytes or 0
    memory = round(least * problem["factor"])
    # With the least memory, raw files are moved element by element, which takes hours; a few KiB show the same.
    while takes_long(reblock.plan(source, target, memory=memory, **wanted)) and memory < least + 4 * values.nbytes:
        memory += min(memory, values.nbytes // 4)
    return {"source": source, "target": target, "memory": memory, **wanted}


def takes_long(planned: reblock.Job) -> bool:
    steps = sum(sweep.reads.count for sweep in planned.plan.passes)
    return planned.cost.seconds > LONG_SECONDS or steps > MANY_STEPS


def run(job: dict[str, Any]) -> dict[str, int]:
    """One problem, in this process."""
    wanted = {key: job[key] for key in ("chunks", "shards", "codec", "memory")}
    planned = reblock.plan(job["source"], job["target"], **wanted)
    warm(planned)
    before = resident(os.getpid())
    report = reblock.run(planned)
    taken = peak_of(os.getpid()) - before
    return {"taken": taken, "reserved": report.measured.peak_bytes, "predicted": report.predicted.peak_bytes}


def warm(planned: Any) -> None:
    """Load the libraries of formats and codecs, which are not part of the budget."""
    with tempfile.TemporaryDirectory() as folder:
        tiny = os.path.join(folder, "x.npy")
        np.save(tiny, np.zeros((4,) * len(planned.schema.shape), planned.schema.dtype))
        for name, suffix in SUFFIX.items():
            codec = planned.schema.codec if planned.format.name == name else "none"
            made = os.path.join(folder, name) + suffix
            reblock.repartition(tiny, made, chunks=(2,) * len(planned.schema.shape), codec=codec)


def judge(job: dict[str, Any], found: dict[str, int]) -> list[str]:
    """The bars that are not met, in words."""
    wrong = []
    if found["taken"] > found["predicted"] + SLACK_BYTES:
        wrong.append("takes more than predicted")
    if found["predicted"] > job["memory"]:
        wrong.append("predicts more than the budget")
    if found["reserved"] > found["predicted"]:
        wrong.append("reserves more than predicted")
    if over(found, "reserved") > MOST_OVER:
        wrong.append("predicts too much")
    if over(found, "taken") > MOST_OVER:
        wrong.append("takes much less than predicted")
    return wrong


def over(found: dict[str, int], key: str) -> float:
    """The prediction as a multiple of a measured value, if the prediction is large."""
    return found["predicted"] / found[key] if found["predicted"] >= LARGE_BYTES else 0.0


def is_raw(problem: dict[str, Any]) -> bool:
    return problem["codec"] == problem["source_codec"] == "none"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", required=True, help="folder for arrays of up to 1 GiB")
    parser.add_argument("--problems", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first problem, to go on with")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        print(json.dumps(run(json.loads(options.job))))
        return 0
    failures = large = 0
    most = {"reserved": 0.0, "taken, raw": 0.0, "taken, encoded": 0.0}
    for number in range(options.first, options.first + options.problems):
        problem = draw(random.Random(f"{options.seed}-{number}"), large=number % 3 == 2)
        folder = tempfile.mkdtemp(prefix="memory-", dir=options.dir)
        try:
            job = prepare(problem, folder)
            words = [sys.executable, __file__, "--dir", options.dir, "--job", json.dumps(job)]
            found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
        except subprocess.CalledProcessError as error:
            found, wrong = {}, [error.stderr.strip().splitlines()[-1]]
        else:
            wrong = judge(job, found)
            large += found["predicted"] >= LARGE_BYTES
            kind = "taken, raw" if is_raw(problem) else "taken, encoded"
            most["reserved"] = max(most["reserved"], over(found, "reserved"))
            most[kind] = max(most[kind], over(found, "taken"))
        finally:
            shutil.rmtree(folder)
        sizes = ", ".join(f"{key} {format_size(value)}" for key, value in found.items())
        line = f"{number}: budget {format_size(job['memory'])}, {sizes}{''.join(f': {one}' for one in wrong)}"
        print(line, flush=True)
        if wrong:
            failures += 1
            print(f"    {json.dumps(problem)}")
    times = "; ".join(f"{value:.2f} × what was {key}" for key, value in most.items() if value)
    print(
        f"{options.problems - failures} of {options.problems} problems keep every bar; {large} have "
        f"{format_size(LARGE_BYTES)} or more predicted, at most {times}"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
