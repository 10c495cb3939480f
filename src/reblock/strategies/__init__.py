"""Strategies: one paper or idea per module, each a function from Problem to Plan.

A module here that defines `propose(problem) -> Plan` is a strategy, named after the module (underscores as
hyphens); a strategy that cannot serve a problem raises `Refused` with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from reblock.model import Plan, Problem

Strategy = Callable[[Problem], Plan]


@cache
def strategies() -> dict[str, Strategy]:
    """Every strategy by name."""
    found: dict[str, Strategy] = {}
    for info in iter_modules(__path__):
        module = import_module(f"{__name__}.{info.name}")
        if hasattr(module, "propose"):
            found[info.name.replace("_", "-")] = module.propose
    return found
