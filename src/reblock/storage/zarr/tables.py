"""Zarr arrays whose elements cannot be cut: text and bytes of any length, records, and enumerations.

Chunks are read and written whole, as those of other arrays, with these bytes inside ::

    text, bytes      number of elements, then each with its length before it (vlen-utf8 and vlen-bytes of numcodecs)
    record           the elements, fields without padding; the v3 type `structured`, which all readers have, has no
                     byte order, so it is little-endian; `struct`, which newer writers use, has one
    enum             integers; the names are in the member of reblock, since zarr has no enumerations
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from reblock.errors import CorruptError, FormatError
from reblock.model.codec import Codec, Stage
from reblock.model.dataset import TableSchema
from reblock.storage.checks import MAX_ITEM_BYTES, check_chunks, check_shape, show
from reblock.storage.codecs.chain import Chain
from reblock.storage.codecs.configs import stage_of
from reblock.storage.codecs.registry import is_filter
from reblock.storage.records import MEMBER
from reblock.storage.zarr.codec_objects import stage_of_v3
from reblock.storage.zarr.hidden import take_hidden
from reblock.storage.zarr.meta import Meta, axes_v2
from reblock.storage.zarr.values import dtype_v3, fill_from_json

#: Codecs that turn elements of any length into bytes, by the kind of table.
VLEN = {"text": "vlen-utf8", "bytes": "vlen-bytes"}
_KINDS = {codec: kind for kind, codec in VLEN.items()}
_V3_TYPES = {"string": "text", "variable_length_utf8": "text", "bytes": "bytes", "variable_length_bytes": "bytes"}
#: Types of v3 that are records: the second is newer, and not known to all readers.
_RECORDS = ("structured", "struct")
#: Member of ours that says what a table is.
TABLE = "table"
_ELEMENT_BYTES = 4
#: The first buffer for bytes whose number is not known.
_ROOM_BYTES = 64 << 10


@dataclass(frozen=True)
class TableMeta:
    """Everything that is known about a stored table."""

    version: int
    """2 or 3."""
    schema: TableSchema
    """What it is."""
    codec: Codec
    """How the bytes of a chunk are encoded."""
    prefix: str
    """The part of a chunk's key before the first index."""
    separator: str
    """The separator of indices in a key."""
    fortran: bool = False
    """Whether elements of a chunk are in Fortran order."""

    @property
    def chunks(self) -> tuple[int, ...]:
        """Length of a chunk along each axis."""
        return self.schema.chunks or tuple(max(n, 1) for n in self.schema.shape)

    @property
    def counts(self) -> tuple[int, ...]:
        """Chunks along each axis."""
        return tuple(-(-n // c) for n, c in zip(self.schema.shape, self.chunks, strict=True))

    def key(self, index: Sequence[int]) -> str:
        """Name of a chunk below the table's folder."""
        key = self.separator.join(map(str, index))
        if self.prefix:
            return f"{self.prefix}{self.separator}{key}" if key else self.prefix
        return key or "0"

    @property
    def empty(self) -> Any:
        """The element of chunks that are not stored."""
        fill = self.schema.fill_value
        return fill if fill is not None else {"text": "", "bytes": b""}.get(self.schema.kind, 0)

    # ------------------------------------------------------------ elements and bytes
    def decode(self, data: bytes, most_bytes: int) -> npt.NDArray[Any]:
        """The elements of a chunk, which may take at most this many bytes."""
        number = prod(self.chunks)
        order: Literal["C", "F"] = "F" if self.fortran else "C"
        if self.schema.kind in VLEN:
            found = _decode_vlen(self._decode_some(data, most_bytes), number, text=self.schema.kind == "text")
            return found.reshape(self.chunks, order=order)
        size = number * self.schema.dtype.itemsize
        if size > most_bytes:
            raise CorruptError(f"a chunk has {size:,} bytes, the limit is {most_bytes:,}")
        out = np.empty(size, np.uint8)
        Chain(self.codec, np.dtype("u1")).decode(data, out)
        return out.view(self.schema.dtype).reshape(self.chunks, order=order)

    def _decode_some(self, data: bytes, most_bytes: int) -> bytes:
        """Decode bytes whose number is not known; the buffer for them grows as needed."""
        room = 16 * len(data) + _ROOM_BYTES
        while room < most_bytes:
            with suppress(CorruptError):
                return Chain(self.codec, np.dtype("u1")).decode_some(data, room).tobytes()
            room *= 8
        return Chain(self.codec, np.dtype("u1")).decode_some(data, most_bytes).tobytes()

    def encode(self, elements: npt.NDArray[Any]) -> bytes:
        """The stored bytes of a chunk."""
        if self.schema.kind in VLEN:
            data = _encode_vlen(elements)
        else:
            data = np.ascontiguousarray(elements, self.schema.dtype).tobytes()
        return Chain(self.codec, np.dtype("u1")).encode(np.frombuffer(data, np.uint8)).tobytes()


def _decode_vlen(data: bytes, number: int, *, text: bool) -> npt.NDArray[Any]:
    if len(data) < _ELEMENT_BYTES or int.from_bytes(data[:4], "little") != number:
        raise CorruptError(f"a chunk of {number:,} elements begins with {data[:4]!r}")
    found, at = np.empty(number, object), _ELEMENT_BYTES
    for place in range(number):
        stop = at + 4 + int.from_bytes(data[at : at + 4], "little")
        if stop > len(data) or at + 4 > len(data):
            raise CorruptError(f"element {place} ends at byte {stop:,} of {len(data):,}")
        piece = data[at + 4 : stop]
        found[place] = piece.decode("utf-8", "surrogateescape") if text else piece
        at = stop
    return found


def _encode_vlen(elements: npt.NDArray[Any]) -> bytes:
    parts = [elements.size.to_bytes(4, "little")]
    for one in elements.ravel():
        data = bytes(one) if isinstance(one, bytes) else str(one).encode()
        parts += [len(data).to_bytes(4, "little"), data]
    return b"".join(parts)


# ---------------------------------------------------------------- reading metadata
def table_of_v2(document: Mapping[str, Any], attributes: Mapping[str, Any], record: Any, where: str) -> TableMeta:
    """A table that a `.zarray` describes; FormatError if it is none."""
    filters, compressor = document.get("filters") or [], document.get("compressor")
    coders = [*filters, *([] if compressor is None else [compressor])] if isinstance(filters, list) else [filters]
    if not all(isinstance(one, Mapping) for one in coders):
        raise FormatError(f"{where}: filters and compressor are objects, not {show(coders)}")
    kind, dtype, rest = "", np.dtype("O"), filters
    if isinstance(document.get("dtype"), list):
        kind, dtype = "record", _dtype(document["dtype"], where)
    elif filters:
        kind, rest = _KINDS.get(str(filters[0].get("id")), ""), filters[1:]
    if not kind:
        raise FormatError(f"{where}: elements of {show(document.get('dtype'))} with {show(filters)} are not supported")
    try:
        stages = [stage_of(one, np.dtype("u1")) for one in coders[len(filters) - len(rest) :]]
    except ValueError as error:
        raise FormatError(f"{where}: {error}") from None
    _, kept, _ = take_hidden(attributes, record)
    shape, chunks = _shape(document.get("shape"), document.get("chunks"), dtype, where)
    axes, kept = axes_v2(kept, len(shape))
    separator = document.get("dimension_separator", ".")
    if separator not in (".", "/") or document.get("order") not in ("C", "F"):
        raise FormatError(f"{where}: separator {show(separator)} or order {show(document.get('order'))} is unknown")
    schema = TableSchema(shape, dtype, kind, {}, chunks, kept, axes, _fill(document.get("fill_value"), kind, dtype))
    return TableMeta(2, schema, _codec(stages, where), "", separator, document["order"] == "F")


def table_of_v3(document: Mapping[str, Any], where: str) -> TableMeta:
    """A table that a `zarr.json` describes; FormatError if it is none."""
    value = document.get("data_type")
    name = value.get("name") if isinstance(value, Mapping) else value
    kind, dtype = _V3_TYPES.get(str(name), ""), np.dtype("O")
    if name in _RECORDS and isinstance(value, Mapping):
        kind, dtype = "record", _structured(value, where)
    if not kind:
        raise FormatError(f"{where}: data type {show(value)} is not supported")
    codecs = document.get("codecs")
    if not isinstance(codecs, list) or not codecs or not all(isinstance(one, Mapping) for one in codecs):
        raise FormatError(f"{where}: codecs must be a list of objects, not {show(codecs)}")
    wanted = VLEN.get(kind, "bytes")
    if codecs[0].get("name") != wanted:
        raise FormatError(f"{where}: codec {show(codecs[0].get('name'))} of {kind} is not supported, {wanted!r} is")
    if _settings(codecs[0], where).get("endian", "little") != "little" and kind == "record":
        if name != "struct":
            raise FormatError(f"{where}: big-endian records of type {name!r} are not supported")
        dtype = dtype.newbyteorder(">")
    try:
        more = [(str(one.get("name")), dict(_settings(one, where))) for one in codecs[1:]]
        stages = [stage_of_v3(codec, settings, np.dtype("u1")) for codec, settings in more]
    except (ValueError, TypeError) as error:
        raise FormatError(f"{where}: {error}") from None
    grid, keys = document.get("chunk_grid"), document.get("chunk_key_encoding")
    if not isinstance(grid, Mapping) or grid.get("name") != "regular" or not isinstance(keys, Mapping):
        raise FormatError(f"{where}: chunk grid {show(grid)} with keys {show(keys)} is not supported")
    shape, chunks = _shape(document.get("shape"), _settings(grid, where).get("chunk_shape"), dtype, where)
    encoding = str(keys.get("name"))
    separator = _settings(keys, where).get("separator", "/" if encoding == "default" else ".")
    if encoding not in ("default", "v2") or separator not in (".", "/"):
        raise FormatError(f"{where}: chunk keys {show(keys)} are not supported")
    attributes = document.get("attributes") or {}
    _, kept, _ = take_hidden(attributes if isinstance(attributes, Mapping) else {}, document.get(MEMBER))
    names = document.get("dimension_names")
    axes = None
    if isinstance(names, list) and len(names) == len(shape):
        axes = tuple(one if isinstance(one, str) else "" for one in names)
    schema = TableSchema(
        *(shape, dtype, kind, {}, chunks, kept),
        axes if axes and any(axes) else None,
        _fill(document.get("fill_value"), kind, dtype),
    )
    return TableMeta(3, schema, _codec(stages, where), "c" if encoding == "default" else "", separator)


def table_of_meta(meta: Meta, hidden: Any) -> TableMeta | None:
    """An array of integers that stands for an enumeration, as a table; None if it is not one."""
    told = hidden.get(TABLE) if isinstance(hidden, Mapping) else None
    schema, names = meta.schema, told.get("names") if isinstance(told, Mapping) else None
    plain = schema.shards is None and schema.dtype.kind in "iu" and isinstance(meta.chain, Chain)
    if not plain or not isinstance(names, Mapping) or not all(isinstance(one, int) for one in names.values()):
        return None
    if any(map(is_filter, schema.codec.stages)) or schema.order != tuple(range(schema.ndim)):
        return None
    chunks = tuple(int(cut) for cut in schema.chunks if isinstance(cut, int))
    table = TableSchema(
        *(schema.shape, schema.dtype, "enum", {"names": {str(name): value for name, value in names.items()}}),
        *(chunks, schema.attributes, schema.axes, schema.fill_value),
    )
    return TableMeta(meta.version, table, schema.codec, meta.prefix, meta.separator)


def _shape(shape: Any, chunks: Any, dtype: np.dtype[Any], where: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    found = check_shape(shape, where=where, itemsize=dtype.itemsize)
    cuts = check_chunks(chunks, found, dtype.itemsize, where=where)
    return found, tuple(int(cut) for cut in cuts if isinstance(cut, int))


def _codec(stages: Sequence[Stage], where: str) -> Codec:
    if odd := [stage.name for stage in stages if is_filter(stage)]:
        raise FormatError(f"{where}: filter {odd[0]!r} of elements that are not numbers is not supported")
    return Codec(tuple(stages))


def _dtype(descr: Any, where: str) -> np.dtype[Any]:
    """A structured type of v2."""
    try:
        dtype = np.dtype([_field(one) for one in descr])
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"{where}: {show(descr)} is not a type: {error}") from None
    if dtype.hasobject or not 0 < dtype.itemsize <= MAX_ITEM_BYTES:
        raise FormatError(f"{where}: {show(descr)} is not a type of at most {MAX_ITEM_BYTES:,} bytes")
    return dtype


def _field(field: Any) -> Any:
    name, kind, *shape = field
    inner = [_field(one) for one in kind] if isinstance(kind, list) else str(kind)
    return (str(name), inner, *(tuple(map(int, one)) for one in shape))


def _settings(named: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """The configuration of a data type, a codec, a grid or keys."""
    found = named.get("configuration") or {}
    if not isinstance(found, Mapping):
        raise FormatError(f"{where}: a configuration is an object, not {show(found)}")
    return found


def _structured(value: Mapping[str, Any], where: str) -> np.dtype[Any]:
    try:
        return _dtype(_fields_v3(value, where), where)
    except RecursionError:
        raise FormatError(f"{where}: {show(value)} has records inside records without end") from None


def _fields_v3(value: Mapping[str, Any], where: str) -> list[Any]:
    """The fields of a record: pairs of a name and a type in `structured`, objects with these members in `struct`."""
    found = []
    for one in _list_of(_settings(value, where).get("fields"), value, where):
        if isinstance(one, Mapping):
            name, kind = one.get("name"), one.get("data_type")
        else:
            name, kind = one if isinstance(one, list) and len(one) == 2 else (None, None)
        if not isinstance(name, str) or not name:
            raise FormatError(f"{where}: {show(value)} has no fields of a name and a type")
        if isinstance(kind, Mapping) and kind.get("name") in _RECORDS:
            found.append([name, _fields_v3(kind, where)])
        else:
            found.append([name, dtype_v3(kind, where=where).newbyteorder("<").str])
    return found


def _list_of(fields: Any, value: Any, where: str) -> list[Any]:
    if not isinstance(fields, list) or not fields:
        raise FormatError(f"{where}: {show(value)} has no fields of a name and a type")
    return fields


def _fill(value: Any, kind: str, dtype: np.dtype[Any]) -> Any:
    if kind == "text":
        return value if isinstance(value, str) else ""
    if kind == "record" and isinstance(value, Mapping):
        return _fill_fields(value, dtype)
    try:
        data = base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except (ValueError, binascii.Error):
        data = b""
    if kind == "bytes":
        return data
    return np.frombuffer(data, dtype)[0] if len(data) == dtype.itemsize else np.zeros((), dtype)[()]


def _fill_fields(value: Mapping[str, Any], dtype: np.dtype[Any]) -> Any:
    """The fill value of a record from those of its fields; zero where there is none."""
    made = np.zeros((), dtype)
    for name in dtype.names or ():
        kind, given = dtype[name], value.get(name)
        with suppress(FormatError):
            if kind.names and isinstance(given, Mapping):
                made[name] = _fill_fields(given, kind)
            elif given is not None and not kind.names:
                made[name] = fill_from_json(given, kind, where="")
    return made[()]
