"""LZW and PackBits, as TIFF has them, by the functions of imagecodecs; output is bounded by the unit's size."""

from __future__ import annotations

from typing import Any

import numpy as np

from reblock.errors import UsageError
from reblock.model.codec import Stage
from reblock.model.store import Flat
from reblock.storage.codecs.registration import DecodeJob, EncodeJob, RegisteredCodec, Role


def imagecodecs() -> Any:
    """The library; UsageError if it is not installed."""
    try:
        import imagecodecs
    except ImportError as error:
        raise UsageError(
            f"the codecs lzw, rle and jpeg need the module {error.name}: pip install 'reblock[tiff]'"
        ) from error
    return imagecodecs


def _decode(job: DecodeJob, name: str) -> Flat:
    found = getattr(imagecodecs(), f"{name}_decode")(job.data, out=job.out)
    return job.out[: len(found)]


def _encode(job: EncodeJob, name: str) -> Flat:
    return np.frombuffer(getattr(imagecodecs(), f"{name}_encode")(job.data), np.uint8)


def _bound(_: Stage, nbytes: int, __: np.dtype[Any]) -> int:
    """LZW may take twelve bits for each byte."""
    return nbytes + nbytes // 2 + 4096


LZW = RegisteredCodec(
    "lzw",
    Role.COMPRESSOR,
    lambda job: _decode(job, "lzw"),
    lambda job: _encode(job, "lzw"),
    size=_bound,
    in_numcodecs=False,
    copies=True,
    encoding_work=lambda _, __, unit_bytes: unit_bytes,
)
RLE = RegisteredCodec(
    "rle",
    Role.COMPRESSOR,
    lambda job: _decode(job, "packbits"),
    lambda job: _encode(job, "packbits"),
    size=_bound,
    in_numcodecs=False,
    copies=True,
)
