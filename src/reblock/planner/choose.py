"""Choosing: every strategy proposes, the exact cost decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

from reblock.cost.estimate import (
    LITTLE_BYTES,
    Sweep,
    estimate,
    estimate_passes,
    ideal_seconds,
    one_pass_seconds,
    steady_seconds,
    total,
)
from reblock.cost.flight import flight_bytes
from reblock.errors import InfeasibleError, Refused, UsageError
from reblock.model import Cost, Pass, Plan, Problem
from reblock.passes.family import fit
from reblock.planner.check import check
from reblock.planner.search import WORTH, search
from reblock.planner.thrift import advice, least_memory
from reblock.planner.touch import coalesce, coarsen
from reblock.strategies import strategies
from reblock.units import format_seconds, format_size

#: Asks everybody and takes the best.
AUTO = "auto"
#: Name of what the search over the whole family finds.
SEARCH = "search"
#: Strategies that propose without a search.
_QUICK = ("baseline", "clustered", "consolidate", "multiple", "naive")
#: Times that differ by less are the same, added up in another order.
_AS_GOOD = 1 - 1e-9

#: How plans are ranked: the objective first, ties broken by the rest.
OBJECTIVES: dict[str, Callable[[Cost], tuple[float, ...]]] = {
    "time": lambda c: (c.seconds, c.seeks, c.bytes_read + c.bytes_written, c.peak_bytes),
    "seeks": lambda c: (c.seeks, c.seconds, c.bytes_read + c.bytes_written, c.peak_bytes),
    "bytes": lambda c: (c.bytes_read + c.bytes_written, c.seconds, c.seeks, c.peak_bytes),
    "memory": lambda c: (c.peak_bytes, c.seconds, c.seeks, c.bytes_read + c.bytes_written),
}


@dataclass(frozen=True)
class Alternative:
    """What one strategy had to say."""

    strategy: str
    """Its name."""
    plan: Plan | None
    """Its plan, if it has one."""
    cost: Cost | None
    """What that would cost."""
    rejected: str | None
    """Why it was not taken; None for the one that was."""
    needs_memory_bytes: int | None = None
    """The smallest budget that its plan would need, where that was the reason."""
    exact: bool = False
    """Whether the plan is the best of all there are of its kind."""

    def to_json(self) -> dict[str, Any]:
        cost = self.cost.to_json() if self.cost else None
        return {"strategy": self.strategy, "cost": cost, "rejected": self.rejected}


@dataclass(frozen=True)
class Decision:
    """The chosen plan, its price, and what else there was."""

    problem: Problem
    """What was asked."""
    plan: Plan
    """What will be done."""
    cost: Cost
    """What it costs."""
    sweeps: tuple[Sweep, ...]
    """The cost, pass by pass."""
    objective: str
    """What plans were ranked by."""
    search: str
    """`exact` where the search was exhaustive or nothing can be better, else `bounded`."""
    heard: tuple[Alternative, ...]
    """What strategies proposed, the chosen one first, then by rank, then the refusals."""
    unasked: tuple[str, ...] = ()
    """Strategies whose plans could not have been better."""

    def __repr__(self) -> str:
        cost = self.cost
        seconds, size = format_seconds(cost.seconds), format_size(cost.peak_bytes)
        return f"<reblock Decision: {self.plan.strategy}, {cost.seeks:,} seeks, {size} of memory, {seconds}>"

    @property
    def excess(self) -> float:
        """Its time, as a multiple of what no plan for this problem could be faster than."""
        least = ideal_seconds(self.problem)
        return self.cost.seconds / least if least else 1.0

    @cached_property
    def advice(self) -> str:
        """What a little more memory would save where there is hardly enough; empty where there is nothing to say."""
        return "" if self.problem.held else advice(self.problem, self.cost)

    @cached_property
    def alternatives(self) -> tuple[Alternative, ...]:
        """What every strategy has to say, best first, then the refusals."""
        late = [_hear(name, self.problem, self.objective) for name in self.unasked]
        others = sorted([*self.heard[1:], *late], key=lambda a: (a.strategy != SEARCH, a.strategy))
        return (self.heard[0], *_ordered(others, self.heard[0], self.objective))

    def to_json(self) -> dict[str, Any]:
        passes = []
        for made, sweep in zip(self.plan.passes, self.sweeps, strict=True):
            passes.append(
                {
                    **made.to_json(),
                    "tasks": made.tasks.count,
                    "steps": made.reads.count,
                    "live_elements": sweep.held_bytes // max(self.problem.target.itemsize, 1),
                    "source": sweep.source.to_json(),
                    "target": sweep.target.to_json(),
                }
            )
        return {
            "strategy": self.plan.strategy,
            "objective": self.objective,
            "problem": self.problem.to_json(),
            "lower_bound_seeks": self.problem.lower_bound_seeks,
            "search": self.search,
            "depth": self.plan.depth,
            "coders": self.plan.coders,
            "interleaved": self.plan.interleaved,
            "passes": passes,
            "cost": self.cost.to_json(),
            "alternatives": [alternative.to_json() for alternative in self.alternatives],
        }


def choose(problem: Problem, *, strategy: str = AUTO, objective: str = "time") -> Decision:
    """The best plan by an objective, or the one that a named strategy proposes."""
    if objective not in OBJECTIVES:
        raise UsageError(f"unknown objective {objective!r}: use one of {', '.join(OBJECTIVES)}")
    known = strategies()
    if strategy not in (AUTO, SEARCH, *known):
        raise UsageError(f"unknown strategy {strategy!r}: use {AUTO} or one of {', '.join(sorted([*known, SEARCH]))}")
    names = [name for name in (SEARCH, *known) if strategy in (AUTO, name)]
    if strategy == AUTO and least_memory(problem) > problem.memory_bytes:
        raise _infeasible(problem)
    heard, unasked = _ask(names, problem, objective)
    if objective == "time" and not problem.held and strategy in (AUTO, SEARCH):
        heard = _halved(_steady(heard, problem), problem)
    able = sorted((a for a in heard if a.cost), key=lambda a: OBJECTIVES[objective](a.cost))  # type: ignore[arg-type]
    if not able:
        raise Refused(f"strategy {strategy}: {heard[0].rejected}", needs_memory_bytes=heard[0].needs_memory_bytes)
    best = able[0]
    if best.plan is None:
        raise UsageError("a strategy priced a plan that it does not have")
    plan = best.plan if strategy not in (AUTO, SEARCH) else _touched(best.plan, problem, objective)
    check(plan, problem)
    sweeps = estimate_passes(plan, problem)
    cost = total(sweeps, plan, problem)
    chosen = Alternative(best.strategy, plan, cost, None)
    unbeaten = objective == "time" and cost.seconds * _AS_GOOD <= ideal_seconds(problem)
    others = (a for a in heard if a is not best)
    return Decision(
        problem,
        plan,
        cost,
        tuple(sweeps),
        objective,
        "exact" if best.exact or unbeaten else "bounded",
        (chosen, *_ordered(others, chosen, objective)),
        unasked,
    )


def _touched(plan: Plan, problem: Problem, objective: str) -> Plan:
    """The plan after its last touches, each if it makes nothing worse."""
    touches = {"memory": (), "time": (coarsen, coalesce)}.get(objective, (coarsen,))
    for touch in touches:
        tried = touch(plan, problem)
        before, after = estimate(plan, problem), estimate(tried, problem)
        if (after.seconds * _AS_GOOD, after.seeks) <= (before.seconds, before.seeks):
            plan = tried
    return plan


def _ask(names: list[str], problem: Problem, objective: str) -> tuple[list[Alternative], tuple[str, ...]]:
    """What strategies propose, and those whose plans cannot be faster than the best one is already.

    The search is asked last of those that may be the fastest: it takes longer than most of them together.
    """
    known = strategies()
    heard: list[Alternative] = []
    unasked: list[str] = []
    least = dict.fromkeys(names, one_pass_seconds(problem))
    for name in names:
        if name in known and (bound := known[name].least_seconds):
            least[name] = bound(problem)
    for name in sorted(names, key=lambda name: (least[name], name == SEARCH)):
        best = min((a.cost.seconds for a in heard if a.cost), default=inf)
        if objective == "time" and least[name] >= best * _AS_GOOD:
            unasked.append(name)
        else:
            heard.append(_hear(name, problem, objective))
    # Of plans that are as good, that of the search is the one to take.
    return sorted(heard, key=lambda a: a.strategy != SEARCH), tuple(unasked)


def _ordered(others: Iterable[Alternative], best: Alternative, objective: str) -> list[Alternative]:
    """Those that have a plan by rank, with the reason why it was not taken, then the refusals."""
    others = list(others)
    able = sorted((a for a in others if a.cost), key=lambda a: OBJECTIVES[objective](a.cost))  # type: ignore[arg-type]
    return [*(replace(a, rejected=_worse(a, best, objective)) for a in able), *(a for a in others if not a.cost)]


def _propose(name: str, problem: Problem, objective: str, *, slabs: bool = True) -> tuple[Plan, bool]:
    """A strategy's plan, and whether it comes of a search that left nothing out."""
    if name == SEARCH:
        return search(problem, OBJECTIVES[objective], frugal=objective == "memory", slabs=slabs)
    plan = strategies()[name](problem)
    return fit(plan, problem, frugal=True) if objective == "memory" else plan, False


