"""Text of an extraction: how many regions, what was read for them, and where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reblock.render.columns import plain
from reblock.units import format_size

#: The most rows of statistics that are shown.
_SHOWN = 20
_COLUMNS = ("region", "count", "mean", "std", "min", "max", "sum")


def extraction(document: Mapping[str, Any]) -> str:
    """What `reblock extract` prints, from the document that --json prints."""
    target, regions = document["target"], document["regions"]
    lines = [f"{plain(target)}: {len(regions):,} {'region' if len(regions) == 1 else 'regions'}"]
    predicted, measured = document["predicted"], document["measured"]
    if predicted is not None:
        read = measured if measured["objects"] else predicted
        verb = "read" if measured["objects"] else "to be read"
        lines.append(f"  {verb:<12}{read['objects']:,} objects, {format_size(read['bytes_read'])}")
        lines.append(f"  held at most {format_size(predicted['held_bytes'])} of regions at a time")
    if document["statistics"]:
        lines += ["", *_table(document["statistics"])]
    lines += ["", "notes", *(f"  -  {plain(note)}" for note in document["notes"])] if document["notes"] else []
    return "\n".join(lines)


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    cells = [_COLUMNS, *(tuple(_cell(row[name]) for name in _COLUMNS) for row in rows[:_SHOWN])]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_COLUMNS))]
    made = [
        "  " + row[0].ljust(widths[0]) + "".join(f"  {c:>{w}}" for c, w in zip(row[1:], widths[1:], strict=True))
        for row in cells
    ]
    if len(rows) > _SHOWN:
        made.append(f"  … and {len(rows) - _SHOWN:,} more")
    return made


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else plain(str(value))
