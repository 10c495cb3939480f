"""The metadata files of a new zarr array: documents of v2 and v3, encoded before anything is written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from reblock.errors import FormatError
from reblock.model.codec import Stage
from reblock.model.schema import Schema
from reblock.storage.checks import parse_json
from reblock.storage.codecs.configs import config
from reblock.storage.codecs.registry import is_filter
from reblock.storage.conventions import FILL_VALUE, without_fill_attribute
from reblock.storage.records import MEMBER, RECORD_FILE
from reblock.storage.typed_attributes import encode_attributes
from reblock.storage.zarr.codec_objects import config_v3
from reblock.storage.zarr.hidden import PLAIN_FILL, hidden_members
from reblock.storage.zarr.meta import DIMENSIONS, Meta, parse_v2, parse_v3
from reblock.storage.zarr.values import dtype_json_v3, fill_to_json

_WHERE = "new array"


def metadata_files(schema: Schema, parts: Sequence[str], version: int) -> list[tuple[str, bytes]]:
    """Names and bytes of the metadata files of a new array and of the groups above it; the array's own is last."""
    groups = ["/".join(parts[:n]) for n in range(len(parts))]
    below = "".join(part + "/" for part in parts)
    if version == 3:
        group = encode_json({"zarr_format": 3, "node_type": "group", "attributes": {}})
        files = [(f"{name}/zarr.json".lstrip("/"), group) for name in groups]
        return [*files, (f"{below}zarr.json", encode_json(document_v3(schema)))]
    document, attributes, hidden = documents_v2(schema)
    files = [(f"{name}/.zgroup".lstrip("/"), encode_json({"zarr_format": 2})) for name in groups]
    if attributes:
        files.append((f"{below}.zattrs", encode_json(attributes)))
    if hidden:
        files.append((below + RECORD_FILE, encode_json(hidden)))
    return [*files, (f"{below}.zarray", encode_json(document))]


def describe(schema: Schema, version: int) -> Meta:
    """The metadata of an adapted schema after a round trip through its encoded files; no I/O."""
    files = {name: parse_json(data, where=_WHERE) for name, data in metadata_files(schema, (), version)}
    if version == 2:
        return parse_v2(files[".zarray"], files.get(".zattrs", {}), where=_WHERE, record=files.get(RECORD_FILE))
    return parse_v3(files["zarr.json"], where=_WHERE)


def encode_json(document: dict[str, Any]) -> bytes:
    """A metadata document as bytes."""
    try:
        return json.dumps(document, indent=2, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise FormatError(
            f"{_WHERE}: the metadata holds {error.object[error.start : error.end]!r}, not Unicode"
        ) from None


def document_v3(schema: Schema) -> dict[str, Any]:
    """The `zarr.json` of an adapted schema."""
    endian = {"<": "little", ">": "big"}.get(schema.dtype.str[0])
    to_bytes = {"name": "bytes", "configuration": {"endian": endian}} if endian else {"name": "bytes"}
    codecs: list[dict[str, Any]] = []
    if schema.order != tuple(range(schema.ndim)):
        codecs.append({"name": "transpose", "configuration": {"order": list(schema.order)}})
    filters = [stage for stage in schema.codec.stages if is_filter(stage)]
    others = schema.codec.stages[len(filters) :]
    codecs += [*_codecs_v3(filters, schema.dtype), to_bytes, *_codecs_v3(others, schema.dtype)]
    if schema.shards is not None:
        settings = {
            "chunk_shape": list(schema.chunks),
            "codecs": codecs,
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
            "index_location": "end",
        }
        codecs = [{"name": "sharding_indexed", "configuration": settings}]
    attributes = encode_attributes(schema.attributes, netcdf=schema.netcdf, dtype=schema.dtype)
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(schema.shape),
        "data_type": dtype_json_v3(schema.dtype),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(schema.shards or schema.chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill_to_json(schema.fill_value, schema.dtype, version=3),
        "codecs": codecs,
        "attributes": attributes.values,
    }
    if schema.axes is not None:
        document["dimension_names"] = [name or None for name in schema.axes]
    if hidden := hidden_members(schema.record, attributes.types, netcdf=schema.netcdf):
        document[MEMBER] = {"must_understand": False, **hidden}
    return document


def _codecs_v3(stages: Sequence[Stage], dtype: np.dtype[Any]) -> list[dict[str, Any]]:
    return [config_v3(stage, dtype) for stage in stages]


def documents_v2(schema: Schema) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The `.zarray`, the `.zattrs` and the record file of an adapted schema."""
    configs = [_config_v2(stage, schema.dtype) for stage in schema.codec.stages]
    # A chain whose last stage is a filter has no compressor.
    last = configs.pop() if configs and not is_filter(schema.codec.stages[-1]) else None
    kept = dict(schema.attributes)
    if schema.axes is not None:
        kept = without_fill_attribute(kept, schema.fill_value)
    attributes, types, _ = encode_attributes(kept, netcdf=schema.netcdf, version=2, dtype=schema.dtype)
    if schema.axes is not None:
        attributes[DIMENSIONS] = list(schema.axes)
    document = {
        "zarr_format": 2,
        "shape": list(schema.shape),
        "chunks": list(schema.chunks),
        "dtype": schema.dtype.str,
        "compressor": last,
        "fill_value": fill_to_json(schema.fill_value, schema.dtype, version=2),
        "order": "C" if schema.order == tuple(range(schema.ndim)) else "F",
        "filters": configs or None,
        "dimension_separator": ".",
    }
    hidden = hidden_members(schema.record, types, netcdf=schema.netcdf)
    if schema.axes is not None and schema.fill_value is not None and FILL_VALUE not in schema.attributes:
        hidden[PLAIN_FILL] = True
    return document, attributes, hidden


def _config_v2(stage: Stage, dtype: np.dtype[Any]) -> dict[str, Any]:
    settings = config(stage, dtype)
    if stage.name == "blosc" and stage.get("typesize") is None:
        # numcodecs before 0.16 has no such setting, and uses the array's own anyway.
        del settings["typesize"]
    return settings
