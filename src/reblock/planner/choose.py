"""Chooses a plan: every strategy proposes one, and the exact cost decides."""

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
from reblock.planner.effort import SECOND_PROPOSAL, SECOND_SEARCH, Effort
from reblock.planner.search import WORTH, search
from reblock.planner.thrift import advice, least_memory
from reblock.planner.tune import coalesce, coarsen, fill_execution
from reblock.strategies import strategies
from reblock.units import format_seconds, format_size

#: Takes the best plan of all strategies.
AUTO = "auto"
#: Name of the search over the whole family of passes.
SEARCH = "search"
#: Strategies that propose without a search.
_WITHOUT_SEARCH = ("baseline", "clustered", "consolidate", "multiple", "naive")
#: Times that differ by less than this factor are equal: they were added up in another order.
_ROUNDING = 1 - 1e-9

#: How plans are ranked: the objective first, ties broken by the rest.
OBJECTIVES: dict[str, Callable[[Cost], tuple[float, ...]]] = {
    "time": lambda c: (c.seconds, c.seeks, c.bytes_read + c.bytes_written, c.peak_bytes),
    "seeks": lambda c: (c.seeks, c.seconds, c.bytes_read + c.bytes_written, c.peak_bytes),
    "bytes": lambda c: (c.bytes_read + c.bytes_written, c.seconds, c.seeks, c.peak_bytes),
    "memory": lambda c: (c.peak_bytes, c.seconds, c.seeks, c.bytes_read + c.bytes_written),
}


@dataclass(frozen=True)
class Alternative:
    """The answer of one strategy: a plan, or why it has none."""

    strategy: str
    """Its name."""
    plan: Plan | None
    """Its plan, if it has one."""
    cost: Cost | None
    """The cost of that plan."""
    rejected: str | None
    """Why it was not chosen; None for the chosen one."""
    needs_memory_bytes: int | None = None
    """The smallest budget for its plan, if the budget was too small."""
    exact: bool = False
    """Whether an exhaustive search found it."""

    def to_json(self) -> dict[str, Any]:
        cost = self.cost.to_json() if self.cost else None
        return {"strategy": self.strategy, "cost": cost, "rejected": self.rejected}


@dataclass(frozen=True)
class Decision:
    """The chosen plan, its cost, and the alternatives."""

    problem: Problem
    """The problem."""
    plan: Plan
    """The chosen plan."""
    cost: Cost
    """Its cost."""
    sweeps: tuple[Sweep, ...]
    """The cost, pass by pass."""
    objective: str
    """The objective that plans were ranked by."""
    search: str
    """`exact` if the search was exhaustive or no plan can be better, else `bounded`."""
    proposals: tuple[Alternative, ...]
    """The proposals that were collected: the chosen one first, then by rank, then the refusals."""
    skipped: tuple[str, ...] = ()
    """Strategies that were skipped because no plan of theirs could be better."""

    def __repr__(self) -> str:
        cost = self.cost
        seconds, size = format_seconds(cost.seconds), format_size(cost.peak_bytes)
        return f"<reblock Decision: {self.plan.strategy}, {cost.seeks:,} seeks, {size} of memory, {seconds}>"

    @property
    def excess(self) -> float:
        """The plan's time over the lower bound of any plan for this problem."""
        least = ideal_seconds(self.problem)
        return self.cost.seconds / least if least else 1.0

    @cached_property
    def advice(self) -> str:
        """What a little more memory would save, if the budget is close to the least; else empty."""
        return "" if self.problem.held else advice(self.problem, self.cost)

    @cached_property
    def alternatives(self) -> tuple[Alternative, ...]:
        """The answers of all strategies: the chosen one, then by rank, then the refusals."""
        effort = Effort.for_run(self.cost.seconds)
        late = [_proposal(name, self.problem, self.objective, effort) for name in self.skipped]
        others = sorted([*self.proposals[1:], *late], key=lambda a: (a.strategy != SEARCH, a.strategy))
        return (self.proposals[0], *_ordered(others, self.proposals[0], self.objective))

    def to_json(self, *, every_strategy: bool = True) -> dict[str, Any]:
        """The decision as JSON; without `every_strategy` only the alternatives that were priced to make it."""
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
            "alternatives": [one.to_json() for one in (self.alternatives if every_strategy else self.proposals)],
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
    proposals, skipped, effort = _collect_proposals(names, problem, objective)
    if objective == "time" and not problem.held and strategy in (AUTO, SEARCH):
        proposals = _with_half(_in_smaller_steps(proposals, problem, effort), problem, effort)
    able = sorted((a for a in proposals if a.cost), key=lambda a: OBJECTIVES[objective](a.cost))  # type: ignore[arg-type]
    if not able:
        raise Refused(
            f"strategy {strategy}: {proposals[0].rejected}", needs_memory_bytes=proposals[0].needs_memory_bytes
        )
    best = able[0]
    if best.plan is None:
        raise UsageError("a strategy priced a plan that it does not have")
    plan = best.plan if strategy not in (AUTO, SEARCH) else _tuned(best.plan, problem, objective)
    plan = fill_execution(plan, problem)
    check(plan, problem)
    sweeps = estimate_passes(plan, problem)
    cost = total(sweeps, plan, problem)
    chosen = Alternative(best.strategy, plan, cost, None)
    unbeaten = objective == "time" and cost.seconds * _ROUNDING <= ideal_seconds(problem)
    others = (a for a in proposals if a is not best)
    return Decision(
        problem,
        plan,
        cost,
        tuple(sweeps),
        objective,
        "exact" if best.exact or unbeaten else "bounded",
        (chosen, *_ordered(others, chosen, objective)),
        skipped,
    )


