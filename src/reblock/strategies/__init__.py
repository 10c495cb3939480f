"""Strategies: one paper or idea per module, each a function from Problem to Plan.

A module here that defines `propose(problem) -> Plan` is a strategy, named after the module (underscores as
hyphens); a strategy that cannot serve a problem raises `Refused` with the reason. One whose plans have several passes
says with `least_seconds(problem)` what they take at the least.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from reblock.model import Plan, Problem


@dataclass(frozen=True)
class Strategy:
    """A way to make plans."""

    propose: Callable[[Problem], Plan]
    """Its plan for a problem."""
    least_seconds: Callable[[Problem], float] | None = None
    """What its plans take at the least; None where they are of one pass."""

    def __call__(self, problem: Problem) -> Plan:
        return self.propose(problem)


@cache
def strategies() -> dict[str, Strategy]:
    """Every strategy by name."""
    found: dict[str, Strategy] = {}
    for info in iter_modules(__path__):
        module = import_module(f"{__name__}.{info.name}")
        if hasattr(module, "propose"):
            bound = {"least_seconds": module.least_seconds} if hasattr(module, "least_seconds") else {}
            found[info.name.replace("_", "-")] = Strategy(module.propose, **bound)
    return found
