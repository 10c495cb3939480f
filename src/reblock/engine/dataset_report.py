"""DatasetReport: the reports of all arrays of a dataset, and their totals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reblock.engine.report import Report, Times
from reblock.model import Cost
from reblock.model.upload import Upload
from reblock.units import format_seconds, format_size


@dataclass(frozen=True)
class DatasetReport:
    """Measured cost beside predicted cost, for each array of a dataset and for all together."""

    arrays: Mapping[str, Report]
    """The report of each array, by name."""
    predicted: Cost
    """The cost that the plans predicted."""
    measured: Cost
    """The measured cost."""
    elapsed_seconds: float
    """Wall time of the whole run, preparation and commit included."""
    target: str = ""
    """Where the result is."""
    digest: str | None = None
    """Digest of the whole dataset, where one was computed."""
    tables: Mapping[str, str | None] = field(default_factory=dict)
    """Digests of the arrays that were copied row by row, by name."""
    notes: tuple[str, ...] = ()
    """Conversions and other things worth knowing."""
    engine: str = ""
    """The engine that moved the bytes."""
    array_task: Mapping[str, Any] | None = None
    """The share of a member of a job array, if this was one: its tasks, and the members that are not done."""
    uploaded: Upload | None = None
    """The upload that has published the target, beside the measured cost; None if there was none."""

    @property
    def tasks(self) -> int:
        """Tasks done."""
        return sum(one.tasks for one in self.arrays.values())

    @property
    def write_boxes(self) -> int:
        """Write boxes done."""
        return sum(one.write_boxes for one in self.arrays.values())

    @property
    def resumed_boxes(self) -> int:
        """Write boxes found finished and not done again."""
        return sum(one.resumed_boxes for one in self.arrays.values())

    @property
    def missing_chunks(self) -> int:
        """Source chunks that were not stored and were taken as fill."""
        return sum(one.missing_chunks for one in self.arrays.values())

    @property
    def times(self) -> Times:
        """Where the time went."""
        whole = Times()
        for one in self.arrays.values():
            whole.add(one.times)
        return whole

    def __repr__(self) -> str:
        moved = f"{format_size(self.measured.bytes_read)} read, {format_size(self.measured.bytes_written)} written"
        seconds = format_seconds(self.elapsed_seconds)
        return f"<reblock DatasetReport: {self.target}, {len(self.arrays)} arrays in {seconds}, {moved}>"

    def to_json(self) -> dict[str, Any]:
        """Totals, and `arrays` with what a run on each array alone reports."""
        arrays = {name: one.to_json() for name, one in self.arrays.items()}
        for one in arrays.values():
            one.pop("engine")
        return {
            "measured": self.measured.to_json(),
            "digest": self.digest,
            "elapsed_seconds": self.elapsed_seconds,
            "tasks": self.tasks,
            "write_boxes": self.write_boxes,
            "resumed_boxes": self.resumed_boxes,
            "missing_chunks": self.missing_chunks,
            "times": self.times.to_json(),
            "engine": self.engine,
            "notes": list(self.notes),
            "arrays": arrays,
            "tables": dict(self.tables),
            **({} if self.array_task is None else {"array_task": dict(self.array_task)}),
            **({} if self.uploaded is None else {"uploaded": self.uploaded.to_json()}),
        }


def total_cost(parts: Sequence[tuple[Cost, int, int]]) -> Cost:
    """The cost of arrays that are written one after the other, each with the bytes of its source and its target."""
    costs = [cost for cost, _, _ in parts]
    read = sum(cost.read_amplification * size for cost, size, _ in parts)
    written = sum(cost.write_amplification * size for cost, _, size in parts)
    source, target = sum(size for _, size, _ in parts), sum(size for *_, size in parts)
    return Cost(
        opens=sum(cost.opens for cost in costs),
        seeks=sum(cost.seeks for cost in costs),
        runs=sum(cost.runs for cost in costs),
        bytes_read=sum(cost.bytes_read for cost in costs),
        bytes_written=sum(cost.bytes_written for cost in costs),
        read_amplification=read / source if source else 1.0,
        scratch_bytes=max((cost.scratch_bytes for cost in costs), default=0),
        peak_bytes=max((cost.peak_bytes for cost in costs), default=0),
        held_bytes=max((cost.held_bytes for cost in costs), default=0),
        seconds=sum(cost.seconds for cost in costs),
        write_amplification=written / target if target else 1.0,
    )
