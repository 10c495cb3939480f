"""Documents of layouts: all that planning knows about a stored array, as JSON that can be read back.

`Layout.to_json` describes a layout to people. This document is complete, so that a plan can be priced where its
arrays are not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from reblock.errors import UsageError
from reblock.geometry import Axis, Grid
from reblock.geometry.axis import MAX_LENGTH
from reblock.geometry.values import boolean, integer, integers, items, members, number, permutation, text
from reblock.model.layout import Coding, Layout

#: The most axes of an array in a document; numpy has 64.
MAX_AXES = 64
#: The most bytes of an element.
MAX_ITEM_BYTES = 1 << 31
_FLAGS = ("partial_reads", "partial_writes", "indexed", "divided", "remote")
_KEYS = ("shape", "dtype", "objects", "units", "order", "codec", "stored_part", "stored_bytes", "coding", *_FLAGS)


def layout_document(layout: Layout) -> dict[str, Any]:
    """A complete document of a layout."""
    coding = layout.coding
    return {
        "shape": list(layout.shape),
        "dtype": layout.dtype.str,
        "objects": _grid_document(layout.objects),
        "units": None if layout.units == layout.objects else _grid_document(layout.units),
        "order": list(layout.order),
        "codec": layout.codec,
        "stored_part": layout.stored_part,
        "stored_bytes": list(layout.stored_bytes),
        "coding": None if coding is None else [coding.decoding_bytes, coding.encoding_bytes, int(coding.in_place)],
        **{name: getattr(layout, name) for name in _FLAGS},
    }


def read_layout(value: Any, name: str) -> Layout:
    """Inverse of `layout_document`; UsageError for anything else."""
    found = members(value, name, _KEYS)
    shape = integers(found["shape"], f"{name}.shape", most=MAX_LENGTH)
    if len(shape) > MAX_AXES:
        raise UsageError(f"{name}.shape has {len(shape)} axes, the limit is {MAX_AXES}")
    objects = _read_grid(found["objects"], shape, f"{name}.objects")
    units = objects if found["units"] is None else _read_grid(found["units"], shape, f"{name}.units")
    if not objects.clipped().covers(units.clipped()):
        raise UsageError(f"{name}.units do not cut its objects")
    return Layout(
        read_dtype(found["dtype"], f"{name}.dtype"),
        objects,
        units,
        permutation(found["order"], f"{name}.order", len(shape)),
        text(found["codec"], f"{name}.codec"),
        coding=_read_coding(found["coding"], f"{name}.coding"),
        stored_bytes=integers(found["stored_bytes"], f"{name}.stored_bytes", most=MAX_LENGTH),
        stored_part=number(found["stored_part"], f"{name}.stored_part", most=1e3),
        partial_reads=boolean(found["partial_reads"], f"{name}.partial_reads"),
        partial_writes=boolean(found["partial_writes"], f"{name}.partial_writes"),
        indexed=boolean(found["indexed"], f"{name}.indexed"),
        divided=boolean(found["divided"], f"{name}.divided"),
        remote=boolean(found["remote"], f"{name}.remote"),
    )


def read_dtype(value: Any, name: str) -> np.dtype[Any]:
    """A plain type from the text that numpy has for it; UsageError for anything else."""
    try:
        dtype = np.dtype(text(value, name))
    except (TypeError, ValueError, SyntaxError) as error:
        raise UsageError(f"{name}: {error}") from None
    if dtype.hasobject or dtype.str != value or not 0 < dtype.itemsize <= MAX_ITEM_BYTES:
        raise UsageError(f"{name} must be the text of a plain type such as <f4, not {value!r}")
    return dtype


def _grid_document(grid: Grid) -> dict[str, Any]:
    return {"chunks": grid.to_json(), "beyond": [[axis.lead, axis.trail] for axis in grid.axes]}


def _read_grid(value: Any, shape: tuple[int, ...], name: str) -> Grid:
    found = members(value, name, ("chunks", "beyond"))
    grid = Grid.from_json(found["chunks"], shape)
    pairs = items(found["beyond"], f"{name}.beyond", len(shape))
    return Grid(tuple(_extended(axis, pair, f"{name}.beyond") for axis, pair in zip(grid.axes, pairs, strict=True)))


def _extended(axis: Axis, value: Any, name: str) -> Axis:
    """The axis with blocks that extend beyond it."""
    lead, trail = integers(items(value, name, 2), name, most=MAX_LENGTH)
    return replace(axis, lead=lead, trail=trail) if axis.count else axis


def _read_coding(value: Any, name: str) -> Coding | None:
    if value is None:
        return None
    decoding, encoding, in_place = items(value, name, 3)
    return Coding(integer(decoding, name), integer(encoding, name), bool(integer(in_place, name, most=1)))
