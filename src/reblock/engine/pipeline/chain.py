"""Chains: carry out plans of several passes, through intermediate arrays in scratch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from reblock.engine.pipeline.execute import execute
from reblock.engine.report import Measured
from reblock.engine.view import View
from reblock.engine.watch import Watch
from reblock.errors import UsageError
from reblock.model import Index, Plan, Store


class ScratchArrays(Protocol):
    """Makes and removes the intermediate arrays of a plan."""

    def make(self, number: int) -> Store:
        """Make an empty intermediate array, the one that the pass of this number writes."""

    def drop(self, number: int) -> None:
        """Remove the intermediate array that the pass of this number wrote."""


def execute_plan(
    plan: Plan,
    view: View,
    store: Store,
    scratch: ScratchArrays,
    *,
    watch: Watch | None = None,
    tasks: Iterable[Index] | None = None,
) -> list[Measured]:
    """Carry out a plan, or some of its tasks; returns one measurement per pass.

    Only the tasks of one pass, or of passes that interleave, can be carried out without the others.
    """
    watch, view = watch or Watch(), view.as_planned(plan)
    measured = [Measured() for _ in plan.passes]
    if not plan.interleaved:
        if tasks is not None and len(plan.passes) > 1:
            raise UsageError("tasks of consecutive passes cannot be carried out without the others")
        run_tasks(plan, view, store, scratch, measured, tasks, watch)
        return measured
    last = plan.passes[-1]
    done = watch.ledger.finished(len(plan.passes) - 1) if watch.ledger else ()
    for task in last.tasks.indices() if tasks is None else tasks:
        boxes = [last.writes.number(index) for index in last.writes.touching(last.tasks.box(task))] if done else []
        if not done or any(number not in done for number in boxes):
            run_tasks(plan, view, store, scratch, measured, [task], watch)
        else:
            measured[-1].resumed_boxes += len(boxes)
    return measured


def run_tasks(
    plan: Plan,
    view: View,
    store: Store,
    scratch: ScratchArrays,
    measured: list[Measured],
    tasks: Iterable[Index] | None,
    watch: Watch,
) -> None:
    """Run all passes, for all tasks or for some; an intermediate array is removed as soon as it has been read."""
    last = len(plan.passes) - 1
    for number, sweep in enumerate(plan.passes):
        target = store if number == last else scratch.make(number)
        done = execute(
            sweep,
            view,
            target,
            watch=watch.of_pass(number),
            number=number,
            tasks=tasks,
        )
        measured[number].add(done)
        if number:
            scratch.drop(number - 1)
        view = View.whole(target, checked=view.checked)
