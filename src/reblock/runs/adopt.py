"""Adopting a plan: a run continues with the plan in the journal of an earlier attempt at the same problem.

A plan depends on the machine, the version of the planner and the options. None of these makes it another run: identity
is the source and what the target is to be. So the journal's plan is executed as it is, unless it does not meet an
explicit option of the caller.
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
    """The caller's explicit options about the plan; None = not given."""

    memory_bytes: int | None = None
    """The most memory that it may take."""
    strategy: str | None = None
    """The strategy that proposes it."""
    scratch_bytes: int | None = None
    """The most bytes that intermediate arrays may take."""
    scratch_objects: int | None = None
    """The most objects that an intermediate array may have."""

    def unmet(self, plan: Plan) -> list[str]:
        """The options that a plan does not meet, in words."""
        found = []
        if self.memory_bytes is not None and plan.memory_bytes > self.memory_bytes:
            found.append(f"it takes {format_size(plan.memory_bytes)} of memory, not {format_size(self.memory_bytes)}")
        if self.strategy is not None and plan.strategy != self.strategy:
            found.append(f"its strategy is {plan.strategy}, not {self.strategy}")
        size, count = scratch_bytes(plan), max((layout.objects.count for layout in plan.scratch), default=0)
        if self.scratch_bytes is not None and size > self.scratch_bytes:
            found.append(f"it takes {format_size(size)} of scratch, not {format_size(self.scratch_bytes)}")
        if self.scratch_objects is not None and count > self.scratch_objects:
            found.append(f"it makes {count:,} objects in scratch, not {self.scratch_objects:,}")
        return found


def stored_plan(document: Any, problem: Problem, place: str) -> Plan:
    """The plan of a journal, checked against its problem; FormatError if it does not fit.

    `place` names the target in messages. The journal is an untrusted file, so its plan must be checked to write each
    element once.
    """
    try:
        plan = Plan.from_json(document)
        check(plan, replace(problem, memory_bytes=max(plan.memory_bytes, 1)))
    except (UsageError, InfeasibleError) as error:
        raise FormatError(
            f"the plan of the unfinished run on {place} cannot be executed ({error.message}): "
            f"{command('clean', place)} removes it"
        ) from error
    return plan


def require_met(plan: Plan, demands: Demands, place: str) -> None:
    """Raise UnfinishedError if the plan of an unfinished run does not meet the caller's options."""
    if unmet := demands.unmet(plan):
        raise UnfinishedError(
            f"an unfinished run on {place} continues with the plan that it began with, and {' and '.join(unmet)}: "
            f"{command('resume', place)} continues it, {command('clean', place)} discards it"
        )