def _hear(name: str, problem: Problem, objective: str) -> Alternative:
    try:
        plan, exact = _propose(name, problem, objective)
        cost = total(estimate_passes(plan, problem), plan, problem)
        return Alternative(name, plan, cost, None, exact=exact)
    except Refused as refusal:
        return Alternative(name, None, None, str(refusal), refusal.needs_memory_bytes)


def _steady(heard: list[Alternative], problem: Problem) -> list[Alternative]:
    """The same, where memory holds two steps: one is read while the other is written.

    A strategy whose steps take more is asked again for half of the budget, if that could make its plan the best.
    """
    best = min((a.cost.seconds for a in heard if a.cost), default=0.0)
    hopes = {a.strategy: steady_seconds(a.plan, problem) for a in heard if a.plan}
    found = {a.strategy: a for a in heard}
    tried: list[tuple[Pass, ...]] = []
    for name in sorted(hopes, key=lambda name: hopes[name]):
        before = found[name]
        if before.plan and before.cost and before.plan.passes not in tried:
            tried.append(before.plan.passes)
            if hopes[name] < min(WORTH * best, before.cost.seconds):
                found[name] = _smaller_steps(before, problem)
                best = min(best, found[name].cost.seconds)  # type: ignore[union-attr]
    return [found[a.strategy] for a in heard]


