"""zlib and gzip streams by the fastest available library: libdeflate if it is installed, else the standard library.

Both know all sizes beforehand, release the interpreter's lock, and make streams that any zlib reads. Incompressible
data takes longest: shuffled elements start with the lowest bytes of all numbers, which are often noise, and a
compressor searches them in vain. So noise at the start is stored uncompressed ::

    header ─ stored noise, pieces of 64 KiB ─ deflate of the rest ─ checksum
"""

from __future__ import annotations

import ctypes
import zlib
from enum import Enum
from functools import cache
from typing import Any

import numpy as np

from reblock.model.store import Decoder, Flat, Scratch, fresh
from reblock.storage.codecs.compiled import address, library, memory
from reblock.storage.codecs.in_place import moved

_MODULE = "deflate._deflate"
#: libdeflate's level for each of zlib's: the fastest whose output is at most a few per cent larger.
_LEVELS = (0, 4, 4, 4, 4, 6, 7, 8, 9, 9)
#: Bytes that are examined and stored together: at most 65535, and whole words.
_PIECE_BYTES = 65528
#: Bytes of a piece whose values are counted together, and the step between the counted ones. The step has no divisor in
#: common with the size of any element.
_COUNTED_BYTES, _STEP = _PIECE_BYTES // 4, 5
#: The share of repeated values, beyond that of noise, from which on encoding is worthwhile.
_UNEVEN = 0.03
#: The most repeated words in a piece of noise: a match or two saves nothing.
_SAME_WORDS = 32
#: Words are searched in every n-th piece.
_SEARCHED = 4


class Container(Enum):
    """The container of a deflate stream: its name, and zlib's number for it."""

    ZLIB = ("zlib", 15)
    GZIP = ("gzip", 31)

    @property
    def window(self) -> int:
        """The standard library's `wbits`."""
        return self.value[1]


def _library() -> Any:
    """Libdeflate's functions; None if they are not available."""
    return library(_MODULE)


