"""Conversion: the target's type and fill value, as callers give them, and how the source's are converted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.engine import ComparedArray
from reblock.engine.casting import convert, fits, is_convertible
from reblock.errors import MisfitError, UsageError, option
from reblock.geometry import Box
from reblock.model import Schema, element
from reblock.storage.conventions import FILL_VALUE, fill_attribute

#: The text that stands for no fill value.
NO_FILL = "none"
#: An attribute of CF that is of the array's type.
_MISSING = "missing_value"
#: Up to this number, floats are exact.
_EXACT = 1 << 53
_BOOLEANS = {"true": True, "false": False, "1": True, "0": False}


def parse_dtype(value: Any) -> np.dtype[Any]:
    """The type that a caller gives."""
    try:
        dtype: np.dtype[Any] = np.dtype(value)
    except (TypeError, ValueError, SyntaxError) as error:
        raise UsageError(f"unknown dtype {value!r}: {error}") from None
    if dtype.hasobject or dtype.itemsize == 0:
        raise UsageError(f"elements of dtype {value!r} have no fixed bytes to move")
    return dtype


def converted_schema(schema: Schema, dtype: Any, fill: Any, *, checked: bool) -> Schema:
    """A schema with another type and another fill value, where they are given; elements keep their values."""
    after = schema.dtype if dtype is None else parse_dtype(dtype)
    if not is_convertible(schema.dtype, after):
        raise UsageError(f"elements of type {schema.dtype} cannot be converted to {after}")
    value = schema.fill_value
    if fill is not None:
        value = parse_fill(fill, after)
    elif _is_implied(schema) and checked and not fits(element(value, schema.dtype), after):
        value = None
    elif value is not None:
        value = _converted(value, schema.dtype, after, checked=checked)
    return replace(
        schema,
        dtype=after,
        fill_value=value,
        attributes=_attributes(schema, after, value, given=fill is not None, checked=checked),
        notes=(*schema.notes, *_notes(schema.dtype, after, checked=checked)),
    )


def _is_implied(schema: Schema) -> bool:
    """Whether the fill value is the NetCDF library's default for the type, because the attribute is missing."""
    return schema.netcdf and schema.fill_value is not None and FILL_VALUE not in schema.attributes


def _notes(before: np.dtype[Any], after: np.dtype[Any], *, checked: bool) -> tuple[str, ...]:
    """How elements of another type are converted, in words."""
    if before.newbyteorder("=") == after.newbyteorder("="):
        return () if before == after else (f"byte order changes from {before.str} to {after.str}",)
    if np.can_cast(before, after, "safe"):
        more = ""
    elif checked:
        more = "; the first value that does not fit stops the run"
    else:
        more = ": values that do not fit are rounded, wrapped or cut off"
    return (f"elements are converted from {before.name} to {after.name}{more}",)


def _attributes(schema: Schema, dtype: np.dtype[Any], fill: Any, *, given: bool, checked: bool) -> Mapping[str, Any]:
    """The attributes; `_FillValue` and `missing_value`, which have the array's type, follow it."""
    found = _with_missing_value(schema, dtype)
    if FILL_VALUE not in found or (dtype == schema.dtype and not given):
        return found
    if given:
        kept = {name: value for name, value in found.items() if name != FILL_VALUE}
        return kept if fill is None else {**kept, FILL_VALUE: fill}
    value = fill_attribute(found[FILL_VALUE], schema.dtype)
    if value is None:
        return found
    return {**found, FILL_VALUE: _converted(value, schema.dtype, dtype, checked=checked)}


