"""zstd: frames, also made in the memory of the unit itself, in steps."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from reblock.model.codec import ZSTD_HIGHEST, Stage
from reblock.model.store import Decoder, Flat, Scratch
from reblock.storage.codecs.compiled import StreamBuffer, address, library, memory
from reblock.storage.codecs.in_place import STEP_BYTES, Behind
from reblock.storage.codecs.registration import DecodeJob, EncodeJob, RegisteredCodec, Role, bound, integer

_MODULE = "numcodecs.zstd"
_LEVEL, _CHECKSUM = 100, 201
_CONTINUE, _END = 0, 2


# ---------------------------------------------------------------- decoding
def _decode(job: DecodeJob) -> Flat:
    size = content_size(job.data)
    if size is not None:
        job.check_declared(size)
    elif not job.exact:
        raise ValueError("a frame that does not say its size, inside another compressor")
    target = job.out if size is None else job.out[:size]
    # With a destination, the library neither allocates nor writes beyond it.
    job.numcodec.decode(job.data, target)
    return target


def content_size(data: Flat) -> int | None:
    """Content size that a zstd frame declares (RFC 8878, 3.1.1.1); None if it declares none."""
    head = data[:18].tobytes()
    if len(head) < 6 or head[:4] != b"\x28\xb5\x2f\xfd":
        raise ValueError("not a zstd frame")
    single, dictionary, flag = head[4] >> 5 & 1, (0, 1, 2, 4)[head[4] & 3], head[4] >> 6
    width = (single, 2, 4, 8)[flag]
    start = 5 + (not single) + dictionary
    if not width:
        return None
    if len(head) < start + width:
        raise ValueError("the frame header is cut")
    return int.from_bytes(head[start : start + width], "little") + (256 if width == 2 else 0)


@cache
def _decoder() -> Decoder | None:
    decompress, measure = address(_MODULE, "ZSTD_decompress"), address(_MODULE, "ZSTD_getFrameContentSize")
    return None if decompress is None or measure is None else Decoder("zstd", (decompress, measure))


# ---------------------------------------------------------------- encoding
def _encode(job: EncodeJob) -> Flat:
    if job.room is None:
        return job.by_numcodecs()
    level, checksum = job.stage.get("level"), bool(job.stage.get("checksum"))
    found = compress(job.data, job.room, job.scratch, level, checksum=checksum)
    return job.by_numcodecs() if found is None else found


def compress(data: Flat, room: Flat, scratch: Scratch, level: int, *, checksum: bool) -> Flat | None:
    """The frame of some bytes, in `room`, which may begin with them.

    None if the library's functions cannot be found, or the room is too small.
    """
    functions = library(_MODULE)
    if functions is None or room.size < data.size + data.size // 256 + 128:
        return None
    machine = functions.ZSTD_createCCtx()
    if not machine:
        raise MemoryError
    try:
        for setting, value in ((_LEVEL, level), (_CHECKSUM, checksum)):
            _right(functions, functions.ZSTD_CCtx_setParameter(machine, setting, value))
        if room.ctypes.data != data.ctypes.data:
            return room[: _right(functions, functions.ZSTD_compress2(machine, *memory(room), *memory(data)))]
        return _compress_in_place(functions, machine, data, room, scratch)
    finally:
        functions.ZSTD_freeCCtx(machine)


def _compress_in_place(functions: Any, machine: int, data: Flat, room: Flat, scratch: Scratch) -> Flat:
    behind = Behind(room, STEP_BYTES + room.size - data.size, scratch)
    _right(functions, functions.ZSTD_CCtx_setPledgedSrcSize(machine, data.size))
    given, left = StreamBuffer(data.ctypes.data, 0, 0), 1
    while left or given.used < data.size:
        if given.used == given.size:
            given.size = min(given.size + STEP_BYTES, data.size)
        out = StreamBuffer(*memory(behind.free), 0)
        mode = _END if given.size == data.size else _CONTINUE
        left = _right(functions, functions.ZSTD_compressStream2(machine, out, given, mode))
        behind.add(out.used, given.used)
    return behind.end()


def _right(functions: Any, code: int) -> int:
    if functions.ZSTD_isError(code):
        raise RuntimeError(f"zstd fails with error {2**64 - code}")
    return code


def _in_place(stage: Stage, unit_bytes: int, *, first: bool) -> int | None:  # noqa: ARG001 - whatever the level
    if library(_MODULE) is None:
        return None
    # A step, and incompressible bytes that wait.
    return STEP_BYTES + unit_bytes // 64 if first else unit_bytes


def _encoding_state(stage: Stage, unit_bytes: int, *, in_place: bool) -> int:
    return min(_context_bytes(stage.get("level", 3), steps=in_place), 16 * unit_bytes + (64 << 10))


@cache
def _context_bytes(level: int, *, steps: bool) -> int:
    functions = library(_MODULE)
    if functions is None:
        return 1 << max(min(level, ZSTD_HIGHEST) + 8, 21)
    return int(functions.ZSTD_estimateCStreamSize(level) if steps else functions.ZSTD_estimateCCtxSize(level))


def _normalize(settings: dict[str, Any], _: np.dtype[Any]) -> None:
    if isinstance(settings["level"], int):
        settings["level"] = min(settings["level"], ZSTD_HIGHEST)


CODEC = RegisteredCodec(
    "zstd",
    Role.COMPRESSOR,
    _decode,
    _encode,
    rules={"level": integer(-(2**17), ZSTD_HIGHEST), "checksum": lambda value: value is True},
    size=bound,
    encoding_state=_encoding_state,
    in_place=_in_place,
    decoder=_decoder,
    defaults={"level": 1},
    idle={"checksum": False},
    normalize=_normalize,
)
