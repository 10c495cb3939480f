"""Axis against lists of edges."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from reblock.errors import Refused, UsageError
from reblock.geometry import Axis
from reblock.geometry.axis import FEW_BLOCKS
from reblock.testing.problems import axes, shifted, split

lengths = st.integers(1, 60)
any_axis = lengths.flatmap(lambda n: axes(n, overhang=True))
pairs = lengths.flatmap(lambda n: st.tuples(axes(n, overhang=True), axes(n, overhang=True)))


def same(axis: Axis, edges: list[int], lead: int = 0, trail: int = 0) -> bool:
    return oracle.edges(axis) == edges and (axis.lead, axis.trail) == (lead, trail)


@given(any_axis)
def test_sizes(axis: Axis) -> None:
    blocks = oracle.blocks(axis)
    assert axis.length == oracle.edges(axis)[-1]
    assert axis.count == len(blocks)
    assert axis.largest == max(b - a for a, b in blocks)
    assert axis.largest_stored == max(b - a for a, b in oracle.stored(axis))
    assert axis.lengths() == oracle.lengths(axis)
    if axis.repeats:
        assert axis.period == sum(axis.pattern)
        assert axis.middle == (sum(axis.head), axis.length - sum(axis.tail))


@given(any_axis)
def test_every_block_and_every_position(axis: Axis) -> None:
    blocks, stored, owners = oracle.blocks(axis), oracle.stored(axis), oracle.owners(axis)
    for number, pair in enumerate(blocks):
        assert axis.interval(number) == pair
        assert axis.stored(number) == stored[number]
    assert axis.start(axis.count) == axis.length
    assert [axis.index(x) for x in range(axis.length)] == owners
    assert axis.index(axis.length) == axis.count
    assert axis.starts(np.arange(axis.count + 1)).tolist() == oracle.edges(axis)
    assert axis.indices(np.arange(axis.length + 1)).tolist() == [*owners, axis.count]


@given(any_axis, st.data())
def test_bounds_are_those_of_every_block(axis: Axis, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, axis.count))
    last = data.draw(st.integers(first, axis.count))
    assert list(map(tuple, axis.bounds(first, last).tolist())) == oracle.stored(axis)[first:last]


@given(any_axis)
def test_floors_and_ceils(axis: Axis) -> None:
    edges, positions = oracle.edges(axis), np.arange(axis.length + 1)
    assert axis.floors(positions).tolist() == [max(e for e in edges if e <= x) for x in positions]
    assert axis.ceils(positions).tolist() == [min(e for e in edges if e >= x) for x in positions]


@given(any_axis, st.data())
def test_cuts_and_touching(axis: Axis, data: st.DataObject) -> None:
    start, stop = data.draw(st.integers(0, axis.length)), data.draw(st.integers(0, axis.length + 3))
    inside = [a for a, _ in oracle.blocks(axis) if start <= a < stop]
    assert axis.cuts(start, stop).tolist() == inside
    assert axis.cuts().tolist() == oracle.edges(axis)[:-1]
    stop = min(stop, axis.length)
    assert list(axis.touching(start, stop)) == sorted(set(oracle.owners(axis)[start:stop]))


@given(pairs)
def test_refine(two: tuple[Axis, Axis]) -> None:
    one, other = two
    made = one.refine(other)
    assert same(made, oracle.union(one, other))
    for axis in two:
        if made.count == axis.count:
            assert made in (one.clipped(), other.clipped()), "what has the same cuts keeps its form"


@given(any_axis, st.data())
def test_crop(axis: Axis, data: st.DataObject) -> None:
    start, stop = data.draw(st.integers(0, axis.length)), data.draw(st.integers(0, axis.length))
    assert same(axis.crop(start, stop), *oracle.crop(axis, start, stop))


@given(any_axis, st.data())
def test_crop_of_a_crop(axis: Axis, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, axis.length - 1))
    stop = data.draw(st.integers(start + 1, axis.length))
    low = data.draw(st.integers(start, stop - 1))
    high = data.draw(st.integers(low + 1, stop))
    assert axis.crop(start, stop).crop(low - start, high - start) == axis.crop(low, high) or same(
        axis.crop(start, stop).crop(low - start, high - start), *oracle.crop(axis, low, high)
    )


@given(any_axis, st.integers(0, 9))
def test_multiple(axis: Axis, factor: int) -> None:
    edges = oracle.edges(axis)
    joined = sorted({*edges[:: max(factor, 1)], edges[-1]})
    assert same(axis.multiple(factor), joined)


@given(any_axis)
def test_json(axis: Axis) -> None:
    value = axis.to_json()
    assert same(Axis.from_json(value, axis.length), oracle.edges(axis)), "cuts survive, overhang does not"
    blocks = oracle.lengths(axis)
    regular = all(n == blocks[0] for n in blocks[:-1]) and blocks[-1] <= blocks[0]
    assert value == (blocks[0] if regular and isinstance(value, int) else blocks)
    assert not regular or isinstance(value, int) or len(blocks) > 1


@given(pairs)
def test_few_cuts_have_one_form(two: tuple[Axis, Axis]) -> None:
    """What refine, of and from_json make of the same few cuts is equal, so that a plan equals its round trip."""
    one, other = (Axis.of(oracle.lengths(axis)) for axis in two)
    made = one.refine(other)
    assert made == Axis.of(oracle.lengths(made)) == Axis.from_json(made.to_json(), made.length)


parts = st.lists(st.integers(1, 3), max_size=4).map(tuple)


@given(parts, parts, st.integers(0, 200), parts, st.data())
def test_equal_blocks_have_one_form(
    head: tuple[int, ...], pattern: tuple[int, ...], repeats: int, tail: tuple[int, ...], data: st.DataObject
) -> None:
    """The same blocks with some turns of the pattern in head and tail, or begun at another place."""
    axis = Axis(head, pattern, repeats if pattern else 0, tail, 1, 2)
    before = data.draw(st.integers(0, max(axis.repeats - 1, 0)))
    after = data.draw(st.integers(0, max(axis.repeats - 1 - before, 0)))
    left = axis.repeats - before - after
    phase = data.draw(st.integers(0, len(pattern))) if left > 1 else 0
    moved = Axis(
        head + pattern * before + pattern[:phase],
        pattern[phase:] + pattern[:phase],
        left - (phase > 0),
        (pattern[phase:] if phase else ()) + pattern * after + tail,
        1,
        2,
    )
    assert moved.lengths() == axis.lengths()
    assert moved.canonical() == axis.canonical()
    assert moved.to_json() == axis.to_json()
    again = Axis.from_json(axis.to_json(), axis.length)
    assert again == axis.canonical().clipped()
    assert again.to_json() == axis.to_json()


@pytest.mark.parametrize(("length", "chunk"), [(10, 3), (9, 3), (2, 3), (3, 3), (1, 1), (0, 3), (7, 100)])
@pytest.mark.parametrize("padded", [False, True])
def test_regular(length: int, chunk: int, padded: bool) -> None:
    axis = Axis.regular(length, chunk, padded=padded)
    edges = sorted({*range(0, length, chunk), length})
    assert same(axis, edges, 0, -length % chunk if padded else 0)
    assert axis.clipped() == Axis.of(axis.lengths())


def test_one_block_has_one_form() -> None:
    assert Axis.regular(5, 8) == Axis.single(5) == Axis.of([5]) == Axis.regular(5, 8, padded=True).clipped()


def test_step() -> None:
    assert Axis.regular(10, 3).step == 3
    assert Axis.of([3, 3, 4]).step is None
    assert Axis.of([3, 3, 2]).step == 3
    assert Axis().step is None
    assert Axis((), (3,), 2, (5,)).step is None


def test_multiple_of_a_longer_tail() -> None:
    assert Axis((), (3,), 4, (5,)).multiple(2).lengths() == [6, 6, 5]


def test_refine_wants_one_length() -> None:
    with pytest.raises(UsageError, match="cannot refine an axis of 4 by one of 5"):
        Axis.single(4).refine(Axis.single(5))


def test_what_cannot_be_listed_is_refused() -> None:
    long = Axis.regular(10**12, 10)
    with pytest.raises(Refused, match="too many blocks"):
        long.lengths()
    with pytest.raises(Refused, match="too irregular"):
        long.cuts()
    with pytest.raises(Refused, match="too irregular"):
        long.refine(Axis.of([3, 10**12 - 3]))


def test_thousand_random_refinements_and_crops() -> None:
    """Long axes with heads and tails, so that joint periods repeat often."""
    rng = random.Random(0)
    periodic = 0
    for _ in range(1000):
        length = rng.randint(200, 900)
        one, other = (_random(rng, length) for _ in range(2))
        made = one.refine(other)
        periodic += made.repeats > 2
        assert same(made, oracle.union(one, other))
        start = rng.randrange(length)
        stop = rng.randint(start + 1, length)
        assert same(made.crop(start, stop), *oracle.crop(made, start, stop))
        assert same(Axis.from_json(made.to_json(), length), oracle.edges(made))
        assert made.count > FEW_BLOCKS or not made.repeats or made.step or made in (one.clipped(), other.clipped())
    assert periodic > 300


def _random(rng: random.Random, length: int) -> Axis:
    if rng.random() < 0.2:
        return Axis.regular(length, rng.randint(1, 9))
    head = tuple(rng.randint(1, 9) for _ in range(rng.randrange(3)))
    pattern = tuple(rng.randint(1, 5) for _ in range(rng.randint(1, 3)))
    repeats = (length - sum(head)) // sum(pattern) - rng.randrange(3)
    tail = split([rng.randint(1, 9) for _ in range(4)], length - sum(head) - repeats * sum(pattern))
    return Axis(head, pattern, repeats, tail)


@given(st.integers(1, 30), st.integers(1, 12), st.data())
def test_shifted_is_a_crop(length: int, chunk: int, data: st.DataObject) -> None:
    """The generators' own window on a padded axis is what cropping gives."""
    shift = data.draw(st.integers(0, chunk - 1))
    whole = Axis.regular(shift + length + data.draw(st.integers(0, 9)), chunk, padded=True)
    made = shifted(length, chunk, shift)
    assert same(made, *oracle.crop(whole, shift, shift + length))
    assert same(whole.crop(shift, shift + length), *oracle.crop(whole, shift, shift + length))
