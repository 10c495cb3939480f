"""Scratch: intermediate arrays of plans with several passes, as folders of headerless blocks."""

from __future__ import annotations

import os
import shutil
import tempfile
from types import TracebackType
from typing import Self

from reblock.errors import DiskError
from reblock.geometry.grid import Cut
from reblock.model import Layout, Plan, Schema, Store
from reblock.storage import registry


class ScratchFolder:
    """A folder beside others' files that holds the intermediate arrays of one run."""

    def __init__(self, plan: Plan, parent: str) -> None:
        self._plan = plan
        self._parent = parent
        self._folder = ""

    def __enter__(self) -> Self:
        if self._plan.scratch:
            try:
                self._folder = tempfile.mkdtemp(prefix=".reblock-scratch-", dir=self._parent)
            except OSError as error:
                raise DiskError.wrap(error, doing="creating a scratch folder in", path=self._parent) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def make(self, number: int) -> Store:
        """A fresh, empty intermediate array."""
        return registry.get("rawblocks").create(self._path(number), "", _schema(self._plan.scratch[number]))

    def drop(self, number: int) -> None:
        """Remove one."""
        shutil.rmtree(self._path(number), ignore_errors=True)

    def _path(self, number: int) -> str:
        return os.path.join(self._folder, str(number))


def _schema(layout: Layout) -> Schema:
    cuts: list[Cut] = [axis.step or tuple(axis.lengths()) or 1 for axis in layout.objects.axes]
    return Schema(layout.shape, layout.dtype, tuple(cuts), order=layout.order)
