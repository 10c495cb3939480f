"""Hostile bytes in chunks and shards of zarr arrays: bombs, lying headers, cut and changed streams."""

from __future__ import annotations

import bz2
import lzma
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numcodecs import LZ4, Blosc, Zstd
from numcodecs.checksum32 import CRC32C

from corpus.cases import case
from corpus.zarr import BYTES, array, chunk, escape

Encode = Callable[[bytes], bytes]
#: By name: v2's settings, v3's codecs or None, and the encoder.
CODECS: dict[str, tuple[dict[str, Any], list[dict[str, Any]] | None, Encode]] = {
    "zlib": ({"id": "zlib", "level": 1}, [{"name": "numcodecs.zlib", "configuration": {"level": 1}}], zlib.compress),
    "gzip": (
        {"id": "gzip", "level": 1},
        [{"name": "gzip", "configuration": {"level": 1}}],
        lambda data: zlib.compress(data, 1, 31),
    ),
    "bz2": ({"id": "bz2", "level": 1}, [{"name": "numcodecs.bz2", "configuration": {"level": 1}}], bz2.compress),
    "lzma": ({"id": "lzma"}, [{"name": "numcodecs.lzma", "configuration": {}}], lzma.compress),
    "zstd": (
        {"id": "zstd", "level": 1},
        [{"name": "zstd", "configuration": {"level": 1, "checksum": False}}],
        lambda data: bytes(Zstd(1).encode(data)),
    ),
    "lz4": (
        {"id": "lz4", "acceleration": 1},
        [{"name": "numcodecs.lz4", "configuration": {"acceleration": 1}}],
        lambda data: bytes(LZ4().encode(data)),
    ),
    "blosc": (
        {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
        [
            {
                "name": "blosc",
                "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0},
            }
        ],
        lambda data: bytes(Blosc("lz4").encode(np.frombuffer(data, "<i4"))),
    ),
    "blosc-zstd": (
        {"id": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 2, "blocksize": 0},
        None,
        lambda data: bytes(Blosc("zstd", shuffle=2).encode(np.frombuffer(data, "<i4"))),
    ),
    "crc32c": ({"id": "crc32c"}, [{"name": "crc32c"}], lambda data: bytes(CRC32C(location="end").encode(data))),
}
#: What a bomb becomes.
BOMB = bytes(128 << 20)


def encoded(folder: Path, codec: str, version: int = 2) -> Path:
    """An array with a codec; its last chunk."""
    settings, codecs, encode = CODECS[codec]
    if version == 3:
        return array(folder, 3, encode, codecs=[BYTES, *(codecs or [])])
    return array(folder, 2, encode, compressor=settings)


def add(
    codec: str,
    name: str,
    spoil: Callable[[bytes], bytes],
    error: str = "CorruptError",
    *,
    quick: bool = False,
    version: int = 2,
) -> None:
    """A case where the last chunk's bytes are changed."""

    @case(f"zarr{version}/{codec}-{name}", "", error, quick=quick, says="(1,1)" if error else "")
    def _(folder: Path) -> str:
        path = encoded(folder, codec, version)
        path.write_bytes(spoil(path.read_bytes()))
        return "x.zarr"


def put(data: bytes, place: int, value: bytes) -> bytes:
    return data[:place] + value + data[place + len(value) :]


for _codec, (_, _v3, _encode) in CODECS.items():
    for _version in (2, 3) if _v3 else (2,):
        add(_codec, "cut", lambda data: data[:-3], version=_version)
        add(_codec, "half", lambda data: data[: len(data) // 2], version=_version)
        add(_codec, "nothing", lambda _: b"", version=_version)
        add(_codec, "one-byte", lambda data: data[:1], version=_version)
        add(_codec, "zeros", lambda data: bytes(len(data)), version=_version)
        add(_codec, "ones", lambda data: b"\xff" * len(data), version=_version)
        add(_codec, "long", lambda data, encode=_encode: encode(chunk(0, 0) + b"1234"), version=_version)
        add(_codec, "short", lambda data, encode=_encode: encode(chunk(0, 0)[:-4]), version=_version)
for _codec in ("zlib", "gzip", "zstd", "lz4", "blosc"):
    add(_codec, "bomb", lambda _, encode=CODECS[_codec][2]: encode(BOMB), quick=_codec in ("zlib", "zstd", "gzip"))
for _codec in ("bz2", "lzma"):
    # Streams one after the other: making a single long one takes seconds.
    add(_codec, "bomb", lambda _, encode=CODECS[_codec][2]: encode(BOMB[: 16 << 20]) * 8)

#: A zstd frame that says: one segment, 8 bytes of size, 8 GB.
ZSTD_HEAD = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 8 << 30)
add("zstd", "says-8-gigabytes", lambda data: ZSTD_HEAD + data[6:], quick=True)
add("zstd", "says-nothing-bomb", lambda _: b"\x28\xb5\x2f\xfd\x00\x88" + CODECS["zstd"][2](BOMB)[9:])
add("zstd", "window-of-gigabytes", lambda data: b"\x28\xb5\x2f\xfd\x00\xff" + data[6:])
add("zstd", "second-frame-bomb", lambda data: data + CODECS["zstd"][2](BOMB))
add("zstd", "skippable", lambda data: b"\x50\x2a\x4d\x18\xff\xff\xff\x7f" + data)
add("gzip", "second-member-bomb", lambda data: data + CODECS["gzip"][2](BOMB))
add("gzip", "header-flags", lambda data: put(data, 3, b"\xff"))
add("lz4", "says-4-gigabytes", lambda data: put(data, 0, b"\xff\xff\xff\xff"), quick=True)
add("lz4", "says-2-gigabytes", lambda data: put(data, 0, b"\xff\xff\xff\x7f"))
add("lz4", "says-nothing", lambda data: put(data, 0, bytes(4)))
add(
    "lzma",
    "dictionary-of-gigabytes",
    lambda _: lzma.compress(chunk(1, 1), lzma.FORMAT_XZ, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}]),
)
for _place, _field, _values in (
    (0, "version", (0, 1, 3, 255)),
    (1, "inner-version", (0, 255)),
    (3, "typesize", (0,)),
):
    for _value in _values:
        add(
            "blosc",
            f"{_field}-{_value}",
            lambda data, p=_place, v=_value: put(data, p, bytes([v])),
            "CorruptError" if _place != 1 else "CorruptError|",
        )
