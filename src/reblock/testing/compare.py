"""Comparisons of the contracts: metadata by value, arrays by their bits, files by their bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from reblock.geometry import Grid
from reblock.model.layout import Layout
from reblock.model.medium import FOLDER, Medium
from reblock.model.schema import Schema
from reblock.model.store import Store
from reblock.storage.media.small import read_whole
from reblock.testing.reference_io import whole

#: Objects of the contracts are smaller.
_LARGEST = 1 << 26


def check_schema(store: Store, schema: Schema, layout: Layout) -> None:
    """Assert that a reopened store has the requested schema and layout."""
    assert same_value(fields(store.schema), fields(schema))
    if layout.shards is not None:
        # Written chunk by chunk, read through the index.
        layout = replace(layout, objects=layout.shards, indexed=True, shards=None)
    assert store.layout == layout
    assert (store.layout.shape, store.layout.dtype) == (schema.shape, schema.dtype)
    assert store.layout.order == schema.order
    assert store.layout.encoded == bool(schema.codec)
    assert sorted(store.layout.order) == list(range(schema.ndim))


def check_cover(layout: Layout) -> None:
    """Assert that the units cover the array exactly, each inside one object."""
    seen = np.zeros(layout.shape, np.int8)
    for index in layout.objects.indices():
        outer = layout.objects.box(index)
        for unit in layout.units.touching(outer):
            assert outer.contains(layout.units.box(unit))
            seen[whole(layout.units.box(unit))] += 1
    assert (seen == 1).all()


def same_value(one: Any, other: Any) -> bool:
    """Whether metadata is equal; lists, tuples and arrays count as the same type, floats are compared by their bits."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same_value(one[key], other[key]) for key in one)
    one, other = _plain(one), _plain(other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_value, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return np.float64(one).tobytes() == np.float64(other).tobytes()
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufSU":
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def fields(schema: Schema) -> dict[str, Any]:
    """The fields that must survive; chunks as their grid, since 5 and 3 cut an axis of 3 in the same way."""
    grid = Grid.of(schema.shape, schema.chunks)
    return {
        **{name: getattr(schema, name) for name in ("shape", "shards", "order", "attributes", "axes")},
        "dtype": schema.dtype.str,
        "chunks": [axis.lengths() for axis in grid.axes],
        "codec": str(schema.codec),
        "fill_value": None if schema.fill_value is None else np.asarray(schema.fill_value, schema.dtype).tobytes(),
    }


def objects_below(medium: Medium, key: str) -> list[str]:
    """Keys of all objects below a folder, or the key itself where it is an object; sorted."""
    if medium.status(key).kind != FOLDER:
        return [key]
    below = [objects_below(medium, f"{key}/{name}") for name, _ in medium.entries(key)]
    return sorted(one for some in below for one in some)


def snapshot(medium: Medium, key: str) -> dict[str, bytes]:
    """Every object below a key with its bytes."""
    return {one: read_whole(medium, one, limit_bytes=_LARGEST) for one in objects_below(medium, key)}
