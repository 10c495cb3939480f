"""DatasetJob: the plans of all arrays of a dataset, with all that is needed to carry them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reblock.api.job import Job
from reblock.api.uploads import foresee_upload, upload_notes
from reblock.engine.dataset_report import total_cost
from reblock.model import Cost, Format, Tree, TreeStore
from reblock.model.upload import Upload
from reblock.render import datasets
from reblock.runs.adopt import Demands
from reblock.runs.source import Files
from reblock.runs.work import TableWork
from reblock.storage.location import Location
from reblock.units import format_seconds, format_size


@dataclass(frozen=True)
class DatasetJob:
    """The plans of all arrays of a dataset, with all that is needed to carry them out."""

    jobs: Mapping[str, Job]
    """The job of each array, by name."""
    source: TreeStore
    """Where the arrays come from."""
    tree: Tree
    """What the target will be."""
    tables: tuple[TableWork, ...]
    """Arrays that cannot be cut into boxes, and are copied row by row."""
    target: Location | None
    """Where the dataset goes; None for a plan without a target."""
    format: Format
    """The target's format."""
    memory_bytes: int
    """The memory budget."""
    request: Mapping[str, Any] | None = None
    """What was asked for."""
    demands: Demands = field(default_factory=Demands)
    """What the plans of an unfinished run must meet to be adopted."""
    files: Files = field(default_factory=list, repr=False, compare=False)
    """What the files that describe groups and tables looked like when they were opened."""

    def __repr__(self) -> str:
        two, cost = "the same format" if self.target is None else str(self.target), self.cost
        return (
            f"<reblock DatasetJob: {self.source.location} → {two}, {len(self.jobs)} arrays, {cost.seeks:,} seeks, "
            f"{format_size(cost.peak_bytes)} of memory, {format_seconds(cost.seconds)}>"
        )

    @property
    def cost(self) -> Cost:
        """Predicted cost of all arrays together; they are written one after the other."""
        parts = [(job.cost, job.decision.problem) for job in self.jobs.values()]
        return total_cost([(cost, problem.source.nbytes, problem.target.nbytes) for cost, problem in parts])

    @property
    def notes(self) -> tuple[str, ...]:
        """What becomes otherwise than in the source, and what else is worth knowing."""
        return (*self.tree.notes, *(f"{', '.join(names)}: {note}" for note, names in self._notes().items()))

    def _notes(self) -> dict[str, list[str]]:
        """Notes on arrays, and the arrays that have them."""
        found: dict[str, list[str]] = {}
        for name, job in self.jobs.items():
            for note in job.notes:
                found.setdefault(note, []).append(name)
        return found

    def with_jobs(self, jobs: Mapping[str, Job]) -> DatasetJob:
        """The same with other plans for some arrays."""
        return replace(self, jobs={**self.jobs, **jobs})

    @property
    def upload(self) -> Upload | None:
        """The upload that publishes the target, beside the cost of its plans; None if there is none."""
        return foresee_upload(self.target, self.format, [job.decision.problem.target for job in self.jobs.values()])

    def explain(self, *, everything: bool = False, notes: Sequence[str] = ()) -> str:
        """The plans and their cost, for people, a line for each array; `everything` shows each plan whole."""
        lines = datasets.explain(
            self.source.location,
            {name: job.decision for name, job in self.jobs.items()},
            self.cost,
            tables={name: self.tree.tables[name] for name in (one.name for one in self.tables)},
            notes=(*self.notes, *upload_notes(self.upload), *notes),
        )
        if not everything:
            return lines
        each = [f"{name}\n{job.explain(everything=True)}" for name, job in self.jobs.items()]
        return "\n\n".join([lines, *each])

    def to_json(self, *, every_strategy: bool = False) -> dict[str, Any]:
        """What `reblock plan --json` prints: totals, and `arrays` with the plan of each."""
        arrays = {name: job.to_json(every_strategy=every_strategy) for name, job in self.jobs.items()}
        for one in arrays.values():
            one.pop("notes")
            one.pop("upload", None)
        upload = self.upload
        return {
            "strategy": ", ".join(dict.fromkeys(job.plan.strategy for job in self.jobs.values())),
            "lower_bound_seeks": sum(job.decision.problem.lower_bound_seeks for job in self.jobs.values()),
            "cost": self.cost.to_json(),
            "arrays": arrays,
            "tables": [one.name for one in self.tables],
            **({} if upload is None else {"upload": upload.to_json()}),
            "notes": [*self.notes, *upload_notes(upload)],
        }


#: A job on an array, or on a dataset.
AnyJob = Job | DatasetJob
