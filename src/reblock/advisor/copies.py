"""Copies: several copies of an array, each laid out for some of the classes of a pattern.

The classes are divided among R copies so that the total cost is least (Sarawagi & Stonebraker, section 2.3) ::

    few classes     every division, by dynamic programming over sets of classes
    more            each class begins alone; the two groups whose union costs least more are merged until R are left

Then each class goes to the copy that serves it best, and each copy gets the best shape for its classes, until nothing
changes. A read is served by the copy with the least expected cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf

import numpy as np

from reblock.advisor.expect import Numbers, Shapes
from reblock.advisor.price import Pricing
from reblock.advisor.search import Bounds, all_shapes, find_chunks, is_monotone, maximal_shapes, powers_of_two, thinned
from reblock.errors import UsageError

#: The most classes of which every division is tried.
MAX_BRUTE_FORCE = 9
#: The most shapes that are considered for a group of classes.
_POOL = 4096
#: Rounds of moving classes to better copies.
_ROUNDS = 10

#: Numbers of classes.
Group = tuple[int, ...]


@dataclass(frozen=True)
class LayoutCopy:
    """One copy of the array."""

    chunks: tuple[int, ...]
    """Its chunk shape."""
    classes: Group
    """Numbers of the classes that it serves."""


@dataclass(frozen=True)
class CopySet:
    """Copies of an array, and what an average access costs on them."""

    copies: tuple[LayoutCopy, ...]
    """The copies."""
    cost: float
    """Cost of an average access, each served by its copy."""
    exhaustive: bool
    """Whether every division of the classes was tried."""


def check_copies(copies: int, classes: int) -> None:
    """Raise UsageError if there are fewer classes than copies, or no copy."""
    if copies < 1:
        raise UsageError(f"the number of copies must be at least 1, not {copies}")
    if copies > classes:
        raise UsageError(f"{copies} copies for {classes} classes of accesses: use at most one copy per class")


def divide(pricing: Pricing, bounds: Bounds, goal: str, copies: int) -> CopySet:
    """The best division of the classes of a pattern among copies that was found."""
    classes = len(pricing.pattern.classes)
    check_copies(copies, classes)
    priced = thinned(pricing)
    pool = _pool(priced, bounds, goal)
    costs = priced.chunks(pool).of(goal) * priced.pattern.weights[:, None]
    brute = classes <= MAX_BRUTE_FORCE
    groups = _every_division(costs, copies) if brute else _merged(costs, copies)
    shapes = [find_chunks(_part(priced, group), bounds, goal).best.chunks for group in groups]
    groups, shapes = _settled(priced, bounds, goal, groups, shapes)
    total = route(pricing, np.array(shapes, np.int64), goal).min(axis=0)
    found = tuple(LayoutCopy(shape, group) for group, shape in zip(groups, shapes, strict=True))
    return CopySet(found, float(pricing.pattern.weights @ total), brute)


def route(pricing: Pricing, shapes: Shapes, goal: str) -> Numbers:
    """The cost of an access of each class on each copy: a row per copy, a column per class."""
    found: Numbers = pricing.chunks(shapes).of(goal).T
    return found


def _part(pricing: Pricing, group: Sequence[int]) -> Pricing:
    return replace(pricing, pattern=pricing.pattern.part(group))


def _pool(pricing: Pricing, bounds: Bounds, goal: str) -> Shapes:
    """Shapes that are considered: all if they are few, or else powers of two and the best of each class and pair."""
    classes = range(len(pricing.pattern.classes))
    monotone = is_monotone(pricing, goal)
    every = maximal_shapes(bounds, _POOL) if monotone else all_shapes(bounds, _POOL)
    if every is not None:
        return every
    powers = powers_of_two(bounds, monotone=monotone)
    if len(powers) > _POOL:
        powers = powers[np.argsort(pricing.score(powers, goal), kind="stable")[:_POOL]]
    groups: list[Sequence[int]] = [[one] for one in classes]
    if len(classes) <= MAX_BRUTE_FORCE:
        groups += [list(pair) for pair in combinations(classes, 2)][: 2 * MAX_BRUTE_FORCE]
    best = [find_chunks(_part(pricing, group), bounds, goal).best.chunks for group in groups]
    return np.unique(np.concatenate([powers, np.array(best, np.int64)]), axis=0)


def _every_division(costs: Numbers, copies: int) -> list[Group]:
    """The cheapest division into `copies` groups: for each set of classes, the cheapest first group and the rest."""
    classes = len(costs)
    full = (1 << classes) - 1
    alone = [0.0] * (full + 1)
    for members in range(1, full + 1):
        rows = [one for one in range(classes) if members >> one & 1]
        alone[members] = float(costs[rows].sum(axis=0).min())
    best = [(cost, members) for members, cost in enumerate(alone)]
    chosen = [best]
    for _ in range(copies - 1):
        following = [(inf, 0)] * (full + 1)
        for members in range(1, full + 1):
            lowest = members & -members
            part = members
            while part:
                # The first group holds the lowest class, so that no division is tried twice.
                if part & lowest and part != members:
                    cost = alone[part] + best[members ^ part][0]
                    following[members] = min(following[members], (cost, part))
                part = (part - 1) & members
        best = following
        chosen.append(best)
    groups: list[Group] = []
    rest = full
    for level in reversed(chosen):
        part = level[rest][1]
        groups.append(tuple(one for one in range(classes) if part >> one & 1))
        rest ^= part
    return groups


def _merged(costs: Numbers, copies: int) -> list[Group]:
    """Groups of classes, merged two by two."""
    groups: list[Group] = [(one,) for one in range(len(costs))]
    sums = {group: costs[list(group)].sum(axis=0) for group in groups}
    while len(groups) > copies:
        one, two = min(
            combinations(groups, 2),
            key=lambda pair: (
                float((sums[pair[0]] + sums[pair[1]]).min()) - float(sums[pair[0]].min()) - float(sums[pair[1]].min())
            ),
        )
        both = tuple(sorted(one + two))
        sums[both] = sums[one] + sums[two]
        groups = [group for group in groups if group not in (one, two)] + [both]
    return sorted(groups)


def _settled(
    pricing: Pricing, bounds: Bounds, goal: str, groups: list[Group], shapes: list[tuple[int, ...]]
) -> tuple[list[Group], list[tuple[int, ...]]]:
    """Move each class to the copy that serves it best, and shape the copies again, until nothing changes."""
    for _ in range(_ROUNDS):
        costs = route(pricing, np.array(shapes, np.int64), goal)
        owners = [next(n for n, group in enumerate(groups) if one in group) for one in range(costs.shape[1])]
        for one in range(costs.shape[1]):
            better = int(costs[:, one].argmin())
            if costs[better, one] < costs[owners[one], one] * (1 - 1e-9):
                owners[one] = better
        moved = [tuple(one for one, owner in enumerate(owners) if owner == n) for n in range(len(groups))]
        if moved == groups or not all(moved):
            break
        groups = moved
        shapes = [find_chunks(_part(pricing, group), bounds, goal).best.chunks for group in groups]
    return groups, shapes
