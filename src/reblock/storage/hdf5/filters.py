"""HDF5's deflate, shuffle, fletcher32 and zstd filters, applied in our threads without HDF5's lock."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reblock.errors import CorruptError, FormatError
from reblock.model.codec import Codec, Stage
from reblock.model.store import Bytes, Decoder, Flat, Scratch, fresh
from reblock.storage.codecs.chain import Chain
from reblock.storage.codecs.checksums import SUM_BYTES, fletcher32
from reblock.storage.codecs.in_place import append, by_turns
from reblock.storage.codecs.shuffle import shuffle, unshuffle
from reblock.storage.codecs.zlib_streams import Container, compress, decoder, decompress
from reblock.storage.hdf5.file import library
from reblock.storage.hdf5.plugins import INSTALL, PLUGINS, ZSTD, has_plugin, stage_name

DEFLATE, SHUFFLE, FLETCHER32, LZF = 1, 2, 3, 32000
#: Names of filters in codecs; HDF5 itself applies those that are not decoded here.
NAMES = {
    DEFLATE: "gzip",
    SHUFFLE: "shuffle",
    FLETCHER32: "fletcher32",
    4: "szip",
    5: "nbit",
    6: "scaleoffset",
    LZF: "lzf",
    **{code: stage_name(code) for code in PLUGINS},
    ZSTD: "zstd",
}
_OURS = (DEFLATE, SHUFFLE, FLETCHER32, ZSTD)
#: Levels of compressors whose filter has no settings.
_DEFAULTS = {DEFLATE: 6, ZSTD: 3}
#: Filters whose setting is the level of a compressor.
LEVELS = (DEFLATE, ZSTD)


@dataclass(frozen=True, slots=True)
class Filter:
    """One filter of a dataset's pipeline."""

    code: int
    """HDF5's number of the filter."""
    value: int = 0
    """Its first setting: the level of deflate or zstd, the item size of shuffle."""


#: The filters of a dataset, in the order of encoding.
Pipeline = tuple[Filter, ...]


def read_pipeline(dcpl: Any, itemsize: int, where: str) -> Pipeline:
    """The filters of an existing dataset; filters that neither we nor HDF5 can apply are refused."""
    h5py = library()
    filters = []
    for number in range(dcpl.get_nfilters()):
        code, _, values, name = dcpl.get_filter(number)
        if code not in NAMES or not (code == ZSTD or h5py.h5z.filter_avail(code)):
            named = " ".join(name.decode("utf-8", "replace").split())[:60] or NAMES.get(code, "no name")
            known = [name for code, name in NAMES.items() if code not in PLUGINS]
            raise FormatError(
                f"{where} is encoded by HDF5 filter {code} ({named}), which is not supported; supported are "
                f"{', '.join(known)}, and with {INSTALL} {', '.join(PLUGINS.values())}: rewrite it with h5repack"
            )
        default = itemsize if code == SHUFFLE else _DEFAULTS.get(code, 6)
        value = int(values[0]) if values else default
        # Settings have no sign in HDF5, levels of zstd have one.
        filters.append(Filter(code, value - (1 << 32) if code == ZSTD and value >= 1 << 31 else value))
    return tuple(filters)


def is_ours(pipeline: Pipeline) -> bool:
    """Whether we can apply all filters of a pipeline."""
    return all(one.code in _OURS for one in pipeline)


def decoder_of(pipeline: Pipeline, itemsize: int) -> Decoder | None:
    """The decoder in C of chunks that skipped no filter: deflate, maybe with shuffle before and fletcher32 after it."""
    codes = [one.code for one in pipeline]
    checked = codes[-1:] == [FLETCHER32]
    *before, last = codes[: len(codes) - checked] or [0]
    if last != DEFLATE or before not in ([], [SHUFFLE]) or (before and pipeline[0].value != itemsize):
        return None
    return decoder(Container.ZLIB, itemsize if before and itemsize > 1 else 0, checked=checked)


def missing_filters(pipeline: Pipeline) -> list[int]:
    """Filters of a pipeline that HDF5 lacks here, so that it can read no element; we can."""
    return [one.code for one in pipeline if one.code == ZSTD and not has_plugin(ZSTD)]


def name_encoding(pipeline: Pipeline) -> str:
    """A text that is equal for pipelines whose chunks have the same bytes; "" without filters or if HDF5 encodes."""
    if not pipeline or not is_ours(pipeline):
        return ""
    plain = (NAMES[one.code] if one.code == FLETCHER32 else f"{NAMES[one.code]}:{one.value}" for one in pipeline)
    return f"hdf5 {'+'.join(plain)}"


def library_note(done: str, pipeline: Pipeline, why: str = "") -> str:
    """A note for the report if the fast path is not possible; `done` is "read" or "written"."""
    names = ", ".join(NAMES[one.code] for one in pipeline if one.code not in _OURS)
    why = why or (f"only it has filter {names}" if names else "only it handles the type or the storage")
    return f"elements are {done} through HDF5's own library, by one thread at a time: {why}"


def codec_of(pipeline: Pipeline) -> Codec:
    """A pipeline as a codec."""
    return Codec(
        tuple(Stage.of(NAMES[one.code], **({"level": one.value} if one.code in LEVELS else {})) for one in pipeline)
    )


def pipeline_of(codec: Codec, itemsize: int) -> Pipeline:
    """The pipeline of a codec that `adapt` has accepted."""
    codes = {name: code for code, name in NAMES.items()}
    values = {NAMES[code]: "level" for code in LEVELS}
    return tuple(
        Filter(codes[stage.name], stage.get(values.get(stage.name, ""), itemsize if stage.name == "shuffle" else 0))
        for stage in codec.stages
    )


