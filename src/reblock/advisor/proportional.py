"""The default chunk shape: proportional to the array, of a size that suits most devices, with little padding.

Formats pad the last chunk along each axis, so a chunk that is a little longer than an even share of the axis wastes
much space ::

    200 in chunks of 82     ├───────┼───────┼───┄┄┄┄┤     three chunks, 46 elements of padding
    200 in chunks of 67     ├─────┼─────┼─────┄           three chunks, one element

Each axis is cut into a number of even shares near the desired proportion. Of all combinations, the one with the lowest
cost is chosen; the cost adds up padding, distance from the desired size and distance from the array's proportions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import log, prod

#: Desired bytes of a chunk: neither too small for the device nor too large for memory.
DEFAULT_CHUNK_BYTES = 8 << 20
#: The same for chunks that are read one by one inside a shard.
INNER_CHUNK_BYTES = 2 << 20

#: Numbers of shares that are tried along an axis, around the desired one, by the number of axes.
_NEAR = {1: 8, 2: 8, 3: 4, 4: 3}
#: Weights of the cost: stored bytes over bytes of the array, distance from the desired size, and from the proportions.
_PADDING, _SIZE, _FORM = 4.0, 0.1, 0.1
#: How much a chunk may exceed the desired size, and how much one that must divide a shard may.
_MORE, _MORE_INSIDE = 1.125, 4


def proportional(shape: Sequence[int], itemsize: int, chunk_bytes: int = DEFAULT_CHUNK_BYTES) -> tuple[int, ...]:
    """A chunk with about the array's proportions (Sarawagi and Stonebraker's default) that wastes little.

    It has at most about `chunk_bytes`, and is never longer than the array.

    >>> proportional((200, 500, 600), 4)
    (67, 167, 200)
    """
    limit = max(chunk_bytes // max(itemsize, 1), 1)
    lengths = [max(n, 1) for n in shape]
    if prod(lengths) <= limit:
        return tuple(lengths)
    wished = _shrunk(lengths, limit)
    near = _NEAR.get(len(lengths), 1)
    options = [_shares(n, wish, near) for n, wish in zip(lengths, wished, strict=True)]
    fitting = [chunk for chunk in product(*options) if prod(chunk) <= _MORE * limit]
    return min(fitting, key=lambda chunk: _cost(chunk, lengths, wished, limit), default=_whole(wished))


def _whole(wished: Sequence[float]) -> tuple[int, ...]:
    return tuple(max(int(n), 1) for n in wished)


def _shrunk(lengths: Sequence[int], limit: int) -> list[float]:
    """The array's proportions at the desired size; an axis of length 1 cannot shrink further."""
    wished = [float(n) for n in lengths]
    while (size := prod(wished)) > limit * (1 + 1e-9):
        free = [d for d, n in enumerate(wished) if n > 1]
        factor = (size / limit) ** (1 / len(free))
        wished = [max(n / factor, 1.0) if d in free else n for d, n in enumerate(wished)]
    return wished


def _shares(length: int, wish: float, near: int) -> list[int]:
    """Even shares of an axis near a desired length, the longest first; always includes the whole axis and 1."""
    count = max(round(length / wish), 1)
    counts = {*range(max(count - near, 1), count + near + 1), -(-length // max(int(wish), 1)), 1, length}
    return sorted({max(-(-length // n), 1) for n in counts if n <= length}, reverse=True)


def _cost(chunk: Sequence[int], lengths: Sequence[int], wished: Sequence[float], limit: int) -> tuple[float, ...]:
    """The cost of a chunk: padding, and distance from the desired size and proportions."""
    stored = prod(-(-n // c) * c / n for n, c in zip(lengths, chunk, strict=True))
    form = sum(abs(log(c / wish)) for c, wish in zip(chunk, wished, strict=True))
    return _PADDING * stored + _SIZE * abs(log(limit / prod(chunk))) + _FORM * form, *(-c for c in chunk)


def dividing(outer: Sequence[int], itemsize: int, chunk_bytes: int = INNER_CHUNK_BYTES) -> tuple[int, ...]:
    """A chunk that divides a shard exactly, of about its proportions and at most about `chunk_bytes`.

    >>> dividing((128, 512, 512), 4)
    (32, 128, 128)
    """
    limit = max(chunk_bytes // max(itemsize, 1), 1)
    wished = _shrunk([max(n, 1) for n in outer], limit)
    options = [_divisors_near(max(n, 1), wish) for n, wish in zip(outer, wished, strict=True)]
    fitting = [chunk for chunk in product(*options) if prod(chunk) <= _MORE_INSIDE * limit]
    smallest = tuple(option[-1] for option in options)
    return min(fitting, key=lambda chunk: _cost(chunk, outer, wished, limit), default=smallest)


def _divisors_near(number: int, wish: float) -> list[int]:
    """A few divisors on either side of a length, the longest first."""
    small = [n for n in range(1, min(int(number**0.5), 1 << 16) + 1) if number % n == 0]
    every = sorted({*small, *(number // n for n in small)})
    above = [n for n in every if n > wish]
    below = [n for n in every if n <= wish]
    return [*above[:2][::-1], *below[-3:][::-1]]
