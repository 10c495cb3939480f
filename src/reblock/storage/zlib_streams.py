"""zlib and gzip streams by the fastest library at hand: libdeflate where it is installed, else the standard library.

Both are told all sizes beforehand, hold no lock of the interpreter while they work, and make streams that any zlib
reads. What compresses worst takes longest: shuffled elements start with the lowest bytes of all numbers, which are
often noise, and a compressor searches them in vain. So what looks like noise at the start is stored as it is ::

    header ─ stored noise, pieces of 64 KiB ─ deflate of the rest ─ checksum
"""

from __future__ import annotations

import zlib
from enum import Enum
from functools import cache
from typing import Any

import numpy as np

from reblock.model.store import Bytes, Flat

#: libdeflate's level for each of zlib's: the fastest whose output is no larger, but for a few per cent.
_LEVELS = (0, 4, 4, 4, 4, 6, 7, 8, 9, 9)
#: Bytes that are looked at, and stored, together: at most 65535, and whole words.
_PIECE_BYTES = 65528
#: Bytes of a piece whose values are counted together, and every how many of them one is looked at. The step has no
#: divisor in common with the size of any element.
_COUNTED_BYTES, _STEP = _PIECE_BYTES // 4, 5
#: Repeats of values beyond those of noise, as a share, from which on they are worth to be encoded.
_UNEVEN = 0.03
#: Words of a piece that may be like another one: a match or two saves nothing.
_SAME_WORDS = 32
#: Every how many pieces words are searched.
_SEARCHED = 4
#: The library takes sizes of 32 bits.
_MOST_BYTES = (1 << 32) - 1
#: An empty last block.
_END = b"\x03\x00"


class Container(Enum):
    """What is around a deflate stream: its name, and zlib's number for it."""

    ZLIB = ("zlib", 15)
    GZIP = ("gzip", 31)

    @property
    def window(self) -> int:
        """What the standard library calls `wbits`."""
        return self.value[1]


@cache
def _library() -> Any:
    """The module deflate, a binding of libdeflate; None where it is not installed."""
    try:
        import deflate
    except ImportError:
        return None
    return deflate


# -------------------------------------------------------------------- encoding
def compress(data: Flat, level: int, container: Container) -> Bytes:
    """A stream that holds the bytes; `level` is zlib's, -1 to 9."""
    level = 6 if level == -1 else level
    plain = noise_bytes(data) if level else 0
    if not plain:
        return memoryview(_pack(data, level, *container.value))
    rest = _pack(data[plain:], level, "deflate", -15) if plain < data.size else _END
    head, tail = _frame(data, container)
    stored = plain // _PIECE_BYTES
    out = np.empty(len(head) + plain + 5 * stored + len(rest) + len(tail), np.uint8)
    out[: len(head)] = np.frombuffer(head, np.uint8)
    end = len(head) + plain + 5 * stored
    blocks = out[len(head) : end].reshape(stored, 5 + _PIECE_BYTES)
    # Not the last block, stored; the length and its complement.
    blocks[:, 0] = 0
    blocks[:, 1:5] = np.array([_PIECE_BYTES, _PIECE_BYTES ^ 0xFFFF], "<u2").view(np.uint8)
    blocks[:, 5:] = data[:plain].reshape(stored, _PIECE_BYTES)
    out[end : end + len(rest)] = np.frombuffer(rest, np.uint8)
    out[end + len(rest) :] = np.frombuffer(tail, np.uint8)
    return out.data


def _pack(data: Flat, level: int, name: str, window: int) -> Bytes:
    library = _library()
    if library is None:
        return zlib.compress(data.data, level, window)
    packed: bytearray = getattr(library, f"{name}_compress")(data, _LEVELS[level])
    return packed


def _frame(data: Flat, container: Container) -> tuple[bytes, bytes]:
    """What comes before and after a deflate stream."""
    library = _library() or zlib
    if container is Container.ZLIB:
        return b"\x78\x5e", library.adler32(data).to_bytes(4, "big")
    # No time of day: equal chunks have equal bytes.
    sizes = np.array([library.crc32(data), data.size & 0xFFFF_FFFF], "<u4")
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff", sizes.tobytes()


def noise_bytes(data: Flat) -> int:
    """How many bytes at the start are noise to a compressor, in whole pieces."""
    size = 0
    while size + _PIECE_BYTES <= data.size:
        piece = data[size : size + _PIECE_BYTES]
        # Values tell most; a search for words takes longer, and what it finds goes on for many pieces.
        if not _is_even(piece) or (not size // _PIECE_BYTES % _SEARCHED and _repeats(piece)):
            break
        size += _PIECE_BYTES
    return size


def _is_even(piece: Flat) -> bool:
    """Whether all values are about as frequent in every part of a piece, so that shorter codes gain nothing."""
    parts = piece.reshape(-1, _COUNTED_BYTES)[:, ::_STEP]
    number = parts.shape[1]
    # An estimate without bias of how often two values are the same: 1/256 for noise.
    most = (1 + _UNEVEN) * number * (number - 1) / 256
    counts = (np.bincount(part, minlength=256) for part in parts)
    return all(int(count @ (count - 1)) <= most for count in counts)


def _repeats(piece: Flat) -> bool:
    """Whether words come twice in a piece, so that references to earlier ones gain something."""
    words = np.sort(piece.view(np.uint32))
    return int(np.count_nonzero(words[1:] == words[:-1])) > _SAME_WORDS


# -------------------------------------------------------------------- decoding
def decompress(data: Flat, size: int, container: Container) -> Flat | None:
    """What a stream holds, if that is `size` bytes and nothing follows it.

    None where that is not so or not sure: the standard library can say why, and takes streams in several parts.
    """
    library = _library()
    if library is None or not 0 < size <= _MOST_BYTES:
        return None
    try:
        made: bytearray = getattr(library, f"{container.value[0]}_decompress")(data, size)
    except (library.DeflateError, ValueError):
        return None
    out: Flat = np.frombuffer(made, np.uint8)
    # The library does not say where the stream ended, but there its checksum stands.
    _, tail = _frame(out, container)
    return out if out.size == size and data[-len(tail) :].tobytes() == tail else None
