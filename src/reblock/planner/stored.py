"""Stored plans: the price of a plan that was made before, by another run or on another machine."""

from __future__ import annotations

from reblock.cost.estimate import estimate_passes, total
from reblock.model import Plan, Problem
from reblock.planner.check import check
from reblock.planner.choose import Alternative, Decision


def price(plan: Plan, problem: Problem, *, objective: str = "time") -> Decision:
    """The decision for a plan as it is, checked against a problem; nothing else is proposed."""
    check(plan, problem)
    sweeps = estimate_passes(plan, problem)
    cost = total(sweeps, plan, problem)
    chosen = Alternative(plan.strategy, plan, cost, None)
    return Decision(problem, plan, cost, tuple(sweeps), objective, "bounded", (chosen,))
