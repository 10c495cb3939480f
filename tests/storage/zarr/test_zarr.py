"""Zarr arrays against zarr-python, both ways."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.codecs import (
    BloscCodec,
    BytesCodec,
    Crc32cCodec,
    GzipCodec,
    ShardingCodec,
    TransposeCodec,
    ZstdCodec,
)

import reblock
from reblock.errors import FormatError, ReblockError, TargetExistsError, UsageError
from reblock.geometry import Grid
from reblock.model.codec import Codec
from reblock.model.schema import Schema
from reblock.model.store import Extent, Format
from reblock.storage.codecs.chain import Chain
from reblock.storage.zarr.format import FORMAT, FORMAT2
from reblock.testing.arrays import DTYPES, noise, same_bits
from reblock.testing.reference_io import read_array, read_extent, write_array
from zarr_python import by_us, by_zarr, edit, same_values, zarr_reads

FORMATS = pytest.mark.parametrize("format", [FORMAT, FORMAT2], ids=["v3", "v2"])


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


@pytest.mark.parametrize("dtype", ["<M8[ns]", "<m8[10us]", ">M8[D]"])
def test_times_in_v3(tmp_path: Path, dtype: str) -> None:
    data = noise((5, 4), dtype)
    assert same_values(read_array(FORMAT.open(by_zarr(tmp_path / "theirs", data), "")), data)
    by_us(FORMAT, tmp_path / "ours", Schema(data.shape, data.dtype, (2, 3)), data)
    assert same_values(zarr_reads(tmp_path / "ours"), data)
    with pytest.raises(UsageError, match="unit"):
        FORMAT.adapt(Schema((4,), np.dtype(dtype[:3]), (2,)), ())


@pytest.mark.parametrize("dtype", ["|S5", "<U4", "|V6"])
def test_unstable_types_of_v3_are_read_and_written_with_a_note(tmp_path: Path, dtype: str) -> None:
    data = noise((5, 4), "u1").astype("U").astype(dtype) if dtype[1] in "SU" else noise((5, 4), dtype)
    assert same_bits(read_array(FORMAT.open(by_zarr(tmp_path / "theirs", data), "")), data)
    adapted = FORMAT.adapt(Schema(data.shape, data.dtype, (2, 3)), ())
    assert adapted.dtype == data.dtype
    assert any("no stable specification" in note for note in adapted.notes)


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
    # zarr-python compares shards with chunks as if neither were transposed, so both must divide.
    shards = (6, 6) if outer else (6, 8)
    codec = ShardingCodec(chunk_shape=inner, **SHARDS[name])
    path = by_zarr(tmp_path / "a", data, chunks=shards, filters=filters, serializer=codec)
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
    assert same_bits(zarr_reads(path, quiet=True), data)


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


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=str)
@pytest.mark.parametrize("shape", [(37, 50), (40, 48), (3, 3)], ids=str)
def test_raw_shards_are_written_chunk_by_chunk(tmp_path: Path, shape: tuple[int, int], order: tuple[int, int]) -> None:
    data = noise(shape, "<i4")
    schema = FORMAT.adapt(Schema(data.shape, data.dtype, (4, 5), (16, 20), order), {"shards"})
    layout = FORMAT.layout(schema)
    assert layout.objects == layout.units
    assert layout.shards is not None
    store = FORMAT.create(str(tmp_path / "a"), "", schema)
    taken: dict[str, list[tuple[int, int]]] = {}
    for index in layout.objects.indices():
        place = store.place(index)
        assert place.length == 80
        taken.setdefault(place.path, []).append((place.offset, place.whole or 0))
    assert len(taken) == layout.shards.count
    # Chunks lie side by side, and only the index comes after them.
    for places in taken.values():
        assert sorted(offset for offset, _ in places) == list(range(0, 80 * len(places), 80))
        assert {whole for _, whole in places} == {80 * len(places) + 16 * 16 + 4}
    store.abort()
    path = by_us(FORMAT, tmp_path / "b", schema, data)
    assert same_bits(zarr_reads(path), data)
    files = [name for name in Path(path, "c").rglob("*") if name.is_file()]
    assert {str(name.relative_to(path)): name.stat().st_size for name in files} == {
        str(Path(name).relative_to(tmp_path / "a")): 80 * len(places) + 260 for name, places in taken.items()
    }


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
        '[{"id": "crc32"}, {"id": "adler32", "location": "end"}, {"id": "jenkins_lookup3"}, {"id": "zstd"}]',
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
        with pytest.raises(FormatError, match="not a zarr array"):
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
    writer = FORMAT if version == 3 else FORMAT2
    writer.create(str(tmp_path / "b"), "", writer.adapt(store.schema, ())).commit()
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
    # xarray takes elements of the fill value for missing.
    assert (schema.axes, schema.attributes) == (("y", "x"), {"u": 1, "_FillValue": 0.0})
    by_zarr(tmp_path / "b", np.zeros((2, 3)), zarr_format=2, attributes={"_ARRAY_DIMENSIONS": ["y"]})
    schema = FORMAT.open(str(tmp_path / "b"), "").schema
    assert (schema.axes, schema.attributes) == (None, {"_ARRAY_DIMENSIONS": ["y"]})
    by_zarr(tmp_path / "c", np.zeros((2, 3)), dimension_names=["y", None])
    schema = FORMAT.open(str(tmp_path / "c"), "").schema
    assert schema.axes == ("y", "")
    by_us(FORMAT, tmp_path / "d", schema, np.zeros((2, 3)))
    assert zarr.open_array(tmp_path / "d").metadata.dimension_names == ("y", None)


def test_no_fill_value_stays_none_in_version_2(tmp_path: Path) -> None:
    array = zarr.create_array(tmp_path / "a", shape=(10,), chunks=(4,), dtype="f4", zarr_format=2, fill_value=None)
    array[:] = np.arange(10)
    reblock.repartition(tmp_path / "a", tmp_path / "b", chunks=(5,), to_format="zarr2")
    reblock.repartition(tmp_path / "b", tmp_path / "c", to_format="zarr")
    reblock.repartition(tmp_path / "c", tmp_path / "d", to_format="zarr2", fill_value="none")
    for name in ("b", "d"):
        assert json.loads((tmp_path / name / ".zarray").read_text())["fill_value"] is None
        assert zarr.open_array(tmp_path / name)[:].tolist() == list(range(10))
    assert json.loads((tmp_path / "c" / "zarr.json").read_text())["fill_value"] == 0
