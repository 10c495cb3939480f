"""Closed forms of regular axes, against counting each block."""

from __future__ import annotations

import sys

from hypothesis import assume, given
from hypothesis import strategies as st

from reblock.geometry import Axis, overlap
from reblock.geometry.regular import floor_sum

module = sys.modules[overlap.__module__]


@given(st.integers(0, 60), st.integers(1, 40), st.integers(0, 90), st.integers(0, 90))
def test_floor_sum(count: int, divisor: int, step: int, first: int) -> None:
    assert floor_sum(count, divisor, step, first) == sum((step * k + first) // divisor for k in range(count))


@given(
    st.integers(2, 400),
    st.integers(1, 60),
    st.integers(1, 20),
    st.integers(1, 5),
    st.sampled_from(["elements", "units", "parts"]),
    st.booleans(),
)
def test_pairs_of_regular_axes(length: int, block: int, unit: int, times: int, kind: str, padded: bool) -> None:
    memory = Axis.regular(length, block)
    objects, parts = (Axis.regular(length, n, padded=padded) for n in (unit * times, unit))
    units = {"elements": None, "units": objects, "parts": parts}[kind]
    found = module._count_regular(memory, objects, units)
    assume(found is not None)
    assert found == module._count(memory.cuts(), memory, objects, units)


def test_many_blocks_without_a_period_are_counted() -> None:
    """Ten thousand million blocks of either axis, of which no two boundaries coincide."""
    length, block, stored = 10**18 + 9, 99_999_989, 101_000_003
    memory, objects = Axis.regular(length, block), Axis.regular(length, stored)
    found = overlap(memory, objects)
    assert found.pairs == memory.count + objects.count - 1 - length // (block * stored)
    assert found.length == found.touched == length
    assert found.whole == 0 or block >= stored
    assert overlap(objects, memory).pairs == found.pairs


def test_many_blocks_in_the_last_object(monkeypatch) -> None:
    """What is left after the last whole object is counted for itself."""
    memory, objects = Axis.regular(5003, 3), Axis.regular(5003, 1000, padded=True)
    wanted = [module._count(memory.cuts(), memory, objects, units) for units in (None, objects)]
    monkeypatch.setattr(module, "LISTED_CUTS", 0)
    monkeypatch.setattr(module, "QUICK_CUTS", 8)
    assert [module._count_regular(memory, objects, units) for units in (None, objects)] == wanted
