"""Codecs of zarr-python, and chunks whose bytes lie."""

from __future__ import annotations

import itertools
import pickle
import struct
import subprocess
import sys
import textwrap
import tracemalloc
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from numcodecs.checksum32 import CRC32C, JenkinsLookup3
from numcodecs.zstd import Zstd
from zarr.codecs import (
    BloscCodec,
    BytesCodec,
    Crc32cCodec,
    GzipCodec,
    ShardingCodec,
    TransposeCodec,
    ZstdCodec,
)

from reblock.errors import CorruptError, FormatError, UsageError
from reblock.model.codec import Codec, Stage
from reblock.model.schema import Schema
from reblock.model.store import Extent
from reblock.storage.codecs.chain import Chain
from reblock.storage.zarr.format import FORMAT, FORMAT2
from reblock.testing.arrays import noise, same_bits
from reblock.testing.reference_io import read_array, read_extent
from zarr_python import by_us, by_zarr, edit, same_values, zarr_reads

FORMATS = pytest.mark.parametrize("format", [FORMAT, FORMAT2], ids=["v3", "v2"])


# ---------------------------------------------------------------- codecs, reading
def nc(name: str, **settings: Any) -> dict[str, Any]:
    """A codec of numcodecs in v3; made from words, since the classes warn."""
    return {"name": f"numcodecs.{name}", "configuration": settings}


def stage(name: str, **settings: Any) -> Stage:
    return Stage(name, tuple(sorted(settings.items())))


DELTA = stage("delta", dtype="<i4", astype="<i4")
V3_PIPELINES: dict[str, tuple[dict[str, Any], str | tuple[Stage, ...] | None]] = {
    "gzip": ({"compressors": GzipCodec(level=7)}, "gzip:7"),
    "zstd": ({"compressors": ZstdCodec(level=5)}, "zstd:5"),
    "zstd checksum": ({"compressors": ZstdCodec(level=5, checksum=True)}, (stage("zstd", level=5, checksum=True),)),
    "blosc": ({"compressors": BloscCodec(cname="lz4", clevel=4, shuffle="bitshuffle")}, "blosc:lz4:4:bitshuffle"),
    "blosc default": ({"compressors": BloscCodec()}, "blosc:zstd:5:shuffle"),
    "blosc zlib": ({"compressors": BloscCodec(cname="zlib", shuffle="noshuffle")}, "blosc:zlib:5:noshuffle"),
    "blosc lz4hc": ({"compressors": BloscCodec(cname="lz4hc", clevel=1)}, "blosc:lz4hc:1:shuffle"),
    "blosc blosclz": ({"compressors": BloscCodec(cname="blosclz", clevel=9)}, "blosc:blosclz:9:shuffle"),
    "crc32c": ({"compressors": Crc32cCodec()}, "crc32c"),
    "zstd crc32c": ({"compressors": [ZstdCodec(level=1), Crc32cCodec()]}, "zstd:1+crc32c"),
    "crc32c gzip": ({"compressors": [Crc32cCodec(), GzipCodec(level=1)]}, "crc32c+gzip:1"),
    "gzip zstd": ({"compressors": [GzipCodec(level=1), ZstdCodec(level=1)]}, "gzip:1+zstd:1"),
    "blosc gzip": ({"compressors": [BloscCodec(), GzipCodec(level=1)]}, "blosc:zstd:5:shuffle+gzip:1"),
    "transpose": ({"filters": TransposeCodec(order=(2, 0, 1))}, "none"),
    "two transposes": ({"filters": [TransposeCodec(order=(2, 0, 1)), TransposeCodec(order=(0, 2, 1))]}, "none"),
    "transpose gzip": ({"filters": TransposeCodec(order=(2, 1, 0)), "compressors": GzipCodec(level=1)}, "gzip:1"),
    "big": ({"serializer": BytesCodec(endian="big"), "compressors": ZstdCodec(level=1)}, "zstd:1"),
    "nc lz4": ({"compressors": nc("lz4", acceleration=2)}, "lz4:2"),
    "nc bz2": ({"compressors": nc("bz2", level=2)}, "bz2:2"),
    "nc lzma": ({"compressors": nc("lzma", preset=1)}, (stage("lzma", preset=1),)),
    "nc zlib": ({"compressors": nc("zlib", level=2)}, "zlib:2"),
    "nc gzip": ({"compressors": nc("gzip", level=2)}, "gzip:2"),
    "nc zstd": ({"compressors": nc("zstd", level=2)}, "zstd:2"),
    "nc blosc": ({"compressors": nc("blosc", cname="lz4", clevel=3)}, "blosc:lz4:3:shuffle"),
    "nc shuffle": ({"compressors": [nc("shuffle"), nc("zlib", level=1)]}, "shuffle+zlib:1"),
    "nc crc32": ({"compressors": nc("crc32")}, (stage("crc32"),)),
    "nc crc32 end": ({"compressors": nc("crc32", location="end")}, (stage("crc32", location="end"),)),
    "nc crc32c": ({"compressors": nc("crc32c")}, "crc32c"),
    "nc crc32c start": ({"compressors": nc("crc32c", location="start")}, (stage("crc32c", location="start"),)),
    "nc adler32": ({"compressors": nc("adler32")}, (stage("adler32"),)),
    "nc fletcher32": ({"compressors": nc("fletcher32")}, "fletcher32"),
    "nc jenkins": ({"compressors": nc("jenkins_lookup3")}, (stage("jenkins_lookup3"),)),
    "nc jenkins seed": ({"compressors": nc("jenkins_lookup3", initval=5)}, (stage("jenkins_lookup3", initval=5),)),
    "nc zstd checksum": ({"compressors": nc("zstd", checksum=True)}, None),
    "nc lzma raw": ({"compressors": nc("lzma", format=3, check=0, filters=[{"id": 33, "preset": 1}])}, None),
    "nc delta": ({"filters": nc("delta", dtype="<i4"), "compressors": GzipCodec(level=1)}, None),
    "nc delta i8": ({"filters": nc("delta", dtype="<i4", astype="<i8")}, None),
    "nc scale": ({"filters": nc("fixedscaleoffset", offset=7, scale=2, astype="<i8")}, None),
    "nc astype": ({"filters": nc("astype", encode_dtype="<i8")}, None),
}


