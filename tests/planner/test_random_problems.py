"""Random problems, 1-D to 5-D: `auto` is never worse than a named strategy, and every plan costs what it says.

`REBLOCK_PROBLEMS=2000 pytest tests/planner/test_random_problems.py` runs the whole set; `make test` a part of it.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from dataclasses import replace
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import check_pass, check_run, fill, make
from reblock.cost import PRESETS, memory
from reblock.cost.estimate import estimate_passes
from reblock.engine import View, execute_plan, load
from reblock.errors import InfeasibleError, Refused
from reblock.geometry import Box, Grid
from reblock.model import Access, Codec, Layout, Pass, Plan, Problem, Store
from reblock.passes.family import fit
from reblock.planner import OBJECTIVES, check, choose
from reblock.planner.thrift import least_memory
from reblock.planner.tune import fill_execution
from reblock.strategies import strategies
from reblock.testing.problems import plans

PROBLEMS = int(os.environ.get("REBLOCK_PROBLEMS", "36"))
LENGTHS = {1: (20, 90), 2: (9, 30), 3: (5, 13), 4: (3, 8), 5: (3, 5)}


def random_shapes(rng: random.Random) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Shape, source and target chunks that divide nothing, with at least three chunks on two axes (or on the one)."""
    while True:
        ndim = rng.choice([1, 2, 2, 3, 3, 3, 4, 5])
        shape = tuple(rng.randint(*LENGTHS[ndim]) for _ in range(ndim))
        source, target = (tuple(rng.randint(1, n) for n in shape) for _ in range(2))
        long = [-(-n // i) >= 3 or -(-n // o) >= 3 for n, i, o in zip(shape, source, target, strict=True)]
        blocks = max(prod(-(-n // c) for n, c in zip(shape, cut, strict=True)) for cut in (source, target))
        if sum(long) >= min(ndim, 2) and blocks <= 300:
            return shape, source, target


def peak_at_r_hat(problem: Problem) -> int:
    """Bytes held by the thesis' best read shape r̂ = I·⌈O/I⌉ with everything kept."""
    source, target = problem.source.objects.largest, problem.target.objects.largest
    r_hat = tuple(i * -(-o // i) for i, o in zip(source, target, strict=True))
    whole = Grid.whole(problem.shape)
    sweep = Pass(
        Grid.of(problem.shape, r_hat),
        problem.target.objects.clipped(),
        whole,
        tuple(range(problem.target.ndim)),
        Access.RUNS,
        Access.RUNS,
    )
    return memory.held_elements(sweep) * problem.target.itemsize


def proposals(problem: Problem, objective: str) -> dict[str, Plan]:
    """The decision for each strategy that has a plan."""
    found = {}
    for name in strategies():
        try:
            found[name] = choose(problem, strategy=name, objective=objective)
        except Refused:
            continue
    return found


@pytest.mark.parametrize("seed", range(PROBLEMS))
def test_a_random_problem(seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"problem {seed}")
    shape, chunks, wanted_chunks = random_shapes(rng)
    kinds = rng.choice([("rawblocks", "rawblocks"), ("rawblocks", "zarr"), ("zarr", "rawblocks")])
    array = np.random.default_rng(seed).integers(0, 65536, shape, "u2")
    source = make(tmp_path, "source", kinds[0], shape, chunks)
    fill(source, array)
    view = View.whole(source)
    layout = make(tmp_path, "layout", kinds[1], shape, wanted_chunks).layout
    problem = Problem(view.layout, layout, 1 << 40, PRESETS[rng.choice(["nvme", "hdd", "s3"])], held=rng.random() < 0.5)
    budget = int(peak_at_r_hat(problem) * rng.choice([0.1, 0.3, 0.6, 0.9, 1.1, 2, 4]))
    problem = replace(problem, memory_bytes=max(budget, 1))
    objective = rng.choice(list(OBJECTIVES))
    named = proposals(problem, objective)
    try:
        best = choose(problem, objective=objective)
    except InfeasibleError as refusal:
        best = choose(replace(problem, memory_bytes=refusal.needs_memory_bytes or 0), objective=objective)
        named, problem = {}, best.problem
    key = OBJECTIVES[objective]
    assert problem.memory_bytes == max(budget, 1) or not proposals(replace(problem, memory_bytes=budget), objective)
    for name, decision in named.items():
        assert key(best.cost) <= key(decision.cost), name
        check(decision.plan, problem)
    for number, decision in enumerate({d.plan.strategy: d for d in (best, *named.values())}.values()):
        if decision.plan.interleaved:
            target = make(tmp_path, f"target-{number}", kinds[1], shape, wanted_chunks)
            check_run(decision.plan, problem, view, target, array, tmp_path)
        elif len(decision.plan.passes) == 1:
            target = make(tmp_path, f"target-{number}", kinds[1], shape, wanted_chunks)
            check_pass(decision.plan, problem, view, target, array)
        else:
            check_chain(decision.plan, problem, view, array, tmp_path / f"chain-{number}", kinds[1], wanted_chunks)


#: Codecs of random encoded arrays; small ones that every zarr has.
CODECS = ("", "zstd:1", "gzip:1")


def random_store(rng: random.Random, folder: Path, name: str, shape: tuple[int, ...], chunks: tuple[int, ...]) -> Store:
    """An array whose chunks are raw, encoded, or in shards."""
    kind = rng.choice(["rawblocks", "encoded", "encoded", "sharded", "sharded"])
    if kind == "rawblocks":
        return make(folder, name, kind, shape, chunks)
    codec = Codec.parse(rng.choice(CODECS if kind == "sharded" else CODECS[1:]))
    if kind == "encoded":
        return make(folder, name, "zarr", shape, chunks, codec=codec)
    shards = tuple(c * rng.randint(1, max(-(-n // c), 1)) for c, n in zip(chunks, shape, strict=True))
    return make(folder, name, "zarr", shape, chunks, codec=codec, shards=shards)


@pytest.mark.parametrize("seed", range(PROBLEMS))
def test_a_random_problem_of_encoded_and_sharded_arrays(seed: int, tmp_path: Path) -> None:
    """Every strategy's plan, in one pass or several, one after the other or task by task, run by the engine."""
    rng = random.Random(f"encoded {seed}")
    shape, chunks, wanted_chunks = random_shapes(rng)
    array = np.random.default_rng(seed).integers(0, 65536, shape, "u2")
    source = random_store(rng, tmp_path, "source", shape, chunks)
    fill(source, array)
    view, state = View.whole(source), rng.getstate()
    layout = random_store(rng, tmp_path, "layout", shape, wanted_chunks).layout
    problem = Problem(view.layout, layout, 1, PRESETS[rng.choice(["nvme", "hdd", "s3"])])
    # The least memory depends on whether there may be an intermediate array.
    problem = replace(problem, scratch_bytes=rng.choice([None, source.layout.nbytes // 2, source.layout.nbytes // 3]))
    problem = replace(problem, memory_bytes=int(least_memory(problem) * rng.choice([1, 1.2, 2, 5])))
    objective = rng.choice(list(OBJECTIVES))
    best = choose(problem, objective=objective)
    found = {"auto": best, **proposals(problem, objective)}
    for number, (name, decision) in enumerate(found.items()):
        assert OBJECTIVES[objective](best.cost) <= OBJECTIVES[objective](decision.cost), name
        # The same random choices make the same kind of target again.
        rng.setstate(state)
        target = random_store(rng, tmp_path, f"target-{number}", shape, wanted_chunks)
        assert target.layout == problem.target
        check_run(decision.plan, problem, view, target, array, tmp_path)


@given(st.data())
def test_a_random_chain_of_passes(data: st.DataObject) -> None:
    """Any passes through any raw arrays, one after the other or task by task, between arrays of every kind."""
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    shape, chunks, wanted_chunks = random_shapes(rng)
    array = np.random.default_rng(rng.getrandbits(32)).integers(0, 65536, shape, "u2")
    with TemporaryDirectory() as name:
        folder = Path(name)
        source = random_store(rng, folder, "source", shape, chunks)
        fill(source, array)
        target = random_store(rng, folder, "target", shape, wanted_chunks)
        problem = Problem(source.layout, target.layout, 1 << 30, PRESETS["nvme"])
        plan = data.draw(plans(problem))
        check(plan, problem)
        plan = fill_execution(fit(plan, problem), problem)
        check(plan, problem)
        again = Plan.from_json(json.loads(json.dumps(plan.to_json())))
        assert again.to_json() == plan.to_json()
        check_run(again, problem, View.whole(source), target, array, folder)


def check_chain(plan: Plan, problem: Problem, view: View, array, folder: Path, kind: str, chunks) -> None:
    """Every pass of a chain costs what it says; the array comes out at its end."""
    folder.mkdir()
    for number, (sweep, source, layout) in enumerate(plan.sides(problem.source, problem.target)):
        last = number == len(plan.passes) - 1
        cut = chunks if last else tuple(axis.step or tuple(axis.lengths()) for axis in layout.objects.axes)
        target = make(folder, str(number), kind if last else "rawblocks", problem.shape, cut, layout.order)
        step = replace(plan, passes=(sweep,), scratch=())
        check_pass(step, replace(problem, source=source, target=layout), view, target, array)
        view = View.whole(target)


def test_interleaved_passes_are_run_task_by_task(tmp_path: Path) -> None:
    """Two passes that share their tasks: scratch holds one task at a time, and the array comes out."""
    array = np.arange(24 * 20, dtype="u2").reshape(24, 20)
    source = make(tmp_path, "source", "rawblocks", array.shape, (2, 20))
    fill(source, array)
    middle = Layout.raw("u2", Grid.of(array.shape, (4, 5)))
    target = make(tmp_path, "target", "rawblocks", array.shape, (12, 1))
    tasks = Grid.of(array.shape, (12, 20))
    first = Pass(source.layout.objects, middle.objects, tasks, (0, 1), Access.RUNS, Access.UNITS)
    second = Pass(middle.objects, target.layout.objects, tasks, (0, 1), Access.RUNS, Access.UNITS)
    problem = Problem(source.layout, target.layout, 1 << 20, PRESETS["nvme"])
    plan = Plan("by hand", array.shape, (first, second), (middle,), interleaved=True)
    plan = fill_execution(fit(plan, problem), problem)
    check(plan, problem)
    scratch = Watched(tmp_path / "scratch")
    measured = execute_plan(plan, View.whole(source), target, scratch)
    assert [one.tasks for one in measured] == [2, 2]
    assert scratch.blocks == [12, 12]  # of the 24 there are, those of one task
    predicted = estimate_passes(plan, problem)
    assert [(one.source, one.target) for one in measured] == [(one.source, one.target) for one in predicted]
    assert np.array_equal(load(View.whole(target), Box.whole(array.shape)), array)


def test_a_pass_takes_no_more_than_was_predicted_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second pass holds the whole array; the first is not to use that room, only because it is there."""
    for name in ("LEAST_BEHIND", "LITTLE_PEAK"):
        monkeypatch.setattr(memory, name, 0)
    array = np.arange(24 * 200, dtype="u2").reshape(24, 200)
    source = make(tmp_path, "source", "rawblocks", array.shape, (1, 200))
    fill(source, array)
    middle = Layout.raw("u2", Grid.of(array.shape, (4, 5)))
    target = make(tmp_path, "target", "rawblocks", array.shape, (24, 100))
    whole = Grid.whole(array.shape)
    first = Pass(source.layout.objects, middle.objects, whole, (0, 1), Access.RUNS, Access.UNITS)
    second = Pass(middle.objects, target.layout.objects, whole, (0, 1), Access.RUNS, Access.UNITS)
    problem = Problem(source.layout, target.layout, 1 << 20, PRESETS["nvme"])
    plan = fill_execution(fit(Plan("by hand", array.shape, (first, second), (middle,)), problem), problem)
    measured = execute_plan(plan, View.whole(source), target, Watched(tmp_path / "scratch", array.shape))
    predicted = estimate_passes(plan, problem)
    assert predicted[0].peak_bytes < predicted[1].peak_bytes == plan.memory_bytes
    assert all(one.peak_bytes <= said.peak_bytes for one, said in zip(measured, predicted, strict=True))
    assert np.array_equal(load(View.whole(target), Box.whole(array.shape)), array)


class Watched:
    """Scratch that counts the blocks in it before they are dropped."""

    def __init__(self, folder: Path, shape: tuple[int, ...] = (24, 20)) -> None:
        self.folder, self.shape = folder, shape
        self.blocks: list[int] = []

    def make(self, number: int) -> Store:
        self.folder.mkdir(exist_ok=True)
        return make(self.folder, str(number), "rawblocks", self.shape, (4, 5))

    def drop(self, number: int) -> None:
        self.blocks.append(len(list((self.folder / str(number)).glob("*.bin"))))
        shutil.rmtree(self.folder / str(number))