for _place, _field in ((4, "nbytes"), (8, "blocksize"), (12, "cbytes")):
    for _value in (0, 1, 63, 65, 1 << 20, 0x7FFFFFFF, 0xFFFFFFFF):
        add(
            "blosc",
            f"{_field}-{_value}",
            lambda data, p=_place, v=_value: put(data, p, struct.pack("<I", v)),
            "CorruptError" if _place != 8 or _value in (0, 65, 1 << 20, 0x7FFFFFFF, 0xFFFFFFFF) else "CorruptError|",
            quick=_value == 0xFFFFFFFF,
        )
for _bit in range(8):
    add(
        "blosc",
        f"flag-{_bit}",
        lambda data, bit=_bit: put(data, 2, bytes([data[2] ^ 1 << bit])),
        "CorruptError|",
        quick=_bit in (1, 5),
    )
add("blosc", "block-starts", lambda data: put(data, 16, b"\xff\xff\xff\x7f"), "CorruptError|")


# ---------------------------------------------------------------- shards
def shard(
    folder: Path,
    change: Callable[[np.ndarray[Any, Any], bytes], tuple[np.ndarray[Any, Any], bytes]] = lambda t, d: (t, d),
    *,
    checksum: bool = True,
    location: str = "end",
    **settings: Any,
) -> Path:
    """One shard of 2 × 2 chunks whose index and data are changed before the checksum."""
    index = [BYTES, {"name": "crc32c"}] if checksum else [BYTES]
    inner = {"chunk_shape": [4, 4], "codecs": [BYTES], "index_codecs": index, "index_location": location, **settings}
    array(
        folder,
        3,
        chunk_grid={"name": "regular", "configuration": {"chunk_shape": [8, 8]}},
        codecs=[{"name": "sharding_indexed", "configuration": inner}],
    )
    data = b"".join(chunk(i, j) for i in range(2) for j in range(2))
    start = 68 if location == "start" else 0
    table = np.array([[start + 64 * n, 64] for n in range(4)], "<u8")
    table, data = change(table, data)
    tail = bytes(CRC32C(location="end").encode(table.tobytes())) if checksum else table.tobytes()
    path = folder / "x.zarr/c/0/0"
    path.write_bytes(tail + data if location == "start" else data + tail)
    for other in ("c/0/1", "c/1/0", "c/1/1"):
        (folder / "x.zarr" / other).unlink()
    return path


