"""Job: a plan with all that is needed to carry it out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reblock.advisor.striping import striping_advice
from reblock.api.devices import Devices
from reblock.api.machine import engine_notes, memory_limit, memory_notes
from reblock.api.uploads import foresee_upload, upload_notes
from reblock.engine import View
from reblock.model import Cost, Foreseeable, Format, Plan, Schema
from reblock.model.upload import Upload
from reblock.planner import Decision
from reblock.render import text
from reblock.runs.adopt import Demands
from reblock.runs.source import Files
from reblock.storage.location import Location, absolute
from reblock.storage.media.mounts import is_lustre
from reblock.storage.media.registry import target_medium
from reblock.units import format_seconds, format_size


@dataclass(frozen=True)
class Job:
    """A plan with all that is needed to carry it out."""

    decision: Decision
    """The plan, its cost and the alternatives."""
    source: View | None
    """Where the elements come from, chunks whole; None for a plan made from shapes alone."""
    target: Location | None
    """Where they go; None for a plan without a target."""
    format: Format | None
    """The target's format."""
    schema: Schema
    """What the target will be."""
    request: Mapping[str, Any] | None = None
    """What was asked for; None for a plan that cannot be run."""
    demands: Demands = field(default_factory=Demands)
    """What the plan of an unfinished run must meet to be adopted."""
    files: Files = field(default_factory=list, repr=False, compare=False)
    """What the files that describe the source looked like when it was opened."""
    devices: Devices | None = field(default=None, repr=False, compare=False)
    """The devices that it was planned for, which learn from its run."""
    workers: int | None = None
    """Processes on this machine that share its memory; None = one."""

    def __repr__(self) -> str:
        one = "shapes" if self.source is None else self.source.store.location
        two = "the same format" if self.target is None else str(self.target)
        cost = self.cost
        return (
            f"<reblock Job: {one} → {two}, {self.plan.strategy}, {cost.seeks:,} seeks, "
            f"{format_size(cost.peak_bytes)} of memory, {format_seconds(cost.seconds)}>"
        )

    @property
    def plan(self) -> Plan:
        return self.decision.plan

    @property
    def cost(self) -> Cost:
        """Predicted cost."""
        return self.decision.cost

    @property
    def notes(self) -> tuple[str, ...]:
        """What becomes otherwise than in the source, and what else is worth knowing."""
        advice: tuple[str, ...] = (f"memory: {self.decision.advice}",) if self.decision.advice else ()
        if self.source is None:
            return (*self.schema.notes, *advice)
        if not getattr(self.format, "resumes", True):
            advice += ("after a kill, the target is not continued but made again: its format cannot do otherwise",)
        return (*self.schema.notes, *advice, *self._memory_notes(), *self._striping_notes(), *engine_notes())

    def _striping_notes(self) -> tuple[str, ...]:
        """Advice on striping, if the target is on Lustre."""
        if self.target is None or self.format is None or not target_medium(self.target.path).is_local:
            return ()
        folder = os.path.dirname(absolute(self.target.path.rstrip("/"))) or "/"
        if not is_lustre(folder):
            return ()
        layout = self.format.layout(self.schema)
        if not isinstance(self.format, Foreseeable):
            return (striping_advice(folder, layout.nbytes, 1),)
        return (striping_advice(folder, layout.object_bytes, layout.objects.count),)

    def _memory_notes(self) -> tuple[str, ...]:
        given = self.demands.memory_bytes is not None
        return memory_notes(self.decision.problem.memory_bytes, given=given, workers=self.workers)

    @property
    def upload(self) -> Upload | None:
        """The upload that publishes the target, beside the cost of its plan; None if there is none."""
        return foresee_upload(self.target, self.format, [self.decision.problem.target])

    def explain(self, *, everything: bool = False, notes: Sequence[str] = ()) -> str:
        """The plan, its cost and the alternatives, for people; and notes, as `check` gives them."""
        every = (*self.notes, *upload_notes(self.upload), *notes)
        return text.explain(self.decision, notes=every, everything=everything)

    def to_json(self, *, every_strategy: bool = True) -> dict[str, Any]:
        """What `reblock plan --json` prints.

        Without `every_strategy` only the alternatives that were priced to choose the plan: the others take time.
        """
        made = self.decision.to_json(every_strategy=every_strategy)
        if self.source is not None:
            region = self.source.region
            made["problem"]["region"] = [list(pair) for pair in zip(region.start, region.stop, strict=True)]
            made["problem"]["transpose"] = list(self.source.axes)
        limit = memory_limit()
        made["problem"]["memory_limit_bytes"] = None if limit is None else limit.bytes
        made["problem"]["memory_limit_source"] = None if limit is None else limit.source
        upload = self.upload
        more = {} if upload is None else {"upload": upload.to_json()}
        return {**made, **more, "notes": [*self.notes, *upload_notes(upload)]}