def set_filters(dcpl: Any, pipeline: Pipeline) -> None:
    """Add a pipeline to the property list of a new dataset."""
    h5py = library()
    for one in pipeline:
        if one.code == DEFLATE:
            dcpl.set_deflate(one.value)
        elif one.code == SHUFFLE:
            dcpl.set_shuffle()
        elif one.code == FLETCHER32:
            dcpl.set_fletcher32()
        elif one.code == ZSTD:
            # HDF5 need not have it: chunks are encoded here.
            dcpl.set_filter(ZSTD, h5py.h5z.FLAG_OPTIONAL, (one.value % (1 << 32),))
        else:
            dcpl.set_filter(one.code, h5py.h5z.FLAG_OPTIONAL)


# -------------------------------------------------------------------- bytes
def encode(data: Flat, pipeline: Pipeline, room: Flat | None = None, scratch: Scratch = fresh) -> Flat:
    """A chunk's bytes as HDF5 would store them; with `room`, which begins with the chunk, they may replace it."""
    now = data
    for place, one in enumerate(pipeline):
        memory = by_turns(scratch, place)
        if one.code == DEFLATE:
            now = compress(now, one.value, Container.ZLIB, room, memory)
        elif one.code == ZSTD:
            now = _zstd(one.value).encode(now, room, memory)
        elif one.code == SHUFFLE:
            now = shuffle(now, one.value, memory("planes", now.size)[: now.size])
        else:
            now = append(now, np.frombuffer(_sum(now), np.uint8), room)
    return now


def decode(data: Bytes, pipeline: Pipeline, mask: int, out: Flat, scratch: Scratch = fresh) -> None:
    """Undo the filters of a chunk, except those that it skipped; bit n of the mask marks the n-th as skipped."""
    applied = [one for number, one in enumerate(pipeline) if not mask >> number & 1]
    sizes = _sizes(applied, out.size)
    now: Flat = np.frombuffer(data, np.uint8)
    for place in reversed(range(len(applied))):
        one, size = applied[place], sizes[place]
        if one.code == DEFLATE:
            now = _inflate(now, size, None if place else out, out.size, by_turns(scratch, place))
        elif one.code == ZSTD:
            now = _decompress(now, size, None if place else out, out.size, by_turns(scratch, place))
        elif one.code == SHUFFLE:
            # The last filter writes to the elements' place, the others to buffers of their own.
            now = unshuffle(now, one.value, out if not place and now.size == out.size else np.empty_like(now))
        else:
            now = _verify(now)
    if now.size != out.size:
        raise CorruptError(f"a chunk decodes to {now.size} bytes, not {out.size}")
    if now is not out:
        out[:] = now


def _sizes(applied: Sequence[Filter], size: int) -> list[int | None]:
    """The number of bytes before each filter; None if only the stream determines it."""
    sizes: list[int | None] = []
    known: int | None = size
    for one in applied:
        sizes.append(known)
        if one.code in LEVELS:
            known = None
        elif one.code == FLETCHER32 and known is not None:
            known += SUM_BYTES
    return sizes


def _inflate(data: Flat, size: int | None, out: Flat | None, elements: int, scratch: Scratch) -> Flat:
    """Inflate a stream to `size` bytes, if that is known, into `out`, if that is given."""
    if size is not None:
        room = scratch("planes", size)[:size] if out is None else out
        if decompress(data, room, Container.ZLIB):
            return room
    limit = _most_between(elements)
    machine = zlib.decompressobj()
    try:
        made = machine.decompress(data.data, limit)
    except zlib.error as error:
        raise CorruptError(f"a chunk does not inflate: {error}") from None
    if not machine.eof:
        wrong = "is cut short" if len(made) < limit else f"inflates to more than {limit} bytes"
        raise CorruptError(f"a chunk's deflate stream {wrong}")
    return np.frombuffer(made, np.uint8)


def _decompress(data: Flat, size: int | None, out: Flat | None, elements: int, scratch: Scratch) -> Flat:
    """The content of a zstd frame, `size` bytes if that is known, in `out`, if that is given."""
    if size is None:
        return _zstd().decode_some(data.data, _most_between(elements))
    room = scratch("planes", size)[:size] if out is None else out
    _zstd().decode(data.data, room)
    return room


def _zstd(level: int = 3) -> Chain:
    return Chain(Codec((Stage.of("zstd", level=level),)), np.dtype("u1"))


def _most_between(elements: int) -> int:
    """The most bytes of a chunk between two filters, a little more than its elements; it stops decompression bombs."""
    return elements + elements // 500 + 4096


def _verify(data: Flat) -> Flat:
    if data.size < SUM_BYTES:
        raise CorruptError(f"a chunk of {data.size} bytes is too short for its checksum")
    body, found = data[:-SUM_BYTES], data[-SUM_BYTES:].tobytes()
    true = _sum(body)
    # HDF5 before 1.6.3 swapped the bytes of each half on little-endian machines, and readers accept both.
    if found not in (true, _swapped(true)):
        raise CorruptError(f"a chunk's fletcher32 checksum is {true.hex()}, the stored one is {found.hex()}")
    return body


def _sum(data: Flat) -> bytes:
    return fletcher32(data).to_bytes(SUM_BYTES, "little")


def _swapped(four: bytes) -> bytes:
    return bytes((four[1], four[0], four[3], four[2]))
