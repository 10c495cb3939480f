"""Abroad: the arrays of a run as other processes reach them, which do not have our handle of the staging folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reblock.cost.estimate import estimate_passes
from reblock.engine import Crew, Measured, View, Watch
from reblock.model import Format, Store
from reblock.model.workspace import Workspace
from reblock.runs.scratch import KeptScratch
from reblock.runs.work import Work
from reblock.storage.location import absolute


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

    def execute(self, crew: Crew, view: View, store: Store, watch: Watch) -> list[Measured]:
        """Let a crew carry out the plan."""
        work = self.work
        crew.check(work.plan, store)
        seconds = [sweep.seconds for sweep in estimate_passes(work.plan, work.problem)]
        return crew.execute(work.plan, view, self.scratch, watch, seconds=seconds, abroad=self._abroad, home=self._home)

    def _abroad(self, number: int) -> tuple[Store, str]:
        """The array that a pass writes, and its folder."""
        if number < self.work.last:
            store, folder, ours = self.scratch.abroad(number)
        else:
            ours, folder = self.workspace.reach, absolute(self.workspace.folder)
            path = (
                f"{folder}{self.workspace.array.removeprefix(ours)}" if self.workspace.swaps else self.workspace.array
            )
            store = self.format.reopen(path, self.work.inner, self.work.schema, **self.medium)
        self.prefixes[os.path.join(folder, "")] = os.path.join(ours, "")
        return store, folder

    def _home(self, path: str) -> str:
        """A path of theirs as this process reaches it."""
        for theirs, ours in self.prefixes.items():
            if path.startswith(theirs):
                return f"{ours}{path.removeprefix(theirs)}"
        return path
