"""Digest: the same text for the same elements, however an array is cut, ordered and stored.

Every 32-bit word of every element is scrambled with its position in the array, and the results are added up. The order
of addition does not matter, so any thread can add pieces at any time, and so can several runs:

    sums(whole) = sums(piece 1) + sums(piece 2) + …        digest = hash(type, shape, sums)

The formula is in `digest.h`, and with its guarantees in docs/reference/digest.md. The compiled loop and numpy
compute the same; numpy is used where the loop was not built.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.engine.native import address, component, library
from reblock.engine.view import Array
from reblock.model import Sums

Words = npt.NDArray[np.uint32]
Longs = npt.NDArray[np.uint64]

#: Prefix of digests; another formula gets another prefix.
VERSION = "rb1"
#: Bytes of elements that numpy processes at a time, which bounds its temporary memory.
_BLOCK_BYTES = 1 << 18


def sums(array: Array, origin: Sequence[int], shape: Sequence[int]) -> Sums:
    """Digest sums of the elements of a box that starts at `origin` in an array of `shape`."""
    compiled = library()
    if compiled is None:
        return reference_sums(array, origin, shape)
    place = np.array([array.shape, array.strides, origin, shape], np.int64)
    found = np.zeros(2, np.uint64)
    rows = (address(row) for row in place)
    if compiled.reblock_digest(
        array.ndim, array.itemsize, component(array.dtype), address(array), *rows, address(found)
    ):
        raise RuntimeError("the compiled engine refused the arguments of digest")
    return Sums(*found.tolist())


def text(sums: Sums, dtype: np.dtype[Any], shape: Sequence[int]) -> str:
    """The digest of an array, from the sums of all its elements; byte order makes no difference."""
    header = f"{VERSION} {dtype.str[1:]} {','.join(map(str, shape))}\n".encode()
    data = header + b"".join(part.to_bytes(8, "little") for part in sums)
    return f"{VERSION}-{hashlib.blake2b(data, digest_size=16).hexdigest()}"


def reference_sums(array: Array, origin: Sequence[int], shape: Sequence[int]) -> Sums:
    """The result of `sums`, computed by numpy."""
    if not array.size:
        return Sums()
    if array.nbytes > _BLOCK_BYTES and array.size > 1:
        axis = int(np.argmax(array.shape))
        half = array.shape[axis] // 2
        one, other = np.split(array, [half], axis)
        behind = [x + half * (a == axis) for a, x in enumerate(origin)]
        return reference_sums(one, origin, shape) + reference_sums(other, behind, shape)
    words = _words(array)
    positions = _indices(array.shape, origin, shape)[:, None] * words.shape[1] + np.arange(words.shape[1], dtype="u8")
    first, second = _scrambled(words, positions)
    return Sums(int(first.sum(dtype="u8")), int(second.sum(dtype="u8")))


def _words(array: Array) -> Words:
    """Elements in C order, each a row of little-endian words."""
    # As opaque bytes, so that no conversion changes them.
    data = np.ascontiguousarray(array.view(f"V{array.itemsize}")).reshape(-1).view("u1").reshape(array.size, -1)
    if width := component(array.dtype):
        data = data.reshape(array.size, -1, width)[:, :, ::-1].reshape(array.size, -1)
    padded = np.zeros((array.size, -(-array.itemsize // 4) * 4), "u1")
    padded[:, : array.itemsize] = data
    return padded.view("<u4").astype(np.uint32, copy=False)


def _indices(part: Sequence[int], origin: Sequence[int], shape: Sequence[int]) -> Longs:
    """Linear index of each element of a box, in C order."""
    found: Longs = np.zeros((), "u8")
    for count, start, length in zip(part, origin, shape, strict=True):
        found = np.add.outer(found * np.uint64(length), np.arange(start, start + count, dtype="u8"))
    return found.reshape(-1)


def _scrambled(words: Words, positions: Longs) -> tuple[Words, Words]:
    """The two terms that each word adds to the sums."""
    z = ((positions >> 32) + 1) * 0x9E3779B97F4A7C15
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9
    z = (z ^ z >> 27) * 0x94D049BB133111EB
    z ^= z >> 31
    low = positions.astype("u4")
    key1 = low * 0x9E3779B1 + z.astype("u4")
    key2 = low * 0x85EBCA77 + (z >> 32).astype("u4")
    return (
        _scramble(words ^ key1, key2, 16, 0x21F0AAAD, 0xD35A2D97),
        _scramble(words ^ key2, key1, 15, 0xD168AAAD, 0xAF723597),
    )


def _scramble(x: Words, key: Words, shift: int, m: int, n: int) -> Words:
    x ^= x >> shift
    x *= m
    x ^= x >> 15
    x += key
    x *= n
    x ^= x >> 15
    return x
