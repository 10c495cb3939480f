"""Notation: parse shapes, chunks, regions and axis orders, given as text or as Python objects.

========  ==============================  =========================================================
what      text                            Python
========  ==============================  =========================================================
shape     500,500,500                     (500, 500, 500), an integer for one axis
chunks    64,32,-1  64  time=1,lat=-1     (64, 32, -1), 64 for every axis, {"time": 1, "lat": -1}
region    10:20,:,5  10:20  time=10:20    np.s_[10:20, :, 5], a slice, {"time": slice(10, 20)}
order     2,0,1  z,y,x                    (2, 0, 1), ("z", "y", "x")
========  ==============================  =========================================================

Integers may be of any integer type, including numpy's. Axes can be given by name or by number. An order for many arrays
is given by name, and applies to each array that has some of the axes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from operator import index as as_index
from types import EllipsisType
from typing import Any, SupportsIndex

from reblock.errors import UsageError
from reblock.geometry.axis import MAX_LENGTH
from reblock.geometry.box import Box
from reblock.geometry.grid import Cut

#: Result of `parse_chunks` for an axis whose chunk is to be chosen.
AUTO = "auto"
#: Notation for the whole axis.
FULL = "full"
#: Notation for the axes that a region omits.
REST = "..."
#: A chunk along one axis.
Chunk = str | SupportsIndex | Sequence[SupportsIndex]
#: Chunks as callers give them.
Chunks = Chunk | Sequence[Chunk] | Mapping[Any, Chunk]
#: A range along one axis.
Range = str | SupportsIndex | slice
#: A region as callers give it.
Ranges = Range | EllipsisType | Sequence[Range | EllipsisType] | Mapping[Any, Range]
#: A shape, or an order of axes by number or name.
Shape = str | SupportsIndex | Sequence[SupportsIndex]
Order = str | SupportsIndex | Sequence[SupportsIndex | str]

_INTEGER = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)


# ---------------------------------------------------------------- shapes
def parse_shape(shape: Shape) -> tuple[int, ...]:
    """A shape like `500,500,500`; `()` for an array without axes."""
    return tuple(_integer(n, "a shape", 0) for n in _items(shape))


# ---------------------------------------------------------------- chunks
def parse_chunks(
    chunks: Chunks, shape: Sequence[int], default: Sequence[Cut], names: Sequence[str] | None = None
) -> tuple[Cut | str, ...]:
    """For each axis a chunk length, all its lengths, or AUTO.

    Text is `64,32,-1`, where -1 or `full` is the whole axis, `3+3+4` lists all lengths, and `auto` means "to be
    chosen"; or by name, `time=-1,lat=32`, where the other axes keep their default. A single length applies to every
    axis.
    """
    named = _named(chunks, len(shape), names, "CHUNK")
    if named is not None:
        cuts: list[Cut | str] = list(default)
        for axis, item in named.items():
            cuts[axis] = _cut(item, shape[axis])
        return tuple(cuts)
    items = _items(chunks)
    if len(items) == 1 and (isinstance(chunks, str) or not isinstance(chunks, Iterable) or items == [AUTO]):
        items = items * len(shape)
    if len(items) != len(shape):
        raise UsageError(f"chunks {_shown(chunks)} have {len(items)} axes, the array has {len(shape)}")
    return tuple(_cut(item, n) for item, n in zip(items, shape, strict=True))


def _cut(item: Any, length: int) -> Cut | str:
    if isinstance(item, str):
        item = item.strip()
        if item == AUTO:
            return AUTO
        if item == FULL:
            return max(length, 1)
        if "+" in item.lstrip("+"):
            item = item.split("+")
    if isinstance(item, str) or not isinstance(item, Iterable):
        number = _integer(item, "a chunk", -1)
        if number == 0:
            raise UsageError("a chunk length must be at least 1, or -1 for the whole axis, not 0")
        return max(length, 1) if number == -1 else number
    lengths = tuple(_integer(n, "a chunk", 1) for n in item)
    if sum(lengths) != length:
        raise UsageError(f"chunk lengths {'+'.join(map(str, lengths))} add up to {sum(lengths)}, the axis has {length}")
    return lengths


# ---------------------------------------------------------------- regions
def parse_region(region: Ranges | None, shape: Sequence[int], names: Sequence[str] | None = None) -> Box:
    """A region like `10:200,:,5:90` in the source's axes; omitted axes are taken whole."""
    if region is None:
        return Box.whole(tuple(shape))
    parts: list[Any] = [slice(None)] * len(shape)
    named = _named(region, len(shape), names, "START:STOP")
    if named is not None:
        for axis, item in named.items():
            parts[axis] = item
    else:
        parts = _filled(_items(region), len(shape), region)
    bounds = [_bounds(part, length, region) for part, length in zip(parts, shape, strict=True)]
    return Box(tuple(a for a, _ in bounds), tuple(b for _, b in bounds))


