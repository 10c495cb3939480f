"""Abroad: the arrays of a run as other processes reach them, which do not have our handle of the staging folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from reblock.cost.estimate import estimate_passes
from reblock.engine import Crew, Delivery, Measured, Site, View, Watch
from reblock.errors import ReblockError
from reblock.model import Format
from reblock.model.workspace import Workspace
from reblock.runs.group_commit import ArrayLedger, destination_of
from reblock.runs.scratch import KeptScratch, SpareScratch
from reblock.runs.work import Work
from reblock.storage.location import absolute
from reblock.storage.media.patience import waiting


@dataclass
class Abroad:
    """One array of a run that other processes make."""

    work: Work
    """The array."""
    format: Format
    """The target's format."""
    workspace: Workspace
    """Where the target is built."""
    scratch: KeptScratch
    """Its intermediate arrays."""
    medium: Mapping[str, Any]
    """The argument of a format that names a medium other than local files."""
    prefixes: dict[str, str] = field(default_factory=dict)
    """Folders as the others reach them, and as this process does."""
    fence: str | None = None
    """The file that they watch."""

    def execute(self, crew: Crew, view: View, watch: Watch, ledger: ArrayLedger) -> list[Measured]:
        """Let a crew carry out the plan."""
        work = self.work
        layouts = [work.problem.source, *work.plan.scratch, work.problem.target]
        seconds = [sweep.seconds for sweep in estimate_passes(work.plan, work.problem)]
        spare = SpareScratch(work.plan, self.scratch.outside) if work.plan.interleaved else self.scratch

        def take(number: int, delivery: Delivery) -> None:
            if delivery.paths is None:
                ledger.settle(number, delivery.numbers, delivery.sizes, delivery.sums, delivery.seen)
            else:
                ledger.record(number, [box._replace(path=self._home(box.path)) for box in delivery.boxes()])
            elements = int(delivery.sizes.sum()) // max(layouts[number + 1].itemsize, 1)
            for one in range(len(work.plan.passes)) if work.plan.interleaved else (number,):
                watch.tell(one, elements, elements)

        self.fence = self.workspace.fence()
        unfence = None if self.fence is None else self.workspace.unfence
        try:
            return crew.execute(
                *(work.plan, view, self.scratch, watch),
                seconds=seconds,
                place=self._place,
                take=take,
                unfence=unfence,
                spare=spare,
                around=waiting,
            )
        finally:
            with suppress(ReblockError):
                self.workspace.unfence()

    def _place(self, number: int) -> Site:
        """The array that a pass writes, as other processes reach it."""
        if number < self.work.last:
            store, folder, ours = self.scratch.abroad(number)
        else:
            ours, folder = self.workspace.reach, absolute(self.workspace.place)
            path = (
                f"{folder}{self.workspace.array.removeprefix(ours)}" if self.workspace.swaps else self.workspace.array
            )
            store = self.format.reopen(path, self.work.inner, self.work.schema, **self.medium)
        self.prefixes[os.path.join(folder, "")] = os.path.join(ours, "")
        alone = destination_of(store, self.work.plan.passes[number], folder).alone
        return Site(store, folder, alone, None if self.fence is None else absolute(self.fence))

    def _home(self, path: str) -> str:
        """A path of theirs as this process reaches it."""
        for theirs, ours in self.prefixes.items():
            if path.startswith(theirs):
                return f"{ours}{path.removeprefix(theirs)}"
        return path
