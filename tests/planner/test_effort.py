"""Planning takes little time, whatever the problem: none of many random plans and refusals takes three seconds.

`REBLOCK_EXAMPLES=2000 pytest tests/planner/test_effort.py` tries 2,000 of them; `make test` a sample.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
import pytest

from reblock.cost import PRESETS, estimate
from reblock.errors import InfeasibleError, Refused, UsageError
from reblock.geometry import Grid
from reblock.geometry.axis import MAX_LENGTH
from reblock.model import Layout, Problem
from reblock.planner import OBJECTIVES, choose, effort
from reblock.planner.effort import Effort
from reblock.planner.search import search
from reblock.planner.thrift import least_memory
from reblock.strategies import strategies

EXAMPLES = int(os.environ.get("REBLOCK_EXAMPLES", "40"))
MOST_SECONDS = 3.0
LENGTHS = (10, 16, 32, 64, 100, 128, 256, 500, 1000)
CODECS = ("gzip:1", "zstd:3", "shuffle+gzip:9", "blosc:zstd:3")


def random_shape(rng: random.Random, digits: int) -> tuple[int, ...]:
    """One to five axes, of so many digits of elements at the most."""
    size = 10 ** rng.uniform(1, digits)
    parts = [rng.random() ** 2 + 0.02 for _ in range(rng.choice([1, 2, 3, 3, 4, 4, 5]))]
    return tuple(max(int(size ** (part / sum(parts))), 1) for part in parts)


def random_chunks(rng: random.Random, shape: Sequence[int], most: int = 10**9) -> tuple[int, ...]:
    """Chunks of every kind, 10⁹ at the most."""
    while True:
        chunks = []
        for n in shape:
            kinds = [n, n, 1, min(n, rng.choice(LENGTHS)), min(n, rng.choice(LENGTHS))]
            chunks.append(rng.choice([*kinds, *(max(min(int(n ** rng.random()), n), 1) for _ in range(5))]))
        if prod(-(-n // c) for n, c in zip(shape, chunks, strict=True)) <= most:
            return tuple(chunks)


def random_layout(rng: random.Random, shape: Sequence[int], dtype: np.dtype) -> Layout:
    chunks, axes = random_chunks(rng, shape), tuple(range(len(shape)))
    order = tuple(rng.sample(axes, len(axes))) if rng.random() < 0.2 else axes
    kind = rng.choice(["raw", "encoded", "encoded", "sharded"])
    whole = {"partial_reads": False, "partial_writes": False}
    if kind == "sharded":
        outer = [c * rng.randint(1, min(-(-n // c), 8)) for c, n in zip(chunks, shape, strict=True)]
        objects, units = (Grid.of(shape, cuts, padded=True) for cuts in (outer, chunks))
        return Layout(dtype, objects, units, order, rng.choice(["", "zstd:3"]), indexed=True, **whole)
    grid = Grid.of(shape, chunks, padded=rng.random() < 0.5)
    if kind == "encoded":
        return Layout(dtype, grid, grid, order, rng.choice(CODECS), **whole)
    return replace(Layout.raw(dtype, grid, order), partial_writes=rng.random() < 0.6)


def random_problem(seed: object, digits: Sequence[int] = (6, 9, 12, 15, 18)) -> tuple[Problem, str]:
    rng = random.Random(f"effort {seed}")
    shape, dtype = random_shape(rng, rng.choice(digits)), np.dtype(rng.choice(["u1", "<u2", "<i4", "<f8", "c16"]))
    source, target = random_layout(rng, shape, dtype), random_layout(rng, shape, dtype)
    problem = Problem(
        source,
        target,
        1,
        PRESETS[rng.choice(sorted(PRESETS))],
        scratch_bytes=rng.choice([None, None, None, 0, source.nbytes // 4]),
        held=rng.random() < 0.15,
    )
    scale = rng.choice(["chunks", "chunks", "chunks", "any", "least", "too little"])
    memory = {
        "chunks": int((source.unit_bytes + target.object_bytes) * 10 ** rng.uniform(-2, 2.5)),
        "any": int(10 ** rng.uniform(4, 11)),
        "least": least_memory(problem),
        "too little": least_memory(problem) - 1,
    }[scale]
    return replace(problem, memory_bytes=max(memory, 1)), rng.choice([*OBJECTIVES, "time", "time"])


@pytest.mark.parametrize("part", range(8))
def test_no_plan_and_no_refusal_takes_long(part: int) -> None:
    slow = []
    for seed in range(part, EXAMPLES, 8):
        problem, objective = random_problem(seed)
        began = time.process_time()
        try:
            cost = choose(problem, objective=objective).cost
            ends = (cost.held_bytes if problem.held else cost.peak_bytes) <= problem.memory_bytes
        except InfeasibleError as refusal:
            ends = (refusal.needs_memory_bytes or 0) > problem.memory_bytes
        except Refused as refusal:
            ends = "too irregular" in str(refusal)
        assert ends, seed
        seconds = time.process_time() - began
        if seconds > MOST_SECONDS:
            slow.append((seed, objective, seconds))
    assert not slow


def cubes(memory: int, device: str = "nvme") -> Problem:
    """A problem with many candidates."""
    shape = (1680, 1680, 1680)
    layouts = (Layout.raw("u2", Grid.of(shape, cut)) for cut in ((84, 140, 120), (105, 96, 80)))
    return Problem(*layouts, memory, PRESETS[device])


def test_effort_is_sized_for_the_run() -> None:
    per_second, most = effort.CANDIDATES_PER_SECOND, effort.MAX_CANDIDATES
    assert [Effort.for_run(seconds).left for seconds in (0.0, 2.0, 10.0)] == [
        per_second // 10,
        per_second // 10,
        per_second // 2,
    ]
    assert Effort.for_run(1e9).left == Effort.for_run().left == most


def test_a_search_prices_no_more_than_its_effort() -> None:
    (problem, objective), seconds = random_problem(263), []
    key = OBJECTIVES[objective]
    for candidates in (500, 16_000):
        limit = Effort(candidates)
        plan, _ = search(problem, key, effort=limit)
        seconds.append(estimate(plan, problem).seconds)
        # What is begun is finished: the points of an axis, and the orders of one pass.
        assert (candidates < 16_000) == (candidates <= candidates - limit.left < candidates + 100)
        assert search(problem, key, effort=Effort(candidates))[0] == plan
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[-1] < 0.95 * seconds[0]


@pytest.mark.parametrize("objective", ["time", "seeks"])
def test_the_strategies_of_the_papers_are_priced_without_any_effort(
    objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = cubes(64 << 20)
    before = choose(problem, objective=objective)
    monkeypatch.setattr(effort, "CANDIDATES_PER_SECOND", 0)
    decision = choose(problem, objective=objective)
    priced = {a.strategy for a in decision.proposals}
    assert priced | set(decision.skipped) == {"search", *strategies()}
    assert all(strategies()[name].least_seconds for name in decision.skipped)
    key = OBJECTIVES[objective]
    assert all(key(decision.cost) <= key(a.cost) for a in decision.alternatives if a.cost)
    assert key(before.cost) <= key(decision.cost)


def test_a_slower_device_is_worth_a_longer_search(monkeypatch: pytest.MonkeyPatch) -> None:
    sized = []
    monkeypatch.setattr(Effort, "for_run", classmethod(lambda cls, seconds: sized.append(seconds) or cls()))
    for device in ("nvme", "hdd"):
        best = choose(cubes(64 << 20, device))
        assert best.cost.seconds <= sized[-1] < 3 * best.cost.seconds
    assert sized[0] < sized[1]


def test_a_refusal_that_took_20_seconds() -> None:
    shape = (635, 1005973, 54, 81)
    source = Layout.raw("<i4", Grid.of(shape, (1, 287828, 54, 81)))
    grid = Grid.of(shape, (101, 380783, 47, 81))
    target = Layout(np.dtype("<i4"), grid, grid, (0, 1, 2, 3), "gzip:1", partial_reads=False, partial_writes=False)
    problem = Problem(source, target, 1 << 30, PRESETS["nvme"])
    began = time.process_time()
    with pytest.raises(InfeasibleError) as refusal:
        choose(problem)
    assert time.process_time() - began < 1.0
    assert choose(replace(problem, memory_bytes=refusal.value.needs_memory_bytes or 0)).plan


@pytest.mark.parametrize("seed", range(max(EXAMPLES // 8, 5)))
def test_shapes_beyond_64_bits_are_counted_exactly(seed: int) -> None:
    """Lengths up to 2⁶² and far more bytes than 2⁶³: every count is a plain integer, and adds up."""
    rng = random.Random(f"huge {seed}")
    bits = [62, 62, 61, 40][: rng.randint(1, 3)]
    shape = tuple(2 ** rng.randint(bit - 8, bit) - rng.choice([0, 0, 1, 17]) for bit in bits)
    dtype = np.dtype(rng.choice(["u1", "<f8", "c16"]))
    few = rng.random() < 0.5

    def chunks() -> tuple[int, ...]:
        return tuple(n // rng.randint(1, 40) if few else 2 ** rng.randint(3, 40) for n in shape)

    source, target = (Layout.raw(dtype, Grid.of(shape, chunks(), padded=rng.random() < 0.3)) for _ in range(2))
    encoded = replace(target, codec="zstd:3", partial_reads=False, partial_writes=False)
    problem = Problem(source, rng.choice([target, encoded]), 1, PRESETS["nvme"])
    problem = replace(problem, memory_bytes=max(least_memory(problem), rng.choice([1, 1 << 40])))
    try:
        cost = choose(problem, objective=rng.choice(list(OBJECTIVES))).cost
    except Refused:
        # Refused in words, where two grids meet in too many places to be counted.
        return
    assert cost.bytes_written >= problem.target.nbytes > 2**50
    assert cost.seeks >= problem.lower_bound_seeks
    assert isinstance(cost.seeks, int)


def test_the_longest_axis_is_named() -> None:
    with pytest.raises(UsageError, match=r"2\*\*62 = 4611686018427387904"):
        Grid.of((MAX_LENGTH + 1,), (5,))
    with pytest.raises(UsageError, match=r"2\*\*62"):
        Grid.of((5,), (2**63,))
    lots = Layout.raw("u1", Grid.of((2**60,) * 5, (2**50,) * 5))
    with pytest.raises(UsageError, match=r"2\*\*256"):
        Problem(lots, lots, 1, PRESETS["nvme"])
