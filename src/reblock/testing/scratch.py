"""Scratch for plans that are executed without a journal: a temporary folder."""

from __future__ import annotations

import os
import shutil
import tempfile
from types import TracebackType
from typing import Self

from reblock.model import Plan, Store
from reblock.runs.scratch import make_scratch


class ScratchFolder:
    """A folder for the intermediate arrays of one execution, which is removed at its end."""

    def __init__(self, plan: Plan, parent: str) -> None:
        self._plan = plan
        self._parent = parent
        self.folder = ""

    def __enter__(self) -> Self:
        if self._plan.scratch:
            self.folder = tempfile.mkdtemp(prefix=".reblock-scratch-", dir=self._parent)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def make(self, number: int) -> Store:
        """A fresh, empty intermediate array."""
        return make_scratch(self._plan, number, os.path.join(self.folder, str(number)))

    def drop(self, number: int) -> None:
        """Remove an intermediate array."""
        shutil.rmtree(os.path.join(self.folder, str(number)), ignore_errors=True)
