"""The search for the chunk shape that costs an access pattern least.

A shape may have at most C elements. Where a larger chunk never costs more (blocks, requests), only *maximal* shapes
matter: those of which no side can grow. For C = 15 these are (1,15) (2,7) (3,5) (5,3) (7,2) (15,1). Bytes and seconds,
and accesses at known positions, also depend on shapes that are smaller, down to a least size.

- *exhaustive*: all such shapes, where they are few.
- *powers of two*: the sides are powers of two (Sarawagi & Stonebraker, section 2.1).
- *neighbourhood*: sides between half and double those of the best power of two.
- *local search*: from the best few powers of two, one or two sides change at a time while that helps: to lengths near
  by, to those at which an access needs one chunk less, and to whole axes. The side that pays for it shrinks as little
  as possible.

Equal costs are decided by form: the chunk that is most like a cube wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from reblock.advisor.expect import Numbers, Shapes
from reblock.advisor.price import Pricing
from reblock.errors import UsageError
from reblock.geometry.grid import chunk_text

#: Shapes that are all tried.
MAX_SHAPES = 200_000
#: Numbers that a search computes at most: shapes times boxes.
_MAX_NUMBERS = 4_000_000
#: Boxes of known positions that a search considers, of all classes together, and of each class at least.
_SEARCHED_BOXES, _LEAST_BOXES = 192, 8
#: Powers of two from which the local search starts, and rounds that it takes at most.
_STARTS, _ROUNDS = 10, 40
#: Lengths near the present one that the local search tries on each axis, and lengths that pay off for accesses.
_NEAR, _PAYING = 24, 24
#: Costs that differ by less are equal.
EQUAL = 1e-9
#: Goals that a larger chunk never makes worse.
MONOTONE = ("blocks", "requests")

#: The cost of each of several shapes.
Score = Callable[[Shapes], Numbers]


@dataclass(frozen=True)
class Bounds:
    """The chunk shapes that are allowed."""

    most: int
    """The most elements of a chunk."""
    low: tuple[int, ...]
    """The least length along each axis."""
    high: tuple[int, ...]
    """The greatest length along each axis; where it is the least one, the axis is fixed."""
    least: int = 1
    """The fewest elements of a chunk."""

    @classmethod
    def of(cls, shape: Sequence[int], most: int, least: int = 1, fixed: Sequence[int | None] | None = None) -> Bounds:
        """Bounds of chunks of an array, with fixed lengths along some axes; UsageError if there is no such chunk."""
        given = [None] * len(shape) if fixed is None else list(fixed)
        low = tuple(1 if one is None else one for one in given)
        high = tuple(max(length, 1) if one is None else one for one, length in zip(given, shape, strict=True))
        if prod(low) > most:
            raise UsageError(
                f"chunks of {chunk_text(low)} have {prod(low):,} elements, more than the limit of {most:,}"
            )
        return cls(most, low, high, min(least, most, prod(high)))

    def contains(self, shapes: Shapes) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which shapes are allowed."""
        volume = np.prod(shapes.astype(np.float64), axis=1)
        inside = (shapes >= np.array(self.low)) & (shapes <= np.array(self.high))
        found: np.ndarray[tuple[int], np.dtype[np.bool_]] = (
            inside.all(axis=1) & (volume <= self.most) & (volume >= self.least)
        )
        return found


@dataclass(frozen=True)
class FoundShape:
    """The best chunk shape of one method."""

    method: str
    """Name of the method."""
    chunks: tuple[int, ...]
    """The shape."""
    cost: float
    """Its cost for an average access."""


@dataclass(frozen=True)
class ShapeSearch:
    """What was found: the best shape of each method, and the best of all."""

    best: FoundShape
    """The best."""
    found: tuple[FoundShape, ...]
    """The best of each method."""
    exhaustive: bool
    """Whether every shape that can be the best was tried."""


