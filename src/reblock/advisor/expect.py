"""The expected number of chunks that an access touches: the one model behind every advice.

Along one axis an access of length A meets chunks of length c in an axis of length X ::

    aligned      ⌈A / c⌉                              the access starts where a chunk starts
    anywhere     min((A − 1) / c + 1, ⌈X / c⌉)        each start is as likely as the others
    positions    ⌊(s + A − 1) / c⌋ − ⌊s / c⌋ + 1      the start s is known

and the product over the axes is the number of chunks (Sarawagi & Stonebraker, Efficient Organization of Large
Multidimensional Arrays, ICDE 1994, eq. 1, is the aligned case). The second term of `anywhere` matters near the ends of
an axis: an access to the whole axis has only one start. The first two never grow when a chunk grows, so that the least
number is found among the largest chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from reblock.geometry import Axis, Grid
from reblock.model.pattern import AccessClass, AccessPattern, Alignment

#: One row of lengths per chunk shape, one column per axis.
Shapes = npt.NDArray[np.int64]
#: Expected numbers, one per chunk shape; or one row of them per class.
Numbers = npt.NDArray[np.float64]

#: Numbers that are computed at once for known positions.
_MANY = 1 << 21


def expected_blocks(pattern: AccessPattern, shape: Sequence[int], chunks: Shapes) -> Numbers:
    """Chunks that an access of each class touches, for each of several chunk shapes."""
    return np.array([class_blocks(one, shape, chunks) for one in pattern.classes]).reshape(-1, len(chunks))


def class_blocks(one: AccessClass, shape: Sequence[int], chunks: Shapes, *, covered: bool = False) -> Numbers:
    """Chunks that an access of a class touches, or only those that it covers, for each of several chunk shapes."""
    if one.positions is None:
        product = np.ones(len(chunks))
        for axis, (length, whole) in enumerate(zip(one.shape, shape, strict=True)):
            count = _covered if covered else _touched
            product *= count(length, whole, chunks[:, axis], one.alignment)
        return product
    starts, lengths = one.positions.starts, one.positions.lengths
    weights = one.positions.counts / one.positions.counts.sum()
    found = np.empty(len(chunks))
    for some in _batches(len(chunks), max(_MANY // len(weights), 1)):
        product = np.ones((len(weights), some.stop - some.start))
        for axis, whole in enumerate(shape):
            cuts = chunks[some, axis]
            first, end = starts[:, axis, None], (starts[:, axis] + lengths[:, axis])[:, None]
            if covered:
                # The last chunk of an axis may stick out of the array.
                last = np.where(end == whole, -(-whole // cuts), end // cuts)
                product *= np.maximum(last + -first // cuts, 0)
            else:
                product *= (end - 1) // cuts - first // cuts + 1
        found[some] = weights @ product
    return found


def axis_blocks(one: AccessClass, axis: int, whole: int, cuts: Shapes) -> Numbers:
    """Chunks that an access of a class touches along one axis, for each of several chunk lengths."""
    if one.positions is None:
        return _touched(one.shape[axis], whole, cuts, one.alignment)
    starts = one.positions.starts[:, axis, None]
    ends = starts + one.positions.lengths[:, axis, None]
    weights = one.positions.counts / one.positions.counts.sum()
    touched: Numbers = weights @ ((ends - 1) // cuts - starts // cuts + 1)
    return touched


def grid_blocks(pattern: AccessPattern, grid: Grid) -> Numbers:
    """Boxes of a grid that an access of each class touches; irregular axes count as regular ones of the mean length."""
    return np.array([_in_grid(one, grid) for one in pattern.classes])


def _in_grid(one: AccessClass, grid: Grid) -> float:
    if one.positions is None:
        product = 1.0
        for axis, length in zip(grid.axes, one.shape, strict=True):
            cut = axis.step or axis.length / max(axis.count, 1)
            product *= float(_touched(length, axis.length, np.array([cut]), one.alignment)[0])
        return product
    starts, stops = one.positions.starts, one.positions.starts + one.positions.lengths
    rows = np.ones(len(starts))
    for number, axis in enumerate(grid.axes):
        rows *= _between(axis, starts[:, number], stops[:, number])
    return float(np.average(rows, weights=one.positions.counts))


def _between(axis: Axis, starts: Shapes, stops: Shapes) -> Shapes:
    return axis.indices(stops - 1) - axis.indices(starts) + 1


def _touched(length: int, whole: int, cuts: npt.NDArray[np.number], alignment: Alignment) -> Numbers:
    if alignment is Alignment.ALIGNED:
        counted: Numbers = np.ceil(length / cuts)
        return counted
    least: Numbers = np.minimum((length - 1) / cuts + 1, np.ceil(whole / cuts))
    return least


def _covered(length: int, whole: int, cuts: Shapes, alignment: Alignment) -> Numbers:
    if length == whole:
        return np.ceil(whole / cuts)
    if alignment is Alignment.ALIGNED:
        return np.floor(length / cuts)
    inside: Numbers = np.maximum(length - cuts + 1, 0) / cuts
    return inside


def _batches(count: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, count)) for start in range(0, count, size))
