"""Cuts of one axis: groups of blocks, aggregates, divisors, and what is worth trying."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import oracle
from reblock.cost import PRESETS
from reblock.geometry import Axis, Grid
from reblock.model import Layout, Problem
from reblock.passes.cuts import aggregate, countable, dividing_cuts, factors, joined, read_cuts
from reblock.testing.problems import axes


def raw(shape, source, target):
    layouts = [Layout.raw("u1", Grid.of(shape, chunks)) for chunks in (source, target)]
    return Problem(*layouts, 1, PRESETS["nvme"])


@given(data=st.data(), blocks=st.integers(1, 12))
def test_joined_blocks_are_runs_of_blocks(data, blocks):
    axis = data.draw(axes(data.draw(st.integers(0, 60)), max_block=5))
    marks = oracle.edges(axis)
    expected = sorted({*marks[:-1:blocks], marks[-1]})
    assert oracle.edges(joined(axis, blocks)) == expected


def test_joined_blocks_of_a_long_crop_are_not_listed():
    axis = Axis.regular(10**12 + 5000, 1000).crop(777, 10**12 + 777).clipped()
    run = joined(axis, 1000)
    assert (run.count, run.largest) == (1_000_001, 10**6)
    assert len(run.head) + len(run.pattern) + len(run.tail) < 5
    indices = np.arange(0, axis.count, 1000)
    assert (run.starts(np.arange(run.count)) == axis.starts(indices)).all()


@given(data=st.data(), length=st.integers(1, 12))
def test_an_aggregate_is_long_enough_and_no_longer(data, length):
    axis = data.draw(axes(data.draw(st.integers(1, 60)), max_block=5))
    found = aggregate(axis, length)
    assert set(oracle.edges(found)) <= set(oracle.edges(axis))
    if axis.step is not None:
        assert found == Axis.regular(axis.length, min(-(-length // axis.step) * axis.step, axis.length))


def test_read_cuts_hold_the_thesis_candidates():
    problem = raw((3500,) * 3, (350,) * 3, (500,) * 3)
    lengths = {cut.largest for cut in read_cuts(problem, 0, 700, 40)}
    assert lengths >= {n for n in range(1, 701) if 3500 % n == 0}


@given(length=st.integers(1, 3000), step=st.integers(1, 50), limit=st.integers(1, 3000), most=st.integers(2, 20))
def test_read_cuts_are_few_and_not_longer_than_asked(length, step, limit, most):
    problem = raw((length,), (step,), (step + 3,))
    found = read_cuts(problem, 0, limit, most)
    assert 0 < len(found) <= most
    assert all(cut.largest <= limit for cut in found)
    assert [cut.largest for cut in found] == sorted((cut.largest for cut in found), reverse=True)


def test_dividing_cuts_factors_and_countable_axes():
    assert [cut.largest for cut in dividing_cuts(Axis.regular(12, 8), 5)] == [4, 3, 2, 1]
    assert factors(5) == [1, 2, 3, 4, 5]
    assert factors(0) == []
    assert len(factors(10**9)) < 150
    assert not countable(Axis.regular(10**12, 99_991), Axis.regular(10**12, 100_003))
