"""The search: the whole family of single passes, priced exactly.

A pass is a product of axes, and so is nearly all of its cost: opens, runs and bytes are sums and products of per-axis
counts. So each axis lists its own points (a read length, whether target blocks are kept until they are complete (W = O)
or cut (W = R ∪ O), and a task length), and the search walks their product ::

    axis 0   (R, kept, T) (R, kept, T) ...  ┐
    axis 1   (R, kept, T) ...               ├─ product, priced as arrays ─ sorted by the objective
    axis 2   ...                            ┘                                      │
                      first few whose exact peak fits, over all axis orders  ◄─────┘

Only memory is not a product. Two bounds on it are: the boxes that one read block touches, and the carry across the
outermost axis. They discard most candidates that cannot fit before the exact recursion. Time depends a little on
memory, so candidates are sorted by an estimate of it, and the best of the first few that fit is chosen. If an axis has
more points than the product allows, points that another beats in every respect are removed first, and the rest is
thinned; the answer is then marked `bounded`. The `Effort` limits how many are priced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from math import prod
from typing import NamedTuple

import numpy as np

from reblock.cost.estimate import estimate, ideal_seconds
from reblock.cost.flight import least_flight_bytes
from reblock.cost.memory import axis_carry, buffer_bytes, held_elements, long_axes
from reblock.errors import Refused
from reblock.model import Pass, Plan, Problem
from reblock.passes.family import fit
from reblock.passes.points import Point
from reblock.passes.product import Floats, Prices, Product, Ranking
from reblock.passes.templates import task_kinds
from reblock.planner.effort import ESTIMATE, POINT, Effort
from reblock.planner.points import points_of, thin
from reblock.planner.thrift import least_memory, thrifty_plans
from reblock.units import format_size

#: The most points of the product that are priced, and the most candidates whose exact memory is computed.
MANY_POINTS = 200_000
MANY_TRIALS = 400
#: The most orders of the axes that are tried for a candidate with many axes, the thriftiest first; and the most orders
#: that are tried in all. Memory takes longer to count with many axes.
MANY_ORDERS, FEW_AXES, MANY_LOOKS = 6, 3, 600
#: Kinds of tasks that take as long to count as one candidate.
KINDS = 16
#: Candidates that are priced exactly after the first that fits.
MANY_MORE = 12
#: A plan for less memory is chosen if its time is below this fraction of the other's: predictions are no better.
WORTH = 0.98
#: Do not search again if the best plan is within this factor of the lower bound, or takes fewer seconds than this.
NEAR, SOON = 1.02, 1.0


class Found(NamedTuple):
    """A plan and its rank."""

    rank: tuple[float, ...]
    """The rank by exact cost."""
    plan: Plan
    """The plan."""


class Scope(NamedTuple):
    """The part of the family that is searched."""

    cut: bool
    """Whether read lengths below one block are included."""
    slabs: bool
    """Whether write boxes may be allocated in slabs."""
    frugal: bool
    """Whether plans take no more memory than they need."""


def search(
    problem: Problem, key: Ranking, *, frugal: bool = False, slabs: bool = True, effort: Effort | None = None
) -> tuple[Plan, bool]:
    """The best single pass by a ranking of costs, and whether the search left nothing out.

    Without `slabs` it considers only passes that allocate write boxes whole. It ends when the effort is used up.
    """
    effort = effort or Effort()
    least = least_memory(problem)
    if least > problem.memory_bytes:
        raise Refused(
            f"needs at least {format_size(least)} ({least} bytes), the budget is {format_size(problem.memory_bytes)}",
            needs_memory_bytes=least,
        )
    if frugal:
        # No plan takes less; plans that take as much are ranked by the rest.
        problem = replace(problem, memory_bytes=least)
    plans: list[tuple[Found, bool]] = []
    for scope in _scopes(problem, frugal=frugal, slabs=slabs):
        near = scope.slabs and plans and min(found.rank[0] for found, _ in plans) <= _near(problem, key)
        if near or effort.left <= 0:
            plans = [(found, False) for found, _ in plans]
            break
        found, exact = _search(problem, key, scope, effort)
        if found is not None:
            plans.append((found, exact))
            cost = estimate(found.plan, problem)
            if cost.seeks <= problem.lower_bound_seeks and cost.read_amplification <= 1:
                break
    if not plans or frugal:
        # Of very many candidates only the best by estimate are tried, and possibly none of them fits.
        thrifty = (fit(plan, problem, frugal=frugal) for plan in thrifty_plans(problem))
        plans += [(Found(key(estimate(plan, problem)), plan), False) for plan in thrifty]
    if not plans:
        raise Refused("too irregular: the grids meet in too many places for any plan to be counted")
    best, exact = min(plans, key=lambda one: one[0].rank)
    return best.plan, exact


def _scopes(problem: Problem, *, frugal: bool, slabs: bool) -> list[Scope]:
    slabs = slabs and not problem.held and bool(long_axes(problem.target.objects.largest, problem.target))
    if frugal:
        return [Scope(cut=True, slabs=slabs, frugal=True)]
    return [Scope(cut, some, frugal=False) for some in ((False, True) if slabs else (False,)) for cut in (False, True)]


def _near(problem: Problem, key: Ranking) -> float:
    """A rank close to the lower bound."""
    size, seconds = prod(problem.shape) * problem.source.itemsize, NEAR * ideal_seconds(problem) + SOON
    return float(key(Prices(*np.array([NEAR * problem.lower_bound_seeks, size, size, seconds, 0.0])))[0])


def _search(problem: Problem, key: Ranking, scope: Scope, effort: Effort) -> tuple[Found | None, bool]:
    """The best pass in one scope."""
    points = [points_of(problem, axis, cut=scope.cut, slabs=scope.slabs) for axis in range(problem.target.ndim)]
    effort.spend(POINT * sum(map(len, points)))
    most = min(MANY_POINTS, effort.combinations)
    if prod(map(len, points)) <= most:
        found, exact = _best_that_fits(problem, points, key, scope, effort)
        if found is not None or exact:
            return found, exact and problem.target.ndim <= FEW_AXES
    limit = int(most ** (1 / max(sum(len(p) > 1 for p in points), 1)))
    fewer = [thin(p, limit) for p in points]
    return _best_that_fits(problem, fewer, key, scope, effort)[0], False


def _best_that_fits(
    problem: Problem, points: list[list[Point]], key: Ranking, scope: Scope, effort: Effort
) -> tuple[Found | None, bool]:
    """The best pass that fits, and whether no other can be better.

    More memory must not make a plan slower, so plans that fit half of it are also considered.
    """
    effort.spend_combinations(prod(map(len, points)))
    ranked = _ranked(problem, points, key)
    found, exact = _first_that_fit(problem, ranked, key, scope, effort)
    if found is None or exact or scope.frugal or problem.held:
        return found, exact
    half = replace(problem, memory_bytes=problem.memory_bytes // 2)
    other, _ = _first_that_fit(half, ranked, key, scope, effort, best=found)
    return other if other is not None and other.rank[0] < WORTH * found.rank[0] else found, False


def _first_that_fit(
    problem: Problem, ranked: Ranked, key: Ranking, scope: Scope, effort: Effort, best: Found | None = None
) -> tuple[Found | None, bool]:
    """The best of the first few that fit, and whether no other can be better than it or a known one.

    Candidates are sorted by estimated cost, because their exact memory is computed only here. So a few more are
    examined after the first that fits.
    """
    more, looked, known = MANY_MORE, 0, best
    orders = _orders(problem.target.ndim)
    few, most = problem.target.ndim <= FEW_AXES, MANY_TRIALS // 4 if scope.frugal else MANY_TRIALS
    if known is not None:
        most //= 16
    chosen = np.flatnonzero(ranked.memory <= problem.memory_bytes)
    for tried, place in enumerate(chosen.tolist()):
        rest = ranked.least[place:]
        over = tried >= most or looked >= MANY_LOOKS or effort.left <= 0
        if over or (best is not None and (not more or np.min(rest) >= best.rank[0])):
            return best, best is not None and bool(np.min(rest) >= best.rank[0])
        more -= best is not known
        made = ranked.make(place)
        likely = orders if few else _likely_orders(made, problem, orders)[:MANY_ORDERS]
        light, looks = _lightest(made, problem, likely, slabs=scope.slabs)
        looked += 0 if few else looks
        effort.spend(looks * (1 + task_kinds(made) // KINDS))
        if light is not None:
            effort.spend(ESTIMATE)
            plan = fit(Plan("search", problem.shape, (light,)), problem, frugal=scope.frugal)
            best = min(filter(None, (best, Found(key(estimate(plan, problem)), plan))), key=lambda found: found.rank)
    return best, True


def _orders(ndim: int) -> list[tuple[int, ...]]:
    """Axis orders to try: all, or for many axes only those that move one axis outwards."""
    if ndim <= 4:
        return list(permutations(range(ndim)))
    axes = tuple(range(ndim))
    return [axes, *((a, *(b for b in axes if b != a)) for a in axes[1:]), axes[::-1]]


def _likely_orders(made: Pass, problem: Problem, orders: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Orders sorted by an estimate of what is held: the carry across each axis times the blocks of the outer axes."""
    grids = zip(made.reads.axes, made.writes.axes, made.tasks.axes, strict=True)
    try:
        carries = [axis_carry(*axes, 0, allocated=not problem.held) for axes in grids]
    except Refused:
        return []
    lengths = made.tasks.largest

    def held(order: tuple[int, ...]) -> int:
        total, outer = 0, 1
        for axis in order:
            touched, carry = carries[axis]
            total, outer = total * lengths[axis] + outer * carry, outer * touched
        return total + outer

    return sorted(orders, key=held)


