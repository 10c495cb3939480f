"""Shards that can only be decoded as a whole: inside other shards, or with codecs around them.

zarr-python reads such arrays. Their chunks cannot be found without decoding everything around them, so a whole shard is
one unit ::

    stored ─ codecs around ─ shard: units and their index ─ each unit decoded, or fill ─ elements
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.errors import CorruptError, UsageError
from reblock.geometry.grid import inverse
from reblock.model.codec import Codec
from reblock.model.store import Bytes, Flat, Scratch, fresh
from reblock.storage.codecs.chain import Chain

#: An index entry that means "not stored".
ABSENT = 2**64 - 1


@dataclass(frozen=True)
class Nested:
    """A shard as one unit; it can be read, but not written."""

    around: Codec
    """The codecs around the shard."""
    counts: tuple[int, ...]
    """Units along each axis of the shard."""
    unit: tuple[int, ...]
    """Shape of a unit, in the shard's axes."""
    order: tuple[int, ...]
    """Order of a unit's axes in memory, outermost first."""
    chain: Chain | Nested
    """How a unit is encoded."""
    index: Chain
    """Checksum of the index."""
    at_start: bool
    """Whether the index comes before the units."""
    dtype: np.dtype[Any]
    """Type of an element."""
    fill: Any
    """Value of units that are not stored."""

    def __bool__(self) -> bool:
        return True

    def limit(self, nbytes: int) -> int:
        """The most bytes that a shard of `nbytes` may take in stored form."""
        return Chain(self.around, self.dtype).sizes(self._most(nbytes), exact=False)[-1][0]

    def _most(self, nbytes: int) -> int:
        """The same without the codecs around the shard."""
        number = prod(self.counts)
        unit = nbytes // number
        # Codecs add at most a page to a unit, but not to each of many small ones.
        return number * min(self.chain.limit(unit), 3 * unit + 256) + self.index.limit(16 * number)

    def decode(self, data: Bytes, out: Flat, scratch: Scratch = fresh) -> None:  # noqa: ARG002 - allocates its own
        """Decode into exactly `out.size` bytes."""
        shard = Chain(self.around, self.dtype).decode_some(data, self._most(out.size))
        whole = out.view(self.dtype).reshape([n * c for n, c in zip(self.counts, self.unit, strict=True)])
        table, unit = self._table(shard), np.empty(prod(self.unit) * self.dtype.itemsize, np.uint8)
        elements = unit.view(self.dtype).reshape([self.unit[a] for a in self.order]).transpose(inverse(self.order))
        for position in product(*map(range, self.counts)):
            inside: Any = tuple(slice(p * n, (p + 1) * n) for p, n in zip(position, self.unit, strict=True))
            offset, length = map(int, table[position])
            if offset == length == ABSENT:
                whole[(*inside, ...)] = self.fill
                continue
            if offset + length > shard.size:
                raise CorruptError(f"shard index: {length:,} bytes at {offset:,} in {shard.size:,}")
            self.chain.decode(shard[offset : offset + length].data, unit)
            whole[(*inside, ...)] = elements

    def encode(self, data: Flat, room: Flat | None = None, scratch: Scratch = fresh) -> Flat:  # noqa: ARG002 - never
        """Not supported: new arrays have no such shards."""
        raise UsageError(f"{data.size:,} bytes cannot be written as shards inside shards; write chunks or shards")

    def _table(self, shard: Flat) -> npt.NDArray[np.uint64]:
        size = self.index.limit(16 * prod(self.counts))
        table = np.empty((*self.counts, 2), self.index.dtype)
        stored = shard[:size] if self.at_start else shard[max(shard.size - size, 0) :]
        try:
            self.index.decode(stored.data, table.reshape(-1).view(np.uint8))
        except CorruptError as error:
            raise CorruptError(f"shard index: {error}") from error
        return table
