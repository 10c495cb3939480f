"""Overlap against sets of cells."""

from __future__ import annotations

import random
import sys
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from reblock.geometry import Axis, Overlap, overlap
from reblock.testing.problems import axes, shifted, split

overlap_module = sys.modules[overlap.__module__]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Axis, Axis, Axis | None]:
    length = draw(st.integers(1, 80))
    memory, objects = draw(axes(length)), draw(axes(length, overhang=True))
    kind = draw(st.sampled_from(["elements", "objects", "shards"]))
    if kind != "shards":
        return memory, objects, None if kind == "elements" else objects
    inner = draw(st.integers(1, 7))
    outer = inner * draw(st.integers(1, 4))
    shift = draw(st.integers(0, outer - 1))
    return memory, shifted(length, outer, shift), shifted(length, inner, shift % inner)


@given(cases())
def test_overlap(case: tuple[Axis, Axis, Axis | None]) -> None:
    assert astuple(overlap(*case)) == oracle.overlap(*case)


def _random(rng: random.Random, length: int, *, overhang: bool = False) -> Axis:
    ends = (rng.randrange(4), rng.randrange(4)) if overhang else (0, 0)
    head = tuple(rng.randint(1, 6) for _ in range(rng.randrange(3)))
    pattern = tuple(rng.randint(1, 4) for _ in range(rng.randint(1, 2)))
    repeats = (length - sum(head)) // sum(pattern) - rng.randrange(3)
    tail = split([rng.randint(1, 9) for _ in range(3)], length - sum(head) - repeats * sum(pattern))
    return Axis(head, pattern, repeats, tail, *ends)


@pytest.mark.parametrize("quick", [None, 0, 3, 10])
def test_many_periods(quick: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long axes with heads, tails and ends that stick out, where periods (or stretches) are multiplied."""
    if quick is not None:
        monkeypatch.setattr(overlap_module, "QUICK_CUTS", quick)
        monkeypatch.setattr(overlap_module, "LISTED_CUTS", quick)
    looked: list[int] = []
    count = overlap_module._count

    def counting(starts: np.ndarray, *rest: Axis | None) -> Overlap:
        looked.append(starts.size)
        return count(starts, *rest)

    monkeypatch.setattr(overlap_module, "_count", counting)
    rng = random.Random(quick)
    sampled = 0
    for _ in range(120):
        length = rng.randint(100, 300)
        memory = _random(rng, length)
        kind = rng.randrange(4)
        objects = _random(rng, length, overhang=True)
        units: Axis | None = objects if kind == 1 else None
        if kind == 2:
            inner = rng.randint(1, 4)
            outer = inner * rng.randint(1, 4)
            shift = rng.randrange(outer)
            objects, units = shifted(length, outer, shift), shifted(length, inner, shift % inner)
        elif kind == 3:
            objects = Axis((), (), 0, split([rng.randint(20, 90) for _ in range(5)], length), rng.randrange(3), 1)
        looked.clear()
        made = overlap.__wrapped__(memory, objects, units)
        assert astuple(made) == oracle.overlap(memory, objects, units)
        sampled += sum(looked) < memory.count
    assert sampled > 20, "the test must reach the code that multiplies periods"


@pytest.mark.parametrize("memory", [1, 2, 5])
@pytest.mark.parametrize("inner", [1, 3])
def test_only_the_last_object_sticks_out(memory: int, inner: int) -> None:
    """The repeated part ends with an object that is longer than its likes."""
    objects, units = Axis((), (3 * inner,), 60, (), 0, 4), Axis((), (3,), 60 * inner, (), 0, 4)
    case = Axis((1,), (memory,), (180 * inner - 1) // memory, split([], (180 * inner - 1) % memory)), objects, units
    assert astuple(overlap(*case)) == oracle.overlap(*case)


def test_few_objects_and_very_many_blocks() -> None:
    length = 10**12
    fine = Axis.regular(length, 1000)
    assert overlap(fine, Axis.single(length)) == Overlap(0, 10**9, length, length)
    assert overlap(fine, Axis.single(length), Axis.single(length)) == Overlap(10**9, 0, 10**9, length * 10**9)
    halves = Axis.of([500_500, length - 500_500])
    assert overlap(fine, halves) == Overlap(0, 10**9 + 1, length, length)
    assert overlap(Axis.single(length), fine) == Overlap(10**9, 0, length, length)


def test_arithmetic() -> None:
    one = Overlap(1, 2, 3, 4)
    assert one + one == one.times(2) == Overlap(2, 4, 6, 8)
    assert one.pairs == 3
    assert overlap(Axis(), Axis()) == Overlap(0, 0, 0, 0)
