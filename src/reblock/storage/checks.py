"""Checks of metadata before anything is allocated, the same for all formats.

What a file says about itself may be wrong or hostile. Each check raises a FormatError that names the place, the value
and the limit, or returns the value in the types of the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from reblock.errors import FormatError
from reblock.geometry.grid import Cut
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import read_whole

#: The most axes of an array.
MAX_RANK = 32
#: Arrays, chunks and files are smaller than this, since offsets are signed 64-bit integers.
MAX_BYTES = 1 << 63
#: The largest element; a fill value of this size is allocated, whatever the shape.
MAX_ITEM_BYTES = 1 << 20
#: The largest metadata document in bytes.
MAX_JSON_BYTES = 8 << 20
#: The most values in a metadata document; each takes a few hundred bytes of memory, and three in the text.
MAX_JSON_VALUES = 500_000
#: The deepest nesting of a metadata document.
MAX_JSON_DEPTH = 64
#: The most digits of an integer in a metadata document; the largest double has as many.
MAX_JSON_DIGITS = 309
#: Kinds of numbers, as in `dtype.kind`.
NUMBERS = "biufc"
#: Kinds whose elements are opaque bytes of one size, including text, dates and durations.
OPAQUE = "SUVmM"


def show(value: Any) -> str:
    """A value as short text for a message."""
    if isinstance(value, int) and abs(value) >= 1 << 1024:
        return f"an integer of {value.bit_length():,} bits"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text):,} characters)"


# ---------------------------------------------------------------- shapes and chunks
def check_integer(value: Any, *, what: str, where: str, least: int = 0) -> int:
    """A whole number below 2**63; neither bool nor float."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise FormatError(f"{where}: {what} must be an integer, not {show(value)}")
    if not least <= value < MAX_BYTES:
        raise FormatError(f"{where}: {what} must be from {least} to 2**63 - 1, not {show(int(value))}")
    return int(value)


def check_shape(value: Any, *, where: str, itemsize: int = 1) -> tuple[int, ...]:
    """The lengths of the axes of an array that fits into 2**63 bytes."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise FormatError(f"{where}: the shape must be a list of integers, not {show(value)}")
    if len(value) > MAX_RANK:
        raise FormatError(f"{where}: {len(value)} axes are more than the {MAX_RANK} that are supported")
    shape = tuple(check_integer(n, what="a length in the shape", where=where) for n in value)
    # An empty axis must not hide an overflow of the others' product.
    _check_bytes(shape, itemsize, what=f"shape {list(shape)}", where=where)
    return shape


def check_chunks(
    value: Any, shape: tuple[int, ...], itemsize: int, *, where: str, what: str = "chunks", irregular: bool = False
) -> tuple[Cut, ...]:
    """Per axis a chunk length, or with `irregular` also a list of all lengths."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise FormatError(f"{where}: {what} must be a list with one entry per axis, not {show(value)}")
    if len(value) != len(shape):
        raise FormatError(f"{where}: {what} {show(list(value))} have {len(value)} axes, the shape has {len(shape)}")
    cuts = tuple(
        _check_cut(cut, length, what=what, where=where, irregular=irregular)
        for cut, length in zip(value, shape, strict=True)
    )
    largest = tuple(cut if isinstance(cut, int) else max(cut, default=1) for cut in cuts)
    _check_bytes(largest, itemsize, what=f"a chunk of {list(largest)}", where=where)
    return cuts


