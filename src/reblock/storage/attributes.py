"""Attributes as JSON: the one place that says what becomes of values that JSON does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

#: Numpy scalars that come back from JSON as they were, but for the class.
_PLAIN = (np.bool_, np.int64, np.float64, np.str_)
#: Deepest nesting that is kept; the same that `checks.parse_json` reads back.
_DEPTH = 48


class _NoFormError(Exception):
    """A value without a JSON form; the message is its type."""


def to_json(attributes: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The attributes as JSON values, and in words what was changed or left out.

    Numpy scalars become numbers, arrays lists, bytes text where they are UTF-8. NaN and infinities stay
    floating point numbers: Python and zarr write them as `NaN` and `Infinity`, and read them back.
    """
    kept: dict[str, Any] = {}
    changed: list[str] = []
    notes: list[str] = []
    for key, value in attributes.items():
        if not is_text(str(key)):
            notes.append(f"attribute {key!r} is not kept: its name is not Unicode")
            continue
        try:
            kept[str(key)] = _convert(value, _DEPTH)
        except _NoFormError as reason:
            notes.append(f"attribute {key!r} is not kept: {reason} has no JSON form")
            continue
        if _changes(value, _DEPTH):
            changed.append(str(key))
    if changed:
        notes.append(f"attributes {', '.join(changed)} became plain JSON numbers, text and lists")
    return kept, notes


def _convert(value: Any, depth: int) -> Any:
    if depth == 0:
        raise _NoFormError("such deep nesting")
    if isinstance(value, np.ndarray | np.generic):
        return _convert_numpy(value, depth)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise _NoFormError("a run of bytes that is not UTF-8") from None
    if isinstance(value, Mapping):
        return {_text(str(key)): _convert(inner, depth - 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_convert(inner, depth - 1) for inner in value]
    raise _NoFormError(type(value).__name__)


def _convert_numpy(value: Any, depth: int) -> Any:
    if value.dtype.kind in "biufSU":
        # Extended precision has no Python form; a double is the nearest.
        plain = value.astype(np.float64) if value.dtype.kind == "f" and value.dtype.itemsize > 8 else value
        return _convert(plain.tolist(), depth)
    if value.dtype.kind == "O" and isinstance(value, np.ndarray):
        return _convert(value.tolist(), depth)
    raise _NoFormError(f"type {value.dtype}")


def _text(value: str) -> str:
    if not is_text(value):
        raise _NoFormError("text that is not Unicode")
    return value


def is_text(value: str) -> bool:
    """Whether a text can be written: half of a surrogate pair is a character to Python and JSON, and to nobody else."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _changes(value: Any, depth: int) -> bool:
    """Whether a value comes back from JSON as something else."""
    if depth == 0:
        return True
    if isinstance(value, np.generic):
        return not isinstance(value, _PLAIN)
    if isinstance(value, Mapping):
        return any(not isinstance(key, str) or _changes(inner, depth - 1) for key, inner in value.items())
    if isinstance(value, list):
        return any(_changes(inner, depth - 1) for inner in value)
    return not (value is None or isinstance(value, bool | int | float | str))
