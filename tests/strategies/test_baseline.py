"""Baseline: the thesis' figures, and what it cannot serve."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reblock.cost import PRESETS, estimate
from reblock.errors import Refused
from reblock.geometry import Grid
from reblock.model import Layout, Problem
from reblock.strategies.baseline import propose

#: Thesis, Table 3: I and O of each config.
SMALL = [
    ((875, 875, 875), (875, 1750, 875)),
    ((875, 875, 875), (700, 875, 700)),
    ((350, 350, 350), (500, 500, 500)),
    ((350, 350, 350), (250, 250, 250)),
    ((175, 175, 175), (250, 250, 250)),
    ((350, 875, 350), (500, 875, 500)),
    ((350, 875, 350), (350, 500, 350)),
]
LARGE = [
    ((2000,) * 3, (2000, 4000, 2000)),
    ((2000,) * 3, (1600,) * 3),
    ((800,) * 3, (1000,) * 3),
    ((800,) * 3, (500,) * 3),
    ((200,) * 3, (250,) * 3),
    ((200,) * 3, (160,) * 3),
    ((400,) * 3, (500,) * 3),
    ((400,) * 3, (250,) * 3),
]
SEEKS = [56_128, 73_500_368, 196_005_096, 196_348_224, 392_040_768, 196_001_424, 211_400]
RUNS = [56_064, 73_500_128, 196_001_000, 196_337_792, 392_008_000, 196_000_400, 210_800]
SCALED = [2368, 117_968, 318_696, 339_264, 667_968, 315_024, 9800]
LARGE_SEEKS = [
    *(128_128, 384_096_600, 1_024_005_096, 1_025_039_848),
    *(4_096_326_144, 3_850_200_000, 2_048_040_768, 2_052_222_784),
]


def raw(side, source, target, memory):
    layouts = [Layout.raw("u2", Grid.of((side,) * 3, chunks)) for chunks in (source, target)]
    return Problem(*layouts, memory, PRESETS["nvme"], held=True)


@pytest.mark.parametrize("config", range(7))
def test_small_array(config):
    problem = raw(3500, *SMALL[config], 4 * 10**9)
    cost = estimate(propose(problem), problem)
    assert (cost.seeks, cost.runs) == (SEEKS[config], RUNS[config])


@pytest.mark.parametrize("config", range(7))
def test_small_array_scaled(config):
    source, target = (tuple(n // 25 for n in chunks) for chunks in SMALL[config])
    problem = raw(140, source, target, 10**9)
    assert estimate(propose(problem), problem).seeks == SCALED[config]


@pytest.mark.parametrize("config", range(8))
def test_large_array(config):
    problem = raw(8000, *LARGE[config], 256 * 10**9)
    assert estimate(propose(problem), problem).seeks == LARGE_SEEKS[config]


def test_grids_are_those_of_the_thesis():
    problem = raw(3500, *SMALL[2], 10**9)
    (made,) = propose(problem).passes
    source, target = problem.source.objects, problem.target.objects
    assert (made.read, made.write, made.tasks) == (source, source.refine(target), source)


def test_a_source_block_must_fit():
    with pytest.raises(Refused, match="85750000 bytes") as refusal:
        propose(raw(3500, *SMALL[2], 85_749_999))
    assert refusal.value.needs_memory_bytes == 85_750_000


def test_encoded_targets_are_served_only_where_no_block_is_cut():
    problem = raw(12, (6, 6, 6), (4, 6, 6), 10**6)
    whole = {"codec": "gzip:4", "partial_reads": False, "partial_writes": False}
    with pytest.raises(Refused, match="whole"):
        propose(replace(problem, target=replace(problem.target, **whole)))
    finer = Layout.raw("u2", Grid.of((12,) * 3, (3, 2, 6)))
    made = propose(replace(problem, target=replace(finer, **whole))).passes[0]
    assert made.writes == finer.objects


def test_units_of_a_shard_are_blocks_where_the_shard_does_not_fit():
    grids = [Grid.of((64, 64), (n, n)) for n in (32, 8)]
    shards = Layout(Layout.raw("u2", grids[0]).dtype, *grids, (0, 1), partial_reads=False, indexed=True)
    problem = Problem(shards, Layout.raw("u2", Grid.of((64, 64), (12, 12))), 2 * 32 * 32, PRESETS["nvme"], held=True)
    assert propose(problem).passes[0].read == grids[0]
    assert propose(replace(problem, memory_bytes=2 * 32 * 32 - 1)).passes[0].read == grids[1]
