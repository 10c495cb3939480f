"""The whole price of a plan against its parts."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from reblock.cost import PRESETS, estimate
from reblock.cost.estimate import SERIAL, STALL, estimate_passes
from reblock.geometry import Grid
from reblock.model import Access, Layout, Pass, Plan, Problem
from reblock.testing.problems import passes, problems


@given(problems(max_ndim=3, max_side=7), st.data())
def test_sums(problem: Problem, data: st.DataObject) -> None:
    """Two passes through a raw scratch array: every count is the sum over four sides, counted one by one."""
    scratch = Layout.raw(problem.target.dtype, Grid.of(problem.shape, [3] * len(problem.shape)))
    first = data.draw(passes(Problem(problem.source, scratch, 1, problem.device)))
    second = data.draw(passes(Problem(scratch, problem.target, 1, problem.device)))
    plan = Plan("two", problem.shape, (first, second), (scratch,), depth=2)
    cost = estimate(plan, problem)
    chain = [problem.source, scratch, problem.target]
    reads, writes, held, buffers = [], [], [], []
    for made, source, target in zip(plan.passes, chain, chain[1:], strict=False):
        reads.append(oracle.traffic(made.reads.axes, source, str(made.read_access)))
        writes.append(oracle.traffic(made.writes.axes, target, str(made.write_access), writing=True))
        seen = oracle.sweep(made, target if made.write_access is Access.UNITS else None)
        held.append(seen.held * target.itemsize)
        buffers.append(seen.buffers * target.itemsize)
    opens, runs, seeks, _ = (sum(side[k] for side in (*reads, *writes)) for k in range(4))
    assert (cost.opens, cost.runs, cost.seeks) == (opens, runs, seeks)
    assert cost.bytes_read == sum(side[3] for side in reads)
    assert cost.bytes_written == sum(side[3] for side in writes)
    logical = prod(problem.shape) * problem.source.itemsize
    assert cost.read_amplification == reads[0][3] / logical
    assert cost.held_bytes == max(held)
    assert cost.peak_bytes >= max(buffers)
    assert cost.scratch_bytes == logical
    assert cost.seconds == pytest.approx(sum(sweep.seconds for sweep in estimate_passes(plan, problem)))
    assert cost.seconds > 0


def test_scratch() -> None:
    shape = (12, 12)
    grid, tasks = Grid.of(shape, (4, 4)), Grid.of(shape, (6, 12))
    raw = Layout.raw("u2", grid)
    problem = Problem(raw, raw, 10**6, PRESETS["ssd"])
    made = Pass(grid, grid, tasks, (0, 1), Access.RUNS, Access.RUNS)

    def scratch(passes: int, *, interleaved: bool = False) -> int:
        plan = Plan("x", shape, (made,) * passes, (raw,) * (passes - 1), interleaved=interleaved)
        return estimate(plan, problem).scratch_bytes

    assert scratch(1) == 0
    assert scratch(2) == 288
    assert scratch(3) == scratch(5) == 2 * 288, "one is read while the next is written"
    assert scratch(3, interleaved=True) == 2 * 144


def test_seconds_follow_the_device() -> None:
    shape = (64, 64)
    source, target = Layout.raw("u1", Grid.of(shape, (64, 1))), Layout.raw("u1", Grid.of(shape, (8, 8)))
    made = Pass(target.objects, target.objects, target.objects, (0, 1), Access.RUNS, Access.UNITS)
    plan, device = Plan("naive", shape, (made,), memory_bytes=10**6), PRESETS["hdd"]
    slow = estimate(plan, Problem(source, target, 10**6, device)).seconds
    # 64 blocks of 8 columns each: 512 visits, each of them one jump to the column and one run inside it.
    waits = 512 * (device.open_seconds + device.far_seek_seconds + device.seek_seconds) + 64 * (
        device.open_seconds + device.far_seek_seconds + device.create_seconds
    )
    moved = 64 * 64 * (1 / device.read_bytes_per_second + 1 / device.write_bytes_per_second)
    # What the cores do goes on beside that, but for a part of it.
    work = 64 * 64 / device.memory_bytes_per_second + (512 + 64) * device.visit_seconds + 64 * device.make_seconds
    assert slow == pytest.approx(waits + moved + SERIAL * work)
    tight = replace(plan, memory_bytes=64 + 64)
    assert estimate(tight, Problem(source, target, 10**6, device)).seconds == pytest.approx(slow * (1 + STALL))
    other = replace(device, name="other")
    assert estimate(plan, Problem(source, target, 10**6, device, other)).seconds < slow, "two devices work side by side"
    coded = replace(target, codec="lzma")
    worker = replace(device, encode_bytes_per_second={"lzma": 1.0, "default": 9e9})
    assert estimate(plan, Problem(source, coded, 10**6, worker)).seconds == pytest.approx(64 * 64, rel=1e-3)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
def test_nothing_to_move(shape: tuple[int, ...]) -> None:
    grid = Grid.of(shape, [2] * len(shape))
    raw = Layout.raw("f8", grid)
    made = Pass(grid, grid, grid, tuple(range(len(shape))), Access.RUNS, Access.UNITS)
    cost = estimate(Plan("naive", shape, (made,)), Problem(raw, raw, 100, PRESETS["ssd"]))
    assert cost.bytes_read == cost.bytes_written == cost.held_bytes == 8 * prod(shape)
    assert cost.read_amplification == 1