@pytest.mark.parametrize("name", V3_PIPELINES)
def test_v3_codecs_of_zarr_python(tmp_path: Path, name: str) -> None:
    options, expected = V3_PIPELINES[name]
    data = (np.arange(5 * 7 * 6, dtype="<i4") * 3 // 5).reshape(5, 7, 6)
    store = FORMAT.open(by_zarr(tmp_path / "a", data, chunks=(2, 7, 4), **options), "")
    assert same_values(read_array(store), data)
    assert expected is None or store.schema.codec == (
        Codec.parse(expected) if isinstance(expected, str) else Codec(expected)
    )
    assert store.layout.codec == (str(store.schema.codec) if store.schema.codec else "")
    copy = pickle.loads(pickle.dumps(store))
    assert same_bits(read_array(copy), read_array(store))


RAW_LZMA = [{"id": 33, "preset": 1}]
V2_PIPELINES: dict[str, tuple[dict[str, Any], str | tuple[Stage, ...] | None]] = {
    "none": ({}, "none"),
    "F": ({"order": "F"}, "none"),
    "/": ({"chunk_key_encoding": {"name": "v2", "separator": "/"}}, "none"),
    "blosc": ({"compressors": numcodecs.Blosc("lz4", 5, 1)}, "blosc:lz4:5:shuffle"),
    "blosc auto": ({"compressors": numcodecs.Blosc("zstd", 5, -1)}, "blosc:zstd:5:shuffle"),
    "blosc blocks": ({"compressors": numcodecs.Blosc("zstd", 5, 2, 64)}, None),
    "blosc F": ({"compressors": numcodecs.Blosc("blosclz", 1, 0), "order": "F"}, "blosc:blosclz:1:noshuffle"),
    "zstd": ({"compressors": numcodecs.Zstd(2)}, "zstd:2"),
    "zlib": ({"compressors": numcodecs.Zlib(2)}, "zlib:2"),
    "gzip": ({"compressors": numcodecs.GZip(2)}, "gzip:2"),
    "bz2": ({"compressors": numcodecs.BZ2(2)}, "bz2:2"),
    "lz4": ({"compressors": numcodecs.LZ4(3)}, "lz4:3"),
    "lzma": ({"compressors": numcodecs.LZMA()}, "lzma"),
    "blosc lz4hc": ({"compressors": numcodecs.Blosc("lz4hc", 9, 2)}, "blosc:lz4hc:9:bitshuffle"),
    "blosc zlib": ({"compressors": numcodecs.Blosc("zlib", 1, 1)}, "blosc:zlib:1:shuffle"),
    "zstd checksum": ({"compressors": numcodecs.Zstd(2, checksum=True)}, None),
    "base64": ({"compressors": numcodecs.Base64()}, (stage("base64"),)),
    "base64 zlib": ({"filters": [numcodecs.Base64()], "compressors": numcodecs.Zlib(1)}, None),
    "jenkins": ({"filters": [JenkinsLookup3()]}, (stage("jenkins_lookup3"),)),
    "crc32c": ({"compressors": CRC32C("start")}, (stage("crc32c", location="start"),)),
    "lzma raw": ({"compressors": numcodecs.LZMA(3, 0, None, RAW_LZMA)}, None),
    "shuffle zlib": ({"filters": [numcodecs.Shuffle(4)], "compressors": numcodecs.Zlib(1)}, "shuffle+zlib:1"),
    "shuffle 2": ({"filters": [numcodecs.Shuffle(2)]}, (stage("shuffle", elementsize=2),)),
    "delta": ({"filters": [numcodecs.Delta("<i4")], "compressors": numcodecs.Zstd(1)}, (DELTA, stage("zstd", level=1))),
    "delta F": ({"filters": [numcodecs.Delta("<i4")], "order": "F"}, (DELTA,)),
    "astype": ({"filters": [numcodecs.AsType("<i8", "<i4")]}, None),
    "scale": ({"filters": [numcodecs.FixedScaleOffset(7, 2, "<i4", "<i8")]}, None),
    "checks": ({"filters": [numcodecs.CRC32(), numcodecs.Adler32()]}, (stage("crc32"), stage("adler32"))),
    "fletcher32": ({"filters": [numcodecs.Fletcher32()]}, "fletcher32"),
}


@pytest.mark.parametrize("name", V2_PIPELINES)
def test_v2_codecs_of_zarr_python(tmp_path: Path, name: str) -> None:
    options, expected = V2_PIPELINES[name]
    data = (np.arange(5 * 7 * 6, dtype="<i4") * 3 // 5).reshape(5, 7, 6)
    store = FORMAT.open(by_zarr(tmp_path / "a", data, chunks=(2, 7, 4), zarr_format=2, **options), "")
    assert same_bits(read_array(store), zarr_reads(tmp_path / "a"))
    assert expected is None or store.schema.codec == (
        Codec.parse(expected) if isinstance(expected, str) else Codec(expected)
    )
    assert store.layout.order == ((2, 1, 0) if options.get("order") == "F" else (0, 1, 2))
    assert same_bits(read_array(pickle.loads(pickle.dumps(store))), data)


@pytest.mark.parametrize(
    ("filters", "dtype"),
    [
        ([numcodecs.BitRound(5)], "<f4"),
        ([numcodecs.BitRound(5)], "<f8"),
        ([numcodecs.Quantize(3, "<f8", "<f4")], "<f8"),
        ([numcodecs.PackBits()], "|b1"),
        ([numcodecs.Delta("<f8")], "<f8"),
        ([numcodecs.FixedScaleOffset(0.5, 100, "<f4", "<i2")], "<f4"),
    ],
    ids=str,
)
def test_filters_decode_as_in_zarr_python(tmp_path: Path, filters: list[Any], dtype: str) -> None:
    data = (np.linspace(-3, 9, 77) % 2).reshape(7, 11).astype(dtype)
    path = by_zarr(tmp_path / "a", data, zarr_format=2, filters=filters, compressors=numcodecs.Zlib(1))
    assert same_bits(read_array(FORMAT.open(path, "")), zarr_reads(path))


@pytest.mark.parametrize(
    ("filters", "dtype"),
    [
        (nc("bitround", keepbits=5), "<f4"),
        (nc("bitround", keepbits=9), "<f8"),
        (nc("quantize", digits=2, dtype="<f8"), "<f8"),
        (nc("quantize", digits=2), "<f4"),
        (nc("packbits"), "|b1"),
        (nc("delta", dtype="<f8"), "<f8"),
        (nc("fixedscaleoffset", offset=0.5, scale=100, dtype="<f4", astype="<i2"), "<f4"),
        (nc("fixedscaleoffset", offset=0, scale=10), "<f8"),
        (nc("astype", encode_dtype="<f4", decode_dtype="<f8"), "<f8"),
        ([nc("delta", dtype="<i4"), nc("delta", dtype="<i4")], "<i4"),
    ],
    ids=str,
)
@pytest.mark.parametrize("shards", [None, (4, 11)], ids=str)
def test_v3_filters_decode_as_in_zarr_python(tmp_path: Path, filters: Any, dtype: str, shards: Any) -> None:
    data = (np.linspace(-3, 9, 77) % 2 * 3).reshape(7, 11).astype(dtype)
    path = by_zarr(
        tmp_path / "a", data, chunks=(2, 11), shards=shards, filters=filters, compressors=[ZstdCodec(), Crc32cCodec()]
    )
    assert same_bits(read_array(FORMAT.open(path, "")), zarr_reads(path, quiet=True))


IN_SHARDS = [BytesCodec(), ZstdCodec(level=1)]
NESTED: dict[str, dict[str, Any]] = {
    "gzip around": {"serializer": ShardingCodec(chunk_shape=(1, 7, 2), codecs=IN_SHARDS), "compressors": GzipCodec()},
    "crc32c around": {"serializer": ShardingCodec(chunk_shape=(2, 7, 2)), "compressors": Crc32cCodec()},
    "shards in shards": {
        "serializer": ShardingCodec(
            chunk_shape=(1, 7, 2), codecs=[ShardingCodec(chunk_shape=(1, 7, 1), codecs=IN_SHARDS)]
        )
    },
    "all that": {
        "serializer": ShardingCodec(
            chunk_shape=(2, 7, 2),
            codecs=[
                TransposeCodec(order=(2, 0, 1)),
                ShardingCodec(
                    chunk_shape=(1, 2, 7),
                    codecs=[TransposeCodec(order=(2, 1, 0)), BytesCodec(endian="big"), GzipCodec()],
                    index_location="start",
                ),
                Crc32cCodec(),
            ],
        ),
        "compressors": [Crc32cCodec(), ZstdCodec()],
    },
}


@pytest.mark.parametrize("name", NESTED)
def test_shards_that_are_decoded_as_a_whole(tmp_path: Path, name: str) -> None:
    data = (np.arange(5 * 7 * 6, dtype="<i4") * 3 // 5).reshape(5, 7, 6)
    path = by_zarr(tmp_path / "a", data, chunks=(2, 7, 4), fill_value=9, **NESTED[name])
    store = FORMAT.open(path, "")
    assert same_values(read_array(store), data)
    assert same_values(read_array(pickle.loads(pickle.dumps(store))), data)
    assert (store.schema.chunks, store.schema.shards, store.encoding) == ((2, 7, 4), None, "")
    assert "are read as chunks" in store.schema.notes[0]
    chunk = tmp_path / "a/c/0/0/0"
    good, out = chunk.read_bytes(), np.empty(store.layout.unit_bytes, np.uint8)
    for wrong in (b"", good[:-1], good[1:], good[:20], good[:-4] + b"\xff\xff\xff\x7f"):
        with pytest.raises(CorruptError):
            store.decode(wrong, Extent(str(chunk)), out)


def test_units_that_nested_shards_do_not_have_are_fill(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = NESTED["shards in shards"]
        array = zarr.create_array(
            tmp_path / "a", shape=(5, 7, 6), dtype="<i4", chunks=(2, 7, 4), fill_value=9, **options
        )
        array[1:3, :, 1:4] = 5
    assert same_values(read_array(FORMAT.open(str(tmp_path / "a"), "")), zarr_reads(tmp_path / "a", quiet=True))


@pytest.mark.parametrize(
    "filters",
    [
        [TransposeCodec(order=(2, 0, 1)), nc("delta", dtype="<i4")],
        [TransposeCodec(order=(2, 1, 0)), nc("delta", dtype="<i4")],
        [nc("astype", encode_dtype="<i8"), TransposeCodec(order=(1, 2, 0))],
    ],
    ids=["201", "210", "after"],
)
def test_filters_and_transposes(tmp_path: Path, filters: list[Any]) -> None:
    data = (np.arange(5 * 7 * 6, dtype="<i4") * 3 // 5).reshape(5, 7, 6)
    path = by_zarr(tmp_path / "a", data, chunks=(2, 7, 4), filters=filters)
    assert same_values(read_array(FORMAT.open(path, "")), zarr_reads(path, quiet=True))


@pytest.mark.parametrize(("filter", "wrong"), [("delta", "before a transpose"), ("packbits", "before a transpose")])
def test_filters_that_zarr_python_cannot_read_either(tmp_path: Path, filter: str, wrong: str) -> None:
    path = Path(by_zarr(tmp_path / "a", noise((4, 4), "|b1")))
    codecs = [nc(filter, dtype="|b1"), {"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "bytes"}]
    edit(path / "zarr.json", lambda doc: doc.update(codecs=codecs))
    with pytest.raises(FormatError, match=wrong if filter == "delta" else "packbits"):
        FORMAT.open(str(path), "")


# ---------------------------------------------------------------- codecs, writing
LOSSLESS = (
    *("gzip:4", "zlib:4", "zstd:3", "lz4", "bz2:1", "lzma", "shuffle+gzip:4", "shuffle+zlib:2+fletcher32", "crc32c"),
    *("blosc:blosclz:5:shuffle", "blosc:lz4:5:noshuffle", "blosc:lz4hc:5:bitshuffle", "blosc:zlib:1:shuffle"),
    *(
        '{"id": "crc32"}',
        '{"id": "adler32", "location": "end"}',
        '{"id": "jenkins_lookup3"}',
        '{"id": "gzip", "level": -1}',
    ),
    *('{"id": "delta", "dtype": "<i4"}', '[{"id": "delta", "dtype": "<i4", "astype": "<i8"}, {"id": "lz4"}]'),
    *('{"id": "lzma", "preset": 0}', '{"id": "zstd", "level": 1, "checksum": true}', '{"id": "base64"}'),
)


@FORMATS
@pytest.mark.parametrize("text", LOSSLESS)
def test_zarr_python_reads_what_was_asked_for(tmp_path: Path, format: Any, text: str) -> None:
    data = (np.arange(5 * 7 * 6, dtype="<i4") * 3 // 5).reshape(5, 7, 6)
    schema = Schema(data.shape, data.dtype, (2, 7, 4), codec=Codec.parse(text))
    if format is FORMAT and "base64" in text:
        with pytest.raises(UsageError, match="v2 only"):
            format.adapt(schema, {"codec"})
        return
    adapted = format.adapt(schema, {"codec"})
    assert adapted.codec == schema.codec
    by_us(format, tmp_path / "a", schema, data, asked={"codec"})
    odd = "specification" in " ".join(adapted.notes)
    assert odd == (format is FORMAT and "numcodecs." in (tmp_path / "a/zarr.json").read_text())
    assert same_bits(zarr_reads(tmp_path / "a", quiet=odd), data)
    assert same_bits(read_array(FORMAT.open(str(tmp_path / "a"), "")), data)


@FORMATS
@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ('{"id": "bitround", "keepbits": 4}', "<f4"),
        ('[{"id": "bitround", "keepbits": 4}, {"id": "zlib", "level": 1}]', "<f8"),
        ('{"id": "quantize", "digits": 1, "dtype": "<f8"}', "<f8"),
        ('{"id": "fixedscaleoffset", "offset": 0.5, "scale": 100, "dtype": "<f8", "astype": "<i2"}', "<f8"),
        ('{"id": "packbits"}', "|b1"),
    ],
)
def test_codecs_that_round_are_written_when_asked_for(tmp_path: Path, format: Any, text: str, dtype: str) -> None:
    data = (np.linspace(-3, 9, 77) % 2).reshape(7, 11).astype(dtype)
    schema = Schema(data.shape, data.dtype, (2, 11), codec=Codec.parse(text))
    lossy = dtype != "|b1"
    assert lossy == ("does not keep every bit" in " ".join(format.adapt(schema, {"codec"}).notes))
    assert lossy == (format.adapt(schema, ()).codec.names != schema.codec.names) or format is FORMAT
    by_us(format, tmp_path / "a", schema, data, asked={"codec"})
    back = read_array(FORMAT.open(str(tmp_path / "a"), ""))
    assert same_bits(back, zarr_reads(tmp_path / "a", quiet=True))
    assert same_bits(back, data) != lossy
    assert np.allclose(back, data, atol=0.1)


def test_filters_come_first_in_v3() -> None:
    codec = Codec.parse('[{"id": "crc32"}, {"id": "delta", "dtype": "|u1"}]')
    with pytest.raises(UsageError, match="filters of elements must come before"):
        FORMAT.adapt(Schema((8,), np.dtype("|u1"), (4,), codec=codec), {"codec"})


# ---------------------------------------------------------------- chunks that can be copied as they are
def test_chunks_of_the_same_encoding_are_the_same_chunks(tmp_path: Path) -> None:
    data = noise((6, 8), "<i4")

    def made(name: str, format: Any, codec: str, fill: int = 0) -> Any:
        schema = Schema(data.shape, data.dtype, (3, 4), codec=Codec.parse(codec), fill_value=np.int32(fill))
        by_us(format, tmp_path / name, schema, np.full_like(data, 5) if fill else data)
        return FORMAT.open(str(tmp_path / name), "")

    source, target = (
        made("a", FORMAT2, "blosc:lz4:5:shuffle+crc32c"),
        made("b", FORMAT, "blosc:lz4:5:shuffle+crc32c", 1),
    )
    assert source.encoding == target.encoding != ""
    for index in source.layout.objects.indices():
        Path(target.place(index).path).write_bytes(Path(source.place(index).path).read_bytes())
    assert same_bits(read_array(target), data)
    others = [
        "none",
        "blosc:lz4:4:shuffle+crc32c",
        "blosc:lz4:5:shuffle",
        "gzip:1",
        "gzip:2",
        "zlib:1",
        "shuffle+zlib:1",
    ]
    names = [made(f"c{n}", FORMAT2, text).encoding for n, text in enumerate(others)]
    assert len({source.encoding, *names}) == 1 + len(names)
    assert names[0] == ""


def test_chunks_inside_shards_are_encoded_alike(tmp_path: Path) -> None:
    options = {"chunks": (2, 2), "compressors": ZstdCodec(level=1)}
    one = FORMAT.open(by_zarr(tmp_path / "a", noise((4, 4), "<i4"), **options), "")
    two = FORMAT.open(by_zarr(tmp_path / "b", noise((4, 4), "<i4"), shards=(4, 4), **options), "")
    assert one.encoding == two.encoding != ""


def test_old_defaults_of_numcodecs(tmp_path: Path) -> None:
    path = Path(by_zarr(tmp_path / "a", noise((6, 6), "<i4"), zarr_format=2, compressors=numcodecs.Zlib(1)))
    expected = zarr_reads(path)
    edit(
        path / ".zarray",
        lambda doc: (doc.update(compressor={"id": "zlib"}, filters=[]), doc.pop("dimension_separator")),
    )
    store = FORMAT.open(str(path), "")
    assert str(store.schema.codec) == "zlib:1"
    assert same_bits(read_array(store), expected)


# ---------------------------------------------------------------- bytes that lie
CODECS = (
    *("blosc:lz4:5:shuffle", "blosc:zstd:5:bitshuffle", "blosc:zlib:1:noshuffle", "zstd:3", "gzip:1", "zlib:1", "lz4"),
    *("bz2:1", "lzma", "shuffle+zlib:1", "crc32c", "fletcher32", "gzip:1+crc32c", "blosc+gzip:1", "lz4+zstd", "none"),
    *('{"id": "base64"}', '{"id": "crc32"}', '{"id": "adler32"}', '{"id": "jenkins_lookup3"}', "gzip:1+zlib:1"),
)


@pytest.mark.parametrize("text", CODECS)
def test_cut_and_long_chunks_are_corrupt(text: str) -> None:
    chain = Chain(Codec.parse(text), np.dtype("<i4"))
    data = (np.arange(5000, dtype="<i4") // 3).view(np.uint8)
    stored, out = bytes(chain.encode(data)), np.empty_like(data)
    chain.decode(stored, out)
    assert same_bits(out, data)
    for wrong in (b"", stored[:1], stored[:-1], stored[: len(stored) // 2], stored + b"x", stored[1:]):
        with pytest.raises(CorruptError):
            chain.decode(wrong, out)
    for size in (data.size - 4, data.size + 4, 4):
        with pytest.raises(CorruptError):
            chain.decode(stored, np.empty(size, np.uint8))


@pytest.mark.parametrize("text", ["gzip:1", "bz2:1", '{"id": "lzma", "preset": 0}', "zlib:1"])
def test_streams_larger_than_a_step(text: str) -> None:
    chain = Chain(Codec.parse(text), np.dtype("u1"))
    data = np.random.default_rng(0).integers(0, 7, (1 << 20) + 99, np.uint8)
    out = np.empty_like(data)
    chain.decode(chain.encode(data), out)
    assert same_bits(out, data)


def test_gzip_members_one_after_the_other() -> None:
    chain = Chain(Codec.parse("gzip:1"), np.dtype("u1"))
    stored = zlib.compress(b"ab" * 50, 1, 31) + zlib.compress(b"cd" * 50, 1, 31) + bytes(7)
    out = np.empty(200, np.uint8)
    chain.decode(stored, out)
    assert out.tobytes() == b"ab" * 50 + b"cd" * 50


def test_zstd_frames() -> None:
    chain, out = Chain(Codec.parse("zstd"), np.dtype("u1")), np.empty(11, np.uint8)
    magic = struct.pack("<I", 0xFD2FB528)
    block = struct.pack("<I", 11 << 3 | 1)[:3] + b"hello world"
    chain.decode(magic + b"\x00\x58" + block, out)  # does not say its size
    assert out.tobytes() == b"hello world"
    with pytest.raises(CorruptError):
        chain.decode(magic + b"\x00\x58" + block, out[:10])
    huge = magic + b"\xc0\x58" + struct.pack("<Q", 8 << 30) + block
    with pytest.raises(CorruptError, match="8,589,934,592"):
        chain.decode(huge, out)
    for level, size in itertools.product((1, 19), (1, 255, 256, 300, 65_791, 65_792, 200_000)):
        data = np.arange(size, dtype=np.uint8)
        back = np.empty_like(data)
        chain.decode(Zstd(level).encode(data), back)
        assert same_bits(back, data)


def bomb(text: str) -> bytes:
    zeros = bytes(1 << 25)
    return bytes(Chain(Codec.parse(text), np.dtype("u1")).encode(np.frombuffer(zeros, np.uint8)))


@pytest.mark.parametrize("text", ["gzip:9", "zlib:9", "bz2:9", '{"id": "lzma", "preset": 0}', "zstd:3", "lz4", "blosc"])
def test_bombs_do_not_go_off(text: str) -> None:
    stored, out = bomb(text), np.empty(1000, np.uint8)
    chain = Chain(Codec.parse(text), np.dtype("u1"))
    tracemalloc.start()
    with pytest.raises(CorruptError):
        chain.decode(stored, out)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32 << 20


FUZZ = """
    import numpy as np, sys
    from reblock.errors import CorruptError, FormatError, UsageError
    from reblock.model.codec import Codec
    from reblock.storage.codecs.chain import Chain
    rng = np.random.default_rng(1)
    data = (np.arange(3000, dtype="<i4") // 3).view(np.uint8)
    good = corrupt = 0
    for text in sys.argv[1:]:
        chain = Chain(Codec.parse(text), np.dtype("<i4"))
        stored = np.frombuffer(bytes(chain.encode(data)), np.uint8)
        step = 1 if text.startswith("blosc") else 17
        cases = [(place, value) for place in range(min(20, stored.size)) for value in range(0, 256, step)]
        cases += [(int(p), int(v)) for p, v in zip(rng.integers(0, stored.size, 1000), rng.integers(0, 256, 1000))]
        for place, value in cases:
            wrong = stored.copy()
            wrong[place] = value
            out = np.empty_like(data)
            try:
                chain.decode(wrong.tobytes(), out)
                good += 1
            except CorruptError as error:
                corrupt += 1
                assert "\\n" not in str(error)
    print(good, corrupt)
"""


@pytest.mark.parametrize("blosc", [True, False], ids=["blosc", "others"])
def test_changed_bytes_never_crash(blosc: bool) -> None:
    texts = [text for text in CODECS if text != "none" and text.startswith("blosc") == blosc]
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FUZZ), *texts], capture_output=True, text=True, check=False, timeout=120
    )
    assert run.returncode == 0, run.stderr[-2000:]
    good, corrupt = map(int, run.stdout.split())
    assert corrupt > 1000 * len(texts)
    assert good > 0


@pytest.mark.parametrize("place", range(16))
def test_blosc_sizes_are_compared(place: int) -> None:
    chain = Chain(Codec.parse("blosc"), np.dtype("<i4"))
    data = (np.arange(3000, dtype="<i4") // 3).view(np.uint8)
    wrong = bytearray(chain.encode(data))
    wrong[place] ^= 0x80
    if place in (1, 2, 3):  # version of the codec, flags, type size: what they mean only a checksum can tell
        return
    with pytest.raises(CorruptError):
        chain.decode(wrong, np.empty_like(data))


def test_shard_index_that_lies(tmp_path: Path) -> None:
    data = noise((4, 4), "<i4")
    path = Path(by_zarr(tmp_path / "a", data, chunks=(2, 2), shards=(4, 4)))
    store = FORMAT.open(str(path), "")
    units = list(store.layout.units.indices())
    good = (path / "c/0/0").read_bytes()
    assert len(good) == 64 + 4 * 16 + 4
    (path / "c/0/0").write_bytes(good[:70] + b"\xff" + good[71:])
    with pytest.raises(CorruptError, match="shard index: crc32c"):
        store.extents((0, 0), units, read_extent)
    with pytest.raises(CorruptError):
        store.extents((0, 0), units, lambda _: b"short")
    index = np.frombuffer(good[64:128], "<u8").copy()
    for value in ((2**64 - 1, 16), (2**63, 16), (0, 0), (0, 15), (0, 2**40), (2**64 - 16, 16)):
        index[:2] = value
        flat = store.meta.shard.index.encode(index.view(np.uint8))  # type: ignore[attr-defined]
        with pytest.raises(CorruptError, match="shard index"):
            store.extents((0, 0), units, lambda _, flat=flat: flat)
    (path / "c/0/0").write_bytes(good[:-1])
    with pytest.raises(CorruptError):
        read_array(store)


# ---------------------------------------------------------------- in threads, and when loaded
def test_threads_decode_and_encode_at_once(tmp_path: Path) -> None:
    for text in ("blosc:lz4:5:shuffle", "zstd:3", "gzip:1", "shuffle+zlib:1"):
        chain = Chain(Codec.parse(text), np.dtype("<i4"))

        def turn(seed: int, chain: Chain = chain) -> bool:
            data = noise((20_000,), "<i4", seed).view(np.uint8)
            out = np.empty_like(data)
            chain.decode(chain.encode(data), out)
            return same_bits(out, data)

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(turn, range(64)))


def test_the_module_loads_nothing_heavy() -> None:
    code = "import sys, reblock.storage.zarr; print([m for m in ('zarr', 'numcodecs', 'asyncio') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_stages_are_kept_as_they_are() -> None:
    assert (
        Stage.of("zstd", level=1)
        == FORMAT2.adapt(
            Schema((4,), np.dtype("u1"), (2,), codec=Codec((Stage.of("zstd", level=1),))), {"codec"}
        ).codec.stages[0]
    )