def _with_missing_value(schema: Schema, dtype: np.dtype[Any]) -> Mapping[str, Any]:
    """The attributes with a `missing_value` of the other type, if it has the array's, and survives."""
    value = schema.attributes.get(_MISSING)
    before = schema.dtype.newbyteorder("=")
    if not isinstance(value, np.ndarray | np.generic) or before == dtype.newbyteorder("="):
        return schema.attributes
    given = np.asarray(value)
    if given.dtype.newbyteorder("=") != before or not is_convertible(before, dtype):
        return schema.attributes
    made = np.zeros(given.size, dtype.newbyteorder("="))
    try:
        convert(given.reshape(-1), made, checked=True)
    except MisfitError:
        return schema.attributes
    return {**schema.attributes, _MISSING: made.reshape(given.shape) if isinstance(value, np.ndarray) else made[0]}


def _converted(value: Any, before: np.dtype[Any], after: np.dtype[Any], *, checked: bool) -> Any:
    if before == after:
        return value
    one = element(value, before)
    if checked and not fits(one, after):
        raise UsageError(
            f"{after} cannot hold the fill value {value!s}: give another with {option('fill_value')}, or "
            f"{option('fill_value', NO_FILL)}, or {option('unsafe_cast', True)}"
        )
    made = np.zeros(1, after)
    convert(one.reshape(1), made, checked=False)
    return made.astype(after.newbyteorder("="))[0]


def parse_fill(given: Any, dtype: np.dtype[Any]) -> Any:
    """The fill value that a caller gives, as a scalar of the target's type; None if it is `none`."""
    if isinstance(given, str) and given == NO_FILL:
        return None
    wrong = UsageError(f"{option('fill_value')}: {dtype} cannot hold {given!s}")
    native = dtype.newbyteorder("=")
    try:
        value: npt.NDArray[Any] = np.asarray(_from_text(given, native) if isinstance(given, str) else given)
        if value.shape or value.dtype.hasobject or not is_convertible(value.dtype, native):
            raise wrong
        made = np.zeros(1, native)
        convert(value.reshape(1), made, checked=True)
        return made[0]
    except (ValueError, TypeError, OverflowError, MisfitError):
        raise wrong from None


def _from_text(text: str, dtype: np.dtype[Any]) -> Any:
    kind = dtype.kind
    if kind == "b":
        return _BOOLEANS.get(text.lower(), text)
    if kind in "iu":
        return np.array(_whole(text), dtype)
    if kind in "fc":
        if "inf" not in text.lower() and dtype.itemsize <= 16 and np.isinf(complex(text.replace(" ", ""))):
            raise ValueError(text)
        # Digits beyond those of a float are for long doubles.
        return np.array(text).astype(dtype) if dtype.itemsize > 8 and kind == "f" else complex(text.replace(" ", ""))
    if kind in "Mm":
        return np.array(int(text) if kind == "m" and text != "NaT" else text, dtype)
    return text.encode("ascii") if kind == "S" else text


def _whole(text: str) -> int:
    """A whole number, which may also be written like a float."""
    try:
        return int(text, 0)
    except ValueError:
        number = float(text)
        if not number.is_integer() or abs(number) > _EXACT:
            raise
        return int(number)


def fill_text(value: Any) -> str:
    """A fill value as the command line takes it."""
    if value is None:
        return NO_FILL
    scalar = np.asarray(value)
    if scalar.dtype.kind == "S":
        return bytes(scalar.item()).decode("ascii")
    if scalar.dtype.kind == "m" and not np.isnat(scalar):
        return str(scalar.astype(np.int64))
    return str(scalar)


def as_type(side: ComparedArray, dtype: Any, *, checked: bool) -> ComparedArray:
    """An array to compare, with elements converted as in a run; MisfitError if one does not survive."""
    after = parse_dtype(dtype)
    before = side.layout.dtype
    if not is_convertible(before, after):
        raise UsageError(f"elements of type {before} cannot be converted to {after}")

    def load(box: Box, memory_bytes: int) -> npt.NDArray[Any]:
        made = np.empty(box.shape, after)
        convert(side.load(box, memory_bytes), made, checked=checked, origin=box.start)
        return made

    return replace(side, layout=replace(side.layout, dtype=after), load=load)
