"""Predictor: stores differences between neighbours of a row, as TIFF does before it compresses.

::

    horizontal   a b c d        a  b-a  c-b  d-c                each sample of a pixel by itself, modulo the type
    floating     bytes of a row, most significant bytes first, and then differences between neighbouring bytes

Both keep every bit. A row has `width` pixels of `samples` elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.model.codec import Stage
from reblock.model.store import Flat
from reblock.storage.codecs.registration import DecodeJob, EncodeJob, RegisteredCodec, Role, integer, one_of

HORIZONTAL, FLOATING = "horizontal", "floating"
#: The longest row in pixels.
_MAX_WIDTH = (1 << 32) - 1


def usual_kind(dtype: np.dtype[Any]) -> str:
    """The predictor that fits a type: differences of bytes for floating point numbers."""
    return FLOATING if dtype.kind == "f" else HORIZONTAL


def _words(stage: Stage, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The unsigned integers in which differences are computed."""
    if stage.get("kind") == FLOATING:
        return np.dtype(np.uint8)
    return np.dtype(f"u{dtype.itemsize}").newbyteorder(dtype.byteorder)


def _row_bytes(stage: Stage, dtype: np.dtype[Any]) -> int:
    return int(stage.get("width")) * int(stage.get("samples")) * dtype.itemsize


def _rows(flat: Flat, stage: Stage, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Bytes as an array of rows, neighbours, and samples that are not compared with each other."""
    return flat.view(_words(stage, dtype)).reshape(flat.size // _row_bytes(stage, dtype), -1, int(stage.get("samples")))


def _planes(flat: Flat, stage: Stage, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Bytes in rows of planes as an array of rows, elements and the bytes of an element, in the order of the type."""
    planes = flat.reshape(flat.size // _row_bytes(stage, dtype), dtype.itemsize, -1)
    little = dtype.byteorder == "<" or (dtype.byteorder == "=" and np.little_endian)
    return (planes[:, ::-1] if little else planes).transpose(0, 2, 1)


def _decode(job: DecodeJob) -> Flat:
    size = job.out.size
    if job.data.size != size:
        raise ValueError(f"{job.data.size:,} bytes stored, {size:,} expected")
    if not size:
        return job.out
    stage, dtype = job.stage, job.dtype
    native = _words(stage, dtype).newbyteorder("=")
    found = np.add.accumulate(_rows(job.data, stage, dtype), axis=1, dtype=native)
    if stage.get("kind") == FLOATING:
        job.out.reshape(found.shape[0], -1, dtype.itemsize)[...] = _planes(found.reshape(-1), stage, dtype)
    else:
        _rows(job.out, stage, dtype)[...] = found
    return job.out


def _encode(job: EncodeJob) -> Flat:
    stage, dtype, size = job.stage, job.dtype, job.data.nbytes
    data = job.data.reshape(-1).view(np.uint8)
    out = job.scratch("differences", size)[:size]
    if not size:
        return out
    if stage.get("kind") == FLOATING:
        moved = np.empty(size, np.uint8)
        _planes(moved, stage, dtype)[...] = data.reshape(size // _row_bytes(stage, dtype), -1, dtype.itemsize)
        data = moved
    rows, found = _rows(data, stage, dtype), _rows(out, stage, dtype)
    found[:, :1] = rows[:, :1]
    np.subtract(rows[:, 1:], rows[:, :-1], out=found[:, 1:])
    return out


def _size(stage: Stage, nbytes: int, dtype: np.dtype[Any]) -> int:
    if nbytes % _row_bytes(stage, dtype):
        raise ValueError(f"rows of {_row_bytes(stage, dtype):,} bytes do not divide a chunk of {nbytes:,} bytes")
    return nbytes


CODEC = RegisteredCodec(
    "predictor",
    Role.FILTER,
    _decode,
    _encode,
    rules={
        "kind": one_of(HORIZONTAL, FLOATING),
        "width": integer(1, _MAX_WIDTH),
        "samples": integer(1, 65535),
    },
    needed=frozenset({"kind", "width", "samples"}),
    size=_size,
    in_numcodecs=False,
    decoding_work=lambda _, __, unit_bytes: 2 * unit_bytes,
    encoding_work=lambda _, __, unit_bytes: 2 * unit_bytes,
)