def _tuned(plan: Plan, problem: Problem, objective: str) -> Plan:
    """The plan with larger steps and coalesced gaps, each if it makes nothing worse."""
    for tune in {"memory": (), "time": (coarsen, coalesce)}.get(objective, (coarsen,)):
        tried = tune(plan, problem)
        before, after = estimate(plan, problem), estimate(tried, problem)
        if (after.seconds * _ROUNDING, after.seeks) <= (before.seconds, before.seeks):
            plan = tried
    return plan


def _collect_proposals(
    names: list[str], problem: Problem, objective: str
) -> tuple[list[Alternative], tuple[str, ...], Effort]:
    """The proposals of strategies, the names of those that were skipped, and the effort that is left.

    A strategy is skipped if its lower bound exceeds the best plan so far. The search takes longer than most strategies
    together, so it comes last among those with the same bound. It is sized for the best plan so far.
    """
    known = strategies()
    proposals: list[Alternative] = []
    skipped: list[str] = []
    effort: Effort | None = None
    least = dict.fromkeys(names, one_pass_seconds(problem))
    for name in names:
        if name in known and (bound := known[name].least_seconds):
            least[name] = bound(problem)
    for name in sorted(names, key=lambda name: (least[name], name == SEARCH)):
        best = min((a.cost.seconds for a in proposals if a.cost), default=inf)
        if objective == "time" and least[name] >= best * _ROUNDING:
            skipped.append(name)
            continue
        if name == SEARCH:
            effort = Effort.for_run(_predicted_seconds(proposals, objective))
        proposals.append(_proposal(name, problem, objective, effort))
    effort = effort or Effort.for_run(_predicted_seconds(proposals, objective))
    # Of equally good plans the search's is chosen.
    return sorted(proposals, key=lambda a: a.strategy != SEARCH), tuple(skipped), effort


def _predicted_seconds(proposals: Iterable[Alternative], objective: str) -> float:
    """The time of the best plan so far; infinite if there is none."""
    costs = [a.cost for a in proposals if a.cost]
    return min(costs, key=OBJECTIVES[objective]).seconds if costs else inf


def _ordered(others: Iterable[Alternative], best: Alternative, objective: str) -> list[Alternative]:
    """Alternatives with a plan by rank, each with the reason why it was not chosen, then the refusals."""
    others = list(others)
    able = sorted((a for a in others if a.cost), key=lambda a: OBJECTIVES[objective](a.cost))  # type: ignore[arg-type]
    return [*(replace(a, rejected=_worse(a, best, objective)) for a in able), *(a for a in others if not a.cost)]


def _propose(
    name: str, problem: Problem, objective: str, effort: Effort | None = None, *, slabs: bool = True
) -> tuple[Plan, bool]:
    """The plan of a strategy, and whether an exhaustive search found it."""
    if name == SEARCH:
        return search(problem, OBJECTIVES[objective], frugal=objective == "memory", slabs=slabs, effort=effort)
    plan = strategies()[name](problem, None if objective == "time" else OBJECTIVES[objective])
    return fit(plan, problem, frugal=True) if objective == "memory" else plan, False


