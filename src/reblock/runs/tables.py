"""Tables: copy arrays that cannot be cut into boxes, row by row within the budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reblock.engine import digest
from reblock.model import TreeFormat
from reblock.runs.work import DatasetWork, TableWork

#: The share of the memory budget that rows of a table take: they are read, converted and encoded.
_TABLE_SHARE = 4


def copy_table(
    table: TableWork,
    work: DatasetWork,
    format: TreeFormat,
    path: str,
    elsewhere: Mapping[str, Any],
    *,
    digested: bool,
    cancelled: Callable[[], bool],
) -> None:
    """Copy the rows of a table into the dataset at a path; `elsewhere` names its medium."""
    schema = work.tree.tables[table.name]
    taken = digest.TableDigest(schema.kind, schema.dtype, schema.shape)
    (start, stop), *others = table.ranges or [(0, 1)]
    inside = tuple(slice(*one) for one in others)
    at = start
    while at < stop:
        if cancelled():
            raise KeyboardInterrupt
        rows = work.source.rows(table.name, at, stop, work.memory_bytes // _TABLE_SHARE)
        found = len(rows) if schema.shape else 1
        rows = rows[(slice(None), *inside)] if schema.shape else rows
        format.write_rows(path, work.inner, table.name, work.tree, at - start, rows, **elsewhere)
        taken.update(rows)
        at += found
    if digested:
        table.sums = taken.text()
