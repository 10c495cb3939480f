"""The planner: ranks the plans that strategies propose, checks them, and explains the choice."""

from reblock.planner.check import check
from reblock.planner.choose import AUTO, OBJECTIVES, SEARCH, Alternative, Decision, choose
from reblock.planner.comparison import plan_comparison
from reblock.planner.sharing import share
from reblock.planner.stored import price

__all__ = [
    "AUTO",
    "OBJECTIVES",
    "SEARCH",
    "Alternative",
    "Decision",
    "check",
    "choose",
    "plan_comparison",
    "price",
    "share",
]
