"""The planner: ranks what strategies propose, checks it, and says why."""

from reblock.planner.check import check
from reblock.planner.choose import AUTO, OBJECTIVES, SEARCH, Alternative, Decision, choose
from reblock.planner.chunks import dividing, proportional

__all__ = ["AUTO", "OBJECTIVES", "SEARCH", "Alternative", "Decision", "check", "choose", "dividing", "proportional"]