def find_chunks(pricing: Pricing, bounds: Bounds, goal: str) -> ShapeSearch:
    """The best chunk shape for a goal."""
    if not bounds.low:
        only = FoundShape("exhaustive", (), float(pricing.score(np.empty((1, 0), np.int64), goal)[0]))
        return ShapeSearch(only, (only,), exhaustive=True)
    monotone = is_monotone(pricing, goal)
    every = maximal_shapes(bounds, MAX_SHAPES) if monotone else all_shapes(bounds, MAX_SHAPES)
    if every is not None and len(every) * pricing.rows > _MAX_NUMBERS:
        every = None
    searched = pricing if every is not None else thinned(pricing)

    def score(shapes: Shapes) -> Numbers:
        return searched.score(shapes, goal)

    powers = powers_of_two(bounds, monotone=monotone)
    costs = score(powers)
    found = [_best("powers of two", powers, costs)]
    if (near := neighbourhood(found[0].chunks, bounds, monotone=monotone)) is not None:
        found.append(_best("neighbourhood", near, score(near)))
    if every is not None:
        found.append(_best("exhaustive", every, score(every)))
    else:
        starts = powers[np.argsort(costs, kind="stable")[:_STARTS]]
        lengths = [_paying_lengths(pricing, axis, bounds) for axis in range(len(bounds.low))]
        ends = [climb(start, bounds, score, lengths, monotone=monotone) for start in [*starts, found[-1].chunks]]
        shapes = np.array(ends, np.int64)
        found.append(_best("local search", shapes, score(shapes)))
    if searched is not pricing:
        shapes = np.array([one.chunks for one in found], np.int64)
        exact = pricing.score(shapes, goal)
        found = [FoundShape(one.method, one.chunks, float(cost)) for one, cost in zip(found, exact, strict=True)]
    shapes, costs = np.array([one.chunks for one in found], np.int64), np.array([one.cost for one in found])
    inside = monotone | bounds.contains(shapes)
    best = choose_shape(shapes, np.where(inside, costs, np.inf) if inside.any() else costs)
    # Of equal shapes, the one of the last method, which is the most thorough.
    last = max(number for number, one in enumerate(found) if one.chunks == found[best].chunks)
    return ShapeSearch(found[last], tuple(found), every is not None)


