"""Casting: convert elements to another type, and find the first one whose value does not survive.

An element survives if its value does. ::

    whole numbers    exactly, whatever they become: 300 is not a uint8, 2**53 + 1 is not a float64
    fractions        none, if they become whole numbers; nor NaN and infinity
    floats           rounded by fewer digits; a finite one that becomes infinite does not survive
    complex          without an imaginary part, if they become real
    booleans         from 0 and 1 only
    dates, durations exactly, in whole units of the other type
    text             with all characters
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from reblock.engine.view import Array, View, part
from reblock.errors import MisfitError, option
from reblock.geometry import Box
from reblock.geometry.runs import pieces
from reblock.model import Index, clear_padding

#: Elements converted at a time, which bounds temporary memory.
_MANY_ELEMENTS = 1 << 15
#: Finds elements that do not survive: takes them before and after, and returns a mask.
Rule = Callable[[Array, Array], Any]


def convert(source: Array, target: Array, *, checked: bool, origin: Index = ()) -> None:
    """Copy elements into an array of another type.

    MisfitError for the first in C order that does not survive, if that is checked, or that cannot be converted at all;
    its index is counted from the `origin`.
    """
    rule = rule_of(source.dtype, target.dtype) if checked else None
    size = 2 * _MANY_ELEMENTS // max(source.itemsize // 8, 1)
    for box in pieces(Box.whole(source.shape), tuple(range(source.ndim)), size):
        there, here = part(source, box), part(target, box)
        try:
            with np.errstate(all="ignore"):
                # Numpy warns where it leaves out imaginary parts by itself.
                here[...] = there.real if source.dtype.kind == "c" and target.dtype.kind in "iuf" else there
                wrong = None if rule is None else rule(there, here)
        except (ValueError, OverflowError, TypeError):
            wrong = _one_by_one(there, here, rule)
        if wrong is not None and wrong.any():
            place = np.unravel_index(int(np.argmax(wrong)), there.shape) if there.ndim else ()
            index = tuple(int(i) + first for i, first in zip(place, box.start, strict=True))
            value = there[tuple(map(int, place))]
            raise misfit(value, target.dtype, tuple(map(sum, zip(index, origin, strict=True))) if origin else index)
    clear_padding(target)


def fits(value: Array, dtype: np.dtype[Any]) -> bool:
    """Whether one element survives as another type."""
    try:
        convert(value.reshape(1), np.empty(1, dtype), checked=True)
    except MisfitError:
        return False
    return True


def misfit(value: Any, dtype: np.dtype[Any], index: Index) -> MisfitError:
    """The error about an element that does not survive."""
    return MisfitError(f"{value!s}, which {_name(dtype)} cannot hold", index=index, value=value)


def misfit_in_source(error: MisfitError, view: View) -> MisfitError:
    """An error about an element of a view, in words, with the index that the element has in the store."""
    index = view.store_box(Box(error.index, tuple(i + 1 for i in error.index))).start
    advice = f"; {option('unsafe_cast', True)} converts it as numpy does" if view.checked else ""
    where = f"element [{', '.join(map(str, index))}]" if index else "the element"
    return MisfitError(f"{view.store.location}: {where} is {error.message}{advice}", index=index, value=error.value)


def is_convertible(before: np.dtype[Any], after: np.dtype[Any]) -> bool:
    """Whether values of one type have a meaning in another: numbers, text, and dates as the units they count."""
    if before.newbyteorder("=") == after.newbyteorder("="):
        return True
    kinds = {before.kind, after.kind}
    alike = len(kinds) == 1 and kinds <= set("Mm")
    return kinds <= set("biufc") or kinds <= set("SU") or alike or (kinds <= set("iuMm") and bool(kinds & set("iu")))


def _name(dtype: np.dtype[Any]) -> str:
    """A type, with its limits if it has any worth naming."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return f"{dtype.name} ({limits.min} to {limits.max})"
    return dtype.name


@lru_cache(maxsize=64)
def rule_of(before: np.dtype[Any], after: np.dtype[Any]) -> Rule | None:
    """How misfits are found; None if every element survives, or if nothing can be said about these types."""
    if before.newbyteorder("=") == after.newbyteorder("=") or not is_convertible(before, after):
        return None
    kinds = before.kind, after.kind
    if set(kinds) <= set("biufc"):
        return _number_rule(before, after)
    if set(kinds) <= set("SU"):
        longer = _characters(after) >= _characters(before) and kinds not in (("U", "S"), ("S", "U"))
        return None if longer else _there_and_back
    if kinds in (("M", "M"), ("m", "m")):
        return _dates_there_and_back
    # As integers of 64 bits, dates and durations are the units they count.
    if before.kind in "Mm":
        rule = rule_of(np.dtype(np.int64), after)
        return None if rule is None else partial(_counted, rule)
    counts = rule_of(before, np.dtype(np.int64))
    return None if counts is None else lambda values, made: counts(values, _counts(made))


