"""The entry of an array in the catalogue: reads it with every value checked, and writes it.

::

    {
      "reblock": 1,                     version of the entry
      "shape": [100, 90],
      "lower_bounds": [0, 0],           index of the first element, for SQL
      "dtype": "<f4",
      "chunks": [40, [30, 60]],         a length per axis, or all lengths
      "chunk_order": "",                how chunks are numbered: axes like "1,0", or a curve; "" = in C order
      "order": [0, 1],                  axes inside a chunk, outermost first
      "codec": "",                      how a chunk is encoded
      "fill_value": null,               or the element's bytes in hexadecimal
      "inline": false,                  whether the elements are in the row of the entry
      "sparse": false,                  whether a missing chunk holds the fill value
      "axes": null,                     or a name per axis
      "attributes": "{}",               JSON as text, because JSON of databases lacks NaN
      "digest": "rb1-…",                digest of the elements, if one was computed
      "job": "…"                        the job that made the array, if known
    }
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from reblock.errors import FormatError, UsageError
from reblock.geometry import Grid
from reblock.geometry.chunk_order import CURVES, chunk_ranks, parse_chunk_order
from reblock.model.codec import Codec
from reblock.model.layout import Layout
from reblock.model.schema import Schema
from reblock.storage.checks import check_integer, parse_json, show
from reblock.storage.codecs.chain import trial
from reblock.storage.codecs.coding import coding
from reblock.storage.descriptions import check_members, describe, parse_description
from reblock.storage.records import record_from_json, record_to_json

_VERSION = 1
#: Arrays of at most this many bytes, in one chunk, are stored in the row of their entry.
INLINE_BYTES = 8 << 10
#: The most chunks of an array along a curve, whose numbers are kept in memory.
_MOST_ON_CURVE = 1 << 24


@dataclass(frozen=True)
class CatalogueEntry:
    """The description of an array in a database."""

    schema: Schema
    """The array's schema."""
    lower_bounds: tuple[int, ...] = ()
    """Index of the first element along each axis, for SQL; elsewhere indices begin at 0."""
    sparse: bool = False
    """Whether a missing chunk holds the fill value; otherwise it is an error."""

    def __post_init__(self) -> None:
        if not self.lower_bounds:
            object.__setattr__(self, "lower_bounds", (0,) * self.schema.ndim)

    @property
    def inline(self) -> bool:
        """Whether the elements are in the row of the entry."""
        shape, schema = self.schema.shape, self.schema
        grid = Grid.of(shape, schema.chunks)
        return not schema.codec and grid.count <= 1 and prod(shape) * schema.dtype.itemsize <= INLINE_BYTES

    def layout(self) -> Layout:
        """The layout: chunks are clipped at the edge of the array, and written whole."""
        schema = self.schema
        grid = Grid.of(schema.shape, schema.chunks)
        raw = replace(Layout.raw(schema.dtype, grid, schema.order), partial_writes=False)
        if not schema.codec:
            return raw
        taken = coding(schema.codec, schema.dtype, raw.unit_bytes)
        return replace(raw, codec=str(schema.codec), partial_reads=False, coding=taken)

    def to_json(self) -> str:
        """The text of the entry."""
        schema = self.schema
        described = describe(schema)
        document = {
            "reblock": _VERSION,
            **described,
            "lower_bounds": list(self.lower_bounds),
            "chunk_order": schema.chunk_order,
            "codec": str(schema.codec) if schema.codec else "",
            "inline": self.inline,
            "sparse": self.sparse,
            "attributes": json.dumps(described["attributes"]),
            **record_to_json(schema.record),
        }
        return json.dumps(document)


def chunk_numbers(counts: Sequence[int], order: str) -> Any:
    """A function from the index of a chunk to its number."""
    if order in CURVES:
        if prod(counts) > _MOST_ON_CURVE:
            raise UsageError(f"{prod(counts):,} chunks in {order} order, the limit is {_MOST_ON_CURVE:,}")
        ranks = chunk_ranks(counts, order)
        return lambda index: int(ranks[tuple(index)])
    axes = tuple(map(int, order.split(","))) if order else tuple(range(len(counts)))

    def number(index: Sequence[int]) -> int:
        found = 0
        for axis in axes:
            found = found * counts[axis] + index[axis]
        return found

    return number


def parse_entry(text: str, where: str) -> CatalogueEntry:
    """An entry from its text, checked; a database may hold anything."""
    found = parse_json(text.encode(), where=where)
    check_members(found, ("inline", "sparse"), (_VERSION,), where)
    found["attributes"] = _attributes(found.get("attributes"), where)
    plain = parse_description(found, where)
    schema = replace(
        plain,
        codec=_codec(found.get("codec"), plain.dtype, where),
        record=record_from_json(found),
        chunk_order=_chunk_order(found.get("chunk_order"), plain.ndim, where),
    )
    entry = CatalogueEntry(schema, _lower_bounds(found.get("lower_bounds"), schema.ndim, where), bool(found["sparse"]))
    if entry.inline is not found["inline"]:
        raise FormatError(f"{where}: inline must be {entry.inline} for this array, not {show(found['inline'])}")
    return entry


def _codec(value: Any, dtype: np.dtype[Any], where: str) -> Codec:
    if value in (None, ""):
        return Codec()
    try:
        codec = Codec.parse(str(value))
        trial(codec, dtype)
    except (ValueError, UsageError) as error:
        raise FormatError(f"{where}: codec {show(value)}: {error}") from None
    return codec


def _attributes(value: Any, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, str):
        raise FormatError(f"{where}: attributes must be a JSON object as text, not {show(value)}")
    return parse_json(value.encode(), where=f"{where}, attributes")


def _lower_bounds(value: Any, ndim: int, where: str) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) != ndim:
        raise FormatError(f"{where}: lower_bounds must be {ndim} integers, not {show(value)}")
    return tuple(check_integer(n, what="a lower bound", where=where, least=-(1 << 62)) for n in value)


def _chunk_order(value: Any, ndim: int, where: str) -> str:
    if not value:
        return ""
    try:
        return parse_chunk_order(str(value), ndim)
    except UsageError as error:
        raise FormatError(f"{where}: {error}") from None
