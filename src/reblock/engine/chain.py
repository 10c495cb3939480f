"""Chains: plans of several passes, through intermediate arrays in scratch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from reblock.engine.pipeline import Cancelled, Progress, execute
from reblock.engine.report import Measured
from reblock.engine.view import View
from reblock.model import Index, Plan, Store


class Scratch(Protocol):
    """Where intermediate arrays live."""

    def make(self, number: int) -> Store:
        """A fresh, empty intermediate array."""

    def drop(self, number: int) -> None:
        """Remove one."""


def execute_plan(
    plan: Plan,
    view: View,
    store: Store,
    scratch: Scratch,
    *,
    progress: Progress | None = None,
    cancelled: Cancelled = lambda: False,
) -> list[Measured]:
    """Carry out a plan; one measurement per pass."""
    measured = [Measured() for _ in plan.passes]
    if not plan.interleaved:
        _run(plan, view, store, scratch, measured, None, progress, cancelled)
        return measured
    for task in plan.passes[0].tasks.indices():
        _run(plan, view, store, scratch, measured, [task], progress, cancelled)
    return measured


def _run(
    plan: Plan,
    view: View,
    store: Store,
    scratch: Scratch,
    measured: list[Measured],
    tasks: Iterable[Index] | None,
    progress: Progress | None,
    cancelled: Cancelled,
) -> None:
    """All passes, for all tasks or for some; an intermediate array is gone as soon as it has been read."""
    last = len(plan.passes) - 1
    for number, sweep in enumerate(plan.passes):
        target = store if number == last else scratch.make(number)
        done = execute(
            sweep,
            view,
            target,
            memory_bytes=plan.memory_bytes,
            depth=plan.depth,
            progress=progress if number == last else None,
            tasks=tasks,
            cancelled=cancelled,
        )
        measured[number].add(done)
        if number:
            scratch.drop(number - 1)
        view = View.whole(target)
