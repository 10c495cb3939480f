"""Zarr arrays of text, bytes, records and enumerations, with zarr-python as the judge."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import reblock
from reblock.errors import CorruptError, InfeasibleError, UsageError
from reblock.model.dataset import TableSchema, Tree
from reblock.model.schema import Record
from reblock.storage import registry
from reblock.storage.zarr.format import FORMAT, FORMAT2
from reblock.testing.sample_trees import TABLES

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning", "ignore::FutureWarning")
VERSIONS = pytest.mark.parametrize("version", [2, 3])
RECORDS = np.array([(n, n / 3, b"xy") for n in range(10)], [("a", "<i4"), ("b", "<f8"), ("s", "S3")])


def by_zarr(path: Path, version: int) -> dict[str, Any]:
    """Tables that zarr-python writes, in chunks that cut both axes."""
    texts = np.array([[f"{n} ü" * (m % 3) for m in range(5)] for n in range(9)], object)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        group = zarr.create_group(path, zarr_format=version)
        group.create_array("text", shape=texts.shape, dtype=str, chunks=(2, 3))[...] = texts
        group.create_array("raw", shape=(3,), dtype=str, chunks=(2,), compressors=None)[...] = texts[0, :3]
        group.create_array("record", data=RECORDS, chunks=(4,))
        group.create_array("unset", shape=(4,), dtype=str, chunks=(2,), fill_value="?")
        group.create_array("a", data=np.arange(3))
    return {"text": texts, "raw": texts[0, :3], "record": RECORDS, "unset": np.array(["?"] * 4, object)}


@VERSIONS
def test_tables_of_zarr_python(tmp_path: Path, version: int) -> None:
    expected = by_zarr(tmp_path / "s.zarr", version)
    found = registry.open_tree(tmp_path / "s.zarr")
    assert list(found.tree.arrays) == ["a"]
    kinds = {name: table.kind for name, table in found.tree.tables.items()}
    assert kinds == {**dict.fromkeys(("text", "raw", "unset"), "text"), "record": "record"}
    for name, values in expected.items():
        assert found.rows(name, 0, len(values), 1 << 20).tolist() == values.tolist()
        assert found.rows(name, 1, 3, 1 << 20).tolist() == values[1:3].tolist()
    assert list(FORMAT.tree_strangers(str(tmp_path / "s.zarr"), found.tree)) == []
    dataset = reblock.open_dataset(tmp_path / "s.zarr")
    assert dataset.read_table("text", 2, 5).tolist() == expected["text"][2:5].tolist()
    with pytest.raises(UsageError, match="read_table"):
        dataset["text"]


@VERSIONS
@pytest.mark.parametrize("name", list(TABLES))
def test_zarr_python_reads_our_tables(tmp_path: Path, name: str, version: int) -> None:
    values, kind, details = TABLES[name]
    dtype = np.dtype("O") if kind in ("text", "bytes") else values.dtype
    made, path = FORMAT if version == 3 else FORMAT2, str(tmp_path / "t.zarr")
    given = TableSchema(values.shape, dtype, kind, details, axes=tuple("xyz"[: values.ndim]))
    tree = made.adapt_tree(Tree(tables={"t": given}), ())
    made.create_tree(path, "", tree)
    if values.size:
        made.write_rows(path, "", "t", tree, 0, values)
    made.commit_tree(path, "", tree, {"t": Record(digest="rb2-0011223344556677")})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array = zarr.open_group(path, mode="r", use_consolidated=version == 3)["t"]
        got = array[...]
    assert np.asarray(got).shape == values.shape
    if kind == "record":
        assert all(np.array_equal(got[field], values[field]) for field in values.dtype.names)
    else:
        assert np.asarray(got, object).tolist() == values.tolist()
    assert registry.open_tree(path).tree.tables["t"].axes == tuple("xyz"[: values.ndim]) or not values.ndim


@VERSIONS
def test_damaged_chunks(tmp_path: Path, version: int) -> None:
    by_zarr(tmp_path / "s.zarr", version)
    found = registry.open_tree(tmp_path / "s.zarr")
    chunk = tmp_path / "s.zarr" / "raw" / ("c/0" if version == 3 else "0")
    whole = chunk.read_bytes()
    for data in (b"", whole[:3], whole[:-1], b"\xff" * 4 + whole[4:], whole[:4] + b"\xff\xff\xff\xff" + whole[8:]):
        chunk.write_bytes(data)
        with pytest.raises(CorruptError, match="raw"):
            found.rows("raw", 0, 2, 1 << 20)


def test_limits(tmp_path: Path) -> None:
    by_zarr(tmp_path / "s.zarr", 3)
    found = registry.open_tree(tmp_path / "s.zarr")
    with pytest.raises(InfeasibleError, match="memory"):
        found.rows("text", 0, 9, 100)
    document = tmp_path / "s.zarr" / "text" / "zarr.json"
    told = json.loads(document.read_text())
    told["shape"], told["chunk_grid"]["configuration"]["chunk_shape"] = [2**40, 2**10], [2**39, 2**10]
    document.write_text(json.dumps(told))
    with pytest.raises(InfeasibleError, match="memory"):
        registry.open_tree(tmp_path / "s.zarr").rows("text", 0, 9, 1 << 30)


@pytest.mark.parametrize(
    "change",
    [
        {"filters": [{"id": "pickle"}]},
        {"filters": [{"id": "vlen-array", "dtype": "<i4"}]},
        {"filters": [{"id": "vlen-utf8"}], "compressor": {"id": "made-up"}},
        {"dtype": [["a", "O"]], "filters": None},
        {"dtype": [["a"]], "filters": None},
        {"dtype": [], "filters": None},
        {"shape": [-1]},
        {"order": "X"},
    ],
    ids=str,
)
def test_what_is_not_read(tmp_path: Path, change: dict[str, Any]) -> None:
    """Codecs that run code, unknown ones, and types that are none: listed with the reason."""
    by_zarr(tmp_path / "s.zarr", 2)
    document = tmp_path / "s.zarr" / "text" / ".zarray"
    document.write_text(json.dumps({**json.loads(document.read_text()), **change}))
    found = registry.open_tree(tmp_path / "s.zarr")
    assert found.tree.tables["text"].why
    with pytest.raises(UsageError):
        found.rows("text", 0, 1, 1 << 20)


def test_records_that_v3_lacks() -> None:
    nested = TableSchema((3,), np.dtype([("a", "f4", (2,))]), "record")
    assert "zarr2" in FORMAT.adapt_tree(Tree(tables={"t": nested}), ()).tables["t"].why
    assert not FORMAT2.adapt_tree(Tree(tables={"t": nested}), ()).tables["t"].why
    odd = TableSchema((3,), np.dtype("O"), "reference")
    assert "reference" in FORMAT2.adapt_tree(Tree(tables={"t": odd}), ()).tables["t"].why


# ---------------------------------------------------------------- struct, as newer writers name records
def by_hand(folder: Path, fields: list[Any], fill: Any, data: bytes, endian: str | None = "little") -> Path:
    """An array of five records in one chunk, as the specification of `struct` describes it."""
    (folder / "r" / "c").mkdir(parents=True)
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [5],
        "data_type": {"name": "struct", "configuration": {"fields": fields}},
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": fill,
        "codecs": [{"name": "bytes", **({"configuration": {"endian": endian}} if endian else {})}],
        "attributes": {},
    }
    (folder / "zarr.json").write_text(json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}}))
    (folder / "r" / "zarr.json").write_text(json.dumps(document))
    (folder / "r" / "c" / "0").write_bytes(data)
    return folder


POINT = {"name": "struct", "configuration": {"fields": [{"name": "x", "data_type": "float32"}]}}
FIELDS = [
    {"name": "id", "data_type": "int32"},
    {"name": "flag", "data_type": "uint8"},
    {"name": "at", "data_type": POINT},
]


@pytest.mark.parametrize("endian", ["little", "big"])
def test_records_named_struct(tmp_path: Path, endian: str) -> None:
    mark = "<" if endian == "little" else ">"
    kind = np.dtype([("id", f"{mark}i4"), ("flag", "u1"), ("at", [("x", f"{mark}f4")])])
    records = np.array([(1, 2, (0.5,)), (-3, 4, (np.nan,)), (5, 6, (-0.0,))], kind)
    fill = {"id": -1, "flag": 9, "at": {"x": "NaN"}}
    folder = by_hand(tmp_path / "s.zarr", FIELDS, fill, records.tobytes(), endian)
    found = reblock.open_dataset(folder).read_table("r")
    assert found[:3].tobytes() == records.astype(found.dtype).tobytes()
    assert (found["id"][3:].tolist(), found["flag"][3:].tolist()) == ([-1, -1], [9, 9])
    assert np.isnan(found["at"]["x"][3:]).all()
    reblock.repartition(folder, tmp_path / "y.h5")
    assert reblock.verify(folder, tmp_path / "y.h5")
    with pytest.raises(UsageError, match=r"zarr v3 has no records with the field 'at'.*zarr2 has"):
        reblock.repartition(folder, tmp_path / "y.zarr")
    reblock.repartition(folder, tmp_path / "y.zarr", to_format="zarr2")
    assert reblock.verify(folder, tmp_path / "y.zarr")


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [{"name": "", "data_type": "int8"}],
        [{"data_type": "int8"}],
        [["a"]],
        [{"name": "a"}],
        "x",
        [7],
        [FIELDS[0]] * 2,
    ],
)
def test_fields_that_make_no_sense(tmp_path: Path, fields: Any) -> None:
    found = reblock.open_dataset(by_hand(tmp_path / "s.zarr", fields, {}, b""))
    assert found.tables["r"].why


def test_records_without_end(tmp_path: Path) -> None:
    folder = tmp_path / "s.zarr"
    (folder / "r").mkdir(parents=True)
    depth = 3000
    text = '{"name":"struct","configuration":{"fields":[{"name":"a","data_type":' * depth + '"int8"' + "}]}}" * depth
    (folder / "zarr.json").write_text(json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}}))
    (folder / "r" / "zarr.json").write_text(
        '{"zarr_format":3,"node_type":"array","shape":[5],"data_type":' + text + "}"
    )
    assert reblock.open_dataset(folder).tables["r"].why
