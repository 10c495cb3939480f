"""Checked values of JSON documents: a UsageError names the place and the value that is wrong."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from reblock.errors import UsageError

#: The largest integer that documents may hold: memory and counts are far below it.
MAX_INTEGER = 2**256
#: Characters of a wrong value that a message shows.
_SHOWN = 60


def integer(value: Any, name: str, *, least: int = 0, most: int = MAX_INTEGER) -> int:
    """An integer between two limits; booleans and floats are refused."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"{name} must be an integer, not {_shown(value)}")
    if not least <= value <= most:
        limits = f"at least {least}" if value < least else f"at most {most}"
        raise UsageError(f"{name} must be {limits}, not {_shown(value)}")
    return value


def number(value: Any, name: str, *, least: float = 0.0, most: float = 1e300) -> float:
    """A number between two limits; booleans and NaN are refused."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{name} must be a number, not {_shown(value)}")
    if not least <= value <= most:
        raise UsageError(f"{name} must be between {least:g} and {most:g}, not {_shown(value)}")
    return float(value)


def integers(value: Any, name: str, *, least: int = 0, most: int = MAX_INTEGER) -> tuple[int, ...]:
    """A list of integers between two limits."""
    return tuple(
        integer(one, f"{name}[{place}]", least=least, most=most) for place, one in enumerate(items(value, name))
    )


def permutation(value: Any, name: str, count: int) -> tuple[int, ...]:
    """A list of the integers below `count`, each of them once."""
    order = integers(value, name)
    if sorted(order) != list(range(count)):
        raise UsageError(f"{name} must be a permutation of {count} axes, not {_shown(value)}")
    return order


def boolean(value: Any, name: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise UsageError(f"{name} must be true or false, not {_shown(value)}")
    return value


def text(value: Any, name: str, allowed: Collection[str] = ()) -> str:
    """A text, one of the allowed ones if any are given."""
    if not isinstance(value, str) or (allowed and value not in allowed):
        wanted = f"one of {', '.join(allowed)}" if allowed else "a text"
        raise UsageError(f"{name} must be {wanted}, not {_shown(value)}")
    return value


def items(value: Any, name: str, count: int | None = None) -> list[Any]:
    """A list, of `count` values if that is given."""
    if not isinstance(value, list) or (count is not None and len(value) != count):
        wanted = "a list" if count is None else f"a list of {count} values"
        raise UsageError(f"{name} must be {wanted}, not {_shown(value)}")
    return value


def members(value: Any, name: str, keys: Collection[str]) -> dict[str, Any]:
    """An object with these keys, no more and no fewer."""
    if not isinstance(value, dict):
        raise UsageError(f"{name} must be an object, not {_shown(value)}")
    missing, unknown = [key for key in keys if key not in value], [key for key in value if key not in keys]
    if missing or unknown:
        wrong = f"lacks {', '.join(missing)}" if missing else f"has unknown keys: {_shown(unknown)}"
        raise UsageError(f"{name} {wrong}")
    return value


def _shown(value: Any) -> str:
    # The text of an integer of very many digits is refused by Python, and of a long list would be very long.
    if isinstance(value, int) and value.bit_length() > 4 * _SHOWN:
        return "a number of very many digits"
    shown = repr(value[:_SHOWN] if isinstance(value, str | list) else value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