# -------------------------------------------------------------------- encoding
def most_bytes(size: int) -> int:
    """The most bytes that a stream of `size` bytes takes: no block of the library is smaller than 5,000 bytes."""
    return size + 5 * (size // 5000 + 1) + 32


def compress(data: Flat, level: int, container: Container, room: Flat | None = None, scratch: Scratch = fresh) -> Flat:
    """A stream that holds the bytes; `level` is zlib's, -1 to 9.

    It is written to `room` if that is large enough, after moving bytes that are there to scratch memory. Otherwise it
    is in memory that the library has allocated, or in scratch memory.
    """
    level = 6 if level == -1 else level
    plain = noise_bytes(data) if level else 0
    if room is None or room.size < most_bytes(data.size):
        if not plain:
            return _compress_by_module(data, level, *container.value)
        room = scratch("stored", most_bytes(data.size))
    elif np.may_share_memory(room, data):
        data = moved(data, scratch("elements", data.size))
    if not plain:
        return room[: _compress_into(data, level, *container.value, room)]
    head, tail = (np.frombuffer(part, np.uint8) for part in _frame(data, container))
    end = head.size + plain // _PIECE_BYTES * (5 + _PIECE_BYTES)
    blocks = room[head.size : end].reshape(-1, 5 + _PIECE_BYTES)
    room[: head.size] = head
    # Not the last block, stored; the length and its complement.
    blocks[:, 0] = 0
    blocks[:, 1:5] = np.array([_PIECE_BYTES, _PIECE_BYTES ^ 0xFFFF], "<u2").view(np.uint8)
    blocks[:, 5:] = data[:plain].reshape(-1, _PIECE_BYTES)
    end += _compress_into(data[plain:], level, "deflate", -15, room[end:])
    room[end : end + tail.size] = tail
    return room[: end + tail.size]


def _compress_by_module(data: Flat, level: int, name: str, window: int) -> Flat:
    """Compress with the public functions of a module, which allocate the result."""
    public = _public()
    if public is zlib:
        return np.frombuffer(zlib.compress(data.data, level, window), np.uint8)
    return np.frombuffer(getattr(public, f"{name}_compress")(data.data, _LEVELS[level]), np.uint8)


def _compress_into(data: Flat, level: int, name: str, window: int, room: Flat) -> int:
    """Compress into a large enough room; returns the number of bytes."""
    functions = _library()
    if functions is None:
        packed = _compress_by_module(data, level, name, window)
        room[: packed.size] = packed
        return packed.size
    machine = functions.libdeflate_alloc_compressor(_LEVELS[level])
    if not machine:
        raise MemoryError
    try:
        made: int = getattr(functions, f"libdeflate_{name}_compress")(machine, *memory(data), *memory(room))
    finally:
        functions.libdeflate_free_compressor(machine)
    if not made:
        raise RuntimeError(f"{data.size:,} bytes do not compress into {room.size:,}")
    return made


def _frame(data: Flat, container: Container) -> tuple[bytes, bytes]:
    """The bytes before and after a deflate stream."""
    sums = _public()
    if container is Container.ZLIB:
        return b"\x78\x5e", sums.adler32(data).to_bytes(4, "big")
    # Without a time, so that equal chunks have equal bytes.
    sizes = np.array([sums.crc32(data), data.size & 0xFFFF_FFFF], "<u4")
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff", sizes.tobytes()


@cache
def _public() -> Any:
    """The fastest module for streams and checksums: deflate if it is installed, else zlib."""
    try:
        import deflate
    except ImportError:
        return zlib
    return deflate


def noise_bytes(data: Flat) -> int:
    """The number of bytes at the start that are noise to a compressor, in whole pieces."""
    size = 0
    while size + _PIECE_BYTES <= data.size:
        piece = data[size : size + _PIECE_BYTES]
        # Values reveal most; a search for words takes longer, and its result holds for many pieces.
        if not _is_even(piece) or (not size // _PIECE_BYTES % _SEARCHED and _repeats(piece)):
            break
        size += _PIECE_BYTES
    return size


def _is_even(piece: Flat) -> bool:
    """Whether all values are about as frequent in every part of a piece, so that shorter codes gain nothing."""
    parts = piece.reshape(-1, _COUNTED_BYTES)[:, ::_STEP]
    number = parts.shape[1]
    # An unbiased estimate of how often two values are equal: 1/256 for noise.
    most = (1 + _UNEVEN) * number * (number - 1) / 256
    counts = (np.bincount(part, minlength=256) for part in parts)
    return all(int(count @ (count - 1)) <= most for count in counts)


def _repeats(piece: Flat) -> bool:
    """Whether words repeat in a piece, so that references to earlier ones save space."""
    words = np.sort(piece.view(np.uint32))
    return int(np.count_nonzero(words[1:] == words[:-1])) > _SAME_WORDS


# -------------------------------------------------------------------- decoding
def decompress(data: Flat, out: Flat, container: Container) -> bool:
    """Decode a stream; returns whether it fills `out` and nothing follows it.

    If not, the standard library can report the reason, and accepts streams in several parts.
    """
    functions = _library()
    machine = functions.libdeflate_alloc_decompressor() if functions is not None and out.size else None
    if not machine:
        return False
    taken, made = ctypes.c_size_t(), ctypes.c_size_t()
    try:
        decode = getattr(functions, f"libdeflate_{container.value[0]}_decompress_ex")
        wrong = decode(machine, *memory(data), *memory(out), taken, made)
    finally:
        functions.libdeflate_free_decompressor(machine)
    return not wrong and (taken.value, made.value) == (data.size, out.size)


@cache
def decoder(container: Container, planes: int = 0, *, checked: bool = False) -> Decoder | None:
    """The decoder of streams in C; None if libdeflate is not available.

    `planes` are those of the elements inside; `checked` streams have their fletcher32 checksum behind them.
    """
    names = ("alloc_decompressor", f"{container.value[0]}_decompress_ex", "free_decompressor")
    found = [address(_MODULE, f"libdeflate_{name}") for name in names]
    context = tuple(one for one in found if one is not None)
    return Decoder("deflate", (*context, int(checked)), planes=planes) if len(context) == len(names) else None
