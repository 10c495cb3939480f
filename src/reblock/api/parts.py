"""Whole chunks or parts of them: which of the two a plan reads from a source whose codec allows both."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from reblock.engine import View
from reblock.errors import InfeasibleError
from reblock.model import Problem
from reblock.planner import OBJECTIVES, Decision, choose

#: A plan that takes at most this many times the least possible time is good enough.
_NEAR = 1.1


def choose_parts(view: View | None, problem: Problem, objective: str) -> Decision:
    """The best plan that reads chunks whole, or in parts if that is better."""
    try:
        whole = choose(problem, objective=objective)
    except InfeasibleError:
        # Chunks that do not fit into memory as a whole may fit in parts.
        if (parts := _in_parts(view, problem)) is None:
            raise
        return choose(parts, objective=objective)
    if whole.excess > _NEAR and (parts := _in_parts(view, problem)) is not None:
        with suppress(InfeasibleError):
            divided, rank = choose(parts, objective=objective), OBJECTIVES[objective]
            if rank(divided.cost) < rank(whole.cost):
                return divided
    return whole


def choose_whole(view: View | None, before: Decision) -> Decision | None:
    """The best plan for the same problem that reads chunks whole; None where none fits into memory."""
    if view is None or view.layout.divided:
        return None
    with suppress(InfeasibleError):
        source = view.layout.stored_like(before.problem.source)
        return choose(replace(before.problem, source=source), objective=before.objective)
    return None


def _in_parts(view: View | None, problem: Problem) -> Problem | None:
    """The same problem with parts of the source's chunks for units; None where they cannot be decoded one by one."""
    parts = None if view is None else view.in_parts()
    return None if parts is None else replace(problem, source=parts.layout.stored_like(problem.source))
