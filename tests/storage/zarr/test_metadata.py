"""What zarr can hold of a schema, and metadata that lies."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.codecs import (
    BloscCodec,
    BytesCodec,
    ShardingCodec,
    TransposeCodec,
)

from reblock.errors import FormatError, StorageError, UsageError
from reblock.model.codec import Codec
from reblock.model.schema import Schema
from reblock.model.store import Format
from reblock.storage.zarr.format import FORMAT, FORMAT2
from reblock.storage.zarr.meta import parse_v2, parse_v3
from reblock.storage.zarr.values import dtype_v3, fill_from_json
from reblock.testing.arrays import noise, same_bits
from reblock.testing.reference_io import read_array
from zarr_python import by_zarr, edit

FORMATS = pytest.mark.parametrize("format", [FORMAT, FORMAT2], ids=["v3", "v2"])


# ---------------------------------------------------------------- adapt
def adapted(format: Format, codec: str, *asked: str, **fields: Any) -> Schema:
    schema = Schema((40, 40), np.dtype("<f4"), (20, 20), codec=Codec.parse(codec))
    return format.adapt(replace(schema, **fields), asked)


def test_codecs_that_v3_cannot_keep() -> None:
    for text in ("shuffle+gzip:4", "lz4", "bz2", "fletcher32", "lzf"):
        schema = adapted(FORMAT, text)
        assert str(schema.codec) == "blosc:zstd:3:shuffle"
        assert text.split(":", maxsplit=1)[0] in schema.notes[0]
        assert "blosc, crc32c, gzip, zstd" in schema.notes[0]
        if text == "lzf":
            with pytest.raises(UsageError, match="lzf"):
                adapted(FORMAT, text, "codec")
            continue
        schema = adapted(FORMAT, text, "codec")
        assert schema.codec == Codec.parse(text)
        assert "not in zarr v3's specification" in schema.notes[0]
    schema = adapted(FORMAT, "zlib:7")
    assert str(schema.codec) == "gzip:7"
    assert "gzip" in schema.notes[0]
    for text in ("none", "gzip:4", "zstd:3+crc32c", "blosc:lz4:1:noshuffle"):
        assert str(adapted(FORMAT, text, "codec").codec) == text
        assert adapted(FORMAT, text).notes == ()
    with pytest.raises(UsageError, match="level"):
        adapted(FORMAT, '{"id": "zstd", "level": -999999}', "codec")


def test_codecs_that_v2_cannot_keep() -> None:
    assert str(adapted(FORMAT2, "lzf").codec) == "blosc:zstd:3:shuffle"
    with pytest.raises(UsageError, match="lzf"):
        adapted(FORMAT2, "lzf", "codec")
    lossy = '[{"id": "bitround", "keepbits": 3}, {"id": "zlib", "level": 1}]'
    schema = adapted(FORMAT2, lossy)
    assert str(schema.codec) == "zlib:1"
    assert "bitround" in schema.notes[0]
    schema = adapted(FORMAT2, lossy, "codec")
    assert schema.codec.names == ("bitround", "zlib")
    assert "bitround does not keep every bit" in schema.notes[0]
    for stages in ('[{"id": "zlib"}, {"id": "delta", "dtype": "<i4"}]', '{"id": "pickle"}', '{"id": "delta"}'):
        with pytest.raises(UsageError, match="cannot be written"):
            adapted(FORMAT2, stages, "codec")
    with pytest.raises(UsageError, match=r"elementsize|divide"):
        adapted(FORMAT2, '{"id": "shuffle", "elementsize": 3}', "codec", chunks=(5, 5))


def test_chunks_too_long_for_blosc() -> None:
    fields = {"shape": (2**16, 2**16), "chunks": (2**15, 2**15)}
    assert str(adapted(FORMAT, "blosc", **fields).codec) == "zstd:3"
    assert str(adapted(FORMAT, "lzf", **fields).codec) == "zstd:3"
    with pytest.raises(UsageError, match="at most"):
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
    refused: list[str] = []
    for spot, junk in itertools.product(spots(document)[1:], JUNK):
        wrong = with_junk(document, spot, junk)
        try:
            meta = parse_v3(wrong, where="here") if version == 3 else parse_v2(wrong, {}, where="here")
            assert meta.layout.unit_bytes < 2**63
        except FormatError as error:
            refused.append(str(error))
    assert len(refused) > len(spots(document)) * len(JUNK) / 2
    assert all("\n" not in error and len(error) < 500 for error in refused)


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
        settings(doc).update(chunk_shape=[4, 4], codecs=[json.loads(json.dumps(doc["codecs"][0]))])

    cases: tuple[tuple[Any, str], ...] = (
        (lambda doc: settings(doc).update(chunk_shape=[3, 2]), "multiple"),
        (lambda doc: settings(doc).update(index_location="middle"), "middle"),
        (lambda doc: settings(doc)["index_codecs"].append({"name": "gzip", "configuration": {"level": 1}}), "gzip"),
        (lambda doc: [nested(doc) for _ in range(9)], "is nested more than"),
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


def test_raw_bits_of_v3() -> None:
    dtype = dtype_v3("r16", where="here")
    assert dtype == np.dtype("V2")
    for fill in ([1, 2], "AQI="):
        assert fill_from_json(fill, dtype, where="here").tobytes() == b"\x01\x02"
    assert fill_from_json(0, dtype, where="here").tobytes() == b"\0\0"
    for wrong in ([1, 2, 3], [1, 256], "AQID", "?", 1.5, {}):
        with pytest.raises(FormatError, match="fill value"):
            fill_from_json(wrong, dtype, where="here")


def test_what_zarr_python_takes_for_granted(tmp_path: Path) -> None:
    data = noise((8, 8), "<i4")
    path = Path(by_zarr(tmp_path / "a", data, chunks=(2, 2), shards=(4, 4)))
    edit(
        path / "zarr.json",
        lambda doc: (doc["codecs"][0]["configuration"].pop("index_codecs"), doc.update(attributes=None)),
    )
    assert (read_array(FORMAT.open(str(path), "")) == data).all()


def test_zstd_levels_of_other_programs(tmp_path: Path) -> None:
    """numcodecs takes any level, and zstd all above 22 for 22."""
    data = np.arange(24, dtype="<i4").reshape(4, 6)
    array = zarr.create_array(
        tmp_path / "x.zarr",
        shape=(4, 6),
        chunks=(2, 3),
        dtype="<i4",
        compressors=numcodecs.Zstd(level=100),
        zarr_format=2,
    )
    array[...] = data
    store = FORMAT.open(str(tmp_path / "x.zarr"), "")
    assert str(store.schema.codec) == "zstd:22"
    assert same_bits(read_array(store), data)


def test_blosc_without_snappy_says_so(tmp_path: Path) -> None:
    from numcodecs import blosc

    if "snappy" in blosc.list_compressors():
        pytest.skip("this numcodecs has Snappy")
    with pytest.raises(UsageError, match="built with it"):
        FORMAT.adapt(Schema((4,), np.dtype("i4"), (2,), codec=Codec.parse("blosc:snappy:3:shuffle")), {"codec"})
