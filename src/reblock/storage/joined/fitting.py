"""Whether arrays fit together, and in which order: by a coordinate, if the files have one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reblock.errors import FormatError
from reblock.model.schema import Schema, element
from reblock.model.store import Store
from reblock.storage.checks import show
from reblock.storage.space import scaling_of

#: Attributes that say what numbers mean: arrays with different ones cannot be joined.
MEANING = ("units", "calendar", "scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned")
#: Steps of a coordinate may differ by this factor, as months do, before one of them is a gap.
_GAP = 1.5


class JoinedMember(NamedTuple):
    """An array that is to be joined, with its place along the axis."""

    path: str
    """File or folder."""
    store: Store
    """The array."""
    coordinate: npt.NDArray[Any] | None = None
    """Values along the axis, if the file has them."""
    named: str = ""
    """Their name."""
    units: Any = None
    """Their units."""


# ---------------------------------------------------------------- do they fit?
def check_member(member: JoinedMember, first: JoinedMember, axis: int) -> None:
    """FormatError if an array differs from the first by more than its length along an axis; -1 = nothing may differ."""
    one, other = member.store, first.store
    schemas = one.schema, other.schema
    for what, (mine, theirs) in {
        "the format": (one.format, other.format),
        "axes": (schemas[0].ndim, schemas[1].ndim),
        "the names of axes": (schemas[0].axes, schemas[1].axes),
        "the type": (schemas[0].dtype.str, schemas[1].dtype.str),
        "the shape": (_without(schemas[0].shape, axis), _without(schemas[1].shape, axis)),
        "the fill value": (_bits(schemas[0]), _bits(schemas[1])),
        "the axis order on disk": (one.layout.order, other.layout.order),
        "the chunks": (_cuts(one, axis), _cuts(other, axis)),
    }.items():
        if mine != theirs:
            raise FormatError(f"{member.path}: {what} {_text(mine)}, but {_text(theirs)} in {first.path}")
    for name in MEANING:
        mine, theirs = (schema.attributes.get(name) for schema in schemas)
        if not same(mine, theirs):
            raise FormatError(
                f"{member.path}: attribute {name!r} is {_text(mine)}, but {_text(theirs)} in {first.path}: the numbers "
                "do not mean the same"
            )

    mine, theirs = (scaling_of(schema.attributes) for schema in schemas)
    for name in dict.fromkeys([*mine, *theirs]):
        if not same(mine.get(name), theirs.get(name)):
            raise FormatError(
                f"{member.path}: {name} {_text(mine.get(name))}, but {_text(theirs.get(name))} in {first.path}: the "
                "numbers do not mean the same"
            )


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.ndarray | list):
        return show(np.asarray(value).tolist())
    return ",".join(map(str, value)) or "()" if isinstance(value, tuple) else str(value)


def _without(shape: tuple[int, ...], axis: int) -> tuple[Any, ...]:
    return tuple("*" if place == axis else n for place, n in enumerate(shape))


def _cuts(store: Store, axis: int) -> tuple[Any, ...]:
    """The chunks along all axes but one, and whether they are encoded in shards."""
    layout = store.layout
    lengths = [(*one.lengths()[:1], one.count) for place, one in enumerate(layout.units.axes) if place != axis]
    return (*("×".join(map(str, one)) for one in lengths), *(("shards",) if layout.indexed else ()))


def _bits(schema: Schema) -> str | None:
    return None if schema.fill_value is None else element(schema.fill_value, schema.dtype).tobytes().hex()


def same(one: Any, other: Any) -> bool:
    """Whether attributes have the same value; NaN is the same as NaN."""
    if one is None or other is None:
        return one is other
    try:
        return bool(np.array_equal(np.asarray(one), np.asarray(other), equal_nan=np.asarray(one).dtype.kind in "fc"))
    except (TypeError, ValueError):
        return bool(one == other)


def lost_attributes(member: JoinedMember, first: JoinedMember) -> list[str]:
    """Names of attributes that differ from those of the first array."""
    mine, theirs = member.store.schema.attributes, first.store.schema.attributes
    return [name for name in dict.fromkeys([*theirs, *mine]) if not same(mine.get(name), theirs.get(name))]


# ---------------------------------------------------------------- their order
def in_order(members: Sequence[JoinedMember], axis: str) -> Sequence[JoinedMember]:
    """Members by their coordinate, if all have one; FormatError for overlaps and gaps."""
    having = [member for member in members if member.coordinate is not None and member.coordinate.size]
    if not having or _is_placeholder(members):
        return members
    axis = having[0].named or axis
    if len(having) < len(members):
        lacking = next(member for member in members if member.coordinate is None or not member.coordinate.size)
        if lacking.coordinate is None:
            raise FormatError(f"{lacking.path}: it has no coordinate {axis}, but {having[0].path} has")
    for member in having[1:]:
        if member.named != having[0].named:
            raise FormatError(f"{member.path}: its order is that of {member.named}, but of {axis} in {having[0].path}")
        if not same(member.units, having[0].units):
            raise FormatError(
                f"{member.path}: units of {axis} are {_text(member.units)}, but {_text(having[0].units)} in "
                f"{having[0].path}"
            )
    direction = _direction(having, axis)
    found = sorted(having, key=lambda member: direction * float(_values(member)[0]))
    _check_steps(found, axis, direction)
    return [*found, *(member for member in members if member not in having)] if len(having) < len(members) else found


def _is_placeholder(members: Sequence[JoinedMember]) -> bool:
    """Whether all files have the same numbers without units, which say nothing about their order."""
    first = members[0].coordinate
    return first is not None and all(
        one.units is None and one.coordinate is not None and np.array_equal(one.coordinate, first) for one in members
    )


def _values(member: JoinedMember) -> npt.NDArray[Any]:
    assert member.coordinate is not None
    return member.coordinate


def _direction(members: Sequence[JoinedMember], axis: str) -> int:
    """1 if coordinates increase, -1 if they decrease."""
    found = set()
    for member in members:
        steps = np.diff(_values(member).astype(np.float64))
        if steps.size and not ((steps > 0).all() or (steps < 0).all()):
            raise FormatError(f"{member.path}: its coordinate {axis} neither increases nor decreases throughout")
        found |= {1 if (steps > 0).all() else -1} if steps.size else set()
        if len(found) > 1:
            raise FormatError(f"{member.path}: its coordinate {axis} runs the other way than that of the files before")
    return found.pop() if found else 1


def _check_steps(members: Sequence[JoinedMember], axis: str, direction: int) -> None:
    """FormatError where files overlap, or where the step between two is larger than steps elsewhere."""
    ends = [direction * _values(member)[[0, -1]].astype(np.float64) for member in members]
    between = [float(after[0] - before[1]) for before, after in pairwise(ends)]
    for number, step in enumerate(between):
        if step <= 0:
            one, other = members[number + 1], members[number]
            raise FormatError(
                f"{one.path}: its {axis} begins at {_values(one)[0]}, before {other.path} ends, at "
                f"{_values(other)[-1]}: they overlap"
            )
    inside = np.concatenate([np.abs(np.diff(_values(member).astype(np.float64))) for member in members])
    if inside.size and inside.max() > _GAP * inside.min():
        return  # steps differ anyway
    usual = inside.min() if inside.size else min(between, default=0.0)
    for number, step in enumerate(between):
        if step > _GAP * usual:
            one, other = members[number + 1], members[number]
            raise FormatError(
                f"{one.path}: its {axis} begins at {_values(one)[0]}, a step of {step:g} behind {other.path}, other "
                f"steps are {usual:g}: something is missing between them"
            )
