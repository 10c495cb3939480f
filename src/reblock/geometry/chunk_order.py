"""Orders of chunks: the rank of each chunk of a grid along an order of axes, a Hilbert curve or a Morton curve.

::

    order 0,1      order 1,0      morton         hilbert
    0 1 2 3        0 4 8 c        0 1 4 5        0 3 4 5
    4 5 6 7        1 5 9 d        2 3 6 7        1 2 7 6
    8 9 a b        2 6 a e        8 9 c d        e d 8 9
    c d e f        3 7 b f        a b e f        f c b a

A grid need not be a cube of a power of two: chunks outside of it are left out, and the others keep their order.
J. Skilling, Programming the Hilbert curve, AIP Conf. Proc. 707, 2004.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from reblock.errors import UsageError, either
from reblock.geometry.grid import inverse
from reblock.geometry.notation import Order, parse_order

#: Names of the curves.
HILBERT, MORTON = "hilbert", "morton"
CURVES = (HILBERT, MORTON)

Ranks = npt.NDArray[np.int64]


def parse_chunk_order(order: Order, ndim: int, names: Sequence[str] | None = None) -> str:
    """An order of chunks as text: axes like `0,2,1`, outermost first, or the name of a curve; "" for the usual one."""
    if isinstance(order, str) and order.strip() in CURVES:
        return order.strip() if ndim > 1 else ""
    try:
        axes = parse_order(order, ndim, names)
    except UsageError as error:
        raise UsageError(f"the order of chunks is {either(CURVES)}, or a list of axes: {error.message}") from None
    return "" if axes == tuple(range(ndim)) else ",".join(map(str, axes))


def chunk_ranks(counts: Sequence[int], order: str) -> Ranks:
    """The rank of each chunk of a grid with `counts` chunks per axis; the shape of the result is `counts`.

    >>> chunk_ranks((2, 3), "1,0").tolist()
    [[0, 2, 4], [1, 3, 5]]
    >>> chunk_ranks((2, 2), "hilbert").tolist()
    [[0, 1], [3, 2]]
    """
    if order not in CURVES:
        axes = tuple(map(int, order.split(","))) if order else tuple(range(len(counts)))
        ranks = np.arange(prod(counts), dtype=np.int64).reshape([counts[axis] for axis in axes])
        return ranks.transpose(inverse(axes))
    # An axis of one chunk takes no part in a curve.
    long = [axis for axis, count in enumerate(counts) if count > 1]
    if len(long) < 2:
        return np.arange(prod(counts), dtype=np.int64).reshape(counts)
    inner = [counts[axis] for axis in long]
    places = np.indices(inner, dtype=np.int64).reshape(len(inner), -1)
    bits = max(count - 1 for count in inner).bit_length()
    if order == HILBERT:
        _to_hilbert(places, bits)
    ranks = np.empty(places.shape[1], np.int64)
    ranks[np.lexsort(_levels(places, bits))] = np.arange(places.shape[1])
    return ranks.reshape(counts)


def _levels(places: Ranks, bits: int) -> list[Ranks]:
    """Keys of a curve: one number per level of bits, the least significant first."""
    keys = []
    for bit in range(bits):
        key = np.zeros(places.shape[1], np.int64)
        for one in places:
            key = (key << 1) | ((one >> bit) & 1)
        keys.append(key)
    return keys


def _to_hilbert(places: Ranks, bits: int) -> None:
    """Replace coordinates by the transposed bits of their Hilbert index, in place (Skilling's AxesToTranspose)."""
    for bit in range(bits - 1, 0, -1):
        high, low = np.int64(1 << bit), np.int64((1 << bit) - 1)
        for axis in range(len(places)):
            is_set = (places[axis] & high) != 0
            exchanged = np.where(is_set, 0, (places[0] ^ places[axis]) & low)
            places[0] ^= np.where(is_set, low, exchanged)
            places[axis] ^= exchanged
    for number in range(1, len(places)):
        places[number] ^= places[number - 1]
    turned = np.zeros(places.shape[1], np.int64)
    for bit in range(bits - 1, 0, -1):
        turned ^= np.where((places[-1] >> bit) & 1, np.int64((1 << bit) - 1), np.int64(0))
    places ^= turned
