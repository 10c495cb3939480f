"""New zarr tables: the nearest that zarr can hold, and the metadata documents that describe it."""

from __future__ import annotations

import base64
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from reblock.model.codec import Codec
from reblock.model.dataset import TableSchema
from reblock.model.schema import NO_RECORD, Record
from reblock.storage.codecs.configs import config
from reblock.storage.records import MEMBER
from reblock.storage.typed_attributes import encode_attributes
from reblock.storage.zarr.codec_objects import config_v3
from reblock.storage.zarr.hidden import hidden_members
from reblock.storage.zarr.meta import DIMENSIONS
from reblock.storage.zarr.tables import TABLE, VLEN, TableMeta
from reblock.storage.zarr.values import dtype_json_v3

#: The codec of new tables.
USUAL = Codec.parse("zstd:3")
#: The most bytes of a new chunk of records, and the most elements of one of text.
_CHUNK_BYTES, _MANY_TEXTS = 1 << 20, 4096


def adapt_table(table: TableSchema, version: int) -> TableSchema:
    """The nearest table that zarr can hold."""
    if table.why:
        return table
    if table.kind not in (*VLEN, "record", "enum"):
        return replace(table, why=f"zarr has no type for elements that are {table.kind}")
    dtype = table.dtype
    if table.kind == "record":
        dtype = dtype.newbyteorder("<")
        if version == 3 and (odd := [name for name in dtype.names or () if dtype[name].kind not in "biufcSUmM"]):
            return replace(table, why=f"zarr v3 has no records with the field {odd[0]!r} of {dtype[odd[0]]}; zarr2 has")
    attributes = encode_attributes(table.attributes, version=version)
    rows = table.chunks[0] if table.chunks else table.shape[0] if table.shape else 1
    # Nobody knows how long text is, so a chunk has few elements.
    width = prod(table.shape[1:]) * (dtype.itemsize if table.kind not in VLEN else _CHUNK_BYTES // _MANY_TEXTS)
    rows = max(min(rows, _CHUNK_BYTES // max(width, 1)), 1)
    chunks = (rows, *(max(n, 1) for n in table.shape[1:])) if table.shape else ()
    kept = {name: table.attributes[name] for name in attributes.values}
    return replace(table, dtype=dtype, chunks=chunks, attributes=kept)


def meta_of(table: TableSchema, version: int) -> TableMeta:
    """The metadata of a new table."""
    return TableMeta(version, table, USUAL, "c" if version == 3 else "", "/" if version == 3 else ".")


def table_files(table: TableSchema, version: int, record: Record = NO_RECORD) -> dict[str, dict[str, Any]]:
    """The metadata documents of a new table by file name, the one by which it is found last."""
    meta = meta_of(table, version)
    attributes = encode_attributes(table.attributes, version=version)
    hidden = hidden_members(record, attributes.types)
    if table.kind == "enum":
        hidden[TABLE] = dict(table.details)
    fill = _fill_json(meta, version)
    if version == 2:
        values = dict(attributes.values)
        if table.axes is not None:
            values[DIMENSIONS] = list(table.axes)
        document = {
            "zarr_format": 2,
            "shape": list(table.shape),
            "chunks": list(meta.chunks),
            "dtype": _dtype_json_v2(table),
            "compressor": config(meta.codec.stages[0], np.dtype("u1")),
            "fill_value": fill,
            "order": "C",
            "filters": [{"id": VLEN[table.kind]}] if table.kind in VLEN else None,
            "dimension_separator": ".",
        }
        files = {".zattrs": values} if values else {}
        return {**files, **({".reblock.json": hidden} if hidden else {}), ".zarray": document}
    to_bytes: dict[str, Any] = {"name": VLEN.get(table.kind, "bytes"), "configuration": {}}
    if table.kind in ("enum", "record") and table.dtype.itemsize > 1:
        to_bytes["configuration"] = {"endian": "big" if table.dtype.str[0] == ">" else "little"}
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(table.shape),
        "data_type": _dtype_json_v3(table),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(meta.chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill,
        "codecs": [to_bytes, *(config_v3(stage, np.dtype("u1")) for stage in meta.codec.stages)],
        "attributes": attributes.values,
    }
    if table.axes is not None:
        document["dimension_names"] = [name or None for name in table.axes]
    if hidden:
        document[MEMBER] = {"must_understand": False, **hidden}
    return {"zarr.json": document}


def _fill_json(meta: TableMeta, version: int) -> Any:
    fill, kind = meta.empty, meta.schema.kind
    if kind == "text":
        return str(fill)
    if kind == "bytes":
        return base64.b64encode(fill).decode() if version == 3 else ""
    if kind == "enum":
        return int(fill)
    return base64.b64encode(np.asarray(fill, meta.schema.dtype).tobytes()).decode()


def _dtype_json_v2(table: TableSchema) -> Any:
    if table.kind in VLEN:
        return "|O"
    return _lists(table.dtype.descr) if table.kind == "record" else table.dtype.str


def _lists(value: Any) -> Any:
    return [_lists(one) for one in value] if isinstance(value, list | tuple) else value


def _dtype_json_v3(table: TableSchema) -> Any:
    if table.kind in VLEN:
        return "string" if table.kind == "text" else "variable_length_bytes"
    if table.kind == "enum":
        return dtype_json_v3(table.dtype)
    fields = [[name, dtype_json_v3(table.dtype[name])] for name in table.dtype.names or ()]
    return {"name": "structured", "configuration": {"fields": fields}}
