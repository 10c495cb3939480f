"""Attributes with a conventional meaning in NetCDF, CF or xarray that formats write differently.

::

    _FillValue      HDF5: a number of the array's type · zarr v2: a number · zarr v3: as xarray encodes it,
                    base64 of the little-endian double for floating point numbers; in arrays of xarray in zarr v2,
                    the fill value itself
    scale_factor…   NetCDF stores single numbers as arrays of one; xarray needs numbers in JSON
    DIMENSION_LIST… link an array to others of its file, by references and numbers that mean nothing elsewhere
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from reblock.model.schema import Schema

FILL_VALUE = "_FillValue"
#: Attributes that CF defines as single values.
_SINGLE = frozenset((FILL_VALUE, "missing_value", "scale_factor", "add_offset", "valid_min", "valid_max"))
#: Attributes of HDF5's dimension scales and of the NetCDF library.
_TIES = frozenset(
    (
        *("DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS"),
        *("_Netcdf4Dimid", "_Netcdf4Coordinates", "_NCProperties", "_nc3_strict"),
    )
)
_SCALE = ("DIMENSION_SCALE", b"DIMENSION_SCALE")
_WORDS = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}
#: Units of CF and xarray; others, and multiples, have no name with the same meaning everywhere.
_CF_UNITS = {
    "D": "days",
    "h": "hours",
    "m": "minutes",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
}
#: Numpy's integer for NaT.
NAT = int(np.iinfo(np.int64).min)


def without_ties(attributes: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Attributes that are meaningful without the rest of the file, and notes on the others."""
    scale = ("CLASS", "NAME") if attributes.get("CLASS") in _SCALE else ()
    ties = [name for name in attributes if name in _TIES or name in scale or name.lower().startswith("_nczarr")]
    notes = [tie_note(name) for name in ties]
    return {name: value for name, value in attributes.items() if name not in ties}, notes


def tie_note(name: str) -> str:
    """The note on an attribute that is left out."""
    return f"attribute {name!r} is not kept: it links the array to dimension scales of the same file"


def is_tie(name: str) -> bool:
    """Whether an attribute is left out, whatever its value."""
    return name in _TIES


def with_singles(attributes: Mapping[str, Any], *, netcdf: bool) -> tuple[dict[str, Any], list[str]]:
    """Arrays of length one as single values, if the file is NetCDF's or CF defines the attribute as single."""
    kept = dict(attributes)
    for name, value in attributes.items():
        if (netcdf or name in _SINGLE) and _is_one(value):
            kept[name] = value[0]
    changed = [name for name, value in kept.items() if value is not attributes[name]]
    if not changed:
        return kept, []
    return kept, [f"attributes {', '.join(changed)} became single values: NetCDF stores those as arrays of one"]


def _is_one(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return bool(value.shape == (1,))
    return isinstance(value, list) and len(value) == 1 and not isinstance(value[0], list | Mapping)


# ---------------------------------------------------------------- dates and durations
def time_attributes(dtype: np.dtype[Any]) -> dict[str, Any] | None:
    """The CF attributes that mark integers as dates or durations; None if CF has no name for the unit."""
    unit, scale = np.datetime_data(dtype)
    if scale != 1 or unit not in _CF_UNITS:
        return None
    fill = {FILL_VALUE: np.array([NAT], np.int64)}
    if dtype.kind == "m":
        # Without its own attribute, xarray reads durations as plain numbers; it has none coarser than seconds.
        own = {"dtype": f"timedelta64[{unit}]"} if unit.endswith("s") else {}
        return {"units": _CF_UNITS[unit], **own, **fill}
    return {"units": f"{_CF_UNITS[unit]} since 1970-01-01", "calendar": "proleptic_gregorian", **fill}


def are_times(schema: Schema, dtype: np.dtype[Any]) -> bool:
    """Whether the integers of an array are dates or durations of a type, by its attributes."""
    wanted = time_attributes(dtype) if dtype.kind in "mM" else None
    if wanted is None or schema.dtype.newbyteorder("=") != np.int64:
        return False
    return all(_same(schema.attributes.get(name), value) for name, value in wanted.items())


def _same(one: Any, other: Any) -> bool:
    one = one.decode("utf-8", "replace") if isinstance(one, bytes) else one
    if isinstance(other, str):
        return bool(np.ndim(one) == 0 and str(one) == other)
    found = fill_attribute(one, np.dtype(np.int64)) if one is not None else None
    return found is not None and bool(found == other[0])


# ---------------------------------------------------------------- _FillValue
def fill_attribute(value: Any, dtype: np.dtype[Any]) -> Any:
    """The value of `_FillValue`, in any of its forms, as a scalar of the array's type; None if it has no meaning."""
    if dtype.kind not in "biufc":
        return None
    value = value[0] if _is_one(value) else value
    try:
        if isinstance(value, str) and dtype.kind == "f":
            value = _WORDS[value] if value in _WORDS else _double(value)
        elif dtype.kind == "c" and isinstance(value, list) and len(value) == 2:
            value = complex(*(_double(part) if isinstance(part, str) else float(part) for part in value))
        with np.errstate(all="ignore"):
            given = np.asarray(value)
            if given.shape or given.dtype.kind not in ("biufc" if dtype.kind == "c" else "biuf"):
                return None
            cast = given.astype(dtype.newbyteorder("="))
        same = bool(cast == given or (cast != cast and given != given))  # noqa: PLR0124 - NaN
    except (ValueError, TypeError, OverflowError, binascii.Error, struct.error):
        return None
    return cast[()] if same else None


def with_fill_attribute(attributes: Mapping[str, Any], fill: Any, dtype: np.dtype[Any]) -> dict[str, Any]:
    """Attributes with the fill value as `_FillValue`, for an array whose fill value means missing elements."""
    value = None if fill is None else fill_attribute(fill, dtype)
    given = fill_attribute(attributes[FILL_VALUE], dtype) if FILL_VALUE in attributes else None
    if value is None or (given is not None and given.tobytes() == value.tobytes()):
        return dict(attributes)
    return {**attributes, FILL_VALUE: value}


def without_fill_attribute(attributes: Mapping[str, Any], fill: Any) -> dict[str, Any]:
    """The reverse: attributes without a `_FillValue` that was made of the fill value."""
    given = attributes.get(FILL_VALUE)
    same = isinstance(given, np.generic) and fill is not None and given.tobytes() == np.asarray(fill).tobytes()
    return {name: value for name, value in attributes.items() if not (same and name == FILL_VALUE)}


def fill_attribute_to_json(value: Any, *, version: int) -> Any:
    """A scalar for zarr's attributes: in v3 as xarray writes it; in v2, where xarray ignores it, a plain number."""
    kind = value.dtype.kind
    if kind == "c":
        parts = (value.real, value.imag)
        return [_text(part) if version == 3 else float(part) for part in parts]
    if kind == "f":
        return _text(value) if version == 3 else float(value)
    return value.item()


def _double(text: str) -> float:
    (number,) = struct.unpack("<d", base64.b64decode(text, validate=True))
    return float(number)


def _text(number: Any) -> str:
    return base64.b64encode(struct.pack("<d", float(number))).decode()
