"""Adopting a plan: a run goes on with the plan that an earlier attempt at the same problem has left in its journal.

The plan of a run depends on the machine, on the version of the planner and on the options. None of these make it
another run: identity is the source and what the target is to be. So the journal's plan is executed as it is, unless the
caller has asked for something that it does not meet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from reblock.cost.estimate import scratch_bytes
from reblock.errors import FormatError, InfeasibleError, UnfinishedError, UsageError, command
from reblock.model import Plan, Problem
from reblock.planner import check
from reblock.units import format_size


@dataclass(frozen=True)
class Demands:
    """What the caller has asked of the plan explicitly; None = nothing."""

    memory_bytes: int | None = None
    """The most memory that it may take."""
    strategy: str | None = None
    """The strategy that proposes it."""
    scratch_bytes: int | None = None
    """The most bytes that intermediate arrays may take."""
    scratch_objects: int | None = None
    """The most objects that an intermediate array may have."""

    def unmet(self, plan: Plan) -> list[str]:
        """In words, what a plan does not meet."""
        found = []
        if self.memory_bytes is not None and plan.memory_bytes > self.memory_bytes:
            found.append(f"it takes {format_size(plan.memory_bytes)} of memory, not {format_size(self.memory_bytes)}")
        if self.strategy is not None and plan.strategy != self.strategy:
            found.append(f"its strategy is {plan.strategy}, not {self.strategy}")
        size, count = scratch_bytes(plan), max((layout.objects.count for layout in plan.scratch), default=0)
        if self.scratch_bytes is not None and size > self.scratch_bytes:
            found.append(f"it takes {format_size(size)} of scratch, not {format_size(self.scratch_bytes)}")
        if self.scratch_objects is not None and count > self.scratch_objects:
            found.append(f"it makes {count:,} objects of scratch, not {self.scratch_objects:,}")
        return found


def stored_plan(document: Any, problem: Problem, place: str) -> Plan:
    """The plan of a journal, checked against the problem that it is to solve; FormatError where it does not fit.

    `place` names the target in messages. The journal is a file like any other: its plan must write each element once.
    """
    try:
        plan = Plan.from_json(document)
        check(plan, replace(problem, memory_bytes=max(plan.memory_bytes, 1)))
    except (UsageError, InfeasibleError) as error:
        raise FormatError(
            f"the plan of the unfinished run on {place} cannot be executed ({error}): {command('clean', place)} "
            "removes it"
        ) from error
    return plan


def require_met(plan: Plan, demands: Demands, place: str) -> None:
    """UnfinishedError where the plan of an unfinished run does not meet what was asked for."""
    if unmet := demands.unmet(plan):
        raise UnfinishedError(
            f"an unfinished run on {place} goes on with the plan that it began with, and {' and '.join(unmet)}: "
            f"{command('resume', place)} goes on with it, {command('clean', place)} gives up"
        )