def _filled(items: list[Any], ndim: int, region: object) -> list[Any]:
    """One item for every axis; omitted axes are whole."""
    rest = [number for number, item in enumerate(items) if item is Ellipsis or _is_text(item, REST)]
    given = len(items) - len(rest)
    if given > ndim:
        raise UsageError(f"the region {_shown(region)} has {given} axes, the array has {ndim}")
    if len(rest) > 1:
        raise UsageError(f"the region {_shown(region)} omits axes twice: one {REST} is enough")
    place = rest[0] if rest else len(items)
    return [*items[:place], *[slice(None)] * (ndim - given), *items[place + 1 :]]


def _bounds(part: Any, length: int, region: object) -> tuple[int, int]:
    part = _slice(part, length)
    if part.step not in (None, 1):
        raise UsageError(f"the region {_shown(region)} has a step; only whole ranges can be taken")
    start, stop, _ = part.indices(length)
    if part.stop is not None and part.stop > length:
        raise UsageError(f"the range {_range(part)} ends at {part.stop}, beyond the axis: its length is {length}")
    if start >= stop and (part.start, part.stop) != (None, None):
        raise UsageError(f"the range {_range(part)} takes nothing from an axis of length {length}")
    return start, stop


def _slice(part: Any, length: int) -> slice:
    """A range along an axis; a single number is one index, from the end if it is negative."""
    if isinstance(part, str):
        numbers = part.strip().split(":")
        if len(numbers) > 3:
            raise UsageError(f"a range is START:STOP, not {part!r}")
        if len(numbers) > 1:
            part = slice(*(number.strip() or None for number in numbers))
    if isinstance(part, slice):
        return slice(
            *(None if n is None else _integer(n, "a region", -(2**62)) for n in (part.start, part.stop, part.step))
        )
    start = _integer(part, "a region", -(2**62))
    start = start + length if start < 0 else start
    if start < 0:
        raise UsageError(f"the index {part} is before the start of the axis: its length is {length}")
    return slice(start, start + 1)


def _range(part: slice) -> str:
    return f"{'' if part.start is None else part.start}:{'' if part.stop is None else part.stop}"


# ---------------------------------------------------------------- orders
def parse_order(order: Order | None, ndim: int, names: Sequence[str] | None = None) -> tuple[int, ...]:
    """A permutation of the axes like `2,0,1` or, by name, `z,y,x`."""
    if order is None:
        return tuple(range(ndim))
    if isinstance(order, Mapping):
        raise UsageError(f"a transpose is a list of axes, not {order!r}")
    axes = tuple(parse_axis(item, ndim, names) for item in _items(order))
    if sorted(axes) != list(range(ndim)):
        known = f", or {','.join(names)} in another order" if names else ""
        raise UsageError(f"a transpose of {ndim} axes is a permutation of 0..{ndim - 1}{known}; not {_shown(order)}")
    return axes


def order_by_name(order: Order, known: Iterable[str]) -> tuple[str, ...]:
    """Names of axes in an order that many arrays share, such as `lat,lon,time`; `known` are those of all arrays."""
    names = sorted(known)
    there = f"the axes are {', '.join(names)}" if names else "the arrays have no names of axes"
    if isinstance(order, Mapping):
        raise UsageError(f"a transpose is a list of axes, not {order!r}")
    found: list[str] = []
    for item in _items(order):
        name = item.strip() if isinstance(item, str) else str(item)
        if name not in names:
            why = "arrays differ, so an axis is given by its name" if _is_number(item) else "no array has such an axis"
            raise UsageError(f"the transpose {_shown(order)} names {name!r}: {why}; {there}")
        if name in found:
            raise UsageError(f"{name!r} is given twice in {_shown(order)}")
        found.append(name)
    return tuple(found)


