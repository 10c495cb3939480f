"""Zarr against zarr-python, both ways, and against files that lie."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
import textwrap
import tracemalloc
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
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
from zarr.codecs import numcodecs as v3

from reblock.errors import CorruptError, FormatError, ReblockError, StorageError, TargetExistsError, UsageError
from reblock.geometry import Grid
from reblock.model.codec import Codec, Stage
from reblock.model.schema import Schema
from reblock.model.store import Extent, Format
from reblock.storage.zarr import FORMAT, FORMAT2
from reblock.storage.zarr_codecs import Chain
from reblock.testing.arrays import DTYPES, Array, noise, same_bits
from reblock.testing.reference_io import read_array, read_extent, write_array

FORMATS = pytest.mark.parametrize("format", [FORMAT, FORMAT2], ids=["v3", "v2"])


def by_zarr(path: Path, data: Array, **options: Any) -> str:
    """An array that zarr-python writes, every chunk of it; it warns of much that we read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"chunks": tuple(max(n // 2, 1) for n in data.shape), "compressors": None, **options}
        array = zarr.create_array(
            path, shape=data.shape, dtype=data.dtype, config={"write_empty_chunks": True}, **options
        )
        array[...] = data
    return str(path)


def zarr_reads(path: Path | str, inner: str = "") -> Array:
    """What zarr-python makes of an array."""
    return np.asarray(zarr.open_array(str(path), path=inner or None, mode="r")[...])


def by_us(format: Format, path: Path, schema: Schema, data: Array, inner: str = "") -> str:
    schema = format.adapt(schema, ())
    store = format.create(str(path), inner, schema)
    write_array(store, data)
    store.commit()
    return str(path)


def same_values(one: Array, other: Array) -> bool:
    """Whether every bit is the same, byte order aside."""
    one, other = (
        np.ascontiguousarray(a) if a.dtype.isnative else a.byteswap().view(a.dtype.newbyteorder()) for a in (one, other)
    )
    return same_bits(one, other)


# ---------------------------------------------------------------- types and shapes, both ways
@FORMATS
@pytest.mark.parametrize("dtype", DTYPES)
def test_types_both_ways(tmp_path: Path, format: Format, dtype: str) -> None:
    data = noise((5, 7), dtype)
    options: dict[str, Any] = {"zarr_format": 2} if format is FORMAT2 else {}
    if format is FORMAT and dtype[0] == ">":
        options["serializer"] = BytesCodec(endian="big")
    store = FORMAT.open(by_zarr(tmp_path / "theirs", data, chunks=(2, 4), **options), "")
    assert store.format == format.name
    assert store.layout.dtype == data.dtype
    assert same_bits(read_array(store), data)
    by_us(format, tmp_path / "ours", Schema(data.shape, data.dtype, (2, 4)), data)
    assert same_values(zarr_reads(tmp_path / "ours"), data)


SHAPES = (
    ((), ()),
    ((1,), (1,)),
    ((7,), (3,)),
    ((0,), (3,)),
    ((4, 0, 3), (2, 5, 3)),
    ((13, 11), (5, 4)),
    ((5, 7, 3), (2, 9, 2)),
    ((3, 4, 5, 6), (2, 3, 2, 4)),
    ((3, 2, 4, 3, 5), (2, 2, 3, 1, 2)),
)


@FORMATS
@pytest.mark.parametrize("codec", ["none", "gzip:1"])
@pytest.mark.parametrize(("shape", "chunks"), SHAPES, ids=str)
def test_shapes_both_ways(
    tmp_path: Path, format: Format, shape: tuple[int, ...], chunks: tuple[int, ...], codec: str
) -> None:
    data = noise(shape, "<f4")
    version = 3 if format is FORMAT else 2
    compressors: Any = {"none": None, "gzip:1": GzipCodec(level=1) if version == 3 else numcodecs.GZip(1)}[codec]
    path = by_zarr(tmp_path / "theirs", data, chunks=chunks, compressors=compressors, zarr_format=version)
    store = format.open(path, "")
    assert store.layout.objects == Grid.of(shape, chunks, padded=True)
    assert store.layout.partial_reads == (codec == "none")
    assert same_bits(read_array(store), data)
    schema = Schema(shape, data.dtype, chunks, codec=Codec.parse(codec))
    by_us(format, tmp_path / "ours", schema, data)
    assert same_bits(zarr_reads(tmp_path / "ours"), data)
    assert zarr.open_array(tmp_path / "ours").chunks == chunks


@pytest.mark.parametrize("dtype", ["<M8[ns]", "<m8[10us]", ">M8[D]", "|S5", "<U4", ">U3", "|V6"])
def test_opaque_types_both_ways(tmp_path: Path, dtype: str) -> None:
    data = noise((5, 4), "u1").astype("U").astype(dtype) if dtype[1] in "SU" else noise((5, 4), dtype)
    store = FORMAT.open(by_zarr(tmp_path / "theirs", data, zarr_format=2), "")
    assert same_bits(read_array(store), data)
    by_us(FORMAT2, tmp_path / "ours", Schema(data.shape, data.dtype, (2, 3)), data)
    assert same_bits(zarr_reads(tmp_path / "ours"), data)


@pytest.mark.parametrize("dtype", ["<M8[ns]", "<m8[10us]", "<M8"])
def test_times_in_v3(tmp_path: Path, dtype: str) -> None:
    data = noise((5, 4), dtype)
    assert same_bits(read_array(FORMAT.open(by_zarr(tmp_path / "theirs", data), "")), data)
    by_us(FORMAT, tmp_path / "ours", Schema(data.shape, data.dtype, (2, 3)), data)
    assert same_bits(zarr_reads(tmp_path / "ours"), data)


@pytest.mark.parametrize("dtype", ["|S5", "<U4", "|V6"])
def test_unstable_types_of_v3_are_read_and_not_written(tmp_path: Path, dtype: str) -> None:
    data = noise((5, 4), "u1").astype("U").astype(dtype) if dtype[1] in "SU" else noise((5, 4), dtype)
    assert same_bits(read_array(FORMAT.open(by_zarr(tmp_path / "theirs", data), "")), data)
    with pytest.raises(UsageError, match="zarr2"):
        FORMAT.adapt(Schema(data.shape, data.dtype, (2, 3)), ())


# ---------------------------------------------------------------- codecs, reading
LZMA_RAW = numcodecs.LZMA(format=3, check=0, preset=None, filters=[{"id": 33, "preset": 1}])
V3_PIPELINES: dict[str, tuple[dict[str, Any], str]] = {
    "gzip": ({"compressors": GzipCodec(level=7)}, "gzip:7"),
    "zstd": ({"compressors": ZstdCodec(level=5)}, "zstd:5"),
    "zstd checksum": ({"compressors": ZstdCodec(level=5, checksum=True)}, '{"id": "zstd", "checksum": true, "level": 5}'),
    "blosc": ({"compressors": BloscCodec(cname="lz4", clevel=4, shuffle="bitshuffle")}, "blosc:lz4:4:bitshuffle"),
    "blosc default": ({"compressors": BloscCodec()}, "blosc:zstd:5:shuffle"),
    "blosc snappy": ({"compressors": BloscCodec(cname="zlib", shuffle="noshuffle")}, "blosc:zlib:5:noshuffle"),
    "crc32c": ({"compressors": Crc32cCodec()}, "crc32c"),
    "zstd crc32c": ({"compressors": [ZstdCodec(level=1), Crc32cCodec()]}, "zstd:1+crc32c"),
    "crc32c gzip": ({"compressors": [Crc32cCodec(), GzipCodec(level=1)]}, "crc32c+gzip:1"),
    "gzip zstd": ({"compressors": [GzipCodec(level=1), ZstdCodec(level=1)]}, "gzip:1+zstd:1"),
    "blosc gzip": ({"compressors": [BloscCodec(), GzipCodec(level=1)]}, "blosc:zstd:5:shuffle+gzip:1"),
    "transpose": ({"filters": TransposeCodec(order=(2, 0, 1))}, "none"),
    "two transposes": ({"filters": [TransposeCodec(order=(2, 0, 1)), TransposeCodec(order=(0, 2, 1))]}, "none"),
    "transpose gzip": ({"filters": TransposeCodec(order=(2, 1, 0)), "compressors": GzipCodec(level=1)}, "gzip:1"),
    "big": ({"serializer": BytesCodec(endian="big"), "compressors": ZstdCodec(level=1)}, "zstd:1"),
    "nc.lz4": ({"compressors": v3.LZ4(acceleration=2)}, "lz4:2"),
    "nc.bz2": ({"compressors": v3.BZ2(level=2)}, "bz2:2"),
    "nc.lzma": ({"compressors": v3.LZMA(preset=1)}, '{"id": "lzma", "preset": 1}'),
    "nc.zlib": ({"compressors": v3.Zlib(level=2)}, "zlib:2"),
    "nc.gzip": ({"compressors": v3.GZip(level=2)}, "gzip:2"),
    "nc.zstd": ({"compressors": v3.Zstd(level=2)}, "zstd:2"),
    "nc.blosc": ({"compressors": v3.Blosc(cname="lz4", clevel=3)}, "blosc:lz4:3:shuffle"),
    "nc.shuffle": ({"compressors": [v3.Shuffle(), v3.Zlib(level=1)]}, "shuffle+zlib:1"),
    "nc.crc32": ({"compressors": v3.CRC32()}, "crc32"),
    "nc.crc32 end": ({"compressors": v3.CRC32(location="end")}, '{"id": "crc32", "location": "end"}'),
    "nc.crc32c": ({"compressors": v3.CRC32C()}, "crc32c"),
    "nc.crc32c start": ({"compressors": v3.CRC32C(location="start")}, '{"id": "crc32c", "location": "start"}'),
    "nc.adler32": ({"compressors": v3.Adler32()}, "adler32"),
    "nc.fletcher32": ({"compressors": v3.Fletcher32()}, "fletcher32"),
    "nc.jenkins": ({"compressors": v3.JenkinsLookup3()}, "jenkins_lookup3"),
    "nc.delta": ({"filters": v3.Delta(dtype="<i4"), "compressors": GzipCodec(level=1)}, '{"id": "delta", "dtype": "<i4"}+gzip:1'),
    "nc.delta i8": ({"filters": v3.Delta(dtype="<i4", astype="<i8")}, '{"id": "delta", "astype": "<i8", "dtype": "<i4"}'),
}  # fmt: skip


@pytest.mark.parametrize("name", V3_PIPELINES)
def test_v3_codecs_of_zarr_python(tmp_path: Path, name: str) -> None:
    options, text = V3_PIPELINES[name]
    data = (np.arange(5 * 7 * 6, dtype="<i4") * 3 // 5).reshape(5, 7, 6)
    store = FORMAT.open(by_zarr(tmp_path / "a", data, chunks=(2, 7, 4), **options), "")
    assert same_values(read_array(store), data)
    assert str(store.schema.codec) == text
    assert store.layout.codec == ("" if text == "none" else text)
    copy = pickle.loads(pickle.dumps(store))
    assert same_bits(read_array(copy), read_array(store))


V2_PIPELINES: dict[str, tuple[dict[str, Any], str]] = {
    "none": ({}, "none"),
    "F": ({"order": "F"}, "none"),
    "/": ({"chunk_key_encoding": {"name": "v2", "separator": "/"}}, "none"),
    "blosc": ({"compressors": numcodecs.Blosc("lz4", 5, 1)}, "blosc:lz4:5:shuffle"),
    "blosc auto": ({"compressors": numcodecs.Blosc("zstd", 5, -1)}, "blosc:zstd:5:shuffle"),
    "blosc blocks": ({"compressors": numcodecs.Blosc("zstd", 5, 2, 64)}, '{"id": "blosc", "blocksize": 64, "cname": "zstd", "level": 5, "shuffle": "bitshuffle"}'),
    "blosc F": ({"compressors": numcodecs.Blosc("blosclz", 1, 0), "order": "F"}, "blosc:blosclz:1:noshuffle"),
    "zstd": ({"compressors": numcodecs.Zstd(2)}, "zstd:2"),
    "zlib": ({"compressors": numcodecs.Zlib(2)}, "zlib:2"),
    "gzip": ({"compressors": numcodecs.GZip(2)}, "gzip:2"),
    "bz2": ({"compressors": numcodecs.BZ2(2)}, "bz2:2"),
    "lz4": ({"compressors": numcodecs.LZ4(3)}, "lz4:3"),
    "lzma": ({"compressors": numcodecs.LZMA()}, "lzma"),
    "lzma raw": ({"compressors": LZMA_RAW}, '{"id": "lzma", "check": 0, "filters": [{"id": 33, "preset": 1}], "format": 3}'),
    "shuffle zlib": ({"filters": [numcodecs.Shuffle(4)], "compressors": numcodecs.Zlib(1)}, "shuffle+zlib:1"),
    "shuffle 2": ({"filters": [numcodecs.Shuffle(2)]}, '{"id": "shuffle", "elementsize": 2}'),
    "delta": ({"filters": [numcodecs.Delta("<i4")], "compressors": numcodecs.Zstd(1)}, '{"id": "delta", "astype": "<i4", "dtype": "<i4"}+zstd:1'),
    "delta F": ({"filters": [numcodecs.Delta("<i4")], "order": "F"}, '{"id": "delta", "astype": "<i4", "dtype": "<i4"}'),
    "astype": ({"filters": [numcodecs.AsType("<i8", "<i4")]}, '{"id": "astype", "decode_dtype": "<i4", "encode_dtype": "<i8"}'),
    "scale": ({"filters": [numcodecs.FixedScaleOffset(7, 2, "<i4", "<i8")]}, '{"id": "fixedscaleoffset", "astype": "<i8", "dtype": "<i4", "offset": 7, "scale": 2}'),
    "checks": ({"filters": [numcodecs.CRC32(), numcodecs.Adler32()], "compressors": numcodecs.Zlib(1)}, "crc32+adler32+zlib:1"),
    "fletcher32": ({"filters": [numcodecs.Fletcher32()]}, "fletcher32"),
}  # fmt: skip


@pytest.mark.parametrize("name", V2_PIPELINES)
def test_v2_codecs_of_zarr_python(tmp_path: Path, name: str) -> None:
    options, text = V2_PIPELINES[name]
    data = (np.arange(5 * 7 * 6, dtype="<i4") * 3 // 5).reshape(5, 7, 6)
    store = FORMAT.open(by_zarr(tmp_path / "a", data, chunks=(2, 7, 4), zarr_format=2, **options), "")
    assert same_bits(read_array(store), zarr_reads(tmp_path / "a"))
    assert str(store.schema.codec) == text
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


# ---------------------------------------------------------------- shards, reading
SHARDS: dict[str, dict[str, Any]] = {
    "raw": {},
    "at start": {"index_location": "start"},
    "big index": {"index_codecs": [BytesCodec(endian="big"), Crc32cCodec()]},
    "bare index": {"index_codecs": [BytesCodec()]},
    "zstd": {"codecs": [BytesCodec(), ZstdCodec(level=1)]},
    "big transposed": {"codecs": [TransposeCodec(order=(1, 0)), BytesCodec(endian="big"), BloscCodec(typesize=4)]},
    "crc32c at start": {"codecs": [BytesCodec(), Crc32cCodec()], "index_location": "start"},
}


@pytest.mark.parametrize("name", SHARDS)
@pytest.mark.parametrize("outer", [None, (1, 0)], ids=["plain", "transposed"])
def test_shards_of_zarr_python(tmp_path: Path, name: str, outer: tuple[int, ...] | None) -> None:
    data = noise((13, 11), "<i4")
    inner = (2, 3) if outer else (3, 2)
    filters = TransposeCodec(order=outer) if outer else None
    codec = ShardingCodec(chunk_shape=inner, **SHARDS[name])
    path = by_zarr(tmp_path / "a", data, chunks=(6, 8) if not outer else (6, 9), filters=filters, serializer=codec)
    if outer:
        # zarr-python compares the shard with chunks that are not transposed, so that 9 must divide by both.
        assert same_bits(zarr_reads(path), data)
    store = FORMAT.open(path, "")
    assert store.layout.indexed
    assert store.schema.chunks == (3, 2)
    assert same_values(read_array(store), data)
    assert same_values(read_array(pickle.loads(pickle.dumps(store))), data)
    for index in store.layout.objects.indices():
        # What we write again, zarr-python reads as before.
        whole = np.zeros(store.layout.objects.stored(index).shape, store.layout.dtype)
        box = store.layout.objects.box(index)
        whole[box.within(store.layout.objects.stored(index)).slices] = data[box.slices]
        flat = np.ascontiguousarray(whole.transpose(store.layout.order)).reshape(-1).view(np.uint8)
        Path(store.place(index).path).write_bytes(store.encode(flat))
    assert same_bits(zarr_reads(path), data)


def test_missing_shards_and_chunks_are_none(tmp_path: Path) -> None:
    data = np.zeros((8, 8), "<i4")
    data[0, 0] = 5
    array = zarr.create_array(tmp_path / "a", shape=(8, 8), dtype="<i4", chunks=(2, 2), shards=(4, 4), fill_value=0)
    array[...] = data
    store = FORMAT.open(str(tmp_path / "a"), "")
    first = store.extents((0, 0), [(0, 0), (0, 1), (1, 1)], read_extent)
    assert first[0] is not None
    assert first[1:] == [None, None]
    assert store.extents((1, 1), [(2, 2), (3, 3)], read_extent) == [None, None]
    assert same_bits(read_array(store), data)


# ---------------------------------------------------------------- writing
@pytest.mark.parametrize("codec", ["none", "gzip:1", "zstd:3", "blosc:lz4:5:bitshuffle", "zstd:1+crc32c", "crc32c"])
@pytest.mark.parametrize("shards", [None, (6, 8, 4)], ids=["chunks", "shards"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)], ids=str)
@pytest.mark.parametrize("dtype", ["<f4", ">u2", "|b1", "<c16"])
def test_v3_for_zarr_python(
    tmp_path: Path, codec: str, shards: tuple[int, ...] | None, order: tuple[int, ...], dtype: str
) -> None:
    data = noise((7, 9, 5), dtype)
    schema = Schema(data.shape, data.dtype, (3, 4, 2), shards, order, Codec.parse(codec))
    path = by_us(FORMAT, tmp_path / "a", schema, data)
    assert same_values(zarr_reads(path), data)
    array = zarr.open_array(path)
    assert (array.chunks, array.shards) == ((3, 4, 2), shards)
    assert same_bits(read_array(FORMAT.open(path, "")), data)


@pytest.mark.parametrize("codec", ["none", "shuffle+gzip:1", "zlib:3", "lz4", "bz2:1", "lzma", "blosc:zstd:3:shuffle"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)], ids=str)
@pytest.mark.parametrize("dtype", ["<f4", ">u2", "|b1", "<c16"])
def test_v2_for_zarr_python(tmp_path: Path, codec: str, order: tuple[int, ...], dtype: str) -> None:
    data = noise((7, 9, 5), dtype)
    schema = Schema(data.shape, data.dtype, (3, 4, 2), None, order, Codec.parse(codec))
    path = by_us(FORMAT2, tmp_path / "a", schema, data)
    assert same_bits(zarr_reads(path), data)
    assert same_bits(read_array(FORMAT2.open(path, "")), data)
    assert str(FORMAT2.open(path, "").schema.codec) == str(Codec.parse(codec))


@pytest.mark.parametrize(
    "text",
    [
        '[{"id": "delta", "dtype": "<i4"}, {"id": "zlib", "level": 1}]',
        '[{"id": "delta", "dtype": "<i4", "astype": "<i8"}]',
        '[{"id": "crc32"}, {"id": "adler32", "location": "end"}, {"id": "jenkins_lookup3"}, {"id": "zstd", "level": 1}]',
        '[{"id": "shuffle", "elementsize": 2}, {"id": "lzma", "preset": 1}]',
    ],
)
def test_chains_of_v2_for_zarr_python(tmp_path: Path, text: str) -> None:
    data = noise((7, 9), "<i4")
    schema = Schema(data.shape, data.dtype, (3, 4), codec=Codec.parse(text))
    assert FORMAT2.adapt(schema, {"codec"}).codec == Codec.parse(text)
    path = by_us(FORMAT2, tmp_path / "a", schema, data)
    assert same_bits(zarr_reads(path), data)
    assert same_bits(read_array(FORMAT2.open(path, "")), data)


def test_gzip_does_not_write_the_time(tmp_path: Path) -> None:
    chain = Chain(Codec.parse("gzip:1"), np.dtype("u1"))
    assert bytes(chain.encode(np.zeros(100, np.uint8)))[4:8] == bytes(4)


@FORMATS
def test_metadata_for_zarr_python(tmp_path: Path, format: Format) -> None:
    schema = Schema(
        (4, 6),
        np.dtype("<f4"),
        (2, 3),
        fill_value=np.float32(np.nan),
        attributes={"title": "Überblick", "scale": np.float64(0.5), "flags": np.arange(3), "bad": float("nan")},
        axes=("time", "x"),
    )
    path = by_us(format, tmp_path / "a", schema, np.zeros((4, 6), "<f4"), "deep/down")
    array = zarr.open_group(path, mode="r")["deep/down"]
    assert isinstance(array, zarr.Array)
    attributes = dict(array.attrs)
    names = attributes.pop("_ARRAY_DIMENSIONS", None) or list(array.metadata.dimension_names)
    assert names == ["time", "x"]
    assert np.isnan(attributes.pop("bad"))
    assert attributes == {"title": "Überblick", "scale": 0.5, "flags": [0, 1, 2]}
    assert np.isnan(array.fill_value)
    store = format.open(path, "/deep/down")
    assert store.schema.axes == ("time", "x")
    assert "_ARRAY_DIMENSIONS" not in store.schema.attributes
    assert store.location == f"{path}::deep/down"
    assert set(zarr.open_group(path, mode="r").group_keys()) == {"deep"}


@FORMATS
def test_a_half_made_array_does_not_open(tmp_path: Path, format: Format) -> None:
    schema = format.adapt(Schema((4, 6), np.dtype("<f4"), (2, 3), attributes={"a": 1}), ())
    store = format.create(str(tmp_path / "a"), "x", schema)
    with pytest.raises(TargetExistsError):
        format.create(str(tmp_path / "a"), "x", schema)
    write_array(store, np.ones((4, 6), "<f4"))
    for inner in ("", "x"):
        with pytest.raises(FormatError, match="no zarr array"):
            format.open(str(tmp_path / "a"), inner)
    store = pickle.loads(pickle.dumps(store))
    store.commit()
    store.commit()
    assert (zarr_reads(tmp_path / "a", "x") == 1).all()
    assert (read_array(format.open(str(tmp_path / "a"), "")) == 1).all()
    assert not [name for _, _, names in os.walk(tmp_path) for name in names if "draft" in name]


# ---------------------------------------------------------------- fill values
NAN4 = "0x7fc00005"
FILLS: list[tuple[int, str, Any]] = [
    *((3, "float32", v) for v in (0, 1.5, -0.0, "NaN", "Infinity", "-Infinity", "0x3f800000")),
    *((3, "float64", v) for v in ("0x7ff8000000000000", "0x3ff0000000000000", 1e300)),
    *((3, "float16", v) for v in ("0x3c00", "NaN", 2.0)),
    *((3, "complex64", v) for v in ([1, -0.0], ["NaN", "-Infinity"], ["0x3f800000", 2])),
    *((3, "int64", v) for v in (-(2**63), 2**63 - 1, 0)),
    *((3, "uint64", v) for v in (2**64 - 1,)),
    *((3, "bool", v) for v in (True, False)),
    (3, {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 10}}, -(2**63)),
    *((2, "<f4", v) for v in (0, "NaN", "Infinity", "-Infinity", 2.5, None)),
    *((2, ">f8", v) for v in ("NaN", 1e300, -0.0)),
    *((2, "<c8", v) for v in ([1.0, 2.0], ["NaN", 0.0])),
    *((2, "<i4", v) for v in (-7, 3.0)),
    *((2, "|b1", v) for v in (True, False)),
    *((2, "|S3", v) for v in ("YWI=", "")),
    *((2, "<U3", v) for v in ("äb", "")),
    *((2, "<M8[s]", v) for v in (7, -(2**63), "NaT")),
]


@pytest.mark.parametrize(("version", "dtype", "fill"), FILLS, ids=str)
def test_fill_values_as_in_zarr_python(tmp_path: Path, version: int, dtype: Any, fill: Any) -> None:
    path = tmp_path / "a"
    if version == 3:
        by_zarr(path, np.zeros((4,), "u1"), chunks=(2,))
        codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
        edit(path / "zarr.json", lambda doc: doc.update(data_type=dtype, fill_value=fill, codecs=codecs))
        shutil.rmtree(path / "c")
    else:
        by_zarr(path, np.zeros((4,), "u1"), chunks=(2,), zarr_format=2)
        edit(path / ".zarray", lambda doc: doc.update(dtype=dtype, fill_value=fill))
        (path / "0").unlink()
        (path / "1").unlink()
    store = FORMAT.open(str(path), "")
    assert same_values(read_array(store), zarr_reads(path))
    # And what we write for it, we and zarr-python read alike.
    format = FORMAT if version == 3 else FORMAT2
    schema = format.adapt(store.schema, ())
    format.create(str(tmp_path / "b"), "", schema).commit()
    again = FORMAT.open(str(tmp_path / "b"), "")
    assert same_bits(read_array(again), read_array(store))
    assert same_values(zarr_reads(tmp_path / "b"), read_array(store))


def test_a_nan_with_payload_as_fill_value(tmp_path: Path) -> None:
    fill = np.array([0x7FC0_0005], "<u4").view("<f4")[0]
    schema = Schema((4,), np.dtype("<f4"), (2,), fill_value=fill)
    assert FORMAT.adapt(schema, ()).fill_value is fill
    FORMAT.create(str(tmp_path / "a"), "", FORMAT.adapt(schema, ())).commit()
    assert json.loads((tmp_path / "a/zarr.json").read_text())["fill_value"] == NAN4
    assert (read_array(FORMAT.open(str(tmp_path / "a"), "")).view("<u4") == 0x7FC0_0005).all()
    assert np.isnan(zarr_reads(tmp_path / "a")).all()
    adapted = FORMAT2.adapt(schema, ())
    assert "fill value" in adapted.notes[0]
    with pytest.raises(UsageError, match="fill value"):
        FORMAT2.adapt(schema, {"fill_value"})


@FORMATS
def test_chunks_full_of_nan_payloads_are_stored(tmp_path: Path, format: Format) -> None:
    data = np.full((4, 4), 0x7FC0_0005, "<u4").view("<f4")
    schema = Schema((4, 4), data.dtype, (2, 2), fill_value=np.float32(np.nan), codec=Codec.parse("zstd:1"))
    by_us(format, tmp_path / "a", schema, data)
    assert same_bits(zarr_reads(tmp_path / "a"), data)


# ---------------------------------------------------------------- groups and keys
@pytest.mark.parametrize("version", [2, 3])
def test_groups(tmp_path: Path, version: Any) -> None:
    group = zarr.create_group(tmp_path / "g.zarr", zarr_format=version)
    one = group.create_array("deep/one", shape=(4,), chunks=(2,), dtype="<i4")
    one[...] = np.arange(4)
    path = str(tmp_path / "g.zarr")
    store = FORMAT.open(path, "")
    assert store.location == f"{path}::deep/one"
    assert read_array(store).tolist() == [0, 1, 2, 3]
    assert read_array(FORMAT.open(path, "deep")).tolist() == [0, 1, 2, 3]
    assert read_array(FORMAT.open(f"{path}/deep/one", "")).tolist() == [0, 1, 2, 3]
    assert read_array(FORMAT.open(f"{path}/deep", "/one/")).tolist() == [0, 1, 2, 3]
    group.create_array("two", shape=(4,), chunks=(2,), dtype="<i4")
    with pytest.raises(FormatError, match="two, deep/one"):
        FORMAT.open(path, "")
    assert FORMAT.open(path, "two").schema.shape == (4,)
    group.create_group("empty")
    with pytest.raises(FormatError, match="no array in it"):
        FORMAT.open(path, "empty")
    for inner in ("..", "deep/../two", "./two", "a\0b"):
        with pytest.raises(UsageError, match="inner path"):
            FORMAT.open(path, inner)
    with pytest.raises(ReblockError, match="three"):
        FORMAT.open(path, "three")
    assert FORMAT.probe(path)
    assert FORMAT2.probe(path) == (version == 2)


@pytest.mark.parametrize("separator", [".", "/"])
@pytest.mark.parametrize("name", ["default", "v2"])
def test_chunk_keys(tmp_path: Path, name: Any, separator: Any) -> None:
    for shape, chunks in (((5, 4), (2, 3)), ((), ()), ((5,), (2,))):
        data = noise(shape, "<i4")
        path = tmp_path / str(len(shape))
        by_zarr(path, data, chunks=chunks, chunk_key_encoding={"name": name, "separator": separator})
        store = FORMAT.open(str(path), "")
        assert same_bits(read_array(store), data)
        for index in store.layout.objects.indices():
            place = store.place(index)
            assert os.path.isfile(place.path)
            assert place == Extent(place.path, 0, store.layout.object_bytes)


def test_axes_of_xarray(tmp_path: Path) -> None:
    by_zarr(tmp_path / "a", np.zeros((2, 3)), zarr_format=2, attributes={"_ARRAY_DIMENSIONS": ["y", "x"], "u": 1})
    schema = FORMAT.open(str(tmp_path / "a"), "").schema
    assert (schema.axes, schema.attributes) == (("y", "x"), {"u": 1})
    by_zarr(tmp_path / "b", np.zeros((2, 3)), zarr_format=2, attributes={"_ARRAY_DIMENSIONS": ["y"]})
    schema = FORMAT.open(str(tmp_path / "b"), "").schema
    assert (schema.axes, schema.attributes) == (None, {"_ARRAY_DIMENSIONS": ["y"]})
    by_zarr(tmp_path / "c", np.zeros((2, 3)), dimension_names=["y", None])
    schema = FORMAT.open(str(tmp_path / "c"), "").schema
    assert schema.axes == ("y", "")
    by_us(FORMAT, tmp_path / "d", schema, np.zeros((2, 3)))
    assert zarr.open_array(tmp_path / "d").metadata.dimension_names == ("y", None)


# ---------------------------------------------------------------- adapt
def adapted(format: Format, codec: str, *asked: str, **fields: Any) -> Schema:
    schema = Schema((40, 40), np.dtype("<f4"), (20, 20), codec=Codec.parse(codec))
    return format.adapt(replace(schema, **fields), asked)


def test_codecs_that_v3_cannot_keep() -> None:
    for text in ("shuffle+gzip:4", "lz4", "bz2", "fletcher32", "lzf"):
        schema = adapted(FORMAT, text)
        assert str(schema.codec) == "blosc:zstd:3:shuffle"
        assert text.split(":", maxsplit=1)[0] in schema.notes[0]
        with pytest.raises(UsageError, match="blosc, crc32c, gzip, zstd"):
            adapted(FORMAT, text, "codec")
    schema = adapted(FORMAT, "zlib:7")
    assert str(schema.codec) == "gzip:7"
    assert "gzip" in schema.notes[0]
    for text in ("none", "gzip:4", "zstd:3+crc32c", "blosc:lz4:1:noshuffle"):
        assert str(adapted(FORMAT, text, "codec").codec) == text
        assert adapted(FORMAT, text).notes == ()
    with pytest.raises(UsageError, match="level"):
        adapted(FORMAT, '{"id": "zstd", "level": 99}', "codec")


def test_codecs_that_v2_cannot_keep() -> None:
    assert str(adapted(FORMAT2, "lzf").codec) == "blosc:zstd:3:shuffle"
    with pytest.raises(UsageError, match="lzf"):
        adapted(FORMAT2, "lzf", "codec")
    lossy = '[{"id": "bitround", "keepbits": 3}, {"id": "zlib", "level": 1}]'
    schema = adapted(FORMAT2, lossy)
    assert str(schema.codec) == "zlib:1"
    assert "bitround" in schema.notes[0]
    with pytest.raises(UsageError, match="bitround"):
        adapted(FORMAT2, lossy, "codec")
    for stages in ('[{"id": "zlib"}, {"id": "delta", "dtype": "<i4"}]', '{"id": "pickle"}', '{"id": "delta"}'):
        with pytest.raises(UsageError, match="cannot be written"):
            adapted(FORMAT2, stages, "codec")
    with pytest.raises(UsageError, match="elementsize|divide"):
        adapted(FORMAT2, '{"id": "shuffle", "elementsize": 3}', "codec", chunks=(5, 5))


def test_chunks_too_long_for_blosc() -> None:
    fields = {"shape": (2**16, 2**16), "chunks": (2**15, 2**15)}
    assert str(adapted(FORMAT, "blosc", **fields).codec) == "zstd:3"
    assert str(adapted(FORMAT, "lzf", **fields).codec) == "zstd:3"
    with pytest.raises(UsageError, match="at the most"):
        adapted(FORMAT, "blosc", "codec", **fields)


def test_chunks_and_shards_that_cannot_be() -> None:
    with pytest.raises(UsageError, match="irregular"):
        adapted(FORMAT, "none", "chunks", chunks=((10, 20, 10), 5))
    schema = adapted(FORMAT, "none", chunks=((10, 20, 10), (15, 15, 10)))
    assert schema.chunks == (20, 15)
    assert "irregular" in schema.notes[0]
    with pytest.raises(UsageError, match="30,20 would be"):
        adapted(FORMAT, "none", "shards", chunks=(10, 10), shards=(25, 20))
    assert adapted(FORMAT, "none", chunks=(10, 10), shards=(25, 20)).shards == (30, 20)
    with pytest.raises(UsageError, match="only zarr v3"):
        adapted(FORMAT2, "none", "shards", shards=(20, 20))
    assert adapted(FORMAT2, "none", shards=(20, 20)).shards is None
    with pytest.raises(UsageError, match="per shard"):
        adapted(FORMAT, "none", shape=(2**20, 2**20), chunks=(1, 1), shards=(2**13, 2**13))
    for chunks in ((0, 5), (-1, 5), (5,), (5, 5, 5)):
        with pytest.raises(UsageError):
            adapted(FORMAT, "none", chunks=chunks)
    with pytest.raises(UsageError, match="axes"):
        adapted(FORMAT, "none", shape=(1,) * 40, chunks=(1,) * 40, order=tuple(range(40)))
    assert adapted(FORMAT, "none", shape=(0, 4), chunks=(0, 4)).chunks == (1, 4)
    assert adapted(FORMAT, "none", shape=(0, 4), chunks=((), 4)).chunks == (1, 4)


@FORMATS
@pytest.mark.parametrize("dtype", ["longdouble", "clongdouble", "O", "i4,f4"])
def test_types_that_cannot_be(format: Format, dtype: str) -> None:
    with pytest.raises(UsageError):
        adapted(format, "none", dtype=np.dtype(dtype))


def test_what_is_lost_is_said() -> None:
    assert "little-endian" in adapted(FORMAT, "none", dtype=np.dtype(">f4")).notes[0]
    assert adapted(FORMAT2, "none", dtype=np.dtype(">f4")).notes == ()
    assert adapted(FORMAT2, "none", shape=(4,) * 3, chunks=(2,) * 3, order=(1, 0, 2)).order == (0, 1, 2)
    with pytest.raises(UsageError, match="Fortran"):
        adapted(FORMAT2, "none", "order", shape=(4,) * 3, chunks=(2,) * 3, order=(1, 0, 2))
    assert adapted(FORMAT, "none", fill_value=2.0).fill_value == np.float32(2)
    assert "fill value" in adapted(FORMAT, "none", fill_value=np.nan, dtype=np.dtype("<i4")).notes[0]
    with pytest.raises(UsageError, match="fill value"):
        adapted(FORMAT, "none", "fill_value", fill_value=300, dtype=np.dtype("u1"))


# ---------------------------------------------------------------- metadata that lies
def edit(path: Path, change: Any) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def spots(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON document."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(spot for key, inner in inside for spot in spots(inner, (*path, key)))]


def with_junk(document: Any, spot: tuple[Any, ...], junk: Any) -> Any:
    if not spot:
        return junk
    copy = json.loads(json.dumps(document))
    inner = copy
    for key in spot[:-1]:
        inner = inner[key]
    if junk is ...:
        del inner[spot[-1]]
    else:
        inner[spot[-1]] = junk
    return copy


JUNK: tuple[Any, ...] = (
    *(..., None, True, 0, -1, 1.5, 10**30, 2**62, float("nan"), "", "x", "..", "../../etc", [], [0], [[[]]]),
    *({}, {"a": 1}, {"id": "pickle"}, {"name": "numcodecs.pickle"}, [1] * 65, "|O", "<f16"),
)


@pytest.mark.parametrize("version", [2, 3])
def test_any_junk_in_metadata_is_a_format_error(tmp_path: Path, version: Any) -> None:
    path = tmp_path / "a"
    data = noise((4, 6), "<i4")
    if version == 3:
        sharding = ShardingCodec(chunk_shape=(1, 3), codecs=[TransposeCodec(order=(1, 0)), BytesCodec(), BloscCodec()])
        by_zarr(path, data, chunks=(2, 3), serializer=sharding, dimension_names=["y", "x"], attributes={"a": {"b": 1}})
    else:
        by_zarr(
            path, data, chunks=(2, 3), zarr_format=2, filters=[numcodecs.Delta("<i4")], compressors=numcodecs.Blosc()
        )
    name = path / ("zarr.json" if version == 3 else ".zarray")
    document = json.loads(name.read_text())
    document.pop("consolidated_metadata", None)
    refused = 0
    for spot, junk in itertools.product(spots(document), JUNK):
        if junk is ... and not spot:
            continue
        name.write_text(json.dumps(with_junk(document, spot, junk)))
        try:
            store = FORMAT.open(str(path), "")
            assert store.layout.unit_bytes < 2**63
        except FormatError as error:
            refused += 1
            assert "\n" not in str(error)
            assert len(str(error)) < 500
    assert refused > len(spots(document)) * len(JUNK) / 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"shape": [4, -6]}, "-6"),
        ({"shape": [4]}, "axes"),
        ({"shape": [10**15, 10**15]}, "2\\*\\*63"),
        ({"shape": [1] * 65}, "65"),
        ({"zarr_format": 4}, "zarr_format"),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0, 3]}}}, "1"),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2**62, 3]}}}, "2\\*\\*63"),
        ({"chunk_grid": {"name": "rectilinear", "configuration": {}}}, "rectilinear"),
        ({"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "snappy"}]}, "snappy"),
        ({"codecs": [{"name": "vlen-utf8"}]}, "vlen-utf8"),
        ({"codecs": [{"name": "gzip", "configuration": {"level": 1}}]}, "gzip"),
        ({"codecs": ["bytes"]}, "endian"),
        ({"codecs": []}, "bytes"),
        ({"data_type": "string"}, "string"),
        ({"data_type": "float128"}, "float128"),
        ({"fill_value": "0x1"}, "fill value"),
        ({"fill_value": 2**40}, "fill value"),
        ({"storage_transformers": [{"name": "x"}]}, "storage transformers"),
        ({"chunk_key_encoding": {"name": "suffix"}}, "suffix"),
        ({"future": {"must_understand": True}}, "future"),
        ({"dimension_names": ["a"]}, "dimension_names"),
    ],
    ids=str,
)
def test_metadata_of_v3_that_is_refused(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    path = Path(by_zarr(tmp_path / "a", noise((4, 6), "<i4"), chunks=(2, 3)))
    edit(path / "zarr.json", lambda doc: doc.update({"ignored": {"must_understand": False}}))
    assert FORMAT.open(str(path), "").schema.shape == (4, 6)
    edit(path / "zarr.json", lambda doc: doc.update(change))
    with pytest.raises(FormatError, match=says) as caught:
        FORMAT.open(str(path), "")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "codec", ["pickle", "json2", "msgpack2", "vlen-utf8", "vlen-bytes", "vlen-array", "categorize", "zfpy", "x"]
)
def test_codecs_that_are_not_on_the_list(tmp_path: Path, codec: str) -> None:
    path = Path(by_zarr(tmp_path / "a", noise((4, 6), "<i4"), zarr_format=2))
    edit(path / ".zarray", lambda doc: doc.update(dtype="|O", filters=[{"id": codec}]))
    with pytest.raises(FormatError, match=f"{codec}|objects"):
        FORMAT.open(str(path), "")


