"""Report: the measured cost of a run, beside the cost that its plan predicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from reblock.model import Cost, Layout, Plan, Sums, Traffic
from reblock.model.upload import Upload
from reblock.units import format_seconds, format_size


@dataclass
class Times:
    """Where the time of a run went: seconds summed over all threads, except `wait`.

    Reading and writing are measured by the clock, because threads wait for the device. Decoding, scattering and
    encoding are measured by the processor, so that threads which share a core are not counted twice.
    """

    read: float = 0.0
    """Opening and reading source files."""
    decode: float = 0.0
    """Decoding units."""
    scatter: float = 0.0
    """Copying elements into write boxes, and taking their digest."""
    encode: float = 0.0
    """Encoding objects."""
    write: float = 0.0
    """Writing objects."""
    wait: float = 0.0
    """Waiting for memory until boxes were written."""

    def add(self, other: Times) -> None:
        """Count another thread or pass."""
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    def to_json(self) -> dict[str, float]:
        return asdict(self)


@dataclass
class Measured:
    """Counters of one pass while it runs."""

    source: Traffic = field(default_factory=Traffic)
    """Measured traffic at the source."""
    target: Traffic = field(default_factory=Traffic)
    """Measured traffic at the target."""
    peak_bytes: int = 0
    """Most bytes allocated at once."""
    held_elements: int = 0
    """Most elements read and not yet written."""
    seconds: float = 0.0
    """Elapsed time; that of the last pass ends when everything is on the medium."""
    tasks: int = 0
    """Tasks done."""
    write_boxes: int = 0
    """Write boxes done."""
    missing_chunks: int = 0
    """Source chunks that were not stored and were taken as fill."""
    resumed_boxes: int = 0
    """Write boxes found finished, and not done again."""
    sums: Sums = field(default_factory=Sums)
    """Digest sums of the write boxes done."""
    times: Times = field(default_factory=Times)
    """Where the time went."""
    processor_seconds: float = 0.0
    """Processor time of this process, including the kernel's work for it."""

    def add(self, other: Measured) -> None:
        """Count another piece of the same pass."""
        self.source, self.target = self.source + other.source, self.target + other.target
        self.peak_bytes = max(self.peak_bytes, other.peak_bytes)
        self.held_elements = max(self.held_elements, other.held_elements)
        self.seconds += other.seconds
        self.tasks += other.tasks
        self.write_boxes += other.write_boxes
        self.missing_chunks += other.missing_chunks
        self.resumed_boxes += other.resumed_boxes
        self.sums += other.sums
        self.times.add(other.times)
        self.processor_seconds += other.processor_seconds


@dataclass(frozen=True)
class Report:
    """Measured cost beside predicted cost."""

    plan: Plan
    """The plan that was carried out."""
    predicted: Cost
    """The cost that the plan predicted."""
    measured: Cost
    """The measured cost."""
    elapsed_seconds: float
    """Wall time of the whole run, preparation and commit included."""
    tasks: int
    """Tasks done."""
    write_boxes: int
    """Write boxes done."""
    missing_chunks: int
    """Source chunks that were not stored and were taken as fill."""
    target: str = ""
    """Where the result is."""
    resumed_boxes: int = 0
    """Write boxes found finished and not done again."""
    digest: str | None = None
    """Digest of the array's content, where one was computed."""
    notes: tuple[str, ...] = ()
    """Conversions and other things worth knowing."""
    times: Times = field(default_factory=Times)
    """Where the time went."""

    passes: tuple[Measured, ...] = field(default=(), repr=False)
    """Measurements of each pass."""
    engine: str = ""
    """The engine that moved the bytes: `compiled`, or `numpy` if the compiled one cannot be used."""
    array_task: Mapping[str, Any] | None = None
    """The share of a member of a job array, if this was one: its tasks, and the members that are not done."""
    uploaded: Upload | None = None
    """The upload that has published the target, beside the measured cost; None if there was none."""

    def __repr__(self) -> str:
        moved = f"{format_size(self.measured.bytes_read)} read, {format_size(self.measured.bytes_written)} written"
        seconds = format_seconds(self.elapsed_seconds)
        return f"<reblock Report: {self.target or self.plan.strategy} in {seconds}, {moved}>"

    def to_json(self) -> dict[str, Any]:
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
            **({} if self.array_task is None else {"array_task": dict(self.array_task)}),
            **({} if self.uploaded is None else {"uploaded": self.uploaded.to_json()}),
        }


def total_times(passes: list[Measured]) -> Times:
    """Where the time of all passes went."""
    whole = Times()
    for one in passes:
        whole.add(one.times)
    return whole


def measured_cost(passes: list[Measured], source_bytes: int, target: Layout, scratch_bytes: int) -> Cost:
    """Sum up the passes in the keys of a predicted cost; `source_bytes` are those of the array as it is read."""
    sides = [side for one in passes for side in (one.source, one.target)]
    first, last = (passes[0].source.bytes, passes[-1].target.bytes) if passes else (0, 0)
    return Cost(
        opens=sum(side.opens for side in sides),
        seeks=sum(side.seeks for side in sides),
        runs=sum(side.runs for side in sides),
        bytes_read=sum(one.source.bytes for one in passes),
        bytes_written=sum(one.target.bytes for one in passes),
        read_amplification=first / source_bytes if source_bytes else 1.0,
        scratch_bytes=scratch_bytes,
        peak_bytes=max((one.peak_bytes for one in passes), default=0),
        held_bytes=max((one.held_elements for one in passes), default=0) * target.itemsize,
        seconds=sum(one.seconds for one in passes),
        write_amplification=last / target.nbytes if target.nbytes else 1.0,
    )
