"""Compressed streams of the standard library: gzip, zlib, bz2 and lzma; gzip and zlib also with libdeflate."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from reblock.model.codec import Stage
from reblock.model.store import Flat
from reblock.storage.codecs.registration import DecodeJob, EncodeJob, RegisteredCodec, Role, bound, integer, one_of
from reblock.storage.codecs.zlib_streams import Container, compress, decoder, decompress

#: Input and output of streaming decoders are cut into pieces of this size, to avoid a second copy.
_PIECE_BYTES = 1 << 18
_STEP_BYTES = 1 << 20
#: The most memory that an lzma stream may request; the largest preset needs 65 MiB.
_LZMA_BYTES = 1 << 27
#: MiB that compressors and decompressors need, by preset of lzma (0 to 9).
_LZMA_ENCODE_MIB = (4, 10, 18, 33, 49, 95, 95, 187, 371, 675)
_LZMA_DECODE_MIB = (1, 2, 3, 5, 5, 9, 9, 17, 33, 65)
_BZ2_ENCODE_MIB, _BZ2_DECODE_MIB = 8, 4


def _stream(new: Callable[[], Any], job: DecodeJob, *, several: bool) -> Flat:
    """Run decoders of the standard library, which can stop early, with output to the given memory."""
    view, position, made = job.data.data, 0, 0
    while True:
        decoder = new()
        while not decoder.eof:
            if position == len(view):
                raise ValueError("the stream ends early")
            piece: Any = view[position : position + _PIECE_BYTES]
            position += len(piece)
            made = _feed(decoder, piece, job.out, made)
        position -= len(decoder.unused_data)
        # Several streams may follow each other, and zeros may follow the last.
        if position == len(view) or (several and not np.any(job.data[position:])):
            return job.out[:made]
        if not several:
            raise ValueError(f"{len(view) - position:,} bytes after the end of the stream")


def _feed(decoder: Any, piece: Any, out: Flat, made: int) -> int:
    """Decode a piece of the input, a step of output at a time; returns the bytes that are decoded now."""
    while True:
        wanted = min(out.size - made, _STEP_BYTES) + 1
        part = decoder.decompress(piece, wanted)
        if len(part) > out.size - made:
            raise ValueError(f"more than the {out.size:,} bytes expected")
        out[made : made + len(part)] = np.frombuffer(part, np.uint8)
        made += len(part)
        if decoder.eof or len(part) < wanted:
            return made
        # zlib returns the input that it did not use; bz2 and lzma keep it.
        piece = getattr(decoder, "unconsumed_tail", b"")


# ---------------------------------------------------------------- gzip, zlib
def _inflate(job: DecodeJob, container: Container, *, several: bool) -> Flat:
    if job.exact and decompress(job.data, job.out, container):
        return job.out
    return _stream(lambda: zlib.decompressobj(container.window), job, several=several)


def _deflate(job: EncodeJob, container: Container) -> Flat:
    return compress(job.data, job.stage.get("level"), container, job.room, job.scratch)


def _copied(stage: Stage, unit_bytes: int, *, first: bool) -> int:  # noqa: ARG001 - always so
    """The elements are copied, or regrouped, and compressed back."""
    return unit_bytes


GZIP = RegisteredCodec(
    "gzip",
    Role.COMPRESSOR,
    lambda job: _inflate(job, Container.GZIP, several=True),
    lambda job: _deflate(job, Container.GZIP),
    rules={"level": integer(-1, 9)},
    size=bound,
    in_place=_copied,
    decoder=lambda: decoder(Container.GZIP),
    defaults={"level": 1},
)
ZLIB = RegisteredCodec(
    "zlib",
    Role.COMPRESSOR,
    lambda job: _inflate(job, Container.ZLIB, several=False),
    lambda job: _deflate(job, Container.ZLIB),
    rules={"level": integer(-1, 9)},
    size=bound,
    in_place=_copied,
    decoder=lambda: decoder(Container.ZLIB),
    defaults={"level": 1},
)


# ---------------------------------------------------------------- bz2, lzma
def _unlzma(job: DecodeJob) -> Flat:
    container = job.stage.get("format", lzma.FORMAT_XZ)
    if container == lzma.FORMAT_RAW:
        filters = job.stage.get("filters")
        return _stream(lambda: lzma.LZMADecompressor(container, None, filters), job, several=False)
    return _stream(lambda: lzma.LZMADecompressor(container, _LZMA_BYTES), job, several=True)


def _are_lzma_filters(value: Any) -> bool:
    small = integer(0, 1 << 27)
    return isinstance(value, list) and all(
        isinstance(f, dict)
        and all(isinstance(k, str) and small(v) for k, v in f.items() if k != "id")
        and integer(0, 1 << 63)(f.get("id"))
        for f in value
    )


def _bz2_state(stage: Stage, unit_bytes: int, *, in_place: bool) -> int:  # noqa: ARG001 - always so
    return _BZ2_ENCODE_MIB << 20


def _lzma_state(stage: Stage, unit_bytes: int, *, in_place: bool) -> int:  # noqa: ARG001 - never in place
    return min(_LZMA_ENCODE_MIB[_preset(stage)] << 20, 12 * unit_bytes + (1 << 20))


def _preset(stage: Stage) -> int:
    preset = stage.get("preset", 6)
    return min(preset & 0x1F, 9) if isinstance(preset, int) else 6


BZ2 = RegisteredCodec(
    "bz2",
    Role.COMPRESSOR,
    lambda job: _stream(bz2.BZ2Decompressor, job, several=True),
    EncodeJob.by_numcodecs,
    rules={"level": integer(1, 9)},
    size=bound,
    copies=True,
    decoding_state=lambda _, __, ___: _BZ2_DECODE_MIB << 20,
    encoding_state=_bz2_state,
    defaults={"level": 1},
)
LZMA = RegisteredCodec(
    "lzma",
    Role.COMPRESSOR,
    _unlzma,
    EncodeJob.by_numcodecs,
    rules={
        "format": one_of(1, 2, 3),
        "check": integer(-1, 15),
        "preset": integer(0, 2**32 - 1),
        "filters": _are_lzma_filters,
    },
    size=bound,
    copies=True,
    decoding_state=lambda stage, _, __: _LZMA_DECODE_MIB[_preset(stage)] << 20,
    encoding_state=_lzma_state,
    idle={"format": 1, "check": -1, "preset": None, "filters": None},
)
