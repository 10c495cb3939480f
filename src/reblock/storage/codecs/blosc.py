"""Blosc: frames of blocks that are compressed separately, also in the memory of the unit itself.

A frame is a header, a table of block starts, and the blocks (`blosc_frame`). Encoding groups of blocks one after the
other makes the same frame as encoding all of them at once; a large unit is encoded in place that way.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from reblock.model.codec import Stage
from reblock.model.store import Decoder, Flat, Scratch
from reblock.storage.codecs.blosc_frame import HEADER_BYTES, read_header
from reblock.storage.codecs.blosc_parts import BloscDivider
from reblock.storage.codecs.compiled import address, library, memory
from reblock.storage.codecs.in_place import STEP_BYTES, Behind
from reblock.storage.codecs.registration import DecodeJob, EncodeJob, RegisteredCodec, Role, bound, integer, one_of

_MODULE = "numcodecs.blosc"
_SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
_CNAMES = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
#: MiB that Blosc needs for its blocks, and its zstd for the tables of one block, by level from 1 on.
_MIB, _ZSTD_MIB = 4, (2, 3, 4, 5, 5, 12, 12, 12, 27)
#: The most bytes that Blosc adds to a block: its start, and the lengths of at most 16 streams.
_ADDED_BYTES = 4 + 4 * 16
#: All that it adds is at most this share of a unit, unless its blocks are unusually small.
_ADDED_SHARE = 64


# ---------------------------------------------------------------- settings
def _problem(stage: Stage) -> str:
    if stage.get("cname") != "snappy" or _has_snappy():
        return ""
    others = ", ".join(name for name in _CNAMES if name != "snappy")
    return (
        "codec blosc with snappy needs a Blosc that was built with it, and numcodecs' was not; other compressors "
        f"are {others}"
    )


@cache
def _has_snappy() -> bool:
    """Whether numcodecs' Blosc has Snappy: the published wheels lack it, builds of distributions may have it."""
    from numcodecs import blosc

    return "snappy" in blosc.list_compressors()


def _normalize(settings: dict[str, Any], dtype: np.dtype[Any]) -> None:
    """The shuffle by name; -1 = chosen by the type."""
    value = settings["shuffle"]
    if value == -1:
        settings["shuffle"] = "bitshuffle" if dtype.itemsize == 1 else "shuffle"
    elif integer(0, 2)(value):
        settings["shuffle"] = _SHUFFLES[value]


def _complete(settings: dict[str, Any], dtype: np.dtype[Any]) -> None:
    settings["shuffle"] = _SHUFFLES.index(settings["shuffle"])
    settings.setdefault("blocksize", 0)
    settings.setdefault("typesize", min(dtype.itemsize, 255))


def _prepare() -> None:
    import numcodecs.blosc

    # Blosc's own threads share a lock; the engine's threads do not.
    numcodecs.blosc.use_threads = False


# ---------------------------------------------------------------- decoding
def _decode(job: DecodeJob) -> Flat:
    nbytes = read_header(job.data[:HEADER_BYTES].tobytes(), job.data.size).nbytes
    job.check_declared(nbytes)
    job.numcodec.decode(job.data, job.out[:nbytes])
    return job.out[:nbytes]


@cache
def _decoder() -> Decoder | None:
    found = address(_MODULE, "blosc_decompress_ctx")
    return None if found is None else Decoder("blosc", (found,))


# ---------------------------------------------------------------- encoding
class BloscSettings(NamedTuple):
    """Settings in the library's form."""

    cname: str
    """Name of the compressor inside."""
    clevel: int
    """Its level."""
    shuffle: int
    """0 = none, 1 = of bytes, 2 = of bits."""
    typesize: int
    """Bytes of an element."""
    blocksize: int
    """Bytes of a block; 0 = the library chooses."""


def _encode(job: EncodeJob) -> Flat:
    if job.room is None:
        return job.by_numcodecs()
    settings = job.codec.config(job.stage, job.dtype)
    named = BloscSettings(**{name: settings[name] for name in BloscSettings._fields})
    found = compress(job.data, job.room, job.scratch, named)
    return job.by_numcodecs() if found is None else found


def compress(data: Flat, room: Flat, scratch: Scratch, settings: BloscSettings) -> Flat | None:
    """The frame of some bytes, in `room`, which may begin with them.

    None if the library's functions cannot be found, the room is too small, or blocks do not fit into steps.
    """
    functions = library(_MODULE)
    if functions is None or room.size < data.size + HEADER_BYTES:
        return None
    if room.ctypes.data != data.ctypes.data:
        return _frame(functions, data, room[: data.size + HEADER_BYTES], settings)
    return _compress_in_place(functions, data, room, scratch, settings)


