"""The codec chain of a zarr chunk: numcodecs' formats, every size known or bounded before anything is decoded.

A chain turns a unit's bytes into what is stored, stage by stage. Sizes are followed from the decoded end, where
they are known: checksums and filters keep them exact, and what a compressor made is bounded. ::

    unit n ─ delta ─ n ─ shuffle ─ n ─ blosc ─ at most limit(n) ─ crc32c ─ at most limit(n) + 4

So a decoder never gets a larger buffer than the chunk can need, whatever its header says.
"""

from __future__ import annotations

import base64
import bz2
import lzma
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from reblock.errors import CorruptError
from reblock.model.codec import Codec, Stage
from reblock.model.store import Bytes, Flat, Scratch, fresh
from reblock.storage.codecs.blosc_frame import HEADER_BYTES, read_header
from reblock.storage.codecs.checksums import SUM_BYTES, at_start, checksum
from reblock.storage.codecs.encoders import ENCODERS, Work
from reblock.storage.codecs.in_place import by_turns
from reblock.storage.codecs.shuffle import unshuffle
from reblock.storage.codecs.stages import CHECKSUMS, FILTERS, check, numcodec
from reblock.storage.codecs.zlib_streams import Container, decompress

#: Input and output of streaming decoders are cut into pieces of this size, so that no second copy is made.
_PIECE_BYTES = 1 << 18
_STEP_BYTES = 1 << 20
#: Most memory that an lzma stream may ask for; the largest preset needs 65 MiB.
_LZMA_BYTES = 1 << 27
#: What decoders raise at bytes that are not theirs.
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
        """Bytes before each stage and after the last, and whether they are exact; ValueError if they cannot be."""
        sizes, size = [(nbytes, exact)], nbytes
        for stage in self.codec.stages:
            if stage.name in FILTERS:
                if not exact:
                    raise ValueError(f"{stage.name} works on elements, so it cannot follow a compressor")
                size = FILTERS[stage.name](stage, size)
            elif stage.name in CHECKSUMS:
                size += SUM_BYTES
            elif stage.name == "base64":
                size = (size + 2) // 3 * 4
            elif stage.name != "shuffle":
                # No compressor makes more of random bytes than this.
                size, exact = size + size // 2 + 4096, False
            elif size % (width := stage.get("elementsize", self.dtype.itemsize)) and exact:
                raise ValueError(f"shuffle of {width}-byte elements does not divide a chunk of {size:,} bytes")
            sizes.append((size, exact))
        return sizes

    def limit(self, nbytes: int) -> int:
        """Most bytes that a unit of `nbytes` may take when it is stored."""
        return self.sizes(nbytes)[-1][0]

    def decode(self, data: Bytes, out: Flat, scratch: Scratch = fresh) -> None:
        """Decode into exactly `out.size` bytes."""
        stored = self._undo(data, self.sizes(out.size), out, scratch)
        if stored.size != out.size:
            raise CorruptError(f"{stored.size:,} bytes stored, {out.size:,} expected")
        if not np.may_share_memory(stored, out):
            out[:] = stored

    def decode_some(self, data: Bytes, most: int) -> Flat:
        """Decode into as many bytes as there are, which may not be more than `most`."""
        stored = self._undo(data, self.sizes(most, exact=False), None, fresh)
        if stored.size > most:
            raise CorruptError(f"{stored.size:,} bytes stored, {most:,} expected at the most")
        return stored

    def _undo(self, data: Bytes, sizes: list[tuple[int, bool]], out: Flat | None, scratch: Scratch) -> Flat:
        """Undo all stages; the last one may write to `out`, where that is given."""
        stored: Flat = np.frombuffer(data, np.uint8)
        for place in reversed(range(len(self.codec.stages))):
            stage, (size, exact) = self.codec.stages[place], sizes[place]
            room = by_turns(scratch, place)("decoded", size)[:size] if place or out is None else out
            try:
                stored = _DECODERS[stage.name](_Job(stored, room, exact, stage, self.dtype))
            except _FAILURES as error:
                raise CorruptError(f"{stage.name}: {_one_line(error)}") from error
            if stored.size != size if exact else stored.size > size:
                raise CorruptError(f"{stage.name}: {stored.size:,} bytes decoded, {size:,} expected")
        return stored

    def encode(self, data: Flat, room: Flat | None = None, scratch: Scratch = fresh) -> Flat:
        """What is stored for a unit; with `room`, which begins with it and goes on, that may take its place."""
        result = data
        for place, stage in enumerate(self.codec.stages):
            if stage.name in FILTERS:
                # Filters tell floats from integers by the array's type.
                elements: Any = result.view(self.dtype) if result is data else result
                with np.errstate(all="ignore"):
                    result = np.ascontiguousarray(numcodec(stage, self.dtype).encode(elements))
            else:
                flat = result.reshape(-1).view(np.uint8)
                result = ENCODERS[stage.name](Work(flat, room, by_turns(scratch, place), stage, self.dtype))
        return result.reshape(-1).view(np.uint8)


