"""Regions: they cover the array once, fit into the memory and read the fewest bytes."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from peer_jobs import BY_NAME, job_of, small
from reblock.bench.peers.scripts.job import PeerJob
from reblock.bench.peers.scripts.regions import group_lengths, pieces, region_lengths, regions


@st.composite
def jobs(draw: st.DrawFn) -> PeerJob:
    shape = tuple(draw(st.lists(st.integers(1, 12), min_size=1, max_size=3)))
    chunks, before = (tuple(draw(st.integers(1, n)) for n in shape) for _ in range(2))
    return small(shape=shape, chunks=chunks, source_chunks=before, dtype="<u2")


def cover(shape: tuple[int, ...], boxes: list[tuple[slice, ...]]) -> np.ndarray[Any, Any]:
    seen = np.zeros(shape, int)
    for box in boxes:
        seen[box] += 1
    return seen


@given(jobs(), st.integers(1, 2000))
def test_regions_cover_the_array_once_and_fit(job: PeerJob, memory: int) -> None:
    found = list(regions(job, memory))
    assert (cover(job.shape, found) == 1).all()
    for region in found:
        assert all(side.start % unit == 0 for side, unit in zip(region, job.unit, strict=True))
        size = prod(side.stop - side.start for side in region) * job.itemsize
        assert size <= max(memory, job.bytes_of(job.unit))


@given(jobs(), st.integers(1, 600))
def test_no_other_region_that_fits_reads_less(job: PeerJob, memory: int) -> None:
    """Against every multiple of the unit, each priced by listing the chunks that its regions meet."""

    def read(lengths: tuple[int, ...]) -> int:
        sides = []
        for whole, length, chunk in zip(job.shape, lengths, job.source_chunks, strict=True):
            met = [{n // chunk for n in range(at, min(at + length, whole))} for at in range(0, whole, length)]
            sides.append(sum(min(chunk, whole - n * chunk) for group in met for n in group))
        return prod(sides)

    every = product(*(range(unit, whole + unit, unit) for whole, unit in zip(job.shape, job.unit, strict=True)))
    clipped = {tuple(min(n, whole) for n, whole in zip(one, job.shape, strict=True)) for one in every}
    fitting = [one for one in clipped if job.bytes_of(one) <= memory]
    if fitting:
        assert read(region_lengths(job, memory)) == min(read(one) for one in fitting)


def test_regions_of_slices_into_pencils() -> None:
    job = job_of(BY_NAME["W2"])
    assert region_lengths(job, 400 << 20) == (2048, 96, 512)
    assert region_lengths(job, 1) == (2048, 32, 32)
    assert region_lengths(job_of(BY_NAME["W5"]), 256 << 20) == (4096, 8192)


@given(jobs(), st.integers(1, 600), st.integers(1, 600))
def test_pieces_cover_a_region_once_between_chunks(job: PeerJob, memory: int, most: int) -> None:
    region = list(regions(job, memory))[-1]
    found = list(pieces(job, region, most))
    np.testing.assert_array_equal(cover(job.shape, found), cover(job.shape, [region]))
    for piece in found:
        met = [
            min(-(-side.stop // chunk) * chunk, whole) - side.start // chunk * chunk
            for side, chunk, whole in zip(piece, job.source_chunks, job.shape, strict=True)
        ]
        assert prod(met) * job.itemsize <= max(most, job.bytes_of(job.source_chunks))
        for side, outer, chunk in zip(piece, region, job.source_chunks, strict=True):
            assert side.start % chunk == 0 or side.start == outer.start
            assert side.stop % chunk == 0 or side.stop == outer.stop


@given(jobs(), st.integers(1, 600))
def test_groups_are_whole_chunks(job: PeerJob, most: int) -> None:
    lengths = group_lengths(job, most)
    for length, chunk, whole in zip(lengths, job.source_chunks, job.shape, strict=True):
        assert length % chunk == 0 or length == whole
    assert job.bytes_of(lengths) <= max(most, job.bytes_of(job.source_chunks))
