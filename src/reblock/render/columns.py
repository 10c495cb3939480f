"""Columns: plain text in aligned columns of limited width, free of control characters."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

#: Most characters in a line.
WIDTH = 100


def plain(text: str) -> str:
    """The text on one line, with control characters and lone surrogates escaped."""
    if text.isprintable():
        return text
    one_line = " ".join(text.split("\n"))
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in one_line)


def clip(text: str, width: int) -> str:
    """At most `width` characters."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def fields(pairs: Sequence[tuple[str, str]], *, indent: int = 2) -> list[str]:
    """Labels and their values, one pair per line; long values wrap in their own column."""
    label_width = max((len(label) for label, _ in pairs), default=0) + 2
    lines: list[str] = []
    for label, value in pairs:
        room = WIDTH - indent - label_width
        first, *rest = wrap(plain(value), room, break_on_hyphens=False) or [""]
        lines.append(f"{' ' * indent}{label:<{label_width}}{first}".rstrip())
        lines += [f"{' ' * (indent + label_width)}{more}" for more in rest]
    return lines


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1, indent: int = 2) -> list[str]:
    """Rows below their header; the first `words` columns are left-aligned, the rest right-aligned."""
    cells = [list(header), *([plain(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for line in cells:
        aligned = [
            f"{cell:<{width}}" if place < words else f"{cell:>{width}}"
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append((" " * indent + "  ".join(aligned)).rstrip())
    return lines