def trial(codec: Codec, dtype: np.dtype[Any]) -> None:
    """Encode and decode a few zeros; ValueError where stages do not fit the type or each other."""
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


# ---------------------------------------------------------------- decoders
@dataclass(frozen=True, slots=True)
class _Job:
    """Bytes to decode, and what is known of the result."""

    data: Flat
    """What is stored."""
    out: Flat
    """Room for the result; decoders may also return another array."""
    exact: bool
    """Whether the result must fill the room."""
    stage: Stage
    """Which codec."""
    dtype: np.dtype[Any]
    """Type of the array's elements."""

    @property
    def codec(self) -> Any:
        return numcodec(self.stage, self.dtype)

    @property
    def width(self) -> int:
        """Bytes of an element for shuffling."""
        return int(self.stage.get("elementsize", self.dtype.itemsize))

    def fits(self, size: int, *, more: int = 0) -> bool:
        """Whether a result of `size` bytes, stored with some more, is what was expected."""
        return size == self.out.size + more if self.exact else size <= self.out.size + more

    def declared(self, size: int) -> None:
        """Compare the size that a header declares."""
        if not self.fits(size):
            raise ValueError(f"the header says {size:,} bytes, {self.out.size:,} expected")


def _unblosc(job: _Job) -> Flat:
    nbytes = read_header(job.data[:HEADER_BYTES].tobytes(), job.data.size).nbytes
    job.declared(nbytes)
    job.codec.decode(job.data, job.out[:nbytes])
    return job.out[:nbytes]


def _unzstd(job: _Job) -> Flat:
    size = zstd_size(job.data)
    if size is not None:
        job.declared(size)
    elif not job.exact:
        raise ValueError("a frame that does not say its size, inside another compressor")
    target = job.out if size is None else job.out[:size]
    # With a destination the library neither allocates nor writes more than that.
    job.codec.decode(job.data, target)
    return target


def zstd_size(data: Flat) -> int | None:
    """Content size that a zstd frame declares (RFC 8878, 3.1.1.1); None if it declares none."""
    head = data[:18].tobytes()
    if len(head) < 6 or head[:4] != b"\x28\xb5\x2f\xfd":
        raise ValueError("not a zstd frame")
    single, dictionary, flag = head[4] >> 5 & 1, (0, 1, 2, 4)[head[4] & 3], head[4] >> 6
    width = (single, 2, 4, 8)[flag]
    start = 5 + (not single) + dictionary
    if not width:
        return None
    if len(head) < start + width:
        raise ValueError("the frame header is cut")
    return int.from_bytes(head[start : start + width], "little") + (256 if width == 2 else 0)


def _unlz4(job: _Job) -> Flat:
    if job.data.size < 5:
        raise ValueError(f"a header of 4 bytes and data expected, {job.data.size} bytes stored")
    size = int.from_bytes(job.data[:4].tobytes(), "little")
    job.declared(size)
    job.codec.decode(job.data, job.out[:size])
    return job.out[:size]


def _unzlib(job: _Job) -> Flat:
    return _inflate(job, Container.ZLIB, several=False)


