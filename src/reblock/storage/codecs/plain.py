"""Codecs that are calls of numcodecs or the standard library, with sizes checked before: lz4 and base64."""

from __future__ import annotations

import base64

import numpy as np

from reblock.model.codec import Stage
from reblock.model.store import Flat
from reblock.storage.codecs.registration import DecodeJob, EncodeJob, RegisteredCodec, Role, bound, integer


def _unlz4(job: DecodeJob) -> Flat:
    if job.data.size < 5:
        raise ValueError(f"a header of 4 bytes and data expected, {job.data.size} bytes stored")
    size = int.from_bytes(job.data[:4].tobytes(), "little")
    job.check_declared(size)
    job.numcodec.decode(job.data, job.out[:size])
    return job.out[:size]


def _text_bytes(_: Stage | None, nbytes: int, __: object) -> int:
    return (nbytes + 2) // 3 * 4


def _unbase64(job: DecodeJob) -> Flat:
    most = _text_bytes(None, job.out.size, None)
    if job.data.size != most if job.exact else job.data.size > most:
        raise ValueError(f"{job.data.size:,} bytes stored, {most:,} expected")
    return np.frombuffer(base64.standard_b64decode(job.data.data), np.uint8)


LZ4 = RegisteredCodec(
    "lz4",
    Role.COMPRESSOR,
    _unlz4,
    EncodeJob.by_numcodecs,
    rules={"level": integer(-(2**31), 2**31 - 1)},
    size=bound,
    max_bytes=0x7E000000,
    copies=True,
    renamed={"acceleration": "level"},
    defaults={"level": 1},
)
BASE64 = RegisteredCodec(
    "base64",
    Role.TEXT,
    _unbase64,
    EncodeJob.by_numcodecs,
    size=_text_bytes,
    copies=True,
    decoding_work=lambda _, __, unit_bytes: unit_bytes,
)
