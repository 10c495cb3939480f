"""Metadata of a zarr array: parses the documents of v2 and v3 into one description."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from reblock.errors import FormatError
from reblock.geometry import Grid
from reblock.geometry.grid import inverse
from reblock.model.codec import Codec, Stage
from reblock.model.layout import Coding, Layout
from reblock.model.schema import Schema
from reblock.storage.checks import check_chunks, check_keys, check_order, check_shape, show
from reblock.storage.codecs.chain import Chain
from reblock.storage.codecs.coding import coding, shard_beside_coding, shard_coding
from reblock.storage.codecs.configs import stage_of
from reblock.storage.codecs.registry import is_checksum, is_filter
from reblock.storage.conventions import with_fill_attribute
from reblock.storage.records import MEMBER
from reblock.storage.zarr.codec_objects import stage_of_v3
from reblock.storage.zarr.hidden import has_plain_fill, take_hidden
from reblock.storage.zarr.nested import Nested
from reblock.storage.zarr.values import dtype_v2, dtype_v3, fill_from_json

#: The attribute in which xarray stores axis names in v2.
DIMENSIONS = "_ARRAY_DIMENSIONS"
#: The largest index of a shard in bytes; three copies of it exist while it is read.
INDEX_BYTES = 1 << 25
#: The most codecs of an array; each is applied to each chunk.
_MANY_CODECS = 32
#: The deepest nesting of shards.
_MANY_SHARDS = 8
_NESTED_NOTE = "shards inside other shards, or with codecs around them, are read as chunks"
#: What zarr-python assumes if a shard does not say how its index is stored.
_INDEX_CODECS = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
_V3_KEYS = {
    *("zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs"),
    *("attributes", "dimension_names", "storage_transformers"),
}


@dataclass(frozen=True)
class Shard:
    """The arrangement of units in a shard."""

    axes: tuple[int, ...]
    """The array's axes in the shard's order."""
    counts: tuple[int, ...]
    """Units along each axis of the shard, in the shard's order."""
    index: Chain
    """Checksum of the index."""
    at_start: bool
    """Whether the index comes before the units."""

    @property
    def index_bytes(self) -> int:
        """Stored size of the index."""
        return self.index.limit(16 * prod(self.counts))


@dataclass(frozen=True)
class Meta:
    """Everything that a store knows about its array."""

    version: int
    """2 or 3."""
    schema: Schema
    """The array's schema."""
    layout: Layout
    """The array's layout."""
    chain: Chain | Nested
    """How a unit is encoded."""
    prefix: str
    """The part of a key before the first index; the whole key of an array without axes."""
    separator: str
    """The separator of indices in a key."""
    shard: Shard | None = None
    """The arrangement of units in a shard; None without shards."""

    def key(self, index: tuple[int, ...]) -> str:
        """Name of an object below the array's folder: numbers and separators only."""
        key = self.separator.join(map(str, index))
        if self.prefix:
            return f"{self.prefix}{self.separator}{key}" if key else self.prefix
        return key or "0"


