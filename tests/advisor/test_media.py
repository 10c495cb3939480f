"""Placements of chunks on media: every chunk has a medium, and prices are counts."""

from __future__ import annotations

from collections import Counter
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reblock
from access_cases import patterns
from reblock.advisor.media import MediaGrid
from reblock.errors import UsageError
from reblock.geometry import Box, Grid
from reblock.geometry.placement import PLACEMENTS, placing
from reblock.model import AccessClass, AccessPattern, Alignment


def media_of(placement: str, counts: tuple[int, ...], media: int, boxes: tuple[int, ...] | None = None) -> np.ndarray:
    indices = np.indices(counts).reshape(len(counts), -1)
    return placing(placement, counts, media, boxes)(indices).reshape(counts)


@given(st.lists(st.integers(1, 8), min_size=1, max_size=3).map(tuple), st.integers(1, 9), st.sampled_from(PLACEMENTS))
def test_every_chunk_has_a_medium(counts: tuple[int, ...], media: int, placement: str) -> None:
    boxes = (1,) * (len(counts) - 1) + (min(media, counts[-1]),)
    found = media_of(placement, counts, media, boxes)
    assert found.min() >= 0
    assert found.max() < media
    if placement in ("round-robin", "range"):
        loads = Counter(found.ravel().tolist())
        share = -(-prod(counts) // media)
        assert max(loads.values()) <= share


@pytest.mark.parametrize("media", [2, 3, 4, 5, 8])
def test_four_way_separates_neighbours(media: int) -> None:
    found = media_of("four-way", (6, 6), media)
    assert (np.diff(found, axis=0) != 0).all()
    assert (np.diff(found, axis=1) != 0).all()


def test_the_picture() -> None:
    assert media_of("four-way", (4, 4), 4).tolist() == [
        [0, 1, 2, 3],
        [3, 0, 1, 2],
        [2, 3, 0, 1],
        [1, 2, 3, 0],
    ]
    assert media_of("boxes", (4, 4), 4, (2, 2))[:, ::2].tolist() == [[0, 1], [0, 1], [2, 3], [2, 3]]
    assert media_of("range", (4, 4), 4).tolist() == [[n] * 4 for n in range(4)]
    assert media_of("round-robin", (4, 4), 4).tolist() == [list(range(4))] * 4


@given(st.data())
def test_prices_are_counts(data: st.DataObject) -> None:
    """At known positions, against counting the media of each chunk."""
    shape = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple))
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    pattern = data.draw(patterns(shape, alignments=[Alignment.POSITIONS]))
    media = data.draw(st.integers(1, 5))
    grid, objects = MediaGrid(pattern, shape, chunks, media), Grid.of(shape, chunks)
    for price in grid.prices(data.draw(st.sampled_from(["few", "many"]))):
        numbers = media_of(price.placement, objects.counts, media, price.boxes)
        touched = largest = 0.0
        for weight, one in zip(pattern.weights, pattern.classes, strict=True):
            assert one.positions is not None
            loads = []
            for start in one.positions.starts.tolist():
                box = Box(tuple(start), tuple(a + n for a, n in zip(start, one.shape, strict=True)))
                loads.append(Counter(int(numbers[index]) for index in objects.touching(box)))
            touched += weight * np.mean([len(load) for load in loads])
            largest += weight * np.mean([max(load.values()) for load in loads])
        assert price.touched == pytest.approx(touched)
        assert price.largest == pytest.approx(largest)


def test_few_and_many() -> None:
    """Whole columns: boxes keep them on one medium, four-way spreads them over all."""
    columns = AccessPattern((AccessClass((400, 1), alignment=Alignment.ALIGNED),))
    grid = MediaGrid(columns, (400, 420), (20, 20), 4)
    few, many = grid.prices("few")[0], grid.prices("many")[0]
    assert (few.placement, few.boxes, few.touched) == ("boxes", (1, 4), 1)
    assert (many.touched, many.largest) == (4, 5)
    assert {one.placement for one in grid.prices("few")} == set(PLACEMENTS)


def test_large_grids_are_sampled() -> None:
    pattern = AccessPattern((AccessClass((10, 10, 1)),))
    prices = MediaGrid(pattern, (10**6,) * 3, (2, 2, 2), 7).prices("many")
    assert all(1 <= one.touched <= 7 for one in prices)


def test_advice_on_media() -> None:
    found = reblock.advise(shape=(400, 400), dtype="u1", access="slices:1", block_size=400, media=4).to_json()
    assert found["media"][0]["touched"] == 1
    with pytest.raises(UsageError, match="the number of media must be from 1 to 65,536, not 0"):
        reblock.advise(shape=(4, 4), dtype="u1", access="maps", media=0)
    with pytest.raises(UsageError, match="goal must be few or many"):
        reblock.advise(shape=(4, 4), dtype="u1", access="maps", media=2, goal="some")
    with pytest.raises(UsageError, match="there is no placement 'chance'"):
        placing("chance", (4,), 2)
