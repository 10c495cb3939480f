"""Gatherings: disjoint boxes cover the same elements, and what is held stays within the room."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reblock.errors import InfeasibleError
from reblock.geometry import Box, Grid
from reblock.model import Layout
from reblock.planner.gather import disjoint, plan_gather

SHAPE = (12, 10, 9)
EXAMPLES = int(os.environ.get("REBLOCK_EXAMPLES", "60"))


@st.composite
def boxes(draw: st.DrawFn) -> list[Box]:
    def one() -> Box:
        starts = [draw(st.integers(0, n - 1)) for n in SHAPE]
        return Box(tuple(starts), tuple(draw(st.integers(a + 1, n)) for a, n in zip(starts, SHAPE, strict=True)))

    return [one() for _ in range(draw(st.integers(1, 8)))]


def marked(some: list[Box]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    counts = np.zeros(SHAPE, np.int64)
    for box in some:
        counts[box.slices] += 1
    return counts


@settings(max_examples=EXAMPLES, deadline=None)
@given(boxes(), st.permutations(range(3)))
def test_disjoint_boxes_cover_the_same_elements_once(some: list[Box], order: list[int]) -> None:
    found = marked(disjoint(some, order))
    assert found.max() == 1
    assert np.array_equal(found > 0, marked(some) > 0)


def test_a_box_alone_stays_whole() -> None:
    one, two = Box((0, 0, 0), (3, 3, 3)), Box((5, 5, 5), (8, 9, 9))
    assert disjoint([one], (0, 1, 2)) == [one]
    assert disjoint([two, one], (0, 1, 2)) == [one, two]
    assert disjoint([one, one], (2, 1, 0)) == [one]


@settings(max_examples=EXAMPLES, deadline=None)
@given(boxes(), st.sampled_from(["raw", "encoded"]), st.integers(0, 4))
def test_a_plan_opens_reads_and_closes_every_piece(some: list[Box], kind: str, spare: int) -> None:
    layout = Layout.raw(np.dtype("u1"), Grid.of(SHAPE, (5, 4, 9) if kind == "encoded" else SHAPE))
    if kind == "encoded":
        layout = replace(layout, codec="zstd:1", partial_reads=False, partial_writes=False)
    sizes = [box.size for box in some]
    room = max(sizes) * (1 + spare)
    plan = plan_gather(layout, some, sizes, room)
    held: dict[int, Box] = {}
    reads = dict.fromkeys(range(len(some)), 0)
    peak = 0
    for step in plan.steps:
        for number in step.opens:
            assert number not in held
            held[number] = some[number]
        peak = max(peak, sum(sizes[number] for number in held))
        covered = marked(disjoint(list(step.reads), (0, 1, 2)))
        for number in held:
            reads[number] += int(covered[some[number].slices].sum())
        for number in step.closes:
            del held[number]
    assert not held
    assert reads == dict(enumerate(sizes))
    assert peak == plan.held_bytes <= room
    if sum(sizes) <= room:
        assert plan.sweeps == 1
        touched = {index for box in some for index in layout.objects.touching(box)}
        if kind == "encoded":
            assert plan.objects == len(touched)


def test_a_piece_that_does_not_fit() -> None:
    layout = Layout.raw(np.dtype("u1"), Grid.of(SHAPE, SHAPE))
    with pytest.raises(InfeasibleError) as caught:
        plan_gather(layout, [Box.whole(SHAPE)], [1080], 1000)
    assert caught.value.needs_memory_bytes == 1080
