"""Our own description of an array in JSON, which block folders and databases store, with members of their own.

::

    "shape": [100, 90],
    "dtype": "<f4",
    "chunks": [40, [30, 60]],         a length per axis, or all lengths
    "order": [0, 1],                  axes inside a chunk, outermost first
    "fill_value": null,               or the element's bytes in hexadecimal
    "axes": null,                     or a name per axis
    "attributes": {}

Every value is checked when it is read: the text may come from anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from reblock.errors import FormatError
from reblock.model.schema import Schema, element
from reblock.storage.checks import (
    check_chunks,
    check_dtype,
    check_keys,
    check_order,
    check_shape,
    show,
)


def describe(schema: Schema) -> dict[str, Any]:
    """The members that describe an array."""
    fill = schema.fill_value
    return {
        "shape": list(schema.shape),
        "dtype": schema.dtype.str,
        "chunks": [cut if isinstance(cut, int) else list(cut) for cut in schema.chunks],
        "order": list(schema.order),
        "fill_value": None if fill is None else element(fill, schema.dtype).tobytes().hex(),
        "axes": None if schema.axes is None else list(schema.axes),
        "attributes": dict(schema.attributes),
    }


def parse_description(found: Mapping[str, Any], where: str) -> Schema:
    """The schema that these members describe, without codec and record."""
    dtype = check_dtype(found["dtype"], where=where)
    shape = check_shape(found["shape"], where=where, itemsize=dtype.itemsize)
    order = found.get("order")
    return Schema(
        shape,
        dtype,
        check_chunks(found["chunks"], shape, dtype.itemsize, where=where, irregular=True),
        order=tuple(range(len(shape))) if order is None else check_order(order, len(shape), where=where),
        fill_value=_check_fill(found.get("fill_value"), dtype, where),
        attributes=_check_attributes(found.get("attributes"), where),
        axes=_check_axes(found.get("axes"), len(shape), where),
    )


def check_members(found: Mapping[str, Any], more: Collection[str], versions: Collection[int], where: str) -> None:
    """Refuse a text that lacks a member, or is of another version."""
    check_keys(found, ("reblock", "shape", "dtype", "chunks", *more), where=where)
    version = found["reblock"]
    if version not in versions or version is True:
        several = " and ".join(map(str, versions)) + (" is" if len(versions) == 1 else " are")
        raise FormatError(f"{where}: version {show(version)} is not supported; {several}")


def to_lines(document: Mapping[str, Any]) -> bytes:
    """JSON with a line for each member, for people who open the file."""
    lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in document.items())
    return f"{{\n{lines}\n}}\n".encode()


def _check_fill(value: Any, dtype: np.dtype[Any], where: str) -> Any:
    if value is None:
        return None
    try:
        data = bytes.fromhex(value)
    except (TypeError, ValueError):
        data = b""
    if len(data) != dtype.itemsize:
        raise FormatError(
            f"{where}: the fill value must be null or {dtype.itemsize} bytes in hexadecimal, not {show(value)}"
        )
    return np.frombuffer(data, dtype)[0]


def _check_attributes(value: Any, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FormatError(f"{where}: attributes must be a JSON object, not {show(value)}")
    return value


def _check_axes(value: Any, ndim: int, where: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != ndim or not all(isinstance(name, str) for name in value):
        raise FormatError(f"{where}: axes must be null or {ndim} names, not {show(value)}")
    return tuple(value)
