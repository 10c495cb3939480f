"""Chunks that fit: near the wished size, near the array's proportions, and hardly any padding."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reblock
from reblock.advisor.proportional import dividing, proportional
from reblock.errors import UsageError

MIB = 1 << 20


def stored(shape: tuple[int, ...], chunk: tuple[int, ...]) -> float:
    """Elements of all chunks, padding included, over those of the array."""
    return prod(-(-n // c) * c for n, c in zip(shape, chunk, strict=True)) / prod(shape)


def test_the_array_that_was_nearly_doubled() -> None:
    shape = (200, 500, 600)
    assert stored(shape, (82, 205, 247)) > 1.8  # what used to be chosen
    for itemsize in (1, 2, 4, 8):
        chunk = proportional(shape, itemsize)
        assert stored(shape, chunk) < 1.01
        assert 4 * MIB <= prod(chunk) * itemsize <= 9 * MIB


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=4).map(tuple), st.sampled_from([1, 2, 4, 8, 16]))
def test_proportional_chunks_fit(shape: tuple[int, ...], itemsize: int) -> None:
    chunk = proportional(shape, itemsize)
    assert all(1 <= c <= n for c, n in zip(chunk, shape, strict=True))
    assert prod(chunk) * itemsize <= 9 * MIB
    assert stored(shape, chunk) <= 1.25
    if prod(shape) * itemsize >= 16 * MIB:
        assert prod(chunk) * itemsize >= MIB


def test_axes_beyond_counting() -> None:
    assert proportional((2**62, 2**62, 5), 8)
    assert proportional((), 8) == ()
    assert proportional((0, 7), 8) == (1, 7)


@given(st.lists(st.integers(1, 600), min_size=1, max_size=4).map(tuple), st.sampled_from([1, 4, 8]))
def test_inner_chunks_divide_the_shard(shard: tuple[int, ...], itemsize: int) -> None:
    chunk = dividing(shard, itemsize)
    assert all(n % c == 0 for c, n in zip(chunk, shard, strict=True))
    assert prod(chunk) * itemsize <= 8 * MIB


@pytest.fixture
def source(tmp_path):
    array = np.arange(20 * 50 * 60, dtype="<u2").reshape(20, 50, 60)
    np.save(tmp_path / "a.npy", array)
    return tmp_path / "a.npy"


def test_shards_alone_choose_chunks_that_divide_them(source, tmp_path) -> None:
    job = reblock.plan(source, tmp_path / "b.zarr", shards=(8, 30, 60))
    assert all(s % c == 0 for s, c in zip((8, 30, 60), job.schema.chunks, strict=True))
    assert job.schema.shards == (8, 30, 60)
    some = reblock.plan(source, tmp_path / "b.zarr", shards=(8, 30, 60), chunks=("auto", 15, "auto"))
    assert some.schema.chunks[1] == 15
    assert all(s % c == 0 for s, c in zip((8, 30, 60), some.schema.chunks, strict=True))
    with pytest.raises(UsageError, match="multiple"):
        reblock.plan(source, tmp_path / "b.zarr", shards=(8, 30, 60), chunks=(3, 30, 60))


def test_the_chunks_of_the_source_stay_where_they_divide_the_shards(source, tmp_path) -> None:
    reblock.repartition(source, tmp_path / "b.zarr", chunks=(4, 10, 20))
    assert reblock.plan(tmp_path / "b.zarr", tmp_path / "c.zarr", shards=(8, 30, 60)).schema.chunks == (4, 10, 20)
    other = reblock.plan(tmp_path / "b.zarr", tmp_path / "c.zarr", shards=(6, 25, 30)).schema.chunks
    assert all(s % c == 0 for s, c in zip((6, 25, 30), other, strict=True))


def test_chunks_are_no_longer_than_the_array(source, tmp_path) -> None:
    job = reblock.plan(source, tmp_path / "b.zarr", chunks=(64, 25, 600))
    assert job.schema.chunks == (20, 25, 60)
    assert "chunks 64,25,600 are longer than the array, 20,25,60 are used" in job.schema.notes
    assert job.cost.write_amplification == 1
    reblock.repartition(source, tmp_path / "b.zarr", chunks=(16, 50, 60))
    crop = reblock.plan(tmp_path / "b.zarr", tmp_path / "c.zarr", region="3:9,:,:")
    assert crop.schema.chunks == (6, 50, 60)
    sharded = reblock.plan(source, tmp_path / "d.zarr", chunks=(30, 25, 60), shards=(60, 100, 60))
    assert sharded.schema.chunks == (20, 25, 60)
    assert sharded.schema.shards == (20, 50, 60)


def test_write_amplification_is_predicted_and_measured(source, tmp_path) -> None:
    report = reblock.repartition(source, tmp_path / "b.zarr", chunks=(16, 50, 60))
    assert report.predicted.write_amplification == report.measured.write_amplification == 32 / 20
    assert report.to_json()["measured"]["write_amplification"] == 32 / 20
    even = reblock.repartition(source, tmp_path / "c.zarr", chunks="auto")
    assert even.measured.write_amplification == 1
