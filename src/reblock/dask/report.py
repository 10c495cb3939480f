"""BufferReport: what buffers are planned for, what they save, and what was counted when they ran."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any

from reblock.dask.picture import draw
from reblock.dask.tally import Collector, Records
from reblock.units import format_size

#: The most arrays that are shown one by one.
_MAX_SHOWN = 12


@dataclass
class BufferReport:
    """Files, buffers, seeks and bytes: plain against buffered, predicted and counted."""

    collector: Collector | None = None
    """Where a running program reports; None for a prediction."""
    fixed: Records = field(default_factory=Records)
    """What is known without running."""

    @property
    def _records(self) -> Records:
        return self.fixed if self.collector is None else self.collector.records()

    @property
    def arrays(self) -> list[dict[str, Any]]:
        """Each array of each graph: boxes, buffers, and predicted traffic without and with buffers."""
        return self._records.arrays

    @property
    def notes(self) -> list[str]:
        """What was left alone, and why."""
        return self._records.notes

    @property
    def graphs(self) -> int:
        """Graphs that were optimised."""
        return self._records.graphs

    @property
    def counted(self) -> dict[str, int]:
        """What was counted while buffers were read and written."""
        return asdict(self._records.tally)

    def to_json(self) -> dict[str, Any]:
        """Everything, for programs."""
        records = self._records
        arrays = [{key: value for key, value in row.items() if key != "picture"} for row in records.arrays]
        counted = None if self.collector is None else asdict(records.tally)
        totals = {
            side: {
                name: sum(row[side][name] for row in arrays if row["buffers"])
                for name in ("opens", "runs", "seeks", "bytes")
            }
            for side in ("plain", "buffered")
        }
        return {
            "graphs": records.graphs,
            "arrays": arrays,
            **totals,
            "counted": counted,
            "notes": records.notes,
        }

    def __str__(self) -> str:
        found = self.to_json()
        lines = [_row_text(row) for row in found["arrays"][:_MAX_SHOWN]]
        if (more := len(found["arrays"]) - _MAX_SHOWN) > 0:
            lines.append(f"... and {more} more arrays")
        if not lines:
            lines.append(_nothing(found["graphs"], predicted=self.collector is None))
        plain, buffered, counted = found["plain"], found["buffered"], found["counted"]
        if any(row["buffers"] for row in found["arrays"]):
            lines.append(
                f"predicted  {_count(plain['seeks'], 'seek')}, {format_size(plain['bytes'])} without buffers; "
                f"{_count(buffered['seeks'], 'seek')}, {format_size(buffered['bytes'])} with them"
            )
        if counted is not None and (counted["buffers"] or counted["gathered"] or counted["direct"]):
            lines.append(
                f"counted    {_count(counted['seeks'], 'seek')}, {format_size(counted['bytes'])}; "
                f"{_count(counted['buffers'], 'buffer')} read, {counted['gathered']:,} written, "
                f"{_count(counted['direct'] + counted['scattered'], 'piece')} without a buffer, "
                f"at most {format_size(counted['peak_bytes'])} in buffers"
            )
        lines += [f"note: {note}" for note in found["notes"]]
        return "\n".join(lines)

    def __repr__(self) -> str:
        found = self.to_json()
        buffers = sum(row["buffers"] for row in found["arrays"])
        seeks = f"{found['plain']['seeks']:,} seeks -> {found['buffered']['seeks']:,}"
        arrays = _count(len(found["arrays"]), "array")
        return f"<reblock BufferReport: {arrays}, {_count(buffers, 'buffer')}, {seeks}>"

    def _repr_html_(self) -> str:
        rows = self._records.arrays[:_MAX_SHOWN]
        pictures = "".join(
            f"<figure><figcaption>{escape(row['name'])}</figcaption>{draw(row['picture'])}</figure>"
            for row in rows
            if row.get("picture")
        )
        return f"<pre>{escape(str(self))}</pre>{pictures}"


def _row_text(row: dict[str, Any]) -> str:
    verb, thing = ("writes", "chunk") if row["writing"] else ("reads", "load")
    head = f"{row['name']}: {verb} {format_size(row['nbytes'])} in {_count(row['boxes'], thing)}"
    if not row["buffers"]:
        return f"{head}, without buffers: {row['reason']}"
    largest = format_size(row["largest_buffer_bytes"])
    return (
        f"{head}; {_count(row['buffers'], 'buffer')} of {largest} or less ({row['strategy']}): "
        f"{_count(row['plain']['seeks'], 'seek')} become {row['buffered']['seeks']:,}"
    )


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _nothing(graphs: int, *, predicted: bool) -> str:
    if predicted or graphs:
        return "no loads from stored arrays, and no stores to them: nothing to gather"
    return "no graph was optimised here: nothing was computed, or another machine optimised it"