def check_order(value: Any, ndim: int, *, where: str) -> tuple[int, ...]:
    """A permutation of the axes."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise FormatError(f"{where}: the axis order must be a list of axes, not {show(value)}")
    order = tuple(check_integer(axis, what="an axis of the order", where=where) for axis in value)
    if sorted(order) != list(range(ndim)):
        raise FormatError(f"{where}: the axis order must be a permutation of 0..{ndim - 1}, not {show(list(order))}")
    return order


def _check_cut(cut: Any, length: int, *, what: str, where: str, irregular: bool) -> Cut:
    if not irregular or not isinstance(cut, list | tuple):
        return check_integer(cut, what=f"a length in {what}", where=where, least=1)
    lengths = tuple(check_integer(n, what=f"a length in {what}", where=where, least=1) for n in cut)
    if sum(lengths) != length:
        raise FormatError(f"{where}: {what} {show(list(lengths))} add up to {sum(lengths)}, the axis has {length}")
    return lengths


def _check_bytes(lengths: tuple[int, ...], itemsize: int, *, what: str, where: str) -> None:
    size = prod(max(n, 1) for n in lengths) * itemsize
    if size >= MAX_BYTES:
        raise FormatError(f"{where}: {what} × {itemsize} bytes is {show(size)} bytes, the limit is 2**63 - 1")


# ---------------------------------------------------------------- types
def dtype_problem(dtype: np.dtype[Any], kinds: str = NUMBERS + OPAQUE) -> str | None:
    """The reason why elements of a type cannot be moved as plain bytes, or None."""
    if dtype.hasobject:
        return f"{dtype} holds Python objects, which are not bytes"
    if dtype.fields is not None or dtype.subdtype is not None:
        return f"{show(dtype.descr)} is a structured type; only plain elements are supported"
    if dtype.kind not in kinds or dtype != np.dtype(dtype.str):
        return (
            f"{dtype} is not supported; plain numbers and fixed-size bytes are"
            if kinds != NUMBERS
            else (f"{dtype} is not supported here; plain numbers are")
        )
    if dtype.itemsize > MAX_ITEM_BYTES:
        return f"{dtype.str} has elements of {dtype.itemsize:,} bytes, the limit is {MAX_ITEM_BYTES:,}"
    return None if dtype.itemsize else f"{dtype.str} has elements of 0 bytes"


def check_dtype(value: Any, *, where: str, kinds: str = NUMBERS + OPAQUE) -> np.dtype[Any]:
    """A type, or the type with a numpy name, if its elements are plain bytes."""
    try:
        if not isinstance(value, str | np.dtype):
            raise TypeError
        dtype = np.dtype(value)
    except (TypeError, ValueError, SyntaxError, RecursionError, OverflowError):
        raise FormatError(f"{where}: {show(value)} is not a type that numpy knows, such as '<f4'") from None
    if problem := dtype_problem(dtype, kinds):
        raise FormatError(f"{where}: {problem}")
    return dtype


# ---------------------------------------------------------------- JSON
def load_json(path: str, roots: Roots | None = None, *, medium: Medium = LOCAL) -> dict[str, Any]:
    """The JSON object in a metadata file; ExternalError if links lead out of its roots."""
    return parse_json(read_whole(medium, path, limit_bytes=MAX_JSON_BYTES, roots=roots), where=path)


def parse_json(data: bytes | bytearray | memoryview, *, where: str) -> dict[str, Any]:
    """Parse a JSON object within limits of size, depth and digits."""
    if len(data) > MAX_JSON_BYTES:
        raise FormatError(f"{where}: {len(data):,} bytes of JSON are more than the limit of {MAX_JSON_BYTES:,}")
    text = bytes(data)
    # Every value except the first follows a comma, a colon or an opening bracket; those inside text also count.
    if (values := sum(map(text.count, (b",", b":", b"[", b"{")))) > MAX_JSON_VALUES:
        raise FormatError(f"{where}: up to {values:,} values of JSON are more than the limit of {MAX_JSON_VALUES:,}")

    def integer(digits: str) -> int:
        if len(digits) > MAX_JSON_DIGITS:
            raise FormatError(f"{where}: an integer of {len(digits):,} digits, the limit is {MAX_JSON_DIGITS}")
        return int(digits)

    too_deep = f"{where}: JSON is nested deeper than {MAX_JSON_DEPTH} levels"
    try:
        value = json.loads(text, parse_int=integer)
    except RecursionError:
        raise FormatError(too_deep) from None
    except ValueError as error:
        raise FormatError(f"{where}: not valid JSON: {error}") from None
    if _depth_exceeds(value, MAX_JSON_DEPTH):
        raise FormatError(too_deep)
    if not isinstance(value, dict):
        raise FormatError(f"{where}: expected a JSON object, not {show(value)}")
    return value


def check_keys(document: Mapping[str, Any], keys: Sequence[str], *, where: str) -> None:
    """Raise FormatError if a key is missing."""
    if missing := [key for key in keys if key not in document]:
        raise FormatError(f"{where}: {', '.join(map(repr, missing))} missing, there are {show(sorted(document))}")


def _depth_exceeds(value: Any, limit: int) -> bool:
    """Whether containers are nested deeper than `limit`; iterative, so that depth needs no stack."""
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
