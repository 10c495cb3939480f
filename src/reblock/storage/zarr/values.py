"""Types and fill values in zarr's JSON, versions 2 and 3, parsed and written bit by bit."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from reblock.errors import FormatError
from reblock.storage.checks import check_dtype, check_integer, show

_NAMES = {
    "bool": "|b1",
    **{f"{kind}{8 * size}": f"{kind[0]}{size}" for kind in ("int", "uint") for size in (1, 2, 4, 8)},
    **{f"float{8 * size}": f"f{size}" for size in (2, 4, 8)},
    **{f"complex{8 * size}": f"c{size}" for size in (8, 16)},
}
_TIMES = {"numpy.datetime64": "M8", "numpy.timedelta64": "m8"}
_UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "generic")
_TEXTS = {"fixed_length_utf32": ("U", 4), "null_terminated_bytes": ("S", 1), "raw_bytes": ("V", 1)}
#: Kinds of types without a stable v3 specification; zarr-python writes and reads them.
UNSTABLE_KINDS = "SUV"


# ---------------------------------------------------------------- types
def dtype_v2(value: Any, *, where: str) -> np.dtype[Any]:
    """A type of v2, such as "<f4"."""
    if isinstance(value, list):
        raise FormatError(f"{where}: structured types are not supported, only plain elements are: {show(value)}")
    return _portable(check_dtype(value, where=where), where)


def dtype_v3(value: Any, *, where: str) -> np.dtype[Any]:
    """A type of v3; the `bytes` codec determines its byte order."""
    name, settings = value, {}
    if isinstance(value, Mapping) and isinstance(value.get("configuration", {}), Mapping):
        name, settings = value.get("name"), value.get("configuration", {})
    if not isinstance(name, str):
        raise FormatError(f"{where}: data type {show(value)} is not supported")
    if not settings:
        if name in _NAMES:
            return np.dtype(_NAMES[name])
        if (match := re.fullmatch(r"r([0-9]{1,9})", name)) and int(match[1]) % 8 == 0:
            return check_dtype(f"|V{int(match[1]) // 8}", where=where)
    if name in _TIMES:
        unit, scale = settings.get("unit"), settings.get("scale_factor", 1)
        if unit in (*_UNITS, "μs") and isinstance(scale, int) and 1 <= scale < 2**31:
            text = "" if unit == "generic" else f"[{scale}{str(unit).replace('μ', 'u')}]"
            return check_dtype(_TIMES[name] + text, where=where)
    if name in _TEXTS:
        kind, width = _TEXTS[name]
        length = check_integer(settings.get("length_bytes"), what="length_bytes", where=where, least=1)
        return check_dtype(f"{kind}{length // width}", where=where)
    raise FormatError(f"{where}: data type {show(value)} is not supported")


def dtype_json_v3(dtype: np.dtype[Any]) -> Any:
    """The v3 name of a type."""
    if dtype.kind in "mM":
        unit, scale = np.datetime_data(dtype)
        name = {"M": "numpy.datetime64", "m": "numpy.timedelta64"}[dtype.kind]
        return {"name": name, "configuration": {"unit": unit, "scale_factor": scale}}
    for name, (kind, _) in _TEXTS.items():
        if dtype.kind == kind:
            return {"name": name, "configuration": {"length_bytes": dtype.itemsize}}
    return dtype.newbyteorder("=").name


def _portable(dtype: np.dtype[Any], where: str) -> np.dtype[Any]:
    if extended(dtype):
        raise FormatError(f"{where}: {dtype.str} differs between machines, so it is not supported")
    return dtype


def extended(dtype: np.dtype[Any]) -> bool:
    """Whether this is long double or its complex: more precision than zarr defines."""
    return dtype.kind in "fc" and dtype.itemsize > (8 if dtype.kind == "f" else 16)


# ---------------------------------------------------------------- fill values
def fill_from_json(value: Any, dtype: np.dtype[Any], *, where: str) -> Any:
    """A fill value as a scalar of the type; None stays None."""
    if value is None:
        return None
    try:
        return _fill(value, dtype)
    except (ValueError, TypeError, OverflowError, binascii.Error):
        raise FormatError(f"{where}: {show(value)} is not a fill value of {dtype}") from None


def _fill(value: Any, dtype: np.dtype[Any]) -> Any:
    native = dtype.newbyteorder("=")
    if dtype.kind == "c":
        parts = value if isinstance(value, list) else [value, 0.0]
        if len(parts) != 2:
            raise ValueError
        real = np.dtype(f"f{dtype.itemsize // 2}")
        return np.array([_fill(part, real) for part in parts], real).view(native)[0]
    if dtype.kind == "f":
        return _float(value, native)
    if dtype.kind == "b":
        if value not in (0, 1, "true", "false", "True", "False"):
            raise ValueError
        return np.bool_(value in (1, "true", "True"))
    if dtype.kind in "iu":
        if isinstance(value, float) and not value.is_integer():
            raise ValueError
        return np.array(int(value), native)[()]
    if dtype.kind in "mM":
        number = -(2**63) if value == "NaT" else int(value)
        return np.array([number], "i8").view(native)[0]
    if dtype.kind == "U" and isinstance(value, str):
        return np.array(value, native)[()]
    return _raw(value, dtype)


def _float(value: Any, native: np.dtype[Any]) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    if isinstance(value, str) and value.startswith("0x"):
        if len(value) != 2 + 2 * native.itemsize:
            raise ValueError
        # As an integer: a cast between floats may quiet a NaN.
        return np.array([int(value, 16)], f"u{native.itemsize}").view(native)[0]
    with np.errstate(all="ignore"):
        return np.array(float(value), native)[()]


def _raw(value: Any, dtype: np.dtype[Any]) -> Any:
    """Text and opaque bytes: base64, a list of bytes, or 0 for nothing."""
    if isinstance(value, str):
        data = base64.b64decode(value.encode("ascii"), validate=True)
    elif value == 0 and not isinstance(value, float):
        data = b""
    else:
        data = bytes(value) if isinstance(value, list) else b"\0" * (dtype.itemsize + 1)
    if len(data) > dtype.itemsize:
        raise ValueError
    return np.frombuffer(data.ljust(dtype.itemsize, b"\0"), dtype)[0]


def fill_to_json(value: Any, dtype: np.dtype[Any], *, version: int) -> Any:
    """A fill value in JSON; only v3 can express the bits of a NaN, and only v2 that there is none."""
    if value is None:
        return None
    array = np.asarray(value, dtype.newbyteorder("="))
    if dtype.kind == "c":
        parts = array.reshape(1).view(f"f{dtype.itemsize // 2}")
        return [fill_to_json(part, parts.dtype, version=version) for part in parts]
    if dtype.kind == "f":
        return _float_json(array, version)
    if dtype.kind in "mM":
        return int(array.view("i8"))
    if dtype.kind == "S" and version == 3:
        return base64.b64encode(array.item()).decode()
    if dtype.kind in "SV":
        return base64.b64encode(array.tobytes()).decode()
    return array.item()


def _float_json(array: Any, version: int) -> Any:
    if np.isnan(array):
        bits, plain = (int(a.view(f"u{a.itemsize}")) for a in (array, np.array(np.nan, array.dtype)))
        return "NaN" if bits == plain or version == 2 else f"0x{bits:0{2 * array.itemsize}x}"
    if np.isinf(array):
        return "Infinity" if array > 0 else "-Infinity"
    return float(array)


def fill_bits_lost(value: Any, dtype: np.dtype[Any]) -> bool:
    """Whether v2 cannot express all bits of a fill value."""
    again = _fill(fill_to_json(value, dtype, version=2), dtype)
    return bool(np.asarray(again, dtype).tobytes() != np.asarray(value, dtype).tobytes())
