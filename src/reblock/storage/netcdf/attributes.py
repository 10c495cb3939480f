"""Attributes in the forms that NetCDF has: text, numbers in one row, and in NetCDF-4 rows of strings.

::

    bytes            text, NC_CHAR
    array, one axis  numbers, also a single one
    list of str      NC_STRING, only in NetCDF-4

Readers and writers of both kinds of files use these forms, so a copy has the same attributes, types included. What
other formats have is brought into them here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.storage.attributes import is_text, to_json
from reblock.storage.checks import show
from reblock.storage.conventions import FILL_VALUE, fill_attribute, without_ties
from reblock.storage.netcdf.names import name_problem

#: Numbers that NetCDF-4 and CDF-5 have; others become one of these.
NUMBERS = frozenset("bhiqBHIQfd")
_INT32 = range(-(1 << 31), 1 << 31)
_INT64 = range(-(1 << 63), 1 << 63)
_UINT64 = range(1 << 64)


def adapt_attributes(
    attributes: Mapping[str, Any], dtype: np.dtype[Any] | None, *, classic: bool
) -> tuple[dict[str, Any], list[str]]:
    """Attributes in the forms above, and notes; `dtype` is that of the variable, None for attributes of a group."""
    kept: dict[str, Any] = {}
    given, notes = without_ties(attributes)
    for name, value in given.items():
        if problem := name_problem(name):
            notes.append(f"attribute {show(name)} is not kept: NetCDF needs a name {problem}")
        elif name == FILL_VALUE and dtype is not None:
            fill = _fill(value, dtype)
            if fill is None:
                notes.append(f"attribute {name!r} is not kept: {show(value)} is not a value of type {dtype}")
            else:
                kept[name] = fill
        elif value is None:
            notes.append(f"attribute {name!r} is not kept: NetCDF has no null value")
        else:
            found, note = _form(value, classic=classic)
            if found is not None:
                kept[name] = found
            if note:
                notes.append(f"attribute {name!r} {note}")
    return kept, notes


def _fill(value: Any, dtype: np.dtype[Any]) -> Any:
    """`_FillValue` in the type of the variable, as NetCDF requires."""
    if dtype.kind == "S":
        text = value.encode() if isinstance(value, str) and is_text(value) else value
        if isinstance(text, np.ndarray) and text.size == 1 and text.dtype.kind == "S":
            text = text.reshape(())[()]
        return bytes(text).ljust(1, b"\0") if isinstance(text, bytes) and len(text) <= 1 else None
    native = dtype.newbyteorder("=")
    if isinstance(value, np.ndarray | np.generic) and value.dtype == native and value.size == 1:
        # The bits of a NaN stay as they are.
        return np.array(value).reshape(1)
    fill = fill_attribute(value, dtype)
    return None if fill is None else np.array([fill], native)


def _form(value: Any, *, classic: bool) -> tuple[Any, str]:
    """An attribute in the forms of NetCDF, or None; and a note, or ""."""
    if isinstance(value, str | bytes) or (isinstance(value, np.ndarray | np.generic) and not value.shape):
        single = value[()] if isinstance(value, np.ndarray) else value
        if isinstance(single, bytes):
            return bytes(single), ""
        if isinstance(single, str):
            return (str(single).encode(), "") if is_text(single) else (None, "is not kept: it is not Unicode")
    if (texts := _texts(value)) is not None:
        if not classic:
            return texts, ""
        if len(texts) == 1:
            return texts[0].encode(), "became one text: NetCDF-3 has no rows of strings"
    elif (numbers := _numbers(value, classic=classic)) is not None:
        return numbers
    plain, problems = to_json({"it": value})
    if "it" not in plain:
        return None, problems[0].partition("'it' ")[2]
    return json.dumps(plain["it"]).encode(), "became JSON text: NetCDF has text, and numbers in one row"


def _texts(value: Any) -> list[str] | None:
    """A row of texts, if a value is one."""
    if isinstance(value, np.ndarray):
        if value.ndim != 1 or value.dtype.kind not in "SUO":
            return None
        value = value.tolist()
    if not isinstance(value, list | tuple) or not value:
        return None
    texts = []
    for one in value:
        if isinstance(one, bytes):
            try:
                texts.append(one.decode())
            except UnicodeDecodeError:
                return None
        elif isinstance(one, str) and is_text(one) and "\0" not in one:
            texts.append(str(one))
        else:
            return None
    return texts


def _numbers(value: Any, *, classic: bool) -> tuple[npt.NDArray[Any], str] | None:
    """Numbers in one row, and a note; None if a value is no such row."""
    if isinstance(value, np.ndarray | np.generic):
        array = np.atleast_1d(value)
        return None if array.ndim != 1 else _in_known_type(array)
    row = list(value) if isinstance(value, list | tuple) else [value]
    if any(isinstance(one, np.generic) for one in row) or all(isinstance(one, bool) for one in row):
        try:
            return _in_known_type(np.array(row)) if np.ndim(row) == 1 else None
        except ValueError:
            return None
    if not all(isinstance(one, int | float) and not isinstance(one, bool) for one in row):
        return None
    found = _in_one_type(row, classic=classic)
    return None if found is None else (found, "")


def _in_one_type(row: list[int | float], *, classic: bool) -> npt.NDArray[Any] | None:
    """Python's numbers in the smallest usual type that holds them all exactly; None if there is none."""
    if all(isinstance(one, int) for one in row):
        kinds = ((np.int32, _INT32), (np.int64, _INT64), (np.uint64, _UINT64))
        fitting = [kind for kind, limits in kinds[not classic :] if all(one in limits for one in row)]
        return np.array(row, fitting[0]) if fitting else None
    exact = all(isinstance(one, float) or float(one) == one for one in row)
    return np.array(row, np.float64) if exact else None


def _in_known_type(array: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], str] | None:
    """The same numbers in a type that NetCDF has."""
    dtype = array.dtype
    if dtype.kind == "b":
        return array.astype(np.int8), "became int8: NetCDF has no booleans"
    if dtype.kind not in "iuf":
        return None
    native = array.dtype.newbyteorder("=")
    found = array if dtype.isnative else array.byteswap().view(native)
    if native.char in NUMBERS or native in (np.int64, np.uint64, np.int32, np.uint32):
        return np.ascontiguousarray(found), ""
    wider = np.dtype(np.float32 if native.itemsize < 4 else np.float64)
    return found.astype(wider), f"became {wider}: NetCDF has no {native}"
