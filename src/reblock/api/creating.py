"""`create`: make an empty array that is filled by assigning regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reblock.api.array import Array, for_updates
from reblock.api.machine import parse_memory
from reblock.api.request import parse_codec
from reblock.errors import UsageError
from reblock.geometry.chunk_order import parse_chunk_order
from reblock.geometry.grid import Cut
from reblock.geometry.notation import Chunks, Order, Shape, parse_chunks, parse_shape
from reblock.model import Codec, EmptyCreator, Schema
from reblock.storage import registry
from reblock.storage.location import Where
from reblock.storage.media.registry import target_medium


def create(
    target: Where,
    *,
    shape: Shape,
    dtype: Any,
    chunks: Chunks,
    codec: str | Codec | None = None,
    fill_value: Any = None,
    axes: Sequence[str] | None = None,
    attributes: Mapping[str, Any] | None = None,
    chunk_order: Order | None = None,
    lower_bounds: Sequence[int] = (),
    memory: str | int | None = None,
) -> Array:
    """Make an empty array in a database, and open it for updates.

    Elements that were never assigned hold the fill value, or zero. `lower_bounds` are the indices of the first element
    for SQL; in Python, indices begin at 0. An existing array is an error.

    Examples
    --------
    >>> import reblock
    >>> url = "postgresql://localhost/science::t2m"
    >>> array = reblock.create(url, shape=(365, 180, 360), dtype="f4", chunks=(30, 90, 90))  # doctest: +SKIP
    >>> array[0:2, 10] = 273.15  # doctest: +SKIP
    """
    where = registry.locate(target)
    medium, kind = target_medium(where.path), registry.for_target(where.path)
    if not isinstance(kind, EmptyCreator):
        raise UsageError(f"{where.path}: empty arrays can be made in PostgreSQL, not in the format {kind.name}")
    lengths, names = parse_shape(shape), None if axes is None else tuple(axes)
    try:
        element_type = np.dtype(dtype)
        fill = None if fill_value is None else np.asarray(fill_value).astype(element_type)[()]
    except (TypeError, ValueError) as error:
        raise UsageError(f"type {dtype!r} with fill value {fill_value!r}: {error}") from None
    if names is not None and len(names) != len(lengths):
        raise UsageError(f"{len(names)} axis names for {len(lengths)} axes")
    schema = Schema(
        lengths,
        element_type,
        _lengths(parse_chunks(chunks, lengths, lengths, names)),
        codec=parse_codec(codec) or Codec(),
        fill_value=fill,
        attributes=dict(attributes or {}),
        axes=names,
        chunk_order="" if chunk_order is None else parse_chunk_order(chunk_order, len(lengths), names),
    )
    adapted = kind.adapt(schema, {"chunks", "codec", "dtype"})
    store = kind.create_empty(where.path, where.inner, adapted, lower_bounds=lower_bounds, medium=medium)
    array = Array(store) if memory is None else Array(store, parse_memory(memory))
    return for_updates(array, "r+")


def _lengths(cuts: Sequence[Cut | str]) -> tuple[Cut, ...]:
    found = tuple(cut for cut in cuts if not isinstance(cut, str))
    if len(found) < len(cuts):
        raise UsageError("the chunks of an empty array must be given")
    return found
