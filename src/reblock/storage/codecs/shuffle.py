"""Shuffle: regroups the bytes of all elements, first bytes first, as HDF5 and numcodecs store them.

::

    elements  a0 a1 a2 a3  b0 b1 b2 b3  c0 c1 c2 c3  r        planes  a0 b0 c0  a1 b1 c1  a2 b2 c2  a3 b3 c3  r

A rest that is not a whole element stays at the end. numpy copies one plane at a time, which is several times as fast as
one assignment of the transposed array, and releases the interpreter's lock.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reblock.model.codec import Stage
from reblock.model.store import Flat
from reblock.storage.codecs.registration import DecodeJob, EncodeJob, RegisteredCodec, Role, integer


def shuffle(data: Flat, width: int, out: Flat) -> Flat:
    """Elements of `width` bytes as planes, in `out`, which has the same size; the same array if nothing changes."""
    whole = _whole(data, width)
    if not whole:
        return data
    items, planes = data[:whole].reshape(-1, width), out[:whole].reshape(width, -1)
    for number in range(width):
        planes[number] = items[:, number]
    out[whole:] = data[whole:]
    return out


def unshuffle(data: Flat, width: int, out: Flat) -> Flat:
    """Planes as elements again, in `out`, which has the same size; the same array if nothing was regrouped."""
    whole = _whole(data, width)
    if not whole:
        return data
    planes, items = data[:whole].reshape(width, -1), out[:whole].reshape(-1, width)
    for number in range(width):
        items[:, number] = planes[number]
    out[whole:] = data[whole:]
    return out


def _whole(data: Flat, width: int) -> int:
    """Bytes of whole elements; 0 if their order cannot change."""
    count = data.size // width if width > 1 else 0
    return count * width if count > 1 else 0


def _width(stage: Stage, dtype: np.dtype[Any]) -> int:
    return int(stage.get("elementsize", dtype.itemsize))


def _decode(job: DecodeJob) -> Flat:
    size, width = job.data.size, _width(job.stage, job.dtype)
    if size % width or not job.fits(size):
        raise ValueError(f"{size:,} bytes stored, {job.out.size:,} in elements of {width} expected")
    return unshuffle(job.data, width, job.out[:size])


def _encode(job: EncodeJob) -> Flat:
    size = job.data.size
    return shuffle(job.data, _width(job.stage, job.dtype), job.scratch("planes", size)[:size])


def _size(stage: Stage, nbytes: int, dtype: np.dtype[Any]) -> int:
    if nbytes % (width := _width(stage, dtype)):
        raise ValueError(f"shuffle of {width}-byte elements does not divide a chunk of {nbytes:,} bytes")
    return nbytes


def _complete(settings: dict[str, Any], dtype: np.dtype[Any]) -> None:
    settings.setdefault("elementsize", dtype.itemsize)


CODEC = RegisteredCodec(
    "shuffle",
    Role.REORDER,
    _decode,
    _encode,
    rules={"elementsize": integer(1, 1 << 16)},
    size=_size,
    defaults={"elementsize": 4},
    typed="elementsize",
    complete=_complete,
)
