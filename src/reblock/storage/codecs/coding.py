"""What encoding and decoding take, codec by codec: the memory that the planner counts beside elements.

Stages hand over to each other, so at most two results are there at a time besides what a unit began as ::

    decoding    stored ─ gzip ─→ planes ─ shuffle ─→ elements              a copy between
    encoding    elements ─ shuffle ─→ planes ─ gzip ─→ where elements were   the same
    a shard     elements ─→ a row of units ─ unit after unit ─→ where elements were   the row, and a unit
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from reblock.model.codec import Codec, Stage
from reblock.model.layout import Coding, most_stored_bytes, room_bytes
from reblock.storage.codecs.compiled import library
from reblock.storage.codecs.in_place import STEP_BYTES
from reblock.storage.codecs.stages import CHECKSUMS, FILTERS

#: From this size on units are encoded in their own memory, where that is possible.
LARGE_BYTES = 16 << 20
#: The same for shards, if their units are so large that headers are no part of them worth mentioning.
_LARGE_UNIT_BYTES = 16 << 10
#: Bytes that compressors and decompressors need for themselves, by preset of lzma (0 to 9) and block size of bz2.
_LZMA_ENCODE_MIB = (4, 10, 18, 33, 49, 95, 95, 187, 371, 675)
_LZMA_DECODE_MIB = (1, 2, 3, 5, 5, 9, 9, 17, 33, 65)
_BZ2_ENCODE_MIB, _BZ2_DECODE_MIB = 8, 4
#: And for blocks of Blosc, and tables of zstd for one of them, by level from 1 on.
_BLOSC_MIB, _BLOSC_ZSTD_MIB = 4, (2, 3, 4, 5, 5, 12, 12, 12, 27)
#: Tables that are smaller are not worth counting.
_LITTLE_BYTES = 1 << 20
#: Stages whose results are copied once more, and all that are not left to HDF5.
_COPIED = frozenset({"lz4", "bz2", "lzma", "base64"})
_OURS = frozenset({"gzip", "zlib", "zstd", "blosc", "shuffle"}) | _COPIED | CHECKSUMS | FILTERS.keys()


def coding(codec: Codec, dtype: np.dtype[Any], unit_bytes: int) -> Coding | None:
    """What the units of an array take; None where they are not encoded."""
    if not codec:
        return None
    decoding = _decoding_bytes(codec, dtype, unit_bytes)
    if not is_in_place(codec, unit_bytes):
        return Coding(decoding, _encoding_bytes(codec, dtype, unit_bytes))
    first, scratch = codec.stages[0].name, unit_bytes
    if first in ("zstd", "blosc"):
        # A step of zstd, or two groups of Blosc's blocks twice; and what does not compress waits.
        scratch = (1 if first == "zstd" else 4) * STEP_BYTES + unit_bytes // 64
    return Coding(decoding, scratch + _state_bytes(codec, unit_bytes, in_place=True), in_place=True)


def shard_coding(codec: Codec, unit: Coding, unit_bytes: int, shard_bytes: int, rows: int) -> Coding:
    """The same for shards, which hold so many rows of units."""
    one = (room_bytes(unit_bytes) if unit.in_place else unit_bytes) + unit.encoding_bytes
    if shard_bytes < LARGE_BYTES or unit_bytes < _LARGE_UNIT_BYTES or _compressor(codec) is None:
        return Coding(unit.decoding_bytes, most_stored_bytes(shard_bytes) + one)
    waiting = room_bytes(shard_bytes) - shard_bytes
    return Coding(unit.decoding_bytes, shard_bytes // rows + waiting + one, in_place=True)


def is_in_place(codec: Codec, unit_bytes: int) -> bool:
    """Whether units are encoded in their own memory: step by step, or copied or regrouped and compressed back."""
    compressor = _compressor(codec)
    if unit_bytes < LARGE_BYTES or compressor is None:
        return False
    if compressor.name == "zstd":
        return _has("numcodecs.zstd")
    if compressor.name == "blosc" and compressor is codec.stages[0]:
        # Blocks that are set may be too small for what is added to them, or too large for a step.
        plain = compressor.get("level", 0) > 0 and not compressor.get("blocksize", 0)
        return plain and unit_bytes < 1 << 30 and _has("numcodecs.blosc")
    return compressor.name != "blosc" or _has("numcodecs.blosc")


def _compressor(codec: Codec) -> Stage | None:
    """What compresses the elements, regrouped or as they are, and makes them hardly longer if they do not compress."""
    stages = list(codec.stages)
    while stages and stages[-1].name in CHECKSUMS and stages[-1].get("location", "end") == "end":
        stages.pop()
    if stages and stages[0].name == "shuffle":
        stages.pop(0)
    return stages[0] if len(stages) == 1 and stages[0].name in ("gzip", "zlib", "zstd", "blosc") else None


def _has(module: str) -> bool:
    return library(module) is not None


def _decoding_bytes(codec: Codec, dtype: np.dtype[Any], unit_bytes: int) -> int:
    """Results between stages, and what stages take for themselves."""
    stages = [stage for stage in codec.stages if stage.name not in CHECKSUMS]
    if not stages:
        return 0
    first = codec.stages[0].name
    direct = first not in CHECKSUMS and first not in FILTERS and first != "base64"
    copies = min(len(stages) - direct, 2) * unit_bytes
    own = 0
    for stage in stages:
        if stage.name not in _OURS:
            own = max(own, unit_bytes)
        elif stage.name == "lzma":
            own += _LZMA_DECODE_MIB[_preset(stage)] << 20
        elif stage.name == "bz2":
            own += _BZ2_DECODE_MIB << 20
        elif stage.name in FILTERS:
            own = max(own, _filter_bytes(stage, dtype, unit_bytes))
        elif stage.name == "base64":
            own = max(own, unit_bytes)
    return copies + own


def _encoding_bytes(codec: Codec, dtype: np.dtype[Any], unit_bytes: int) -> int:
    """The result, what it was made of, and what stages take for themselves."""
    stored = most_stored_bytes(unit_bytes)
    taken = stored + _state_bytes(codec, unit_bytes)
    if len(codec.stages) > 1:
        taken += unit_bytes
    if any(name in _COPIED or name not in _OURS for name in codec.names):
        taken += stored
    return taken + max((_filter_bytes(s, dtype, unit_bytes) for s in codec.stages if s.name in FILTERS), default=0)


def _filter_bytes(stage: Stage, dtype: np.dtype[Any], unit_bytes: int) -> int:
    """Filters compute in arrays of their own: whole ones of the type they have, or of 8-byte floats."""
    wide = stage.name in ("fixedscaleoffset", "quantize")
    return 3 * unit_bytes * max(8 // dtype.itemsize if wide else 1, 1)


def _state_bytes(codec: Codec, unit_bytes: int, *, in_place: bool = False) -> int:
    """Tables and windows of compressors; those for little data are small, and not counted."""
    total = 0
    for stage in codec.stages:
        if stage.name == "zstd":
            total += min(_zstd_state(stage.get("level", 3), steps=in_place), 16 * unit_bytes + (64 << 10))
        elif stage.name == "blosc":
            level = min(max(stage.get("level", 5), 1), 9)
            taken = _BLOSC_ZSTD_MIB[level - 1] if stage.get("cname") == "zstd" else _BLOSC_MIB
            total += min(taken << 20, 3 * unit_bytes // 2)
        elif stage.name == "lzma":
            total += min(_LZMA_ENCODE_MIB[_preset(stage)] << 20, 12 * unit_bytes + (1 << 20))
        elif stage.name == "bz2":
            total += _BZ2_ENCODE_MIB << 20
    return total if total >= _LITTLE_BYTES else 0


def _preset(stage: Stage) -> int:
    preset = stage.get("preset", 6)
    return min(preset & 0x1F, 9) if isinstance(preset, int) else 6


@cache
def _zstd_state(level: int, *, steps: bool) -> int:
    functions = library("numcodecs.zstd")
    if functions is None:
        return 1 << max(min(level, 22) + 8, 21)
    return int(functions.ZSTD_estimateCStreamSize(level) if steps else functions.ZSTD_estimateCCtxSize(level))
