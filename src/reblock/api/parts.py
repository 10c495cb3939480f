"""Chooses whether a plan reads whole chunks or parts of chunks, if the source's codec allows both."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from reblock.engine import View
from reblock.errors import InfeasibleError
from reblock.model import Problem
from reblock.planner import OBJECTIVES, Decision, choose

#: A plan within this factor of the lower bound on time is good enough.
_NEAR = 1.1


def choose_parts(view: View | None, problem: Problem, objective: str) -> Decision:
    """The best plan: with whole chunks, or with parts if that is better."""
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
    """The best plan that reads whole chunks; None if none fits into memory."""
    if view is None or view.layout.divided:
        return None
    with suppress(InfeasibleError):
        source = view.layout.stored_like(before.problem.source)
        return choose(replace(before.problem, source=source), objective=before.objective)
    return None


def _in_parts(view: View | None, problem: Problem) -> Problem | None:
    """The same problem with parts of chunks as source units; None if they cannot be decoded separately."""
    parts = None if view is None else view.in_parts()
    return None if parts is None else replace(problem, source=parts.layout.stored_like(problem.source))
