"""The default chunk shape: proportional to the array, of a size that suits most devices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

#: Bytes of a chunk that is neither too small for the device nor too large for memory.
DEFAULT_CHUNK_BYTES = 8 << 20


def proportional(shape: Sequence[int], itemsize: int, chunk_bytes: int = DEFAULT_CHUNK_BYTES) -> tuple[int, ...]:
    """A chunk with the array's proportions (Sarawagi and Stonebraker's default), at most about `chunk_bytes`."""
    limit = max(chunk_bytes // max(itemsize, 1), 1)
    chunk = [max(n, 1) for n in shape]
    while prod(chunk) > limit:
        # Axes that have come down to 1 cannot give more; the others shrink by the same factor.
        free = [d for d, n in enumerate(chunk) if n > 1]
        factor = (prod(chunk) / limit) ** (1 / len(free))
        smaller = [max(int(n / factor), 1) if d in free else n for d, n in enumerate(chunk)]
        if smaller == chunk:
            longest = max(free, key=lambda d: chunk[d])
            smaller[longest] -= 1
        chunk = smaller
    return tuple(chunk)