def add_shard(
    name: str, change: Any, info: str = "", run: str = "CorruptError", *, quick: bool = False, **settings: Any
) -> None:
    """A case where the index of a shard lies."""

    @case(f"zarr3/shard-{name}", info, run, quick=quick)
    def _(folder: Path) -> str:
        shard(folder, change, **settings)
        return "x.zarr"


def entry(place: int, offset: int, length: int) -> Any:
    def change(table: np.ndarray[Any, Any], data: bytes) -> tuple[np.ndarray[Any, Any], bytes]:
        table[place] = offset, length
        return table, data

    return change


def same(table: np.ndarray[Any, Any], data: bytes) -> tuple[np.ndarray[Any, Any], bytes]:
    return table, data


add_shard("good", same, run="", quick=True)
add_shard("good-at-start", same, run="", location="start")
add_shard("missing-chunk", entry(1, 2**64 - 1, 2**64 - 1), run="")
add_shard("offset-beyond", entry(1, 1 << 40, 64), quick=True)
add_shard("offset-wraps", entry(1, 2**64 - 32, 64), quick=True)
add_shard("offset-negative", entry(1, 1 << 63, 64))
add_shard("length-beyond", entry(3, 192, 1 << 40), quick=True)
add_shard("length-wraps", entry(3, 192, 2**64 - 100))
add_shard("length-zero", entry(3, 192, 0))
add_shard("half-missing", entry(3, 2**64 - 1, 64))
add_shard("length-short", entry(3, 192, 63))
add_shard("no-data", lambda table, _: (table, b""))
add_shard("index-beyond-unchecked", entry(2, 1 << 62, 1 << 62), checksum=False)
add_shard(
    "nested-without-an-inner-index",
    same,
    "",
    "CorruptError",
    codecs=[{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 2], "codecs": [BYTES]}}],
)
add_shard(
    "index-compressed",
    same,
    "FormatError",
    "FormatError",
    index_codecs=[BYTES, {"name": "gzip", "configuration": {"level": 1}}],
)
add_shard("chunks-no-divisor", same, "FormatError", "FormatError", chunk_shape=[3, 3])
add_shard("chunks-zero", same, "FormatError", "FormatError", chunk_shape=[0, 4])
add_shard("location", same, "FormatError", "FormatError", index_location="middle")


@case("zarr3/shard-index-of-terabytes", "FormatError", quick=True)
def _long_index(folder: Path) -> str:
    inner = {"chunk_shape": [1, 1], "codecs": [BYTES], "index_codecs": [BYTES]}
    array(
        folder,
        3,
        shape=[1 << 20, 1 << 20],
        chunk_grid={"name": "regular", "configuration": {"chunk_shape": [1 << 20, 1 << 20]}},
        codecs=[{"name": "sharding_indexed", "configuration": inner}],
    )
    return "x.zarr"


@case("zarr3/shard-checksum", "", "CorruptError", says="checksum")
def _checksum(folder: Path) -> str:
    path = shard(folder)
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    return "x.zarr"


for _keep in (0, 3, 67, 68, 100, 323):

    @case(f"zarr3/shard-cut-{_keep}", "", "CorruptError", quick=_keep == 100)
    def _cut(folder: Path, keep: int = _keep) -> str:
        os.truncate(shard(folder), keep)
        return "x.zarr"


@case("zarr3/shard-escape", "", "ExternalError", quick=True)
def _link(folder: Path) -> str:
    escape(shard(folder))
    return "x.zarr"