def _halved(heard: list[Alternative], problem: Problem) -> list[Alternative]:
    """The same with less memory where that is faster, also as a strategy proposes for half of it.

    More memory is no reason to be slower. Asked are the best strategy and those that do not search; the search looks at
    half of the memory itself.
    """
    found = [_with_less(one, problem) for one in heard]
    best = min((a.cost.seconds for a in found if a.cost), default=0.0)
    if best * _AS_GOOD <= ideal_seconds(problem):
        return found
    for place, before in enumerate(found):
        quick = before.strategy in _QUICK
        if before.cost and before.strategy != SEARCH and (quick or before.cost.seconds == best):
            for part in (2, 4, 8) if quick else (2,):
                less = replace(problem, memory_bytes=max(problem.memory_bytes // part, 1))
                found[place] = _faster(found[place], _hear(before.strategy, less, "time"))
    return found


def _faster(before: Alternative, after: Alternative) -> Alternative:
    """The one that takes less time, if that is worth it."""
    return after if before.cost and after.cost and after.cost.seconds < WORTH * before.cost.seconds else before


def _with_less(before: Alternative, problem: Problem) -> Alternative:
    """The plan with as much memory as makes it fastest: what is not needed takes time to be touched."""
    found, memory = before, before.plan.memory_bytes // 2 if before.plan else 0
    while found.plan and found.cost and memory > LITTLE_BYTES // 2:
        try:
            plan = fit(found.plan, replace(problem, memory_bytes=memory))
        except Refused:
            break
        found = _faster(found, replace(found, plan=plan, cost=estimate(plan, problem)))
        memory //= 2
    return found


def _smaller_steps(before: Alternative, problem: Problem) -> Alternative:
    """What a strategy proposes for half of the budget, what is in flight counted in it or not, if that is faster."""
    if before.plan is None or before.cost is None:
        return before
    sides = before.plan.sides(problem.source, problem.target)
    flight = max(flight_bytes(*side, before.plan.depth, before.plan.coders) for side in sides)
    half = problem.memory_bytes // 2
    found, seconds = before, before.cost.seconds
    for budget in (half, half + flight):
        with suppress(Refused):
            less = replace(problem, memory_bytes=budget)
            # Who takes slabs has no room for a second step.
            plan = fit(_propose(before.strategy, less, "time", slabs=False)[0], problem)
            cost = total(estimate_passes(plan, problem), plan, problem)
            if cost.seconds < seconds:
                found, seconds = Alternative(before.strategy, plan, cost, None), cost.seconds
    return found


def _worse(other: Alternative, best: Alternative, objective: str) -> str:
    if not (other.cost and best.cost):
        return "not priced"
    mine, theirs = OBJECTIVES[objective](other.cost), OBJECTIVES[objective](best.cost)
    if mine == theirs:
        return f"as good as {best.strategy}"
    names = {"time": "seconds", "seeks": "seeks", "bytes": "bytes moved", "memory": "bytes of memory"}
    if mine[0] == theirs[0]:
        return f"as many {names[objective]} as {best.strategy}, but worse in the rest"
    return f"{mine[0] / theirs[0]:.3g} × the {names[objective]} of {best.strategy}" if theirs[0] else "worse"


def _infeasible(problem: Problem) -> InfeasibleError:
    least = least_memory(problem)
    budget = f"{format_size(problem.memory_bytes)} ({problem.memory_bytes} bytes)"
    said = f"no plan fits a memory budget of {budget}: needs at least {format_size(least)} ({least} bytes)"
    more = advice(problem)
    return InfeasibleError(f"{said}; {more}" if more else said, needs_memory_bytes=least)
