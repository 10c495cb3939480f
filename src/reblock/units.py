"""Sizes and durations between text and numbers: "512 MiB" <-> 536870912."""

from __future__ import annotations

import re
from decimal import Decimal

from reblock.errors import UsageError

_DECIMAL = {"": 1, "b": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4, "p": 1000**5}
_SUFFIXES = {
    **_DECIMAL,
    **{f"{letter}b": factor for letter, factor in _DECIMAL.items() if letter not in ("", "b")},
    **{f"{letter}ib": 1024 ** (power + 1) for power, letter in enumerate("kmgtp")},
    "eb": 1000**6,
    "eib": 1024**6,
    **{f"{letter}i": 1024 ** (power + 1) for power, letter in enumerate("kmgtp")},
}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([a-z]*)", re.ASCII)
_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%", re.ASCII)
_LARGEST = 2**63 - 1


def parse_size(text: str | int, *, whole: int | None = None) -> int:
    """Bytes from an integer or from text like "512MiB", "4 GB" or "1.5GiB"; "50%" is that share of `whole`."""
    if isinstance(text, bool):
        raise UsageError(f"a size is bytes or text like 512MiB, not {text!r}")
    if isinstance(text, int):
        size = text
    elif whole is not None and (part := _PERCENT.fullmatch(str(text).strip())):
        size = int(Decimal(part[1]) * whole / 100)
    else:
        match = _SIZE.fullmatch(str(text).strip().lower())
        if match is None or match[2] not in _SUFFIXES:
            raise UsageError(f"cannot read the size {text!r}: write bytes, or a number with KB, MB, GB, KiB, MiB, GiB")
        size = int(Decimal(match[1]) * _SUFFIXES[match[2]])
    if not 0 <= size <= _LARGEST:
        raise UsageError(f"the size {text!r} must be between 0 and 8 EiB")
    return size


def format_size(size: float) -> str:
    """Bytes for people: binary units, three significant digits."""
    if size < 1024:
        return f"{size:.0f} B"
    units = iter(("KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))
    while size >= 1023.5 and (unit := next(units, None)):
        size, name = size / 1024, unit
    digits = 2 if size < 10 else 1 if size < 100 else 0
    return f"{size:.{digits}f} {name}"


def exact_size(size: int) -> str:
    """A size as options take it, without rounding.

    >>> exact_size(4 << 30), exact_size(1_000_000)
    ('4GiB', '1000000')
    """
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size and size % (1 << power) == 0:
            return f"{size >> power}{unit}"
    return str(size)


def format_seconds(seconds: float) -> str:
    """A duration for people."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours / 24:.1f} days"


def format_count(count: int) -> str:
    """An integer with thousands separators."""
    return f"{count:,}"
