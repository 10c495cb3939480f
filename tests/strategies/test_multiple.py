"""Multiple: contiguous loads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reblock.cost import PRESETS, estimate, traffic
from reblock.errors import Refused
from reblock.geometry import Grid
from reblock.model import Layout, Problem
from reblock.strategies.multiple import propose


def raw(shape, source, target, memory, *, orders=(None, None), held=True):
    layouts = [
        Layout.raw("u1", Grid.of(shape, chunks), order) for chunks, order in zip((source, target), orders, strict=True)
    ]
    return Problem(*layouts, memory, PRESETS["nvme"], held=held)


LOADS = [
    (16, 1280, (1, 1, 16)),
    (32, 640, (1, 2, 16)),
    (48, 608, (1, 3, 16)),
    (64, 320, (1, 4, 16)),
    (192, 288, (1, 12, 16)),
    (256, 272, (1, 16, 16)),
    (1024, 68, (4, 16, 16)),
]


@pytest.mark.parametrize(("memory", "count", "shape"), LOADS)
def test_split_of_the_paper(memory, count, shape):
    problem = raw((16,) * 3, (16,) * 3, (4,) * 3, memory)
    (made,) = propose(problem).passes
    reads = traffic(made.reads, problem.source, made.read_access)
    writes = traffic(made.writes, problem.target, made.write_access, writing=True)
    assert reads.opens + writes.opens == count
    assert reads.runs == reads.opens  # never a seek inside the big file
    assert made.read == made.tasks == Grid.of((16,) * 3, shape)
    assert made.write == made.read.refine(problem.target.objects)


@pytest.mark.parametrize(("memory", "count", "shape"), LOADS)
def test_merge_is_the_dual(memory, count, shape):
    problem = raw((16,) * 3, (4,) * 3, (16,) * 3, memory)
    (made,) = propose(problem).passes
    writes = traffic(made.writes, problem.target, made.write_access, writing=True)
    assert writes.runs == writes.opens
    if memory not in (48, 192):  # there a load ends at a target block, of which there is one
        assert made.read == Grid.of((16,) * 3, shape)
        assert writes.opens + traffic(made.reads, problem.source, made.read_access).opens == count


def test_part_of_a_row():
    assert propose(raw((16,) * 3, (16,) * 3, (4,) * 3, 9)).passes[0].read == Grid.of((16,) * 3, (1, 1, 8))


def test_rows_follow_the_order_on_disk():
    problem = raw((16,) * 3, (16,) * 3, (4,) * 3, 16, orders=((2, 1, 0), (2, 1, 0)))
    assert propose(problem).passes[0].read == Grid.of((16,) * 3, (16, 1, 1))


def test_shapes_that_divide_nothing():
    problem = raw((7, 11, 13), (7, 11, 13), (3, 4, 5), 2 * 11 * 13 + 5)
    assert propose(problem).passes[0].read == Grid.of((7, 11, 13), (2, 11, 13))


def test_encoded_sources_are_read_in_rows_of_units():
    problem = raw((12, 12), (4, 4), (6, 6), 70)
    source = replace(problem.source, codec="gzip:4", partial_reads=False, partial_writes=False)
    assert propose(replace(problem, source=source)).passes[0].read == Grid.of((12, 12), (4, 12))


def test_encoded_targets_are_written_in_rows_of_blocks_or_not_at_all():
    problem = raw((12, 12), (12, 12), (5, 6), 60)
    problem = replace(problem, target=replace(problem.target, codec="gzip:4", partial_writes=False))
    (made,) = propose(problem).passes
    assert (made.read, made.writes) == (Grid.of((12, 12), (5, 12)), problem.target.objects)
    with pytest.raises(Refused, match="60 bytes") as refusal:
        propose(replace(problem, memory_bytes=59))
    assert refusal.value.needs_memory_bytes == 60


@pytest.mark.parametrize("megabytes", [1, 4, 16])
@pytest.mark.parametrize("merging", [False, True])
def test_twice_the_memory_makes_up_for_units_in_flight(megabytes, merging):
    """A run inside a large raw file takes the memory of the run, not of the largest piece of the file."""
    sides = [(400,) * 3, (100,) * 3]
    held = raw((400,) * 3, *(sides[::-1] if merging else sides), megabytes << 20)
    allocated = replace(held, held=False, memory_bytes=2 * held.memory_bytes)
    plan = propose(allocated)
    cost = estimate(plan, allocated)
    assert cost.peak_bytes <= allocated.memory_bytes
    # The records of many write boxes take a little more.
    assert cost.seeks <= 1.1 * estimate(propose(held), held).seeks


def test_a_large_file_is_split_in_a_thousand_seeks_under_4_mib():
    """Loads of 13 slices leave 33.5 KiB, enough for small pieces: as many seeks as by the papers' count of memory."""
    shape = (400,) * 3
    layouts = [Layout.raw("u2", Grid.of(shape, chunks)) for chunks in (shape, (100,) * 3)]
    problem = Problem(*layouts, 4 << 20, PRESETS["nvme"])
    cost = estimate(propose(problem), problem)
    assert cost.seeks == 1150
    assert cost.peak_bytes <= problem.memory_bytes
    problem = replace(problem, held=True)
    assert estimate(propose(problem), problem).seeks == 1150
