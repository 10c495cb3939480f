"""Arrays of random bits and special values, and Hypothesis strategies for shapes, types and chunks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from reblock.geometry.grid import Cut
from reblock.model.schema import Schema

#: An array of any type.
Array = npt.NDArray[Any]

#: Types that every format should hold, in both byte orders.
DTYPES = (
    "|b1",
    *("|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8"),
    *("<f2", "<f4", "<f8", "<c8", "<c16"),
    *(">i2", ">u2", ">i4", ">u4", ">i8", ">u8"),
    *(">f2", ">f4", ">f8", ">c8", ">c16"),
)


def noise(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Array:
    """Random bits, including NaN payloads and signalling NaNs; deterministic."""
    dtype = np.dtype(dtype)
    rng = np.random.default_rng([seed, *shape])
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, shape, np.uint8), np.bool_)
    count = int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).reshape(shape).copy()


def specials(dtype: Any) -> Array:
    """Values that careless code changes: both zeros, infinities, NaNs of all kinds."""
    dtype = np.dtype(dtype)
    real = np.dtype(f"{dtype.byteorder}f{dtype.itemsize // (2 if dtype.kind == 'c' else 1)}")
    word = np.dtype(f"{dtype.byteorder}u{real.itemsize}")
    mantissa = np.finfo(real.newbyteorder("=")).nmant
    sign, top = 1 << (8 * real.itemsize - 1), (1 << (8 * real.itemsize - 1)) - (1 << mantissa)
    quiet = 1 << (mantissa - 1)
    positive = [0, 1, top, top | quiet, top | quiet | 5, top | 3]
    bits = [*positive, *(sign | one for one in positive)]
    if dtype.kind == "c":
        bits = [part for one in bits for other in (sign, top | 3, one) for part in (one, other)]
    return np.array(bits, word).view(dtype)


def same_bits(one: Array, other: Array) -> bool:
    """Whether two arrays have the same shape, type and bits."""
    return one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()


def in_byte_order(array: Array, dtype: np.dtype[Any]) -> Array:
    """The same values in another byte order, bit by bit; a cast may quiet NaNs."""
    if array.dtype == dtype:
        return array
    assert array.dtype.newbyteorder() == dtype, f"{array.dtype} and {dtype} differ by more than byte order"
    return array.byteswap().view(dtype)


def dtypes() -> st.SearchStrategy[np.dtype[Any]]:
    """Types that every format should hold."""
    return st.sampled_from(DTYPES).map(np.dtype)


def shapes(*, max_ndim: int = 4, max_side: int = 9, min_side: int = 0) -> st.SearchStrategy[tuple[int, ...]]:
    """Small shapes, including 0-d and empty ones."""
    return st.lists(st.integers(min_side, max_side), max_size=max_ndim).map(tuple)


@st.composite
def cuts(draw: st.DrawFn, length: int, *, irregular: bool = True) -> Cut:
    """Cuts of one axis: a chunk length, which may exceed the axis, or a tuple of all lengths."""
    if not irregular or length == 0 or draw(st.booleans()):
        return draw(st.integers(1, max(length, 1) + 2))
    inner = draw(st.sets(st.integers(1, length - 1), max_size=4)) if length > 1 else set()
    edges = [0, *sorted(inner), length]
    return tuple(b - a for a, b in pairwise(edges))


@st.composite
def chunks(draw: st.DrawFn, shape: tuple[int, ...], *, irregular: bool = True) -> tuple[Cut, ...]:
    """Cuts of a shape."""
    return tuple(draw(cuts(length, irregular=irregular)) for length in shape)


def orders(ndim: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Axis orders on disk."""
    return st.permutations(range(ndim)).map(tuple)


@st.composite
def schemas(draw: st.DrawFn, *, irregular: bool = True, max_ndim: int = 4, max_side: int = 9) -> Schema:
    """Schemas without a codec: any type, shape, chunking and axis order."""
    shape = draw(shapes(max_ndim=max_ndim, max_side=max_side))
    return Schema(
        shape,
        draw(dtypes()),
        draw(chunks(shape, irregular=irregular)),
        order=draw(st.sampled_from([tuple(range(len(shape))), tuple(reversed(range(len(shape))))]))
        if draw(st.booleans())
        else draw(orders(len(shape))),
    )