def _lightest(made: Pass, problem: Problem, orders: list[tuple[int, ...]], *, slabs: bool) -> tuple[Pass | None, int]:
    """The pass in the first order whose exact memory fits, and the number of orders that were tried."""
    for looks, order in enumerate(orders, 1):
        sweep = Pass(made.read, made.write, made.tasks, order, made.read_access, made.write_access)
        try:
            if problem.held:
                needs = held_elements(sweep) * problem.target.itemsize
            else:
                needs = least_flight_bytes(sweep, problem.source, problem.target)
                needs += buffer_bytes(sweep, problem.target, problem.memory_bytes - needs if slabs else None)
        except Refused:
            return None, looks
        if needs <= problem.memory_bytes:
            return sweep, looks
    return None, len(orders)


# ---------------------------------------------------------------- the product
class Ranked(NamedTuple):
    """Passes that may fit, sorted by estimated rank."""

    least: Floats
    """A lower bound on the first entry of each rank."""
    memory: Floats
    """A lower bound on the memory of each."""
    make: Callable[[int], Pass]
    """Makes the pass at a position."""


def _ranked(problem: Problem, points: list[list[Point]], key: Ranking) -> Ranked:
    """Passes that may fit, sorted by estimated cost."""
    product = Product(problem, points)
    room = np.broadcast_to(product.least <= problem.memory_bytes, product.shape)
    where = np.argwhere(room)
    least, probable = (product.rank(key, memory) for memory in (product.least, product.likely))
    keys = [np.broadcast_to(column, product.shape)[room] for column in probable.columns]
    by_units = np.broadcast_to(probable.by_units, product.shape)[room]
    order = np.lexsort(keys[::-1])

    def make(place: int) -> Pass:
        rank = order[place]
        return product.make(where[rank].tolist(), range(len(points)), by_units=bool(by_units[rank]))

    ranks, memory = (np.broadcast_to(one, product.shape)[room][order] for one in (least.columns[0], product.least))
    return Ranked(ranks, memory, make)
