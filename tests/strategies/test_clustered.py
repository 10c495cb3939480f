"""Clustered: blocks, rows, slices."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reblock.cost import PRESETS, estimate, traffic
from reblock.cost.flight import SMALL_PIECE_BYTES
from reblock.errors import Refused
from reblock.geometry import Grid
from reblock.model import Layout, Problem
from reblock.strategies.clustered import propose


def raw(shape, source, target, memory, *, orders=(None, None), held=True):
    layouts = [
        Layout.raw("u1", Grid.of(shape, chunks), order) for chunks, order in zip((source, target), orders, strict=True)
    ]
    return Problem(*layouts, memory, PRESETS["nvme"], held=held)


RUNS = [
    (64, 1088, (4, 4, 4)),
    (128, 576, (4, 4, 8)),
    (256, 128, (4, 4, 16)),
    (512, 96, (4, 8, 16)),
    (1024, 68, (4, 16, 16)),
    (2048, 66, (8, 16, 16)),
]


@pytest.mark.parametrize(("memory", "count", "shape"), RUNS)
def test_split_of_the_paper(memory, count, shape):
    problem = raw((16,) * 3, (16,) * 3, (4,) * 3, memory)
    (made,) = propose(problem).passes
    reads = traffic(made.reads, problem.source, made.read_access)
    writes = traffic(made.writes, problem.target, made.write_access, writing=True)
    assert reads.runs + writes.opens == count
    assert made.read == made.tasks == Grid.of((16,) * 3, shape)
    assert made.write == problem.target.objects


@pytest.mark.parametrize(("memory", "count", "shape"), RUNS)
def test_merge_is_the_dual(memory, count, shape):
    problem = raw((16,) * 3, (4,) * 3, (16,) * 3, memory)
    (made,) = propose(problem).passes
    reads = traffic(made.reads, problem.source, made.read_access)
    writes = traffic(made.writes, problem.target, made.write_access, writing=True)
    assert reads.opens + writes.runs == count
    assert made.read == made.tasks == made.write == Grid.of((16,) * 3, shape)
    assert reads.runs == 64


def test_runs_grow_along_the_fastest_axis_on_disk():
    problem = raw((16,) * 3, (16,) * 3, (4,) * 3, 128, orders=((2, 0, 1), None))
    assert propose(problem).passes[0].read == Grid.of((16,) * 3, (4, 8, 4))
    problem = raw((16,) * 3, (4,) * 3, (16,) * 3, 512, orders=(None, (2, 1, 0)))
    assert propose(problem).passes[0].read == Grid.of((16,) * 3, (16, 8, 4))


def test_the_engine_needs_a_unit_in_flight_beside_the_run():
    problem = raw((16,) * 3, (16,) * 3, (4,) * 3, 256)
    assert propose(problem).passes[0].read == Grid.of((16,) * 3, (4, 4, 16))
    for flight, read in ((SMALL_PIECE_BYTES, (4, 4, 16)), (SMALL_PIECE_BYTES - 1, (4, 4, 12))):
        budget = replace(problem, held=False, memory_bytes=256 + flight)
        plan = propose(budget)
        assert plan.passes[0].read == Grid.of((16,) * 3, read)
        assert estimate(plan, budget).peak_bytes <= budget.memory_bytes


@pytest.mark.parametrize("megabytes", [4, 16])
def test_twice_the_memory_makes_up_for_units_in_flight(megabytes):
    held = raw((400,) * 3, (400,) * 3, (100,) * 3, megabytes << 20)
    allocated = replace(held, held=False, memory_bytes=2 * held.memory_bytes)
    assert estimate(propose(allocated), allocated).seeks <= estimate(propose(held), held).seeks


def test_a_large_file_is_split_two_blocks_at_a_time_under_4_mib():
    """Two blocks leave 190 KiB, enough for small pieces: as many seeks as by the papers' count of memory."""
    shape = (400,) * 3
    layouts = [Layout.raw("u2", Grid.of(shape, chunks)) for chunks in (shape, (100,) * 3)]
    for held in (False, True):
        problem = Problem(*layouts, 4 << 20, PRESETS["nvme"], held=held)
        plan = propose(problem)
        cost = estimate(plan, problem)
        assert cost.seeks == 320_096
        assert plan.passes[0].read == Grid.of(shape, (100, 100, 200))
        assert held or cost.peak_bytes <= problem.memory_bytes


def test_blocks_that_divide_nothing():
    problem = raw((17, 19), (17, 19), ((3, 5, 4, 5), 7), 5 * 19)
    (made,) = propose(problem).passes
    assert made.read == Grid.of((17, 19), ((3, 5, 4, 5), 19))
    assert made.write == problem.target.objects


def test_both_sides_cut_takes_the_cheaper_way():
    problem = raw((3500,) * 3, (350, 875, 350), (500, 875, 500), 3 * 10**9)
    plan = propose(problem)
    assert plan.passes[0].read == Grid.of((3500,) * 3, (350, 1750, 3500))  # whole source blocks
    assert estimate(plan, problem).seeks == 1296


def test_a_run_may_end_where_blocks_of_both_sides_do():
    problem = raw((10**6,), (1000,), (1536,), 600_000)
    assert propose(problem).passes[0].read == Grid.of((10**6,), (576_000,))


def test_one_block_must_fit():
    with pytest.raises(Refused, match="64 bytes") as refusal:
        propose(raw((16,) * 3, (16,) * 3, (4,) * 3, 63))
    assert refusal.value.needs_memory_bytes == 64


def test_encoded_targets_are_split_into_whole_blocks():
    problem = raw((16,) * 3, (5,) * 3, (4,) * 3, 20_000, held=False)
    target = replace(problem.target, codec="gzip:4", partial_reads=False, partial_writes=False)
    (made,) = propose(replace(problem, target=target)).passes
    assert made.writes == target.objects
