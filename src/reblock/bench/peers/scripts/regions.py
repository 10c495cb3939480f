"""Regions for contenders without a memory budget of their own: boxes of whole target chunks that fit into it.

Of all box shapes that fit, the one that reads the fewest bytes of whole source chunks is used; the largest of equals.
The bytes read are a product over axes, so every shape is priced without listing its regions. ::

    bytes read = Π over axes of Σ over regions of the length of the source chunks that the region meets
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from math import prod

from reblock.bench.peers.scripts.job import Lengths, PeerJob

#: One slice per axis.
Slices = tuple[slice, ...]


def regions(job: PeerJob, memory_bytes: int) -> Iterator[Slices]:
    """Yield boxes that cover the array, each within the memory given, or one unit where a unit is larger."""
    lengths = region_lengths(job, memory_bytes)
    steps = (range(0, whole, length) for whole, length in zip(job.shape, lengths, strict=True))
    for corner in product(*steps):
        yield tuple(
            slice(start, min(start + length, whole))
            for start, length, whole in zip(corner, lengths, job.shape, strict=True)
        )


def region_lengths(job: PeerJob, memory_bytes: int) -> Lengths:
    """Lengths of the regions that read the fewest bytes."""
    axes = [_choices(*axis) for axis in zip(job.shape, job.unit, job.source_chunks, strict=True)]
    fitting = [choice for choice in product(*axes) if job.bytes_of(tuple(one[0] for one in choice)) <= memory_bytes]
    if not fitting:
        return tuple(min(unit, whole) for unit, whole in zip(job.unit, job.shape, strict=True))
    best = min(fitting, key=lambda choice: (prod(one[1] for one in choice), -prod(one[0] for one in choice)))
    return tuple(one[0] for one in best)


def _choices(whole: int, unit: int, chunk: int) -> list[tuple[int, int]]:
    """Region lengths along an axis, all multiples of the unit, each with the elements that it reads."""
    return [
        (length, sum(_touched(start, min(start + length, whole), chunk, whole) for start in range(0, whole, length)))
        for length in (*range(unit, whole, unit), whole)
    ]


def _touched(start: int, stop: int, chunk: int, whole: int) -> int:
    """Elements of the chunks that a range touches."""
    return min(-(-stop // chunk) * chunk, whole) - start // chunk * chunk


def pieces(job: PeerJob, region: Slices, most_bytes: int) -> Iterator[Slices]:
    """Cut a region between source chunks, so that the chunks that a piece touches have at most `most_bytes`."""
    steps = _fill(job, most_bytes, reversed(range(len(job.shape))))
    cuts = (
        sorted({side.start, *range(-(-side.start // step) * step, side.stop, step)})
        for side, step in zip(region, steps, strict=True)
    )
    pairs = ([*zip(cut, [*cut[1:], side.stop], strict=True)] for cut, side in zip(cuts, region, strict=True))
    for piece in product(*pairs):
        yield tuple(slice(*pair) for pair in piece)


def group_lengths(job: PeerJob, most_bytes: int) -> Lengths:
    """Lengths of a group of whole source chunks of at most `most_bytes`, extended along the first axes first."""
    return _fill(job, most_bytes, range(len(job.shape)))


def _fill(job: PeerJob, most_bytes: int, axes: Iterable[int]) -> Lengths:
    """Lengths of a box of whole source chunks, extended axis by axis in the order given."""
    lengths = list(job.source_chunks)
    for axis in axes:
        fit = max(1, most_bytes // job.bytes_of(tuple(lengths)))
        lengths[axis] = min(job.shape[axis], lengths[axis] * fit)
    return tuple(lengths)