def _frame(functions: Any, data: Flat, room: Flat, settings: BloscSettings) -> Flat:
    """A frame; uncompressed if there is no room for anything else."""
    name, level, shuffle, typesize, blocksize = settings
    sizes = (level, shuffle, typesize, data.size)
    made = functions.blosc_compress_ctx(*sizes, data.ctypes.data, *memory(room), name.encode(), blocksize, 1)
    if made <= 0:
        raise RuntimeError(f"Blosc does not encode {data.size:,} bytes: error {made}")
    return room[:made]


def _compress_in_place(
    functions: Any, data: Flat, room: Flat, scratch: Scratch, settings: BloscSettings
) -> Flat | None:
    size = data.size
    if not settings.clevel or size < 2 * STEP_BYTES or room.size >= 1 << 31:
        return None
    # The size of a block does not depend on their number, if there are several.
    out = scratch("group", 2 * STEP_BYTES + size // _ADDED_SHARE)
    first = _frame(functions, data[:STEP_BYTES], out, settings)
    like = read_header(first[:HEADER_BYTES].tobytes(), first.size)
    block = like.block_bytes
    blocks = -(-size // block)
    added = HEADER_BYTES + blocks * _ADDED_BYTES
    if like.is_raw or 2 * block > STEP_BYTES or size + added > room.size:
        return None
    group, starts, end = STEP_BYTES // block * block, np.empty(blocks, "<u4"), HEADER_BYTES + 4 * blocks
    # The rest that is not a whole group joins the last one.
    # The frame that has shown the size of blocks is that of the first group, unless it has to move.
    known = group == STEP_BYTES and out.size >= 2 * STEP_BYTES + added
    behind, out = Behind(room, 2 * STEP_BYTES + added, scratch), scratch("group", 2 * STEP_BYTES + added)
    behind.add(end, 0)
    for start in range(0, size // group * group, group):
        stop = size if size - start < 2 * group else start + group
        is_first = known and not start and stop == group
        made = first if is_first else _frame(functions, data[start:stop], out, settings)
        one, many = start // block, -(-(stop - start) // block)
        head = HEADER_BYTES + 4 * many
        starts[one : one + many] = made[HEADER_BYTES:head].view("<u4") + (end - head)
        behind.put(made[head:], stop)
        end += made.size - head
    made = behind.end()
    header = like._replace(width=settings.typesize, nbytes=size, stored_bytes=end)
    made[:HEADER_BYTES] = np.frombuffer(header.pack(), np.uint8)
    made[HEADER_BYTES : HEADER_BYTES + 4 * blocks] = starts.view(np.uint8)
    return made


def _in_place(stage: Stage, unit_bytes: int, *, first: bool) -> int | None:
    if library(_MODULE) is None:
        return None
    if not first:
        return unit_bytes
    # Blocks of a given size may be too small for their additions, or too large for a step.
    if stage.get("level", 0) < 1 or stage.get("blocksize", 0) or unit_bytes >= 1 << 30:
        return None
    # Two groups of blocks twice, and incompressible bytes that wait.
    return 4 * STEP_BYTES + unit_bytes // _ADDED_SHARE


def _encoding_state(stage: Stage, unit_bytes: int, *, in_place: bool) -> int:  # noqa: ARG001 - the same
    level = min(max(stage.get("level", 5), 1), 9)
    if stage.get("cname") != "zstd":
        return min(_MIB << 20, 3 * unit_bytes // 2)
    # High levels search a small block in tables that are much larger than the block.
    most = 20 * unit_bytes if level >= 6 else 3 * unit_bytes // 2
    return min(_ZSTD_MIB[level - 1] << 20, most)


CODEC = RegisteredCodec(
    "blosc",
    Role.COMPRESSOR,
    _decode,
    _encode,
    rules={
        "cname": one_of(*_CNAMES),
        "level": integer(0, 9),
        "shuffle": one_of(*_SHUFFLES),
        "blocksize": integer(0, 2**31 - 1),
        "typesize": integer(1, 255),
    },
    problem=_problem,
    size=bound,
    max_bytes=2**31 - 17,
    encoding_state=_encoding_state,
    in_place=_in_place,
    decoder=_decoder,
    divide=BloscDivider(),
    renamed={"clevel": "level"},
    defaults={"cname": "lz4", "level": 5, "shuffle": 1},
    idle={"blocksize": 0},
    typed="typesize",
    normalize=_normalize,
    complete=_complete,
    prepare=_prepare,
)