def _ungzip(job: _Job) -> Flat:
    return _inflate(job, Container.GZIP, several=True)


def _inflate(job: _Job, container: Container, *, several: bool) -> Flat:
    if job.exact and decompress(job.data, job.out, container):
        return job.out
    return _stream(lambda: zlib.decompressobj(container.window), job, several=several)


def _unbz2(job: _Job) -> Flat:
    return _stream(bz2.BZ2Decompressor, job, several=True)


def _unlzma(job: _Job) -> Flat:
    container = job.stage.get("format", lzma.FORMAT_XZ)
    if container == lzma.FORMAT_RAW:
        filters = job.stage.get("filters")
        return _stream(lambda: lzma.LZMADecompressor(container, None, filters), job, several=False)
    return _stream(lambda: lzma.LZMADecompressor(container, _LZMA_BYTES), job, several=True)


def _stream(new: Callable[[], Any], job: _Job, *, several: bool) -> Flat:
    """Run decoders of the standard library, which can stop early, straight into the room."""
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
        # Streams may follow each other, and end in zeros.
        if position == len(view) or (several and not np.any(job.data[position:])):
            return job.out[:made]
        if not several:
            raise ValueError(f"{len(view) - position:,} bytes after the end of the stream")


def _feed(decoder: Any, piece: Any, out: Flat, made: int) -> int:
    """Decode a piece of the input, a step of output at a time; how much there is now."""
    while True:
        wanted = min(out.size - made, _STEP_BYTES) + 1
        part = decoder.decompress(piece, wanted)
        if len(part) > out.size - made:
            raise ValueError(f"more than the {out.size:,} bytes expected")
        out[made : made + len(part)] = np.frombuffer(part, np.uint8)
        made += len(part)
        if decoder.eof or len(part) < wanted:
            return made
        # zlib hands back what it did not take; bz2 and lzma keep it.
        piece = getattr(decoder, "unconsumed_tail", b"")


def _unshuffle(job: _Job) -> Flat:
    size = job.data.size
    if size % job.width or not job.fits(size):
        raise ValueError(f"{size:,} bytes stored, {job.out.size:,} in elements of {job.width} expected")
    return unshuffle(job.data, job.width, job.out[:size])


def _unchecksum(job: _Job) -> Flat:
    if job.data.size < SUM_BYTES or not job.fits(job.data.size, more=SUM_BYTES):
        raise ValueError(f"{job.data.size:,} bytes stored, {job.out.size + SUM_BYTES:,} expected")
    parts = np.split(job.data, [SUM_BYTES if at_start(job.stage) else job.data.size - SUM_BYTES])
    found, body = parts if at_start(job.stage) else reversed(parts)
    stored, computed = int.from_bytes(found.tobytes(), "little"), checksum(job.stage, body)
    if stored != computed:
        raise ValueError(f"checksum {stored:#010x} stored, {computed:#010x} computed")
    return body


def _unbase64(job: _Job) -> Flat:
    most = (job.out.size + 2) // 3 * 4
    if job.data.size != most if job.exact else job.data.size > most:
        raise ValueError(f"{job.data.size:,} bytes stored, {most:,} expected")
    return np.frombuffer(base64.standard_b64decode(job.data.data), np.uint8)


def _unfilter(job: _Job) -> Flat:
    expected = FILTERS[job.stage.name](job.stage, job.out.size)
    if job.data.size != expected:
        raise ValueError(f"{job.data.size:,} bytes stored, {expected:,} expected")
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(job.codec.decode(job.data)).reshape(-1).view(np.uint8)


_DECODERS: dict[str, Callable[[_Job], Flat]] = {
    "blosc": _unblosc,
    "zstd": _unzstd,
    "lz4": _unlz4,
    "zlib": _unzlib,
    "gzip": _ungzip,
    "bz2": _unbz2,
    "lzma": _unlzma,
    "shuffle": _unshuffle,
    "base64": _unbase64,
    **dict.fromkeys(CHECKSUMS, _unchecksum),
    **dict.fromkeys(FILTERS, _unfilter),
}
