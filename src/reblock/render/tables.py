"""Tables: rows of values with their columns, as text, as CSV and as JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from reblock.geometry.grid import chunk_text
from reblock.model import Device
from reblock.render.columns import fields, table
from reblock.units import format_count, format_seconds, format_size

#: Formats a value for text; CSV and JSON contain the value itself.
Show = Callable[[Any], str]


def shape(value: Sequence[int]) -> str:
    """The length of each axis; a cube is abbreviated."""
    return f"{value[0]}³" if len(value) == 3 and len(set(value)) == 1 else chunk_text(tuple(value))


def gigabytes(value: float) -> str:
    """Bytes in decimal gigabytes, as in the papers' budgets."""
    return f"{value / 1e9:.3f}"


def number(value: float) -> str:
    """A ratio, or an amount in the unit of the header."""
    return f"{value:,.2f}" if value < 1000 else f"{value:,.0f}"


def whole(value: float) -> str:
    """A number without decimals."""
    return f"{value:,.0f}"


def yes_no(value: bool) -> str:  # noqa: FBT001 - the value of a cell
    """The result of a check."""
    return "yes" if value else "NO"


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    key: str
    """Its name in JSON and CSV."""
    label: str
    """Its name in text."""
    show: Show = str
    """Formats its values for text."""


@dataclass(frozen=True)
class Table:
    """Rows of values; None is an empty cell."""

    name: str
    """Short name, for the CSV file and JSON."""
    title: str
    """What it shows, in one line."""
    columns: tuple[Column, ...]
    """Its columns."""
    rows: tuple[tuple[Any, ...], ...]
    """Its rows, one value per column."""
    notes: tuple[str, ...] = ()
    """Remarks below the table."""
    failures: int = 0
    """Number of failed checks in the table."""

    def to_json(self) -> dict[str, Any]:
        keys = [column.key for column in self.columns]
        return {
            "name": self.name,
            "title": self.title,
            "rows": [dict(zip(keys, row, strict=True)) for row in self.rows],
            "notes": list(self.notes),
            "failures": self.failures,
        }

    def to_csv(self) -> str:
        """A header line and one line per row."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([column.key for column in self.columns])
        for row in self.rows:
            writer.writerow([chunk_text(value) if isinstance(value, tuple) else value for value in row])
        return stream.getvalue()

    def to_text(self) -> str:
        """The title, aligned columns, and the notes."""
        rows = [
            ["—" if value is None else column.show(value) for column, value in zip(self.columns, row, strict=True)]
            for row in self.rows
        ]
        lines = [self.title, *table([column.label for column in self.columns], rows)]
        return "\n".join([*lines, *fields([("-", note) for note in self.notes], indent=4)])


def device(measured: Device) -> str:
    """The measurements of a device as text."""
    rates = measured.decode_bytes_per_second, measured.encode_bytes_per_second
    pairs = [
        ("read", f"{format_size(measured.read_bytes_per_second)}/s"),
        ("write", f"{format_size(measured.write_bytes_per_second)}/s, data on the medium"),
        ("open", f"{format_seconds(measured.open_seconds)} per visit"),
        ("seek", f"{format_seconds(measured.seek_seconds)} per random read"),
        ("create", f"{format_seconds(measured.create_seconds)} per file"),
        ("visit", f"{format_seconds(measured.visit_seconds)} of work for the cores"),
        ("make", f"{format_seconds(measured.make_seconds)} of work for the cores per new file"),
        ("depth", f"{format_count(measured.depth)} requests in flight"),
        ("memory", f"{format_size(measured.memory_bytes_per_second)}/s scattered, all cores"),
        ("fresh", f"{format_size(measured.fresh_bytes_per_second)}/s of memory touched for the first time, all cores"),
    ]
    names = dict.fromkeys(name for rate in rates for name in rate)
    codecs = [[name, *(f"{format_size(rate[name])}/s" if name in rate else "—" for rate in rates)] for name in names]
    return "\n".join([measured.name, *fields(pairs), "", *table(("codec", "decode", "encode"), codecs)])
