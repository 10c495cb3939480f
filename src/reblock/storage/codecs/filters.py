"""Filters: codecs that work on elements and store each of them in another form, as numcodecs has them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from reblock.model.codec import Stage
from reblock.model.store import Flat
from reblock.storage.codecs.registration import DecodeJob, EncodeJob, RegisteredCodec, Role, integer, number

_TYPE = re.compile(
    r"[<>|=]?(?:b1|[iu][1248]|f[248]|c8|c16|bool|u?int(?:8|16|32|64)|float(?:16|32|64)|complex(?:64|128))"
)


def _is_type(value: Any) -> bool:
    return isinstance(value, str) and _TYPE.fullmatch(value) is not None


def _dtype(value: Any) -> np.dtype[Any]:
    if not _is_type(value):
        raise ValueError(f"{value!r} is not a numeric type")
    return np.dtype(str(value))


def _recoded(name: str, other: str) -> Callable[[Stage, int, np.dtype[Any]], int]:
    """Size after a filter that stores each element in another type."""

    def size(stage: Stage, nbytes: int, _: np.dtype[Any]) -> int:
        decoded = _dtype(stage.get(name))
        encoded = _dtype(stage.get(other) or stage.get(name))
        if nbytes % decoded.itemsize:
            raise ValueError(f"{stage.name} of {decoded} does not divide a chunk of {nbytes:,} bytes")
        return nbytes // decoded.itemsize * encoded.itemsize

    return size


def _decode(job: DecodeJob) -> Flat:
    expected = job.codec.size(job.stage, job.out.size, job.dtype)
    if job.data.size != expected:
        raise ValueError(f"{job.data.size:,} bytes stored, {expected:,} expected")
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(job.numcodec.decode(job.data)).reshape(-1).view(np.uint8)


def _encode(job: EncodeJob) -> Any:
    """Elements in another form, as an array of their type, which tells the next filter whether they are floats."""
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(job.codec.numcodec(job.stage, job.dtype).encode(job.data))


def _working(*, wide: bool) -> Callable[[Stage, np.dtype[Any], int], int]:
    """Filters compute in whole arrays of their own: of the type they have, or of 8-byte floats."""

    def size(_: Stage, dtype: np.dtype[Any], unit_bytes: int) -> int:
        return 3 * unit_bytes * max(8 // dtype.itemsize if wide else 1, 1)

    return size


def _normalize(settings: dict[str, Any], _: np.dtype[Any]) -> None:
    if settings.get("astype", "") is None:
        del settings["astype"]


def _filter(name: str, *, wide: bool = False, **fields: Any) -> RegisteredCodec:
    work = _working(wide=wide)
    common = {"lossless": lambda _, __: False, "decoding_work": work, "encoding_work": work, "normalize": _normalize}
    return RegisteredCodec(name, Role.FILTER, _decode, _encode, **{**common, **fields})


def _keeps_delta(stage: Stage, _: np.dtype[Any]) -> bool:
    decoded, encoded = _dtype(stage.get("dtype")), _dtype(stage.get("astype") or stage.get("dtype"))
    return decoded.kind in "iu" and encoded.kind in "iu" and encoded.itemsize >= decoded.itemsize


CODECS = (
    _filter(
        "delta",
        rules={"dtype": _is_type, "astype": _is_type},
        needed=frozenset({"dtype"}),
        size=_recoded("dtype", "astype"),
        lossless=_keeps_delta,
    ),
    _filter(
        "fixedscaleoffset",
        rules={
            "offset": number,
            "scale": lambda value: number(value) and value != 0,
            "dtype": _is_type,
            "astype": _is_type,
        },
        needed=frozenset({"offset", "scale", "dtype"}),
        size=_recoded("dtype", "astype"),
        wide=True,
    ),
    _filter(
        "quantize",
        rules={"digits": integer(-300, 300), "dtype": _is_type, "astype": _is_type},
        needed=frozenset({"digits", "dtype"}),
        size=_recoded("dtype", "astype"),
        wide=True,
    ),
    _filter(
        "astype",
        rules={"encode_dtype": _is_type, "decode_dtype": _is_type},
        needed=frozenset({"encode_dtype", "decode_dtype"}),
        size=_recoded("decode_dtype", "encode_dtype"),
    ),
    _filter("bitround", rules={"keepbits": integer(0, 52)}, needed=frozenset({"keepbits"})),
    _filter(
        "packbits",
        size=lambda _, nbytes, __: 1 + (nbytes + 7) // 8,
        lossless=lambda _, dtype: dtype.kind == "b",
    ),
)
