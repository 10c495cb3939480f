"""The points that the search tries along an axis."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reblock.cost import PRESETS
from reblock.geometry import Axis, Grid
from reblock.model import Layout, Problem
from reblock.planner.points import points_of, thin


def raw(length: int, source: int, target: int) -> Problem:
    layouts = [Layout.raw("u2", Grid.of((length,), (chunk,))) for chunk in (source, target)]
    return Problem(*layouts, 10**9, PRESETS["nvme"], held=True)


def reads(problem: Problem, tasks: int) -> set[Axis]:
    found = points_of(problem, 0, cut=False, slabs=False)
    return {point.read for point in found if point.tasks == Axis.regular(problem.shape[0], tasks)}


def test_reads_start_anew_in_each_task() -> None:
    assert Axis.of((1050, 700) * 2) in reads(raw(3500, 350, 250), 1750)
    assert Axis.of((525, 525, 525, 175) * 2) in reads(raw(3500, 175, 250), 1750)


def test_lazy_reads_complete_one_more_target_block() -> None:
    assert Axis.of((350, 175, 350, 175, 350, 175, 175) * 2) in reads(raw(3500, 175, 250), 1750)


def test_encoded_targets_are_never_cut() -> None:
    problem = raw(3500, 175, 250)
    target = replace(problem.target, codec="zstd", partial_reads=False, partial_writes=False)
    found = points_of(replace(problem, target=target), 0, cut=False, slabs=False)
    assert all(point.whole for point in found)
    assert len(found) > 20


@pytest.mark.parametrize("limit", [5, 20, 1000])
def test_thinning_keeps_the_best_of_each_mark(limit: int) -> None:
    found = points_of(raw(3500, 175, 250), 0, cut=True, slabs=False)
    fewer = thin(found, limit)
    assert len(fewer) <= limit
    assert set(fewer) <= set(found)
    if limit == 1000:
        for mark in range(len(found[0].marks())):
            assert min(p.marks()[mark] for p in fewer) == min(p.marks()[mark] for p in found)
