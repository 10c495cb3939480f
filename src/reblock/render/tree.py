"""The tree of a dataset as text: groups, and their arrays in columns."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from reblock.geometry.grid import chunk_text
from reblock.render.columns import clip, fields, plain
from reblock.units import format_count, format_size

#: The most attributes of a group that are listed, and the most nodes of a dataset.
MANY_ATTRIBUTES, MANY_NODES = 20, 1000


def tree_text(described: Mapping[str, Any], location: str) -> str:
    """Everything that a dataset holds, from the result of `reblock.info`."""
    arrays, groups, tables = described["arrays"], described["groups"], described["tables"]
    total = sum(prod(one["shape"]) * np.dtype(one["dtype"]).itemsize for one in arrays.values())
    pairs = [
        ("format", str(described["format"])),
        ("arrays", f"{format_count(len(arrays))}, {format_size(total)}"),
        *([("tables", format_count(len(tables)))] if tables else []),
        ("groups", format_count(len(groups) - 1)),
    ]
    if described["digest"]:
        pairs.append(("digest", described["digest"]))
    lines = [plain(location), *fields(pairs), *_attributes(described["attributes"], 4)]
    members = _members([*arrays, *tables], groups)
    left = MANY_NODES
    for name in groups:
        if left <= 0:
            break
        lines += ["", f"  {plain('/' + name)}"]
        if name:
            lines += _attributes(groups[name]["attributes"], 4)
        lines += _dimensions(groups[name]["dimensions"])
        rows = [_row(one, arrays.get(one), tables.get(one)) for one in members.get(name, ())[:left]]
        left -= len(rows) + 1
        lines += _columns(rows)
    if left <= 0:
        lines += ["", "  … more groups and arrays: --json shows all"]
    lines += [f"  note: {plain(note)}" for note in described["notes"]]
    return "\n".join(lines)


def _members(names: list[str], groups: Mapping[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {name: [] for name in groups}
    for name in names:
        found.setdefault(name.rpartition("/")[0], []).append(name)
    return found


def _attributes(attributes: Mapping[str, Any], indent: int) -> list[str]:
    shown = [(clip(plain(str(key)), 40), clip(plain(str(value)), 200)) for key, value in attributes.items()]
    more = len(shown) - MANY_ATTRIBUTES
    if more > 0:
        shown = [*shown[:MANY_ATTRIBUTES], ("…", f"{format_count(more)} more: --json shows all")]
    return fields(shown, indent=indent)


def _dimensions(dimensions: Mapping[str, Any]) -> list[str]:
    if not dimensions:
        return []
    named = (f"{name}={one['length']}{' unlimited' if one['unlimited'] else ''}" for name, one in dimensions.items())
    return fields([("axes", ", ".join(named))], indent=4)


def _row(name: str, array: Mapping[str, Any] | None, table: Mapping[str, Any] | None) -> tuple[str, ...]:
    one: Mapping[str, Any] = array or table or {}
    last = name.rpartition("/")[2]
    lengths = [str(n) for n in one["shape"]]
    if one["axes"]:
        lengths = [f"{axis}={n}" if axis else n for axis, n in zip(one["axes"], lengths, strict=True)]
    shape = f"({', '.join(lengths)})"
    if array is None:
        why = f"not supported: {one['unsupported']}" if one["unsupported"] else ""
        return last, shape, str(one["kind"]), why
    cuts = [tuple(cut) if isinstance(cut, list) else cut for cut in one["chunks"]]
    chunks = f"chunks {chunk_text(cuts)}" if cuts else ""
    shards = f", shards {chunk_text(one['shards'])}" if one["shards"] else ""
    codec = f", {one['codec']}" if one["codec"] != "none" else ""
    return last, shape, np.dtype(one["dtype"]).name, f"{chunks}{shards}{codec}".lstrip(", ")


def _columns(rows: list[tuple[str, ...]]) -> list[str]:
    cells = [[clip(plain(cell), 60 if place < 3 else 120) for place, cell in enumerate(row)] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)] if cells else []
    return [
        "    " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