def reorder(axes: Sequence[str], order: Sequence[str]) -> tuple[int, ...]:
    """The permutation that brings the axes in `order` into that order; the others keep their places.

    >>> reorder(("time", "level", "lat", "lon"), ("lon", "lat", "time"))
    (3, 1, 2, 0)
    """
    places = [place for place, axis in enumerate(axes) if axis in order]
    found = list(range(len(axes)))
    for place, taken in zip(places, sorted(places, key=lambda one: order.index(axes[one])), strict=True):
        found[place] = taken
    return tuple(found)


# ---------------------------------------------------------------- axes, integers and lists
def parse_axis(item: Any, ndim: int, names: Sequence[str] | None) -> int:
    """An axis by its name or its number."""
    if isinstance(item, str) and names and item.strip() in names:
        return list(names).index(item.strip())
    if isinstance(item, str) and not _INTEGER.fullmatch(item.strip()):
        known = f"the axes are {', '.join(names)}" if names else f"the axes have no names, use numbers below {ndim}"
        raise UsageError(f"{item!r} names no axis: {known}")
    number = _integer(item, "an axis", -ndim)
    if number >= ndim:
        raise UsageError(f"there is no axis {number}: the array has {ndim}, counted from 0")
    return number % ndim if ndim else number


def items_by_name(value: Any, what: str) -> dict[Any, Any] | None:
    """Items that are given by axis, such as `time=-1,lat=32`, by the name or number of the axis; None if none is.

    `what` is the notation of an item, for messages.
    """
    if isinstance(value, Mapping):
        pairs = list(value.items())
    else:
        items = [] if isinstance(value, slice) or _is_integer(value) or value is Ellipsis else _items(value)
        if not any(isinstance(item, str) and "=" in item for item in items):
            return None
        pairs = [str(item).partition("=")[::2] for item in items]
        if nameless := [item for item in items if "=" not in str(item)]:
            raise UsageError(f"{nameless[0]!r} names no axis: write NAME={what}")
    found: dict[Any, Any] = {}
    for name, item in pairs:
        key = name.strip() if isinstance(name, str) else name
        if key in found:
            raise UsageError(f"{name!r} is given twice in {_shown(value)}")
        found[key] = item
    return found


def _named(value: Any, ndim: int, names: Sequence[str] | None, what: str) -> dict[int, Any] | None:
    """Items that are given by axis name, by axis; None if none is."""
    pairs = items_by_name(value, what)
    if pairs is None:
        return None
    found: dict[int, Any] = {}
    for name, item in pairs.items():
        axis = parse_axis(name, ndim, names)
        if axis in found:
            raise UsageError(f"{name!r} is given twice in {_shown(value)}")
        found[axis] = item
    return found


def _items(value: Any) -> list[Any]:
    """The items of a list or of comma-separated text; anything else is a list of one."""
    if isinstance(value, str):
        return [] if value.strip() in ("", "()") else value.split(",")
    if isinstance(value, Iterable) and not _is_integer(value):
        return list(value)
    return [value]


def _is_text(item: Any, text: str) -> bool:
    return isinstance(item, str) and item.strip() == text


def _is_number(item: Any) -> bool:
    return _is_integer(item) or (isinstance(item, str) and _INTEGER.fullmatch(item.strip()) is not None)


def _is_integer(value: Any) -> bool:
    """Whether a value is an integer; booleans and arrays of one number are not."""
    shape: Any = getattr(value, "shape", ())
    if isinstance(value, bool) or shape:
        return False
    try:
        as_index(value)
    except TypeError:
        return False
    return True


def _integer(value: Any, what: str, least: int) -> int:
    if isinstance(value, str):
        if not _INTEGER.fullmatch(value.strip()):
            raise UsageError(f"{what} is made of integers, not {value!r}")
        value = int(value)
    if not _is_integer(value):
        raise UsageError(f"{what} is made of integers, not {value!r}")
    number = as_index(value)
    if not least <= number <= MAX_LENGTH:
        raise UsageError(f"{what} cannot have the length {number}: it must be from {least} to 2**62 = {MAX_LENGTH}")
    return number


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, str) else str(tuple(value) if isinstance(value, list) else value)