def _proposal(name: str, problem: Problem, objective: str, effort: Effort | None = None) -> Alternative:
    try:
        plan, exact = _propose(name, problem, objective, effort)
        cost = total(estimate_passes(plan, problem), plan, problem)
        return Alternative(name, plan, cost, None, exact=exact)
    except Refused as refusal:
        return Alternative(name, None, None, str(refusal), refusal.needs_memory_bytes)


def _in_smaller_steps(proposals: list[Alternative], problem: Problem, effort: Effort) -> list[Alternative]:
    """The proposals, with smaller steps where that makes a plan the best, as far as the effort allows.

    If memory holds two steps, one is read while the other is written.
    """
    best = min((a.cost.seconds for a in proposals if a.cost), default=0.0)
    hopes = {a.strategy: steady_seconds(a.plan, problem) for a in proposals if a.plan}
    found = {a.strategy: a for a in proposals}
    tried: list[tuple[Pass, ...]] = []
    for name in sorted(hopes, key=lambda name: hopes[name]):
        before = found[name]
        if before.plan and before.cost and before.plan.passes not in tried:
            tried.append(before.plan.passes)
            if hopes[name] < min(WORTH * best, before.cost.seconds):
                found[name] = _smaller_steps(before, problem, effort)
                best = min(best, found[name].cost.seconds)  # type: ignore[union-attr]
    return [found[a.strategy] for a in proposals]


def _with_half(proposals: list[Alternative], problem: Problem, effort: Effort) -> list[Alternative]:
    """The proposals, with less memory where that is faster, as far as the effort allows.

    The best strategy, and all that do not search, propose again for half of the budget or less; the search itself also
    examines half of it.
    """
    found = [_with_less(one, problem) for one in proposals]
    best = min((a.cost.seconds for a in found if a.cost), default=0.0)
    if best * _ROUNDING <= ideal_seconds(problem):
        return found
    for place, before in enumerate(found):
        quick = before.strategy in _WITHOUT_SEARCH
        if before.cost and before.strategy != SEARCH and (quick or before.cost.seconds == best):
            for part in (2, 4, 8) if quick else (2,):
                if not effort.allows(SECOND_PROPOSAL if quick else SECOND_SEARCH):
                    return found
                less = replace(problem, memory_bytes=max(problem.memory_bytes // part, 1))
                found[place] = _faster(found[place], _proposal(before.strategy, less, "time"))
    return found


def _faster(before: Alternative, after: Alternative) -> Alternative:
    """The proposal that takes less time, if the gain is worth it."""
    return after if before.cost and after.cost and after.cost.seconds < WORTH * before.cost.seconds else before


def _with_less(before: Alternative, problem: Problem) -> Alternative:
    """The proposal with the memory that makes it fastest: touching memory takes time."""
    found, memory = before, before.plan.memory_bytes // 2 if before.plan else 0
    while found.plan and found.cost and memory > LITTLE_BYTES // 2:
        try:
            plan = fit(found.plan, replace(problem, memory_bytes=memory))
        except Refused:
            break
        found = _faster(found, replace(found, plan=plan, cost=estimate(plan, problem)))
        memory //= 2
    return found


def _smaller_steps(before: Alternative, problem: Problem, effort: Effort) -> Alternative:
    """The proposal for half of the budget, with or without the bytes in flight, if that is faster."""
    if before.plan is None or before.cost is None:
        return before
    sides = before.plan.sides(problem.source, problem.target)
    flight = max(flight_bytes(*side, before.plan.depth, before.plan.coders) for side in sides)
    half = problem.memory_bytes // 2
    found, seconds = before, before.cost.seconds
    quick = before.strategy in _WITHOUT_SEARCH
    for budget in (half, half + flight):
        # The search counts its own candidates.
        if not effort.allows(1 if before.strategy == SEARCH else SECOND_PROPOSAL if quick else SECOND_SEARCH):
            break
        with suppress(Refused):
            less = replace(problem, memory_bytes=budget)
            # A plan that takes slabs has no room for a second step.
            plan = fit(_propose(before.strategy, less, "time", effort, slabs=False)[0], problem)
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
