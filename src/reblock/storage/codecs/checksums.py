"""32-bit checksums of chunks, computed without the interpreter's lock where possible.

fletcher32 as in HDF5 and numcodecs: with 16-bit words w₀ … wₙ₋₁, high byte first, it is A = Σ wᵢ and B = Σ (n − i)·wᵢ,
both modulo 65535. The words are arranged in rows, so that both follow from the sums of rows and columns, which numpy
computes quickly ::

    i = row · width + column      Σ i·wᵢ = width · Σ row · (sum of row) + Σ column · (sum of column)

2¹⁶ is 1 modulo 65535, so swapping the bytes of all words multiplies both sums by 256, and no byte needs to be swapped.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.model.codec import Stage
from reblock.model.store import Flat
from reblock.storage.codecs.in_place import append
from reblock.storage.codecs.registration import DecodeJob, EncodeJob, RegisteredCodec, Role, Rule, integer, one_of

#: Bytes of a checksum.
SUM_BYTES = 4
#: Words in a row, and rows that are summed at a time: sums of that many words fit into 32 bits.
_WIDTH, _ROWS = 1024, 1 << 14
_MODULUS = 0xFFFF


def checksum(stage: Stage, data: Flat) -> int:
    """The checksum that a stage adds; it is stored low byte first."""
    return _SUMS[stage.name](stage, data)


def at_start(stage: Stage) -> bool:
    """Whether the checksum comes before the bytes instead of after them."""
    usual = "start" if stage.name in ("crc32", "adler32") else "end"
    return bool(stage.get("location", usual) == "start")


def _crc32c(_: Stage, data: Flat) -> int:
    import google_crc32c

    return int(google_crc32c.value(data))


def _jenkins(stage: Stage, data: Flat) -> int:
    from numcodecs.jenkins import jenkins_lookup3

    return int(jenkins_lookup3(data, stage.get("initval", 0)))


_SUMS: dict[str, Callable[[Stage, Flat], int]] = {
    "crc32c": _crc32c,
    "crc32": lambda _, data: zlib.crc32(data.data),
    "adler32": lambda _, data: zlib.adler32(data.data),
    "jenkins_lookup3": _jenkins,
    "fletcher32": lambda _, data: fletcher32(data),
}


# -------------------------------------------------------------------- fletcher32
def fletcher32(data: Flat) -> int:
    """B in the upper half, A in the lower one."""
    words = data[: data.size & ~1].view(np.uint16)
    first, second = 0, 0
    for start in range(0, words.size, _WIDTH * _ROWS):
        piece = words[start : start + _WIDTH * _ROWS]
        total, weighted = _sums(piece)
        first, second = first + total, second + piece.size * first + weighted
    if sys.byteorder == "little":
        first, second = 256 * first, 256 * second
    if data.size & 1:
        # The last byte is the high one of a word.
        first += int(data[-1]) << 8
        second += first
    return _fold(second) << 16 | _fold(first)


def _sums(words: npt.NDArray[np.uint16]) -> tuple[int, int]:
    """Σ wᵢ and Σ (n − i)·wᵢ of some words."""
    whole = words.size - words.size % _WIDTH
    total, weighted = 0, 0
    for table in (words[:whole].reshape(-1, _WIDTH), words[whole:].reshape(1, -1)):
        rows, columns = table.sum(axis=1, dtype=np.uint32), table.sum(axis=0, dtype=np.uint32)
        number, added = table.size, int(rows.sum(dtype=np.uint64))
        places = _WIDTH * _ranked(rows) + _ranked(columns)
        total, weighted = total + added, weighted + number * total + number * added - places
    return total, weighted


def _ranked(sums: npt.NDArray[np.uint32]) -> int:
    """Σ i·sᵢ."""
    return int((sums * np.arange(sums.size, dtype=np.uint64)).sum())


def _fold(value: int) -> int:
    """Modulo 65535 as in the algorithm: a nonzero sum never becomes 0."""
    return (value - 1) % _MODULUS + 1 if value else 0


# -------------------------------------------------------------------- registrations
def _decode(job: DecodeJob) -> Flat:
    if job.data.size < SUM_BYTES or not job.fits(job.data.size, more=SUM_BYTES):
        raise ValueError(f"{job.data.size:,} bytes stored, {job.out.size + SUM_BYTES:,} expected")
    parts = np.split(job.data, [SUM_BYTES if at_start(job.stage) else job.data.size - SUM_BYTES])
    found, body = parts if at_start(job.stage) else reversed(parts)
    stored, computed = int.from_bytes(found.tobytes(), "little"), checksum(job.stage, body)
    if stored != computed:
        raise ValueError(f"checksum {stored:#010x} stored, {computed:#010x} computed")
    return body


def _encode(job: EncodeJob) -> Flat:
    added = np.frombuffer(checksum(job.stage, job.data).to_bytes(SUM_BYTES, "little"), np.uint8)
    return np.concatenate([added, job.data]) if at_start(job.stage) else append(job.data, added, job.room)


def _checksum(name: str, rules: Mapping[str, Rule], idle: Mapping[str, Any]) -> RegisteredCodec:
    return RegisteredCodec(
        name, Role.CHECKSUM, _decode, _encode, rules=rules, idle=idle, size=lambda _, nbytes, __: nbytes + SUM_BYTES
    )


_LOCATION = {"location": one_of("start", "end")}
CODECS = (
    _checksum("crc32c", _LOCATION, {"location": "end"}),
    _checksum("crc32", _LOCATION, {"location": "start"}),
    _checksum("adler32", _LOCATION, {"location": "start"}),
    _checksum("jenkins_lookup3", {"initval": integer(0, 2**32 - 1)}, {"initval": 0, "prefix": None}),
    _checksum("fletcher32", {}, {}),
)
