"""Access patterns in words: documents of TOML or JSON, the paper's text form, and presets by name.

A document ::

    model = "anywhere"                            where boxes start, unless a class tells: aligned or anywhere
    axes = ["time", "lat", "lon"]                 optional: names that the lists below follow

    [[classes]]
    name = "series at a station"                  optional
    shape = { time = -1, lat = 1, lon = 1 }       or [-1, 1, 1]; -1 or "full" = the whole axis, as are axes left out
    weight = 3                                    optional, 1
    at = "anywhere"                               optional: aligned, anywhere, or a list of starts [[0, 10, 20], …]
    operation = "read"                            optional: read or write

The paper's text form has the number of classes K on its first line, and then K lines `A1 … An P`, the weight last.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from operator import index as as_index
from typing import Any

from reblock.errors import UsageError
from reblock.geometry.notation import parse_axis
from reblock.model.pattern import AccessClass, AccessPattern, Alignment, Positions

#: Names of presets.
TIME_SERIES, MAPS, CUBES, SLICES = "time-series", "maps", "cubes", "slices"
PRESETS = (TIME_SERIES, MAPS, CUBES, f"{SLICES}:AXIS")
#: The most classes of a pattern, as in the paper.
MAX_CLASSES = 20
#: Sides of the boxes of the preset `cubes`.
_CUBE = 64
#: Names of axes that presets know.
_TIME = ("time", "t", "date", "datetime", "valid_time", "step")

_KEYS = ("axes", "model", "classes")
_CLASS_KEYS = ("name", "shape", "weight", "at", "operation")
_PRESET = re.compile(rf"({TIME_SERIES}|{MAPS}|{CUBES}|{SLICES}:[^=,]+)(?:=([^,]*))?")


@dataclass(frozen=True)
class ArrayAxes:
    """The array that a pattern is for."""

    shape: tuple[int, ...]
    """Its shape."""
    axes: tuple[str, ...] | None = None
    """Names of its axes."""

    def axis(self, item: Any) -> int:
        """An axis by name or number."""
        return parse_axis(item, len(self.shape), self.axes)


# ---------------------------------------------------------------- presets
def is_preset(text: str) -> bool:
    """Whether a text is a list of presets, such as `maps` or `time-series=3,maps`."""
    return all(_PRESET.fullmatch(part.strip()) for part in text.split(","))


def from_presets(text: str, target: ArrayAxes) -> AccessPattern:
    """The pattern of presets, `NAME[=WEIGHT],…`."""
    classes = []
    for part in text.split(","):
        found = _PRESET.fullmatch(part.strip())
        if found is None:
            raise UsageError(f"{part.strip()!r} is not a preset: use {', '.join(PRESETS)}")
        weight = 1.0 if found[2] is None else _weight(_number(found[2]), f"preset {found[1]}")
        classes.append(AccessClass(_preset_shape(found[1], target), weight, name=found[1]))
    pattern = AccessPattern(tuple(classes))
    pattern.check(target.shape)
    return pattern


def _preset_shape(name: str, target: ArrayAxes) -> tuple[int, ...]:
    shape = target.shape
    if name == CUBES:
        return tuple(min(n, _CUBE) for n in shape)
    if name == MAPS:
        return tuple(n if axis >= len(shape) - 2 else min(n, 1) for axis, n in enumerate(shape))
    if name == TIME_SERIES:
        named = [axis for axis, one in enumerate(target.axes or ()) if one.lower() in _TIME]
        whole = {named[0] if named else 0}
    else:
        whole = set(range(len(shape))) - {target.axis(name.partition(":")[2].strip())}
    return tuple(n if axis in whole else min(n, 1) for axis, n in enumerate(shape))


# ---------------------------------------------------------------- documents
def from_document(document: Any, target: ArrayAxes) -> AccessPattern:
    """The pattern that a document describes."""
    if not isinstance(document, Mapping):
        raise UsageError(f"an access pattern is an object with {', '.join(_KEYS)}, not {_shown(document)}")
    _known_keys(document, _KEYS, "an access pattern")
    default = _alignment(document.get("model", Alignment.ANYWHERE.value), "model")
    axes = _axes(document["axes"], target) if "axes" in document else None
    given = document.get("classes", [])
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise UsageError(f"the classes of an access pattern are a list, not {_shown(given)}")
    if len(given) > MAX_CLASSES:
        raise UsageError(f"{len(given)} classes of accesses, the limit is {MAX_CLASSES}: merge those that are alike")
    classes = [_class(one, f"class {number + 1}", default, axes, target) for number, one in enumerate(given)]
    pattern = AccessPattern(tuple(classes))
    pattern.check(target.shape)
    return pattern


def _class(one: Any, what: str, default: Alignment, axes: Sequence[int] | None, target: ArrayAxes) -> AccessClass:
    if not isinstance(one, Mapping):
        raise UsageError(f"{what} is an object with {', '.join(_CLASS_KEYS)}, not {_shown(one)}")
    _known_keys(one, _CLASS_KEYS, what)
    if "shape" not in one:
        raise UsageError(f"{what} has no shape")
    shape = _shape(one["shape"], what, axes, target)
    operation = one.get("operation", "read")
    if operation not in ("read", "write"):
        raise UsageError(f"{what}: the operation is read or write, not {_shown(operation)}")
    name = one.get("name", "")
    if not isinstance(name, str):
        raise UsageError(f"{what}: the name is text, not {_shown(name)}")
    at, weight = one.get("at", default.value), _weight(one.get("weight", 1), what)
    if isinstance(at, str):
        return AccessClass(shape, weight, _alignment(at, what), operation == "write", name)
    starts = _starts(at, what, axes, target)
    return AccessClass(shape, weight, Alignment.POSITIONS, operation == "write", name, Positions.of(starts, shape))


def _shape(value: Any, what: str, axes: Sequence[int] | None, target: ArrayAxes) -> tuple[int, ...]:
    found = list(target.shape)
    if isinstance(value, Mapping):
        pairs = [(target.axis(name), length) for name, length in value.items()]
        if len({axis for axis, _ in pairs}) < len(pairs):
            raise UsageError(f"{what} names an axis twice: {_shown(dict(value))}")
    else:
        pairs = list(zip(_order(axes, target), _row(value, what, target), strict=True))
    for axis, length in pairs:
        found[axis] = target.shape[axis] if length in ("full", -1) else _integer(length, what)
    return tuple(found)


def _starts(value: Any, what: str, axes: Sequence[int] | None, target: ArrayAxes) -> list[list[int]]:
    if not isinstance(value, Sequence) or not value:
        raise UsageError(f"{what}: `at` is aligned, anywhere or a list of starts, not {_shown(value)}")
    found = []
    for row in value:
        start = [0] * len(target.shape)
        for axis, place in zip(_order(axes, target), _row(row, what, target), strict=True):
            start[axis] = _integer(place, what)
        found.append(start)
    return found


def _axes(value: Any, target: ArrayAxes) -> list[int]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise UsageError(f"the axes of an access pattern are a list of names, not {_shown(value)}")
    axes = [target.axis(name) for name in value]
    if sorted(axes) != list(range(len(target.shape))):
        raise UsageError(
            f"the axes of an access pattern name each of the {len(target.shape)} axes once: {_shown(value)}"
        )
    return axes


def _order(axes: Sequence[int] | None, target: ArrayAxes) -> Sequence[int]:
    return range(len(target.shape)) if axes is None else axes


def _row(value: Any, what: str, target: ArrayAxes) -> Sequence[Any]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise UsageError(f"{what}: a list of {len(target.shape)} lengths is needed, not {_shown(value)}")
    if len(value) != len(target.shape):
        raise UsageError(f"{what} has {len(value)} axes, the array has {len(target.shape)}")
    return value


# ---------------------------------------------------------------- the paper's text form
def from_text(text: str, target: ArrayAxes) -> AccessPattern:
    """The pattern in the paper's form: K, and K lines `A1 … An P`; boxes start where chunks do."""
    rows = [line.split() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not rows or len(rows[0]) != 1:
        raise UsageError("the text form of an access pattern begins with a line that holds the number of classes")
    count = _integer(_number(rows[0][0]), "the number of classes")
    if count != len(rows) - 1:
        raise UsageError(f"the first line promises {count} classes of accesses, {len(rows) - 1} follow")
    if count > MAX_CLASSES:
        raise UsageError(f"{count} classes of accesses, the limit is {MAX_CLASSES}: merge those that are alike")
    classes = []
    for number, row in enumerate(rows[1:]):
        what = f"class {number + 1}"
        if len(row) != len(target.shape) + 1:
            raise UsageError(f"{what} has {len(row)} numbers: {len(target.shape)} lengths and a weight are needed")
        *lengths, weight = map(_number, row)
        shape = tuple(_integer(length, what) for length in lengths)
        classes.append(AccessClass(shape, _weight(weight, what), Alignment.ALIGNED))
    pattern = AccessPattern(tuple(classes))
    pattern.check(target.shape)
    return pattern


# ---------------------------------------------------------------- values
def _number(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text


def _integer(value: Any, what: str) -> int:
    if isinstance(value, bool):
        raise UsageError(f"{what}: {value!r} is not a length")
    try:
        return as_index(value)
    except TypeError:
        raise UsageError(f"{what}: lengths and starts are whole numbers, not {_shown(value)}") from None


def _weight(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{what}: a weight is a number above 0, not {_shown(value)}")
    try:
        weight = float(value)
    except OverflowError:
        weight = float("inf")
    if not (isfinite(weight) and weight > 0):
        raise UsageError(f"{what}: a weight is a number above 0, not {_shown(value)}")
    return weight


def _alignment(value: Any, what: str) -> Alignment:
    if value not in (Alignment.ALIGNED.value, Alignment.ANYWHERE.value):
        raise UsageError(f"{what}: accesses are aligned or anywhere, not {_shown(value)}")
    return Alignment(value)


def _known_keys(found: Mapping[Any, Any], known: Sequence[str], what: str) -> None:
    strange = [str(key) for key in found if key not in known]
    if strange:
        raise UsageError(f"{what} has no {strange[0]!r}: it has {', '.join(known)}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