def test_documents_that_are_no_json(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.mkdir()
    for text in (
        "",
        "{",
        "[]",
        "null",
        '{"zarr_format": 3}',
        "[" * 100_000,
        '{"shape": [' + "9" * 5000 + "]}",
        "\0\xff",
    ):
        (path / "zarr.json").write_text(text, "latin-1")
        with pytest.raises(FormatError, match=r"zarr\.json"):
            FORMAT.open(str(path), "")
    (path / "zarr.json").unlink()
    (path / "zarr.json").mkdir()
    with pytest.raises(StorageError, match=r"zarr\.json"):
        FORMAT.open(str(path), "")


def test_shards_that_are_refused(tmp_path: Path) -> None:
    path = Path(by_zarr(tmp_path / "a", noise((8, 8), "<i4"), chunks=(2, 2), shards=(4, 4)))
    original = (path / "zarr.json").read_text()

    def settings(doc: Any) -> Any:
        return doc["codecs"][0]["configuration"]

    def nested(doc: Any) -> None:
        inner = json.loads(json.dumps(doc["codecs"][0]))
        settings(doc)["codecs"] = [inner]

    cases: tuple[tuple[Any, str], ...] = (
        (lambda doc: settings(doc).update(chunk_shape=[3, 2]), "multiple"),
        (lambda doc: settings(doc).update(index_location="middle"), "middle"),
        (lambda doc: settings(doc)["index_codecs"].append({"name": "gzip", "configuration": {"level": 1}}), "gzip"),
        (lambda doc: doc["codecs"].append({"name": "gzip", "configuration": {"level": 1}}), "gzip"),
        (nested, "inside itself"),
        (
            lambda doc: (doc.update(shape=[2**20] * 2), chunk(doc, 2**20), settings(doc).update(chunk_shape=[1, 1])),
            "limit",
        ),
    )

    def chunk(doc: Any, length: int) -> None:
        doc["chunk_grid"]["configuration"]["chunk_shape"] = [length, length]

    for change, says in cases:
        (path / "zarr.json").write_text(original)
        edit(path / "zarr.json", change)
        with pytest.raises(FormatError, match=says):
            FORMAT.open(str(path), "")


# ---------------------------------------------------------------- bytes that lie
CODECS = (
    *("blosc:lz4:5:shuffle", "blosc:zstd:5:bitshuffle", "blosc:zlib:1:noshuffle", "zstd:3", "gzip:1", "zlib:1", "lz4"),
    *("bz2:1", "lzma", "shuffle+zlib:1", "crc32c", "fletcher32", "gzip:1+crc32c", "blosc+gzip:1", "lz4+zstd", "none"),
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


@pytest.mark.parametrize("text", ["gzip:1", "bz2:1", "lzma", "zlib:1"])
def test_streams_larger_than_a_step(text: str) -> None:
    chain = Chain(Codec.parse(text), np.dtype("u1"))
    data = np.random.default_rng(0).integers(0, 7, 3 << 20, np.uint8)
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
    zeros = bytes(1 << 26)
    return bytes(Chain(Codec.parse(text), np.dtype("u1")).encode(np.frombuffer(zeros, np.uint8)))


@pytest.mark.parametrize("text", ["gzip:9", "zlib:9", "bz2:9", "lzma", "zstd:19", "lz4", "blosc:zstd:9:shuffle"])
def test_bombs_do_not_go_off(text: str) -> None:
    stored, out = bomb(text), np.empty(1000, np.uint8)
    chain = Chain(Codec.parse(text), np.dtype("u1"))
    tracemalloc.start()
    with pytest.raises(CorruptError):
        chain.decode(stored, out)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


FUZZ = """
    import numpy as np, sys
    from reblock.errors import CorruptError
    from reblock.model.codec import Codec
    from reblock.storage.zarr_codecs import Chain
    rng = np.random.default_rng(1)
    data = (np.arange(3000, dtype="<i4") // 3).view(np.uint8)
    good = corrupt = 0
    for text in sys.argv[1:]:
        chain = Chain(Codec.parse(text), np.dtype("<i4"))
        stored = np.frombuffer(bytes(chain.encode(data)), np.uint8)
        cases = [(place, value) for place in range(min(20, stored.size)) for value in range(256)]
        cases += [(int(p), int(v)) for p, v in zip(rng.integers(0, stored.size, 2000), rng.integers(0, 256, 2000))]
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


@pytest.mark.parametrize("text", [t for t in CODECS if t != "none"])
def test_changed_bytes_never_crash(text: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FUZZ), text], capture_output=True, text=True, check=False, timeout=120
    )
    assert run.returncode == 0, run.stderr[-2000:]
    good, corrupt = map(int, run.stdout.split())
    assert good + corrupt >= 6000
    assert corrupt > 1000


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


# ---------------------------------------------------------------- threads and imports
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