def _layout(schema: Schema) -> Layout:
    """The layout of a schema: chunks have full size even at the edges."""
    units = Grid.of(schema.shape, schema.chunks, padded=True)
    if schema.shards is None and not schema.codec:
        return Layout.raw(schema.dtype, units, schema.order)
    layout = Layout(
        schema.dtype,
        units if schema.shards is None else Grid.of(schema.shape, schema.shards, padded=True),
        units,
        schema.order,
        codec=str(schema.codec) if schema.codec else "",
        partial_reads=False,
        partial_writes=False,
        indexed=schema.shards is not None,
    )
    taken = coding(schema.codec, schema.dtype, layout.unit_bytes)
    if schema.shards is None or taken is None:
        return replace(layout, coding=taken)
    if schema.chunk_order:
        # Chunks are taken from all over the shard, so that none of its memory becomes free before the end.
        return replace(layout, coding=shard_beside_coding(taken, layout.unit_bytes, layout.object_bytes))
    rows = prod(max(schema.shards[axis] // int(schema.chunks[axis]), 1) for axis in schema.order[:1])  # type: ignore[arg-type]
    sizes = layout.unit_bytes, layout.object_bytes
    return replace(layout, coding=shard_coding(schema.codec, taken, *sizes, rows))


def in_chunk_order(meta: Meta, order: str) -> Meta:
    """The same array with the chunks inside shards in an order."""
    if not order or meta.shard is None:
        return meta
    schema = replace(meta.schema, chunk_order=order)
    return replace(meta, schema=schema, layout=_layout(schema))


def with_shape(meta: Meta, shape: Sequence[int]) -> Meta:
    """The same array with other lengths."""
    schema = replace(meta.schema, shape=tuple(shape))
    return replace(meta, schema=schema, layout=_layout(schema))


def _chain(stages: list[Stage], dtype: np.dtype[Any], nbytes: int, where: str) -> Chain:
    chain = Chain(Codec(tuple(stages)), dtype)
    try:
        chain.sizes(nbytes)
    except ValueError as error:
        raise FormatError(f"{where}: {error}") from None
    return chain


# ---------------------------------------------------------------- v2, reading
def parse_v2(document: Mapping[str, Any], attributes: Mapping[str, Any], *, where: str, record: Any = None) -> Meta:
    """The array that a `.zarray` and its `.zattrs` describe, with the record of the run that made it."""
    check_keys(document, ("zarr_format", "shape", "chunks", "dtype", "compressor", "fill_value", "order"), where=where)
    if document["zarr_format"] != 2:
        raise FormatError(f"{where}: zarr_format must be 2 here, not {show(document['zarr_format'])}")
    separator = document.get("dimension_separator", ".")
    if separator not in (".", "/"):
        raise FormatError(f"{where}: the dimension separator must be '.' or '/', not {show(separator)}")
    stages = _codecs_v2(document)
    if len(stages) > _MANY_CODECS:
        raise FormatError(f"{where}: {len(stages)} filters and compressors, the limit is {_MANY_CODECS}")
    dtype = dtype_v2(document["dtype"], where=where) if not _unknown(stages) else np.dtype("u1")
    shape = check_shape(document["shape"], where=where, itemsize=dtype.itemsize)
    chunks = _regular(document["chunks"], shape, dtype, where)
    if document["order"] not in ("C", "F"):
        raise FormatError(f"{where}: the order must be 'C' or 'F', not {show(document['order'])}")
    axes = range(len(shape))
    found, rest, netcdf = take_hidden(attributes, record)
    schema_axes, rest = axes_v2(rest, len(shape))
    fill = fill_from_json(document["fill_value"], dtype, where=where)
    if schema_axes is not None and not has_plain_fill(record):
        # xarray named the axes, and takes elements of the fill value for missing.
        rest = with_fill_attribute(rest, fill, dtype)
    schema = Schema(
        shape,
        dtype,
        chunks,
        order=tuple(axes if document["order"] == "C" else reversed(axes)),
        codec=Codec(tuple(_stage(c, dtype, where) for c in stages)),
        fill_value=fill,
        attributes=rest,
        axes=schema_axes,
        netcdf=netcdf,
        record=found,
    )
    chain = _chain(list(schema.codec.stages), dtype, prod(chunks) * dtype.itemsize, where)
    return Meta(2, schema, _layout(schema), chain, "", separator)


def _codecs_v2(document: Mapping[str, Any]) -> list[Any]:
    filters, compressor = document.get("filters") or [], document["compressor"]
    return [*(filters if isinstance(filters, list) else [filters]), *([] if compressor is None else [compressor])]


def _unknown(stages: list[Any]) -> bool:
    """Whether a codec turns bytes into objects: the error then names the codec, not the object type."""
    return any(
        isinstance(c, Mapping) and str(c.get("id")).startswith(("vlen", "json", "pickle", "msgpack")) for c in stages
    )


def _stage(value: Any, dtype: np.dtype[Any], where: str) -> Stage:
    try:
        return stage_of(value, dtype)
    except ValueError as error:
        raise FormatError(f"{where}: {error}") from None


def axes_v2(attributes: Mapping[str, Any], ndim: int) -> tuple[tuple[str, ...] | None, dict[str, Any]]:
    """Axis names from xarray's attribute, and the other attributes."""
    names = attributes.get(DIMENSIONS)
    if isinstance(names, list) and len(names) == ndim and all(isinstance(n, str) for n in names):
        return tuple(names), {k: v for k, v in attributes.items() if k != DIMENSIONS}
    return None, dict(attributes)


def _regular(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any], where: str) -> tuple[int, ...]:
    chunks = check_chunks(value, shape, dtype.itemsize, where=where)
    return tuple(c for c in chunks if isinstance(c, int))


# ---------------------------------------------------------------- v3, reading
def parse_v3(document: Mapping[str, Any], *, where: str) -> Meta:
    """The array that a `zarr.json` describes."""
    check_keys(document, sorted(_V3_KEYS - {"attributes", "dimension_names", "storage_transformers"}), where=where)
    _check_extensions(document, where)
    dtype = dtype_v3(document["data_type"], where=where)
    shape = check_shape(document["shape"], where=where, itemsize=dtype.itemsize)
    grid, settings = _named(document["chunk_grid"], "chunk grid", where)
    if grid != "regular":
        raise FormatError(f"{where}: chunk grid {show(grid)} is not supported, only 'regular' is")
    objects = _regular(settings.get("chunk_shape"), shape, dtype, where)
    prefix, separator = _keys_v3(document["chunk_key_encoding"], where)
    pipe = _Pipe.of(document["codecs"], len(shape), dtype, where)
    record, attributes, netcdf = take_hidden(_attributes(document.get("attributes", {}), where), document.get(MEMBER))
    chunks, shard, chain = objects, None, None
    order, dtype, stages = pipe.order, pipe.dtype, pipe.stages
    if pipe.shard is not None:
        shard, chunks, inner = _shard(pipe, objects, shape, dtype, where)
        if pipe.stages or inner.shard is not None:
            fill = partial(fill_from_json, document["fill_value"], where=where)
            chain, dtype, stages = _nested(pipe, objects, fill, where)
            chunks, shard = objects, None
        else:
            order, dtype, stages = tuple(pipe.order[a] for a in inner.order), inner.dtype, inner.stages
    schema = Schema(
        shape,
        dtype,
        chunks,
        shards=objects if shard else None,
        order=order,
        codec=Codec(stages),
        fill_value=fill_from_json(document["fill_value"], dtype, where=where),
        attributes=attributes,
        axes=_axes_v3(document.get("dimension_names"), len(shape), where),
        netcdf=netcdf,
        record=record,
        notes=(_NESTED_NOTE,) if chain else (),
    )
    layout = _layout(schema)
    if chain is not None:
        # The shard around the units, its raw bytes, and one unit.
        taken = Coding(3 * layout.unit_bytes, 0)
        layout = replace(layout, codec="sharding_indexed", partial_reads=False, partial_writes=False, coding=taken)
    else:
        chain = _chain(list(stages), dtype, prod(chunks) * dtype.itemsize, where)
    return Meta(3, schema, layout, chain, prefix, separator, shard)


def _check_extensions(document: Mapping[str, Any], where: str) -> None:
    if document["zarr_format"] != 3 or document["node_type"] != "array":
        raise FormatError(
            f"{where}: expected an array of zarr_format 3, not "
            f"{show(document['node_type'])} of {show(document['zarr_format'])}"
        )
    if document.get("storage_transformers"):
        raise FormatError(f"{where}: storage transformers are not supported")
    for key in document.keys() - _V3_KEYS:
        value = document[key]
        if not isinstance(value, Mapping) or value.get("must_understand") is not False:
            raise FormatError(f"{where}: field {show(key)} is unknown, and may not be ignored")


def _attributes(value: Any, where: str) -> dict[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise FormatError(f"{where}: attributes must be an object, not {show(value)}")
    return dict(value or {})


def _axes_v3(value: Any, ndim: int, where: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != ndim or not all(n is None or isinstance(n, str) for n in value):
        raise FormatError(f"{where}: dimension_names must be {ndim} names, not {show(value)}")
    return tuple(n or "" for n in value) if any(value) or not value else None


def _named(value: Any, what: str, where: str) -> tuple[str, Mapping[str, Any]]:
    """Name and configuration of an extension point."""
    if isinstance(value, str):
        return value, {}
    if isinstance(value, Mapping) and isinstance(value.get("name"), str):
        settings = value.get("configuration", {})
        if isinstance(settings, Mapping):
            return value["name"], settings
    raise FormatError(f"{where}: a {what} is an object with name and configuration, not {show(value)}")


def _keys_v3(value: Any, where: str) -> tuple[str, str]:
    name, settings = _named(value, "chunk key encoding", where)
    if name not in ("default", "v2"):
        raise FormatError(f"{where}: chunk key encoding {show(name)} is not supported, 'default' and 'v2' are")
    separator = settings.get("separator", "/" if name == "default" else ".")
    if separator not in (".", "/"):
        raise FormatError(f"{where}: the separator of chunk keys must be '.' or '/', not {show(separator)}")
    return "c" if name == "default" else "", separator


@dataclass(frozen=True)
class _Pipe:
    """A parsed list of v3 codecs."""

    order: tuple[int, ...]
    """Order of the axes after the transposes."""
    dtype: np.dtype[Any]
    """The type with its byte order."""
    stages: tuple[Stage, ...]
    """The stages on elements and bytes."""
    shard: Mapping[str, Any] | None
    """Configuration of a sharding codec."""

    @classmethod
    def of(cls, value: Any, ndim: int, dtype: np.dtype[Any], where: str) -> _Pipe:
        if not isinstance(value, list) or len(value) > _MANY_CODECS:
            raise FormatError(f"{where}: codecs must be a list of at most {_MANY_CODECS}, not {show(value)}")
        order, shard, to_bytes = tuple(range(ndim)), None, False
        stages: list[Stage] = []
        for name, settings in (_named(item, "codec", where) for item in value):
            if name == "transpose" and not to_bytes:
                _check_elementwise(stages, where)
                axes = check_order(settings.get("order"), ndim, where=where)
                order = tuple(order[a] for a in axes)
            elif name in ("bytes", "endian", "sharding_indexed") and not to_bytes:
                to_bytes = True
                if name == "sharding_indexed":
                    shard = settings
                else:
                    dtype = _byte_order(settings.get("endian"), dtype, where)
            else:
                stages.append(_stage_v3(name, settings, dtype, where, to_bytes=to_bytes))
        if not to_bytes:
            raise FormatError(f"{where}: none of the codecs turns elements into bytes: {show(value)}")
        if shard is not None and any(map(is_filter, stages)):
            raise FormatError(f"{where}: codec {stages[0].name!r} around sharding_indexed is not supported")
        _check_native(stages, dtype, where)
        return cls(order, dtype, tuple(stages), shard)


def _byte_order(endian: Any, dtype: np.dtype[Any], where: str) -> np.dtype[Any]:
    if endian not in ("little", "big") and (endian is not None or dtype.byteorder != "|"):
        raise FormatError(f"{where}: codec 'bytes' needs endian 'little' or 'big' for {dtype}, not {show(endian)}")
    return dtype.newbyteorder("<" if endian == "little" else ">") if endian else dtype


def _stage_v3(name: str, settings: Mapping[str, Any], dtype: np.dtype[Any], where: str, *, to_bytes: bool) -> Stage:
    if name.startswith("numcodecs."):
        # zarr-python fills these in from the array's type.
        own = {"fixedscaleoffset": "dtype", "quantize": "dtype", "astype": "decode_dtype"}
        if key := own.get(name.removeprefix("numcodecs.")):
            settings = {key: dtype.str, **settings}
    if name == "numcodecs.shuffle":
        settings = {"elementsize": dtype.itemsize, **{k: v for k, v in settings.items() if v is not None}}
    try:
        stage = stage_of_v3(name, settings, dtype)
    except ValueError as error:
        raise FormatError(f"{where}: {error}") from None
    if is_filter(stage) == to_bytes:
        raise FormatError(f"{where}: codec {name!r} is {'after' if to_bytes else 'before'} the codec to bytes")
    return stage


def _check_elementwise(stages: list[Stage], where: str) -> None:
    """Refuse filters before a transpose: zarr-python does not pass them elements in memory order."""
    if odd := [stage.name for stage in stages if stage.name in ("delta", "packbits")]:
        raise FormatError(f"{where}: codec 'numcodecs.{odd[0]}' before a transpose is not supported")


def _check_native(stages: list[Stage], dtype: np.dtype[Any], where: str) -> None:
    """Refuse numcodecs filters on byte-swapped elements, which zarr-python misreads."""
    filters = [stage.name for stage in stages if is_filter(stage) and stage.name != "bitround"]
    if filters and not dtype.isnative:
        raise FormatError(f"{where}: codec 'numcodecs.{filters[0]}' with byte-swapped elements is not supported")


def _shard(
    outer: _Pipe, objects: tuple[int, ...], shape: tuple[int, ...], dtype: np.dtype[Any], where: str
) -> tuple[Shard, tuple[int, ...], _Pipe]:
    """The shard, the shape of its units in the array's axes, and the codecs of a unit."""
    settings = outer.shard or {}
    stored = tuple(objects[a] for a in outer.order)
    inner_shape = _regular(settings.get("chunk_shape"), tuple(shape[a] for a in outer.order), dtype, where)
    if any(s % c for s, c in zip(stored, inner_shape, strict=True)):
        raise FormatError(f"{where}: shards of {list(stored)} are not multiples of their chunks {list(inner_shape)}")
    counts = tuple(s // c for s, c in zip(stored, inner_shape, strict=True))
    inner = _Pipe.of(settings.get("codecs"), len(shape), dtype, where)
    location = settings.get("index_location", "end")
    if location not in ("start", "end"):
        raise FormatError(f"{where}: index_location must be 'start' or 'end', not {show(location)}")
    if 16 * prod(counts) > INDEX_BYTES:
        raise FormatError(f"{where}: {prod(counts):,} chunks per shard, the limit is {INDEX_BYTES // 16:,}")
    index = _Pipe.of(settings.get("index_codecs", _INDEX_CODECS), len(shape) + 1, np.dtype("u8"), where)
    odd = [stage.name for stage in index.stages if not is_checksum(stage)]
    odd += ["transpose"] if index.order != tuple(range(len(shape) + 1)) else []
    odd += ["sharding_indexed"] if index.shard is not None else []
    if odd:
        raise FormatError(f"{where}: codec {odd[0]!r} of a shard's index is not supported, bytes and checksums are")
    shard = Shard(outer.order, counts, Chain(Codec(index.stages), index.dtype), location == "start")
    return shard, tuple(inner_shape[place] for place in inverse(outer.order)), inner


def _nested(
    pipe: _Pipe, chunk: tuple[int, ...], fill: Callable[[np.dtype[Any]], Any], where: str, depth: int = 0
) -> tuple[Chain | Nested, np.dtype[Any], tuple[Stage, ...]]:
    """The decoder of a whole chunk, the type of its elements, and the codecs of the innermost unit."""
    if pipe.shard is None:
        size = prod(chunk) * pipe.dtype.itemsize
        return _chain(list(pipe.stages), pipe.dtype, size, where), pipe.dtype, pipe.stages
    if depth == _MANY_SHARDS:
        raise FormatError(f"{where}: codec 'sharding_indexed' is nested more than {_MANY_SHARDS} times")
    shard, sides, inner = _shard(pipe, chunk, chunk, pipe.dtype, where)
    unit = tuple(sides[a] for a in pipe.order)
    chain, dtype, stages = _nested(inner, unit, fill, where, depth + 1)
    around = Codec(pipe.stages)
    found = Nested(around, shard.counts, unit, inner.order, chain, shard.index, shard.at_start, dtype, fill(dtype))
    return found, dtype, stages
