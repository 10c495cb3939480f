"""Strategies: one paper or idea per module, each a function from Problem to Plan.

A module here that defines `propose(problem) -> Plan` is a strategy, named after the module (underscores as hyphens). A
strategy that cannot serve a problem raises `Refused` with the reason. Options of `propose` are keywords with defaults;
`VARIANTS` names further strategies that are the same function with other options. A strategy that compares whole plans
has the option `key`, which ranks costs by the objective; without it, plans are compared by time. A module whose plans
have several passes also defines `least_seconds(problem)`, a lower bound on their time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import signature
from pkgutil import iter_modules

from reblock.model import Plan, Problem
from reblock.passes.product import Ranking


@dataclass(frozen=True)
class Strategy:
    """One strategy."""

    propose: Callable[..., Plan]
    """Makes its plan for a problem."""
    least_seconds: Callable[[Problem], float] | None = None
    """A lower bound on the time of its plans; None where they have one pass."""

    def __call__(self, problem: Problem, key: Ranking | None = None) -> Plan:
        """Its plan, the best one by a ranking of costs where the strategy compares plans."""
        if key is not None and "key" in signature(self.propose).parameters:
            return self.propose(problem, key=key)
        return self.propose(problem)


@cache
def strategies() -> dict[str, Strategy]:
    """Every strategy by name."""
    found: dict[str, Strategy] = {}
    for info in iter_modules(__path__):
        module = import_module(f"{__name__}.{info.name}")
        if hasattr(module, "propose"):
            bound = {"least_seconds": module.least_seconds} if hasattr(module, "least_seconds") else {}
            variants = {info.name.replace("_", "-"): module.propose, **getattr(module, "VARIANTS", {})}
            found.update({name: Strategy(propose, **bound) for name, propose in variants.items()})
    return found
