"""HDF5's own filters in our threads: deflate, shuffle and fletcher32, without HDF5's lock around them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reblock.errors import CorruptError, FormatError
from reblock.model.codec import Codec, Stage
from reblock.model.store import Bytes, Flat
from reblock.storage.hdf5_file import library

DEFLATE, SHUFFLE, FLETCHER32, LZF = 1, 2, 3, 32000
#: Filters by the names that codecs use; what is not decoded here HDF5 applies itself.
NAMES = {
    DEFLATE: "gzip",
    SHUFFLE: "shuffle",
    FLETCHER32: "fletcher32",
    4: "szip",
    5: "nbit",
    6: "scaleoffset",
    LZF: "lzf",
}
_OURS = (DEFLATE, SHUFFLE, FLETCHER32)
#: Bytes that fletcher32 appends.
_SUM = 4


@dataclass(frozen=True, slots=True)
class Filter:
    """One filter of a dataset's pipeline."""

    code: int
    """HDF5's number of the filter."""
    value: int = 0
    """Its first setting: the level of deflate, the item size of shuffle."""


#: The filters of a dataset, in the order of encoding.
Pipeline = tuple[Filter, ...]


def read_pipeline(dcpl: Any, itemsize: int, where: str) -> Pipeline:
    """The filters of an existing dataset; those that neither we nor HDF5 itself can apply are refused."""
    h5py = library()
    filters = []
    for number in range(dcpl.get_nfilters()):
        code, _, values, name = dcpl.get_filter(number)
        if code not in NAMES or not h5py.h5z.filter_avail(code):
            named = " ".join(name.decode("utf-8", "replace").split())[:60] or NAMES.get(code, "no name")
            raise FormatError(
                f"{where} is encoded by HDF5 filter {code} ({named}), a plugin that is not loaded; "
                f"known are {', '.join(NAMES.values())}: rewrite it with h5repack"
            )
        default = itemsize if code == SHUFFLE else 6
        filters.append(Filter(code, int(values[0]) if values else default))
    return tuple(filters)


def is_ours(pipeline: Pipeline) -> bool:
    """Whether all filters of a pipeline run here."""
    return all(one.code in _OURS for one in pipeline)


def codec_of(pipeline: Pipeline) -> Codec:
    """A pipeline in the words that all formats share."""
    return Codec(
        tuple(
            Stage.of("gzip", level=one.value) if one.code == DEFLATE else Stage.of(NAMES[one.code]) for one in pipeline
        )
    )


def pipeline_of(codec: Codec, itemsize: int) -> Pipeline:
    """The pipeline of a codec that `adapt` has accepted."""
    codes = {name: code for code, name in NAMES.items()}
    values = {"gzip": "level"}
    return tuple(
        Filter(codes[stage.name], stage.get(values.get(stage.name, ""), itemsize if stage.name == "shuffle" else 0))
        for stage in codec.stages
    )


def set_filters(dcpl: Any, pipeline: Pipeline) -> None:
    """Put a pipeline into the property list of a new dataset."""
    h5py = library()
    for one in pipeline:
        if one.code == DEFLATE:
            dcpl.set_deflate(one.value)
        elif one.code == SHUFFLE:
            dcpl.set_shuffle()
        elif one.code == FLETCHER32:
            dcpl.set_fletcher32()
        else:
            dcpl.set_filter(one.code, h5py.h5z.FLAG_OPTIONAL)


# -------------------------------------------------------------------- bytes
def encode(data: Flat, pipeline: Pipeline) -> Bytes:
    """A chunk's bytes as HDF5 would store them."""
    now: Any = data
    for one in pipeline:
        if one.code == DEFLATE:
            now = zlib.compress(now, one.value)
        elif one.code == SHUFFLE:
            now = _shuffle(_flat(now), one.value)
        else:
            now = _checksum().encode(_flat(now))
    return memoryview(now).cast("B")


def decode(data: Bytes, pipeline: Pipeline, mask: int, out: Flat) -> None:
    """Undo the filters that a chunk did not skip; bit n of the mask says that the n-th was."""
    # Between two filters a chunk may be a little longer than its elements, never much: bombs end here.
    limit = out.size + out.size // 500 + 4096
    now: Any = data
    for number, one in reversed(list(enumerate(pipeline))):
        if mask >> number & 1:
            continue
        if one.code == DEFLATE:
            now = _inflate(now, limit)
        elif one.code == SHUFFLE:
            flat = _flat(now)
            # The last filter to undo writes where the elements belong; others to a buffer of their own.
            last = not any(not mask >> n & 1 for n in range(number)) and flat.size == out.size
            now = _unshuffle(flat, one.value, out if last else np.empty_like(flat))
        else:
            now = _verify(_flat(now))
    flat = _flat(now)
    if flat.size != out.size:
        raise CorruptError(f"a chunk decodes to {flat.size} bytes, not {out.size}")
    if flat is not out:
        out[:] = flat


def _flat(data: Any) -> Flat:
    return data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)


def _inflate(data: Any, limit: int) -> bytes:
    machine = zlib.decompressobj()
    try:
        out = machine.decompress(data, limit)
    except zlib.error as error:
        raise CorruptError(f"a chunk does not inflate: {error}") from None
    if not machine.eof:
        wrong = "is cut short" if len(out) < limit else f"inflates to more than {limit} bytes"
        raise CorruptError(f"a chunk's deflate stream {wrong}")
    return out


def _shuffle(data: Flat, itemsize: int) -> Flat:
    """All first bytes of the items, then all second bytes, ...; a rest that is no item stays at the end."""
    count = data.size // itemsize if itemsize > 1 else 0
    if count < 2:
        return data
    out = np.empty_like(data)
    whole = count * itemsize
    out[:whole].reshape(itemsize, count)[:] = data[:whole].reshape(count, itemsize).T
    out[whole:] = data[whole:]
    return out


def _unshuffle(data: Flat, itemsize: int, out: Flat) -> Flat:
    count = data.size // itemsize if itemsize > 1 else 0
    if count < 2:
        return data
    whole = count * itemsize
    planes, items = data[:whole].reshape(itemsize, count), out[:whole].reshape(count, itemsize)
    # Byte by byte of the items: five times as fast as one assignment of the transposed array.
    for number in range(itemsize):
        items[:, number] = planes[number]
    out[whole:] = data[whole:]
    return out


def _checksum() -> Any:
    from numcodecs import Fletcher32

    return Fletcher32()


def _verify(data: Flat) -> Flat:
    if data.size < _SUM:
        raise CorruptError(f"a chunk of {data.size} bytes is too short for its checksum")
    body = data[:-_SUM]
    found = bytes(data[-_SUM:])
    true = bytes(_checksum().encode(body)[-_SUM:]) if body.size else bytes(_SUM)
    # HDF5 before 1.6.3 swapped the bytes of each half on little-endian machines, and readers accept both.
    if found not in (true, _swapped(true)):
        raise CorruptError(f"a chunk's fletcher32 checksum is {true.hex()}, stored is {found.hex()}")
    return body


def _swapped(four: Sequence[int]) -> bytes:
    return bytes((four[1], four[0], four[3], four[2]))
