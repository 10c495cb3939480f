"""Random plans do what was predicted in another process too, after JSON, whatever its number of cores.

`REBLOCK_PLANS=20 pytest tests/engine/test_elsewhere.py` tries 20 plans of each kind; `make test` one.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from cases import fill
from plan_runner import schema_of
from reblock.cost import PRESETS
from reblock.cost.estimate import Sweep, estimate_passes
from reblock.engine import digest
from reblock.geometry import Grid
from reblock.model import Layout, Plan, Problem
from reblock.passes.family import fit, one_pass, sweep
from reblock.planner import OBJECTIVES, check, choose
from reblock.planner.thrift import least_memory
from reblock.planner.tune import fill_execution
from reblock.storage import registry

PLANS = int(os.environ.get("REBLOCK_PLANS", "1"))
RUNNER = Path(__file__).parents[1] / "plan_runner.py"
KINDS = ("raw", "encoded", "sharded")


class Case(NamedTuple):
    """A plan, and what it is to do."""

    plan: Plan
    predicted: list[Sweep]
    source: str
    target: dict[str, Any]
    digest: str


def random_array(rng: random.Random, shape: tuple[int, ...], kind: str) -> dict[str, Any]:
    """An array as `schema_of` takes it."""
    chunks = [rng.randint(1, n) for n in shape]
    array = {"format": "zarr", "shape": shape, "chunks": chunks, "shards": None, "codec": "none"}
    if kind == "encoded":
        return {**array, "codec": rng.choice(["zstd:1", "gzip:1", "shuffle+zstd:1"])}
    if kind == "sharded":
        return {**array, "shards": [c * rng.randint(1, 3) for c in chunks], "codec": rng.choice(["none", "zstd:1"])}
    return {**array, "format": rng.choice(["rawblocks", "zarr", "blocks"])}


def random_grid(rng: random.Random, shape: tuple[int, ...]) -> Grid:
    return Grid.of(shape, [rng.randint(1, n) for n in shape])


def joined(rng: random.Random, grid: Grid) -> Grid:
    """Boxes of several blocks each."""
    return Grid(tuple(axis.multiple(rng.randint(1, max(axis.count, 1))) for axis in grid.axes))


def random_plan(rng: random.Random, problem: Problem, kind: str) -> tuple[Plan, Problem]:
    """A plan of a kind, and the problem that it solves: perhaps with less memory."""
    shape, objects = problem.shape, problem.target.objects.clipped()
    if kind == "chosen":
        problem = replace(problem, memory_bytes=least_memory(problem) * rng.choice([1, 2, 8, 1000]))
        return choose(problem, objective=rng.choice(list(OBJECTIVES))).plan, problem
    order = tuple(rng.sample(range(len(shape)), len(shape)))
    tasks = rng.choice([Grid.whole(shape), joined(rng, objects)])
    if kind == "single":
        read = random_grid(rng, shape)
        plan = one_pass("by hand", problem, read=read, write=objects, tasks=tasks, order=order)
    else:
        middle = Layout.raw("<u2", random_grid(rng, shape).refine(tasks))
        chain = (problem.source, middle, problem.target)
        passes = tuple(
            sweep(
                one,
                two,
                problem.device,
                read=random_grid(rng, shape),
                write=two.objects.clipped(),
                tasks=tasks if kind == "interleaved" else Grid.whole(shape),
                order=order,
            )
            for one, two in pairwise(chain)
        )
        plan = Plan("by hand", shape, passes, (middle,), interleaved=kind == "interleaved")
    return fill_execution(fit(plan, problem, frugal=rng.random() < 0.5), problem), problem


def random_case(seed: str, folder: Path, kind: str, before: str, after: str) -> Case:
    rng = random.Random(seed)
    ndim = rng.choice([1, 2, 3])
    shape = tuple(rng.randint(1, (60, 20, 9)[ndim - 1]) for _ in range(ndim))
    array, target = random_array(rng, shape, before), random_array(rng, shape, after)
    elements = np.random.default_rng(rng.randrange(1 << 30)).integers(0, 50, shape, "<u2")
    made = registry.get(array["format"]).create(str(folder / seed), "", schema_of(array))
    fill(made, elements)
    source = registry.open(made.location).layout
    layout = registry.get(target["format"]).layout(schema_of(target))
    problem = Problem(source, layout, 1 << 30, PRESETS[rng.choice(["nvme", "hdd", "s3"])])
    plan, problem = random_plan(rng, problem, kind)
    check(plan, problem)
    told = digest.text(digest.sums(elements, (0,) * ndim, shape), elements.dtype, shape)
    return Case(plan, estimate_passes(plan, problem), made.location, target, told)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    folder = tmp_path_factory.mktemp("plans")
    return [
        random_case(f"{kind}-{before}-{after}-{number}", folder, kind, before, after)
        for kind in ("single", "multi", "interleaved", "chosen")
        for before in KINDS
        for after in KINDS
        for number in range(PLANS)
    ]


def run_elsewhere(cases: list[Case], folder: Path, cores: int) -> list[dict[str, Any]]:
    """What another process measures that believes in a number of cores."""
    orders = [
        {"plan": one.plan.to_json(), "source": one.source, "target": {**one.target, "path": str(folder / str(number))}}
        for number, one in enumerate(cases)
    ]
    told = "\n".join([str(cores), *map(json.dumps, orders)])
    done = subprocess.run([sys.executable, RUNNER], input=told, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("cores", [1, 2, 4])
def test_a_plan_does_the_same_elsewhere(cases: list[Case], cores: int, tmp_path: Path) -> None:
    found = run_elsewhere(cases, tmp_path, cores)
    assert len(found) == len(cases) >= 36
    for case, done in zip(cases, found, strict=True):
        assert done["digest"] == case.digest
        for measured, predicted, made in zip(done["passes"], case.predicted, case.plan.passes, strict=True):
            assert measured["source"] == asdict(predicted.source)
            assert measured["target"] == asdict(predicted.target)
            # How far writes lag behind reads is a matter of time, so the peak has a limit and no fixed value.
            assert made.execution.flight_bytes < measured["peak_bytes"]
            assert measured["peak_bytes"] <= predicted.peak_bytes == made.execution.memory_bytes
