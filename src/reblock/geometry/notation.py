"""Notation: shapes, chunks, regions and axis orders as people type them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reblock.errors import UsageError
from reblock.geometry.axis import MAX_LENGTH
from reblock.geometry.box import Box
from reblock.geometry.grid import Cut

#: What `parse_chunks` gives for an axis whose chunk the advisor shall choose.
AUTO = "auto"
#: Chunks as a caller may give them.
Chunks = str | int | Sequence[int | str | Sequence[int]]

_INTEGER = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)


def parse_shape(text: str | Sequence[int]) -> tuple[int, ...]:
    """A shape like `500,500,500`; `()` for an array without axes."""
    if not isinstance(text, str):
        return tuple(_integer(n, "a shape", 0) for n in text)
    if text.strip() in ("", "()"):
        return ()
    return tuple(_integer(part, "a shape", 0) for part in text.split(","))


def parse_chunks(
    chunks: Chunks, shape: Sequence[int], default: Sequence[Cut], names: Sequence[str] | None = None
) -> tuple[Cut | str, ...]:
    """Per axis a chunk length, all its lengths, or AUTO.

    Text is `64,32,-1`, where -1 or `full` is the whole axis, `3+3+4` all the lengths, `auto` the advisor's choice; or
    by name, `time=-1,lat=32`, where the other axes keep their default. One integer is for every axis.
    """
    if isinstance(chunks, int):
        chunks = [chunks] * len(shape)
    items: list[int | str | Sequence[int]] = list(chunks.split(",")) if isinstance(chunks, str) else list(chunks)
    if chunks == "()":
        items = []
    if len(items) == 1 and isinstance(items[0], str) and items[0].strip() == AUTO:
        return (AUTO,) * len(shape)
    if any(isinstance(item, str) and "=" in item for item in items):
        return _by_name(items, shape, default, names)
    if len(items) != len(shape):
        raise UsageError(f"chunks {_shown(chunks)} have {len(items)} axes, the array has {len(shape)}")
    return tuple(_cut(item, n) for item, n in zip(items, shape, strict=True))


def _by_name(
    items: list[int | str | Sequence[int]], shape: Sequence[int], default: Sequence[Cut], names: Sequence[str] | None
) -> tuple[Cut | str, ...]:
    cuts: list[Cut | str] = list(default)
    known = list(names) if names else [str(axis) for axis in range(len(shape))]
    for item in items:
        name, equals, value = str(item).partition("=")
        name = name.strip()
        if not equals or name not in known:
            raise UsageError(f"{item!r} names no axis: write NAME=CHUNK with one of {', '.join(known)}")
        axis = known.index(name)
        cuts[axis] = _cut(value, shape[axis])
    return tuple(cuts)


def _cut(item: int | str | Sequence[int], length: int) -> Cut | str:
    if isinstance(item, str):
        item = item.strip()
        if item == AUTO:
            return AUTO
        if item == "full":
            return max(length, 1)
        if "+" in item.lstrip("+"):
            item = [_integer(part, "a chunk", 1) for part in item.split("+")]
    if isinstance(item, str | int):
        number = _integer(item, "a chunk", -1)
        if number == 0:
            raise UsageError("a chunk length must be at least 1, or -1 for the whole axis, not 0")
        return max(length, 1) if number == -1 else number
    lengths = tuple(_integer(n, "a chunk", 1) for n in item)
    if sum(lengths) != length:
        raise UsageError(f"chunk lengths {'+'.join(map(str, lengths))} add up to {sum(lengths)}, the axis has {length}")
    return lengths


def parse_region(text: str | Sequence[slice] | None, shape: Sequence[int]) -> Box:
    """A region like `10:200,:,5:90` in the source's axes."""
    if text is None:
        return Box.whole(tuple(shape))
    slices = [_slice(part) for part in text.split(",")] if isinstance(text, str) else list(text)
    if text == "()":
        slices = []
    if len(slices) != len(shape):
        raise UsageError(f"the region {_shown(text)} has {len(slices)} axes, the array has {len(shape)}")
    bounds = []
    for part, length in zip(slices, shape, strict=True):
        if part.step not in (None, 1):
            raise UsageError(f"the region {_shown(text)} has a step; only whole ranges can be taken")
        start, stop, _ = part.indices(length)
        if part.stop is not None and part.stop > length:
            raise UsageError(f"the range {_range(part)} ends at {part.stop}, beyond the axis: its length is {length}")
        if start >= stop:
            raise UsageError(f"the range {_range(part)} takes nothing from an axis of length {length}")
        bounds.append((start, stop))
    return Box(tuple(a for a, _ in bounds), tuple(b for _, b in bounds))


def parse_order(text: str | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """A permutation of the axes like `2,0,1`."""
    if text is None:
        return tuple(range(ndim))
    axes = parse_shape(text)
    if sorted(axes) != list(range(ndim)):
        raise UsageError(f"a transpose of {ndim} axes is a permutation of 0..{ndim - 1}, not {_shown(text)}")
    return axes


def _range(part: slice) -> str:
    return f"{'' if part.start is None else part.start}:{'' if part.stop is None else part.stop}"


def _slice(text: str) -> slice:
    parts = text.strip().split(":")
    if len(parts) == 1:
        start = _integer(parts[0], "a region", 0)
        return slice(start, start + 1)
    if len(parts) > 3:
        raise UsageError(f"a range is START:STOP, not {text!r}")
    return slice(*(_integer(part, "a region", -(2**62)) if part.strip() else None for part in parts))


def _integer(value: object, what: str, least: int) -> int:
    if isinstance(value, str):
        if not _INTEGER.fullmatch(value.strip()):
            raise UsageError(f"{what} is made of integers, not {value!r}")
        value = int(value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise UsageError(f"{what} is made of integers, not {value!r}")
    number = int(value.__index__())
    if not least <= number <= MAX_LENGTH:
        raise UsageError(f"{what} cannot have the length {number}: it is from {least} to 2**62 = {MAX_LENGTH}")
    return number


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, str) else str(tuple(value) if isinstance(value, list) else value)