def _counted(rule: Rule, values: Array, made: Array) -> Any:
    return rule(_counts(values), made)


def _number_rule(before: np.dtype[Any], after: np.dtype[Any]) -> Rule | None:
    if before.kind == "b":
        return None
    if after.kind == "b":
        return lambda values, _: (values != 0) & (values != 1)
    if before.kind in "iu":
        return _range_rule(before, after) if after.kind in "iu" else _exact_rule(before, after)
    if before.kind == "c" and after.kind != "c":
        within = _number_rule(values_of(before), after)
        if within is None:
            return lambda values, _: values.imag != 0
        return lambda values, made: (values.imag != 0) | within(values.real, made)
    return _whole_rule(before, after) if after.kind in "iu" else _overflow_rule(before, after)


def _overflow_rule(before: np.dtype[Any], after: np.dtype[Any]) -> Rule | None:
    """Floats and complex numbers of fewer digits."""
    if np.finfo(after).max >= np.finfo(before).max:
        return None
    if before.kind == "c":
        return lambda values, made: _overflows(values.real, made.real) | _overflows(values.imag, made.imag)
    return _overflows


def _overflows(values: Array, made: Array) -> Any:
    return np.isfinite(values) & ~np.isfinite(made)


def values_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of the parts of a complex type."""
    return np.zeros(0, dtype).real.dtype


def _range_rule(before: np.dtype[Any], after: np.dtype[Any]) -> Rule | None:
    """Whole numbers of another range."""
    one, two = np.iinfo(before), np.iinfo(after)
    low, high = two.min if two.min > one.min else None, two.max if two.max < one.max else None
    if low is None and high is None:
        return None
    if low is None:
        return lambda values, _: values > high
    if high is None:
        return lambda values, _: values < low
    return lambda values, _: (values < low) | (values > high)


def _exact_rule(before: np.dtype[Any], after: np.dtype[Any]) -> Rule | None:
    """Whole numbers that become floats: only those with few enough digits survive."""
    limits, found = np.iinfo(before), np.finfo(after)
    if max(limits.max, -limits.min) <= min(2 ** (found.nmant + 1), float(found.max)):
        return None
    native = before.newbyteorder("=")
    # The smallest power of two above all values: the type holds no float of at least this.
    above = (
        np.array(2.0, found.dtype) ** (limits.bits - (before.kind == "i")) if limits.max < float(found.max) else np.inf
    )

    def wrong(values: Array, made: Array) -> Any:
        back = made.real
        inside = np.isfinite(back) & (back < above)
        return ~(inside & (np.where(inside, back, 0).astype(native) == values))

    return wrong


def _whole_rule(before: np.dtype[Any], after: np.dtype[Any]) -> Rule:
    """Floats that become whole numbers."""
    limits = np.iinfo(after)
    # Half precision does not reach the limits of most types.
    wide = before.newbyteorder("=") if before.itemsize > 2 else np.dtype(np.float32)
    low, above = wide.type(limits.min), wide.type(2) ** wide.type(limits.bits - (after.kind == "i"))

    def wrong(values: Array, _: Array) -> Any:
        these = values.astype(wide, copy=False)
        return ~((these >= low) & (these < above) & (np.trunc(these) == these))

    return wrong


def _there_and_back(values: Array, made: Array) -> Any:
    return made.astype(values.dtype) != values


def _dates_there_and_back(values: Array, made: Array) -> Any:
    return _counts(made.astype(values.dtype)) != _counts(values)


def _counts(values: Array) -> Array:
    """Dates and durations as the integers that they are, native."""
    return values.astype(values.dtype.newbyteorder("=")).view(np.int64)


def _characters(dtype: np.dtype[Any]) -> int:
    return dtype.itemsize // (4 if dtype.kind == "U" else 1)


def _one_by_one(values: Array, made: Array, rule: Rule | None) -> Array:
    """Convert elements until one does not survive, or cannot be converted: numpy says only that there is one."""
    wrong = np.zeros(values.shape, bool)
    for index in np.ndindex(values.shape):
        # Arrays of one element: numpy converts scalars by other rules.
        one: tuple[Any, ...] = (*(slice(i, i + 1) for i in index), ...)
        try:
            with np.errstate(all="ignore"):
                made[one] = values[one]
                wrong[index] = rule is not None and bool(np.any(rule(values[one], made[one])))
        except (ValueError, OverflowError, TypeError):
            wrong[index] = True
        if wrong[index]:
            break
    return wrong