def thinned(pricing: Pricing) -> Pricing:
    """The same with so few known positions that a search is quick."""
    return pricing.thinned(max(_SEARCHED_BOXES // len(pricing.pattern.classes), _LEAST_BOXES))


def is_monotone(pricing: Pricing, goal: str) -> bool:
    """Whether a larger chunk never costs more: known positions may straddle the cuts of a larger chunk."""
    return goal in MONOTONE and all(one.positions is None for one in pricing.pattern.classes)


def _best(method: str, shapes: Shapes, costs: Numbers) -> FoundShape:
    best = choose_shape(shapes, costs)
    return FoundShape(method, tuple(map(int, shapes[best])), float(costs[best]))


def choose_shape(shapes: Shapes, costs: Numbers) -> int:
    """The cheapest shape; of equal ones the most cubic, then the largest, then the first in order."""
    tied = np.flatnonzero(costs <= costs.min() * (1 + EQUAL))
    sides = np.log(shapes[tied])
    form = np.round(((sides - sides.mean(axis=1, keepdims=True)) ** 2).sum(axis=1), 9)
    keys = [shapes[tied, axis] for axis in reversed(range(shapes.shape[1]))]
    return int(tied[np.lexsort([*keys, -np.round(sides.sum(axis=1), 9), form])[0]])


# ---------------------------------------------------------------- shapes
def maximal_shapes(bounds: Bounds, limit: int) -> Shapes | None:
    """All shapes of which no side can grow; None if more than `limit` would have to be looked at.

    >>> maximal_shapes(Bounds.of((15, 15), 15), 100).tolist()
    [[1, 15], [2, 7], [3, 5], [5, 3], [7, 2], [15, 1]]
    """
    if not bounds.low:
        return np.empty((1, 0), np.int64)
    *outer, last = zip(bounds.low, bounds.high, strict=True)
    room_inside = _least_inside(bounds)
    shapes, volumes = np.empty((1, 0), np.int64), np.ones(1, np.int64)
    for axis, (low, high) in enumerate(outer):
        rest = bounds.most // (volumes * room_inside[axis])
        expanded = _extended(shapes, np.full(len(rest), low), np.minimum(rest, high), limit)
        if expanded is None:
            return None
        shapes, lengths, rows = expanded
        volumes = volumes[rows] * lengths
    tails = np.minimum(bounds.most // volumes, last[1])
    shapes = np.column_stack([shapes, tails])
    volumes = volumes * tails
    kept = np.ones(len(shapes), bool)
    for axis, high in enumerate(bounds.high):
        grown = volumes // shapes[:, axis] * (shapes[:, axis] + 1)
        kept &= (shapes[:, axis] >= high) | (grown > bounds.most)
    return shapes[kept]


def all_shapes(bounds: Bounds, limit: int) -> Shapes | None:
    """All shapes within the bounds; None if more than `limit` would have to be looked at."""
    room_inside = _least_inside(bounds)
    shapes, volumes = np.empty((1, 0), np.int64), np.ones(1, np.int64)
    for axis, (low, high) in enumerate(zip(bounds.low, bounds.high, strict=True)):
        rest = bounds.most // (volumes * room_inside[axis])
        expanded = _extended(shapes, np.full(len(rest), low), np.minimum(rest, high), limit)
        if expanded is None:
            return None
        shapes, lengths, rows = expanded
        volumes = volumes[rows] * lengths
    large = shapes[volumes >= bounds.least]
    # There may be no chunk of exactly the wanted sizes.
    return large if len(large) else maximal_shapes(bounds, limit)


def _least_inside(bounds: Bounds) -> list[int]:
    """Per axis, the fewest elements of the axes after it."""
    return [prod(bounds.low[axis + 1 :]) for axis in range(len(bounds.low))]


def _extended(
    shapes: Shapes, low: Shapes, high: Shapes, limit: int
) -> tuple[Shapes, Shapes, np.ndarray[tuple[int], np.dtype[np.int64]]] | None:
    """Each shape with every length from `low` to `high` appended, these lengths, and the rows they come from."""
    counts = np.maximum(high - low + 1, 0)
    total = int(counts.sum()) if len(counts) and float(counts.astype(np.float64).sum()) <= limit else limit + 1
    if total > limit:
        return None
    rows = np.repeat(np.arange(len(shapes)), counts)
    firsts = np.repeat(np.cumsum(counts) - counts, counts)
    lengths = np.arange(total) - firsts + low[rows]
    return np.column_stack([shapes[rows], lengths]), lengths, rows


def powers_of_two(bounds: Bounds, *, monotone: bool) -> Shapes:
    """Shapes whose sides are powers of two, or whole axes that are shorter than the next one.

    Powers of four or eight are used where those of two are too many.
    """
    for step in (1, 2, 3, 4, 6, 8):
        sides = [_powers(low, high, step) for low, high in zip(bounds.low, bounds.high, strict=True)]
        shapes, volumes = np.empty((1, 0), np.int64), np.ones(1, np.float64)
        inside = _least_inside(bounds)
        for axis, side in enumerate(sides):
            volumes = np.multiply.outer(volumes, side).ravel()
            shapes = np.column_stack([np.repeat(shapes, len(side), axis=0), np.tile(side, len(shapes))])
            fits = volumes * inside[axis] <= bounds.most
            shapes, volumes = shapes[fits], volumes[fits]
            if len(shapes) > MAX_SHAPES:
                break
        else:
            break
    if monotone:
        return shapes[_largest_powers(shapes, volumes, sides, bounds.most)]
    large = shapes[volumes >= bounds.least]
    return large if len(large) else _grown(shapes[volumes == volumes.max()], bounds)


def _largest_powers(
    shapes: Shapes, volumes: Numbers, sides: list[Shapes], most: int
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which of the shapes have no side that can be the next power."""
    kept = np.ones(len(shapes), bool)
    for axis, side in enumerate(sides):
        following = np.append(side[1:], side[-1])[np.searchsorted(side, shapes[:, axis])]
        kept &= (shapes[:, axis] == side[-1]) | (volumes / shapes[:, axis] * following > most)
    return kept


def _grown(shapes: Shapes, bounds: Bounds) -> Shapes:
    """Shapes with sides that grow one after the other as far as they can."""
    grown = shapes.copy()
    for axis, high in enumerate(bounds.high):
        rest = np.prod(np.delete(grown, axis, axis=1), axis=1)
        grown[:, axis] = np.minimum(bounds.most // rest, high)
    return grown


def _powers(low: int, high: int, step: int) -> Shapes:
    if low == high:
        return np.array([low], np.int64)
    return np.array(sorted({min(1 << bit, high) for bit in range(0, high.bit_length() + step, step)}), np.int64)


def neighbourhood(chunks: Sequence[int], bounds: Bounds, *, monotone: bool) -> Shapes | None:
    """Shapes with sides between half and double those of a shape; None if they are too many."""
    low = tuple(max(n // 2, a) for n, a in zip(chunks, bounds.low, strict=True))
    high = tuple(min(2 * n, b) for n, b in zip(chunks, bounds.high, strict=True))
    inner = Bounds(bounds.most, low, high, bounds.least)
    if prod(low) > bounds.most:
        return None
    found = maximal_shapes(inner, MAX_SHAPES) if monotone else all_shapes(inner, MAX_SHAPES)
    return found if found is not None and len(found) else None


# ---------------------------------------------------------------- local search
def climb(start: Iterable[int], bounds: Bounds, score: Score, lengths: Sequence[Shapes], *, monotone: bool) -> Shapes:
    """The end of a walk from a shape to ever cheaper ones."""
    here = np.array(list(start), np.int64)
    cost = float(score(here[None, :])[0])
    for _ in range(_ROUNDS):
        moves = _moves(here, bounds, lengths, monotone=monotone)
        if not len(moves):
            break
        costs = score(moves)
        best = choose_shape(moves, costs)
        if costs[best] >= cost * (1 - EQUAL):
            break
        here, cost = moves[best], float(costs[best])
    return here


def _moves(here: Shapes, bounds: Bounds, lengths: Sequence[Shapes], *, monotone: bool) -> Shapes:
    """Shapes that differ in one side, or in one that grows and another one that makes room for it."""
    found: list[Shapes] = []
    ndim = len(here)
    for axis in range(ndim):
        if bounds.low[axis] == bounds.high[axis]:
            continue
        tried = np.unique(np.concatenate([_near(int(here[axis]), bounds, axis), lengths[axis]]))
        moved = np.repeat(here[None, :], len(tried), axis=0)
        moved[:, axis] = tried
        if not monotone:
            found.append(moved)
        for other in range(ndim):
            if other == axis or bounds.low[other] == bounds.high[other]:
                continue
            rest = prod(int(n) for place, n in enumerate(here) if place not in (axis, other))
            room = bounds.most // (tried * rest)
            paid = moved.copy()
            paid[:, other] = np.clip(room, bounds.low[other], bounds.high[other])
            found.append(paid)
            if not monotone:
                # The same volume as before, so that the size does not change with the form.
                kept = moved.copy()
                same = np.maximum(int(here[axis]) * int(here[other]) // tried, 1)
                kept[:, other] = np.clip(same, bounds.low[other], bounds.high[other])
                found.append(kept)
    if not found:
        return np.empty((0, ndim), np.int64)
    moves = np.concatenate(found)
    return moves[bounds.contains(moves)]


def _near(length: int, bounds: Bounds, axis: int) -> Shapes:
    """Lengths around a length: the next ones, and some up to half and double."""
    low, high = bounds.low[axis], bounds.high[axis]
    window = np.geomspace(max(length / 2, 1), min(2.0 * length, high), _NEAR).round().astype(np.int64)
    close = np.arange(max(length - 4, low), min(length + 4, high) + 1)
    return np.unique(np.clip(np.concatenate([window, close]), low, high))


def _paying_lengths(pricing: Pricing, axis: int, bounds: Bounds) -> Shapes:
    """Lengths at which an access needs one chunk less, or that cut the axis into even shares."""
    boxes = frozenset(one.shape[axis] for one in pricing.pattern.classes)
    low, high = bounds.low[axis], bounds.high[axis]
    found = {low, high, *_shares(pricing.shape[axis]), *(n for box in boxes for n in _shares(box))}
    return np.array(sorted({min(max(n, low), high) for n in found}), np.int64)


@lru_cache(maxsize=256)
def _shares(length: int) -> tuple[int, ...]:
    """The length divided by small numbers, and by some larger ones."""
    parts = {*range(1, 9), *np.geomspace(9, max(length, 9), _PAYING).astype(int).tolist()}
    return tuple(sorted({-(-length // part) for part in parts if part <= max(length, 1)}))
