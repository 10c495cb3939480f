"""Attributes as JSON: the one place that converts values that JSON lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

#: Numpy scalars whose value survives JSON, if not their class.
_PLAIN = (np.bool_, np.int64, np.float64, np.str_)
#: The deepest nesting that is kept; `checks.parse_json` reads as much.
_DEPTH = 48


class _NoFormError(Exception):
    """A value without a JSON form; the message is its type."""


def to_json(attributes: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The attributes as JSON values, and notes on what was changed or left out.

    Numpy scalars become numbers, arrays become lists, and bytes become text if they are UTF-8. NaN and infinities stay
    floats: Python and zarr write and read them as `NaN` and `Infinity`.
    """
    kept, changed, notes = convert(attributes)
    if changed:
        notes.append(changed_note(changed))
    return kept, notes


def changed_note(names: Sequence[str]) -> str:
    """The note on attributes whose types are not kept."""
    return f"attributes {', '.join(names)} became plain JSON numbers, text and lists"


def convert(attributes: Mapping[str, Any]) -> tuple[dict[str, Any], list[str], list[str]]:
    """The attributes as JSON values, names of those that JSON changes, and notes on what is left out."""
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
    return kept, changed, notes


def _convert(value: Any, depth: int) -> Any:
    if depth == 0:
        raise _NoFormError("nesting this deep")
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
        # Python has no extended precision; a double is the nearest.
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
    """Whether a text can be written; lone surrogates, which only Python and JSON accept, cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _changes(value: Any, depth: int) -> bool:
    """Whether a value changes in a round trip through JSON."""
    if depth == 0:
        return True
    if isinstance(value, np.generic):
        return not isinstance(value, _PLAIN)
    if isinstance(value, Mapping):
        return any(not isinstance(key, str) or _changes(inner, depth - 1) for key, inner in value.items())
    if isinstance(value, list):
        return any(_changes(inner, depth - 1) for inner in value)
    return not (value is None or isinstance(value, bool | int | float | str))
