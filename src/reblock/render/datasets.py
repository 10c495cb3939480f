"""Text for runs on datasets: a line for each array, and the totals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reblock.engine.dataset_report import DatasetReport
from reblock.model import Cost, TableSchema
from reblock.planner import Decision
from reblock.render.columns import clip, fields, plain, table
from reblock.render.text import comparison, count_text, grid_text, note_lines, plural, times_text
from reblock.units import format_seconds, format_size

#: The longest name and the longest shape of a line.
_NAME, _SHAPE = 32, 24


def explain(
    source: str,
    decisions: Mapping[str, Decision],
    cost: Cost,
    *,
    tables: Mapping[str, TableSchema],
    notes: Sequence[str],
) -> str:
    """The plans of all arrays of a dataset, a line for each, and their cost together."""
    rows = [
        [
            clip(plain(name), _NAME),
            clip(" × ".join(map(str, one.problem.shape)) or "()", _SHAPE),
            clip(grid_text(one.problem.target.units), _SHAPE),
            one.plan.strategy,
            format_size(one.problem.target.nbytes),
            count_text(one.cost.seeks),
            format_size(one.cost.peak_bytes),
            format_seconds(one.cost.seconds),
        ]
        for name, one in decisions.items()
    ]
    whole = sum(one.problem.target.nbytes for one in decisions.values())
    rows.append(
        [
            "total",
            "",
            "",
            "",
            format_size(whole),
            count_text(cost.seeks),
            format_size(cost.peak_bytes),
            format_seconds(cost.seconds),
        ]
    )
    header = ("array", "shape", "chunks", "strategy", "size", "seeks", "peak", "time")
    lines = [f"{plain(source)}: {plural(len(decisions), 'array')}", *table(header, rows, words=4)]
    return "\n".join([*lines, *_table_lines(tables), *note_lines(notes)])


def _table_lines(tables: Mapping[str, TableSchema]) -> list[str]:
    if not tables:
        return []
    pairs = [
        (clip(plain(name), _NAME), f"{' × '.join(map(str, one.shape)) or '()'} of {one.kind}")
        for name, one in tables.items()
    ]
    return ["", "copied row by row", *fields(pairs)]


def report(found: DatasetReport, memory_bytes: int) -> str:
    """The measured cost of a run on a dataset beside the predicted cost."""
    where = f"{plain(found.target)}: " if found.target else ""
    boxes = plural(found.write_boxes, "write box", "write boxes")
    pairs = [
        (
            "arrays",
            f"{len(found.arrays)}, and {len(found.tables)} row by row" if found.tables else f"{len(found.arrays)}",
        ),
        ("work", f"{plural(found.tasks, 'task')}, {boxes}"),
        ("missing chunks", f"{count_text(found.missing_chunks)}"),
        ("memory budget", format_size(memory_bytes)),
    ]
    if found.resumed_boxes:
        resumed = plural(found.resumed_boxes, "write box", "write boxes")
        pairs.append(("resumed", f"{resumed} already finished"))
    if found.digest:
        pairs.append(("digest", found.digest))
    if not found.write_boxes and found.resumed_boxes:
        return "\n".join([f"{where}done, nothing was left to do", *fields(pairs), *note_lines(found.notes)])
    pairs.append(("time went to", times_text(found.times)))
    rows = [
        [
            clip(plain(name), _NAME),
            format_size(one.measured.bytes_written),
            f"{count_text(one.predicted.seeks)} | {count_text(one.measured.seeks)}",
            f"{format_size(one.predicted.peak_bytes)} | {format_size(one.measured.peak_bytes)}",
            f"{format_seconds(one.predicted.seconds)} | {format_seconds(one.measured.seconds)}",
        ]
        for name, one in found.arrays.items()
    ]
    header = ("array", "written", "seeks", "peak", "time")
    return "\n".join(
        [
            f"{where}done in {format_seconds(found.elapsed_seconds)}",
            *fields(pairs),
            "",
            "arrays, predicted | measured",
            *table(header, rows),
            "",
            "cost",
            *table(("", "predicted", "measured", "measured / predicted"), comparison(found.predicted, found.measured)),
            *note_lines(found.notes),
        ]
    )
