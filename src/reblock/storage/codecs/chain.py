"""The codec chain of a unit: every size is known or bounded before anything is decoded.

A chain turns a unit's bytes into stored bytes, stage by stage. Sizes are derived from the decoded end, where they are
known: checksums and filters keep them exact, and the output of a compressor is bounded. ::

    unit n ─ delta ─ n ─ shuffle ─ n ─ blosc ─ at most limit(n) ─ crc32c ─ at most limit(n) + 4

So a decoder never gets a larger buffer than the chunk can need, whatever its header says.
"""

from __future__ import annotations

import lzma
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from reblock.errors import CorruptError
from reblock.model.codec import Codec
from reblock.model.store import Bytes, Flat, Scratch, fresh
from reblock.storage.codecs.in_place import by_turns
from reblock.storage.codecs.registration import DecodeJob, EncodeJob, Role
from reblock.storage.codecs.registry import check, find

#: The exceptions of decoders for invalid bytes.
_FAILURES = (ValueError, RuntimeError, TypeError, OSError, EOFError, OverflowError, zlib.error, lzma.LZMAError)


@dataclass(frozen=True, slots=True)
class Chain:
    """Stages that encode one unit, in the order of encoding."""

    codec: Codec
    """The stages."""
    dtype: np.dtype[Any]
    """Type of the elements before the first stage."""

    def __bool__(self) -> bool:
        return bool(self.codec)

    def sizes(self, nbytes: int, *, exact: bool = True) -> list[tuple[int, bool]]:
        """Bytes before each stage and after the last, and whether they are exact; ValueError for impossible sizes."""
        sizes, size = [(nbytes, exact)], nbytes
        for stage in self.codec.stages:
            codec = find(stage.name)
            if codec.role is Role.FILTER and not exact:
                raise ValueError(f"{stage.name} works on elements, so it cannot follow a compressor")
            if exact or codec.role is not Role.REORDER:
                size = codec.size(stage, size, self.dtype)
            exact = exact and codec.role is not Role.COMPRESSOR
            sizes.append((size, exact))
        return sizes

    def limit(self, nbytes: int) -> int:
        """The most bytes that a unit of `nbytes` may take in stored form."""
        return self.sizes(nbytes)[-1][0]

    def decode(self, data: Bytes, out: Flat, scratch: Scratch = fresh) -> None:
        """Decode into exactly `out.size` bytes."""
        stored = self._undo(data, self.sizes(out.size), out, scratch)
        if stored.size != out.size:
            raise CorruptError(f"{stored.size:,} bytes stored, {out.size:,} expected")
        if not np.may_share_memory(stored, out):
            out[:] = stored

    def decode_some(self, data: Bytes, most: int) -> Flat:
        """Decode into at most `most` bytes, as many as there are."""
        stored = self._undo(data, self.sizes(most, exact=False), None, fresh)
        if stored.size > most:
            raise CorruptError(f"{stored.size:,} bytes stored, at most {most:,} expected")
        return stored

    def _undo(self, data: Bytes, sizes: list[tuple[int, bool]], out: Flat | None, scratch: Scratch) -> Flat:
        """Undo all stages; the last one may write to `out`, if that is given."""
        stored: Flat = np.frombuffer(data, np.uint8)
        for place in reversed(range(len(self.codec.stages))):
            stage, (size, exact) = self.codec.stages[place], sizes[place]
            room = by_turns(scratch, place)("decoded", size)[:size] if place or out is None else out
            codec = find(stage.name)
            try:
                stored = codec.decode(DecodeJob(stored, room, exact, stage, self.dtype, codec))
            except _FAILURES as error:
                raise CorruptError(f"{stage.name}: {_one_line(error)}") from error
            if stored.size != size if exact else stored.size > size:
                raise CorruptError(f"{stage.name}: {stored.size:,} bytes decoded, {size:,} expected")
        return stored

    def encode(self, data: Flat, room: Flat | None = None, scratch: Scratch = fresh) -> Flat:
        """The stored bytes of a unit; with `room`, which begins with the unit and is longer, they may replace it."""
        result = data
        for place, stage in enumerate(self.codec.stages):
            codec = find(stage.name)
            if codec.role is not Role.FILTER:
                result = result.reshape(-1).view(np.uint8)
            elif result is data:
                # Filters tell floats from integers by the array's type.
                result = result.view(self.dtype)
            result = codec.encode(EncodeJob(result, room, by_turns(scratch, place), stage, self.dtype, codec))
        return result.reshape(-1).view(np.uint8)


def trial(codec: Codec, dtype: np.dtype[Any]) -> None:
    """Encode and decode a few zeros; ValueError if stages do not fit the type or each other."""
    for stage in codec.stages:
        check(stage)
    chain, data = Chain(codec, dtype), np.zeros(64 * dtype.itemsize, np.uint8)
    out = np.empty_like(data)
    try:
        chain.decode(chain.encode(data).data, out)
    except (*_FAILURES, CorruptError, LookupError) as error:
        raise ValueError(f"{codec} does not fit {dtype}: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
