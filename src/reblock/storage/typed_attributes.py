"""Attributes in JSON with their types beside them, so that a round trip through JSON changes nothing.

::

    "attributes": {"scale_factor": 0.5, "flag_values": [0, 1]}
    types         {"scale_factor": {"dtype": "<f4", "shape": [1]}, "flag_values": {"dtype": "|i1", "shape": [2]}}

A type is a hint: it counts only if the value in JSON is still the one that was written with it.

NetCDF text often ends in NUL characters from its writer, which readers of NetCDF drop. They are counted beside the
text (`"zeros": 1`), so that other readers of the JSON do not see them either.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

from reblock.errors import FormatError
from reblock.storage.attributes import changed_note, convert
from reblock.storage.checks import check_dtype, check_shape
from reblock.storage.conventions import FILL_VALUE, fill_attribute, fill_attribute_to_json, with_singles

#: Kinds of types that are kept.
_KINDS = "biufSU"


class Encoded(NamedTuple):
    """Attributes as they are stored."""

    values: dict[str, Any]
    """JSON values."""
    types: dict[str, Any]
    """What JSON does not say: types and shapes, by name."""
    notes: list[str]
    """What could not be kept."""


def encode_attributes(
    attributes: Mapping[str, Any], *, netcdf: bool = False, version: int = 3, dtype: np.dtype[Any] | None = None
) -> Encoded:
    """Attributes in JSON, and the types that they lose there; `dtype` is that of the array that has them."""
    found, _ = with_singles(attributes, netcdf=netcdf)
    fill = fill_attribute(attributes[FILL_VALUE], dtype) if dtype is not None and FILL_VALUE in attributes else None
    if fill is not None:
        found[FILL_VALUE] = fill_attribute_to_json(fill, version=version)
    values, _, notes = convert(found)
    types, lost = {}, []
    values = {name: _without_zeros(attributes[name], value) for name, value in values.items()}
    for name, value in values.items():
        given = attributes[name]
        if (kind := _type_of(given, value)) is not None:
            types[name] = kind
        if not _same(_restore(name, value, kind), given):
            lost.append(name)
    if FILL_VALUE in lost and fill is not None and isinstance(attributes[FILL_VALUE], str):
        lost.remove(FILL_VALUE)  # the same number in the words of another version
    return Encoded(values, types, [*notes, *([changed_note(lost)] if lost else [])])


def decode_attributes(values: Mapping[str, Any], types: Any) -> dict[str, Any]:
    """Attributes with the types that they had; a type that does not fit its value is ignored."""
    known = types if isinstance(types, Mapping) else {}
    return {name: _restore(name, value, known.get(name)) for name, value in values.items()}


def _without_zeros(given: Any, value: Any) -> Any:
    """The JSON value of a text without the NUL characters at its end, unless nothing would be left."""
    return value.rstrip("\0") or value if isinstance(given, bytes) and isinstance(value, str) else value


def _type_of(given: Any, value: Any) -> dict[str, Any] | None:
    """The type of an attribute, as far as its JSON value does not tell it."""
    if isinstance(given, np.ndarray):
        return {"dtype": given.dtype.str, "shape": list(given.shape)} if given.dtype.kind in _KINDS else None
    if isinstance(given, bytes):
        zeros = len(bytes(given)) - len(bytes(given).rstrip(b"\0")) if value and value[-1] != "\0" else 0
        return {"dtype": f"|S{max(len(bytes(given)), 1)}", **({"zeros": zeros} if zeros else {})}
    if isinstance(given, np.generic) and given.dtype.kind in _KINDS:
        plain = isinstance(given, np.bool_ | np.int64 | np.float64 | np.str_)
        return None if plain and type(given.item()) is type(value) else {"dtype": given.dtype.str}
    return {"shape": [1]} if isinstance(given, list | tuple) and not isinstance(value, list) else None


def _restore(name: str, value: Any, kind: Any) -> Any:
    if not isinstance(kind, Mapping):
        return value
    if "dtype" not in kind:
        return [value] if kind.get("shape") == [1] and not isinstance(value, list) else value
    try:
        dtype = check_dtype(kind["dtype"], where=name, kinds=_KINDS)
        shape = check_shape(kind.get("shape", []), where=name, itemsize=dtype.itemsize)
        found = _numbers(name, value, dtype)
        if found.size != prod(shape):
            return value
        array = found.reshape(shape)
    except (FormatError, ValueError, TypeError, OverflowError):
        return value
    if "shape" in kind:
        return array
    if dtype.kind != "S":
        return array[()]
    # Text of NetCDF may end in NUL characters, which numpy's elements would drop.
    data, zeros = value.encode(), kind.get("zeros")
    padded = isinstance(zeros, int) and len(data) + zeros == dtype.itemsize
    return np.bytes_(data.ljust(dtype.itemsize, b"\0") if padded else data)


def _numbers(name: str, value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, np.dtype[Any]]:
    """A JSON value as elements of a type; ValueError if it is not one of theirs."""
    if name == FILL_VALUE and (isinstance(value, str) or dtype.kind not in "SU"):
        fill = fill_attribute(value, dtype)
        if fill is not None:
            return np.array([fill], dtype)
    flat = list(_leaves(value))
    if dtype.kind == "S":
        flat = [text.encode() if isinstance(text, str) else _refuse(text) for text in flat]
    elif dtype.kind == "U":
        flat = [text if isinstance(text, str) else _refuse(text) for text in flat]
    elif not all(isinstance(number, bool | int | float) for number in flat):
        raise ValueError
    with np.errstate(all="ignore"):
        found = np.array(flat, dtype)
    for one, other in zip(found.tolist(), flat, strict=True):
        if dtype.kind == "S" and isinstance(other, bytes) and one == other.rstrip(b"\0"):
            continue
        if one != other and (one == one or other == other):  # noqa: PLR0124 - NaN
            raise ValueError
    return found


def _leaves(value: Any) -> Any:
    if isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield value


def _refuse(value: Any) -> bytes:
    raise ValueError(value)


def _same(one: Any, other: Any) -> bool:
    """Whether a value survived, its type included; numpy's plain scalars count as Python's."""
    if isinstance(one, bytes) and isinstance(other, bytes):
        return one == other
    if isinstance(one, np.ndarray | np.generic) or isinstance(other, np.ndarray | np.generic | bytes):
        first, second = np.asarray(one), np.asarray(other)
        if first.dtype != second.dtype and not (first.dtype.kind == second.dtype.kind == "S"):
            return first.dtype.kind == second.dtype.kind == "U" and first.tolist() == second.tolist()
        return first.shape == second.shape and (
            first.tobytes() == second.tobytes() or first.tolist() == second.tolist()
        )
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == {str(key) for key in other} and all(_same(one[str(key)], other[key]) for key in other)
    if isinstance(one, list) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and (one == other or one != one)  # noqa: PLR0124 - NaN
