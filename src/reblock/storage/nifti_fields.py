"""The fields of a NIfTI header that describe the array as a whole, read and changed in the attribute that carries it.

Only fields at fixed places are used, so this needs neither nibabel nor the format ::

    NIfTI-1 (348 bytes)     39 dim_info     76 pixdim[8]    112 slope, intercept      4-byte floats
    NIfTI-2 (540 bytes)    524 dim_info    104 pixdim[8]    176 slope, intercept      8-byte floats
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Sequence
from math import isfinite
from typing import Any, NamedTuple

#: The attribute that holds everything before the elements, as base64.
NIFTI_HEADER = "nifti_header"
#: Characters of base64 that hold a header of either version.
_HEADER_LENGTH = 720


class _Places(NamedTuple):
    """Where fields are in one version."""

    dim_info: int
    pixdim: int
    slope: int
    number: str


_VERSIONS = {348: _Places(39, 76, 112, "f"), 540: _Places(524, 104, 176, "d")}


def slope_and_intercept(value: Any) -> tuple[float, float] | None:
    """Slope and intercept in a header, (1, 0) if it says that there is no scaling; None if it is no header."""
    found = _header(value)
    if found is None:
        return None
    data, places, order, _ = found
    slope, intercept = struct.unpack_from(f"{order}2{places.number}", data, places.slope)
    return (slope, intercept) if slope and isfinite(slope) and isfinite(intercept) else (1.0, 0.0)


def turned_header(value: Any, axes: Sequence[int], *, placed: bool) -> Any:
    """The header of the array whose axes are transposed: steps and directions of encoding follow their axes.

    If the array is placed in space, steps of the first three belong to its affines, which are turned as a whole.
    """
    found = _header(value)
    if found is None or len(axes) > 7:
        return value
    data, places, order, rest = found
    form = f"{order}8{places.number}"
    steps = struct.unpack_from(form, data, places.pixdim)
    made = [*steps]
    made[1 : 1 + len(axes)] = [steps[1 + axis] for axis in axes]
    if placed:
        made[1:4] = steps[1:4]
    struct.pack_into(form, data, places.pixdim, *made)
    data[places.dim_info] = _turned_directions(data[places.dim_info], axes)
    return base64.b64encode(data).decode() + rest


def _turned_directions(packed: int, axes: Sequence[int]) -> int:
    """The axes of frequency, phase and slices, two bits each: 0 = unknown, or the number of an axis from 1 on."""
    made = packed & ~0x3F
    for shift in (0, 2, 4):
        axis = (packed >> shift & 3) - 1
        place = list(axes).index(axis) if axis in axes else axis
        made |= (place + 1 if place < 3 else 0) << shift
    return made


def _header(value: Any) -> tuple[bytearray, _Places, str, str] | None:
    """The bytes of a header, where its fields are, its byte order, and the base64 of what follows these bytes."""
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else value
    if not isinstance(text, str):
        return None
    try:
        data = bytearray(base64.b64decode(text[:_HEADER_LENGTH], validate=True))
    except (binascii.Error, ValueError):
        return None
    for order, name in (("<", "little"), (">", "big")):
        size = int.from_bytes(data[:4], name)  # type: ignore[arg-type]
        if size in _VERSIONS and len(data) >= size:
            return data, _VERSIONS[size], order, text[_HEADER_LENGTH:]
    return None
