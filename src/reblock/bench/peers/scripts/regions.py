"""Regions for contenders that take no budget: boxes of whole target chunks that fit into it.

Of all boxes that fit, those that read the fewest bytes of whole source chunks are taken, and of these the largest.
What is read is a product over axes, so every choice is priced without listing a region. ::

    bytes read = Π over axes of Σ over regions of the length of the source chunks that the region meets
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from math import prod

from reblock.bench.peers.scripts.job import Job, Lengths

Region = tuple[slice, ...]


def regions(job: Job, memory_bytes: int) -> Iterator[Region]:
    """Boxes that cover the array, each of at most so many bytes, or of one unit where that is more."""
    lengths = region_lengths(job, memory_bytes)
    steps = (range(0, whole, length) for whole, length in zip(job.shape, lengths, strict=True))
    for corner in product(*steps):
        yield tuple(
            slice(start, min(start + length, whole))
            for start, length, whole in zip(corner, lengths, job.shape, strict=True)
        )


def region_lengths(job: Job, memory_bytes: int) -> Lengths:
    """The best lengths of regions."""
    axes = [_choices(*axis) for axis in zip(job.shape, job.unit, job.source_chunks, strict=True)]
    fitting = [choice for choice in product(*axes) if job.bytes_of(tuple(one[0] for one in choice)) <= memory_bytes]
    if not fitting:
        return tuple(min(unit, whole) for unit, whole in zip(job.unit, job.shape, strict=True))
    best = min(fitting, key=lambda choice: (prod(one[1] for one in choice), -prod(one[0] for one in choice)))
    return tuple(one[0] for one in best)


def _choices(whole: int, unit: int, chunk: int) -> list[tuple[int, int]]:
    """Lengths of regions along an axis, all multiples of the unit, and what each makes it read."""
    return [
        (length, sum(_met(start, min(start + length, whole), chunk, whole) for start in range(0, whole, length)))
        for length in (*range(unit, whole, unit), whole)
    ]


def _met(start: int, stop: int, chunk: int, whole: int) -> int:
    """Elements of the chunks that a range meets."""
    return min(-(-stop // chunk) * chunk, whole) - start // chunk * chunk


def pieces(job: Job, region: Region, most_bytes: int) -> Iterator[Region]:
    """A region cut between source chunks, so that the chunks that a piece meets have at most so many bytes."""
    steps = _fill(job, most_bytes, reversed(range(len(job.shape))))
    cuts = (
        sorted({side.start, *range(-(-side.start // step) * step, side.stop, step)})
        for side, step in zip(region, steps, strict=True)
    )
    pairs = ([*zip(cut, [*cut[1:], side.stop], strict=True)] for cut, side in zip(cuts, region, strict=True))
    for piece in product(*pairs):
        yield tuple(slice(*pair) for pair in piece)


def grouped(job: Job, most_bytes: int) -> Lengths:
    """Whole source chunks together, as many along the first axes as fit into so many bytes."""
    return _fill(job, most_bytes, range(len(job.shape)))


def _fill(job: Job, most_bytes: int, axes: Iterable[int]) -> Lengths:
    """Lengths of a box of whole source chunks that is stretched axis by axis."""
    lengths = list(job.source_chunks)
    for axis in axes:
        fit = max(1, most_bytes // job.bytes_of(tuple(lengths)))
        lengths[axis] = min(job.shape[axis], lengths[axis] * fit)
    return tuple(lengths)
