"""From a log of accesses to a pattern: accesses of near-equal shapes become one class.

Shapes with at least 5% of the accesses are classes of their own. A rarer shape joins the nearest class whose sides
differ by at most a quarter; or it begins a class, while there are fewer than twenty. If too much of the log is left
out, shapes that differ more are merged as well. The pattern states how much of the log it explains. Classes keep the
boxes of their accesses, so that merging them costs no precision where they are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reblock.advisor.document import MAX_CLASSES
from reblock.errors import UsageError
from reblock.model.pattern import AccessClass, AccessPattern, Alignment, Positions, Table

#: Part of all accesses from which a shape is a class of its own.
HEAVY = 0.05
#: Factors between sides of near-equal shapes, and the part of the log that is to be explained: wider ones are used
#: where narrower ones explain less.
NEAR, ENOUGH = (1.25, 1.5, 2.0, 3.0), 0.95


@dataclass(frozen=True, eq=False)
class Accesses:
    """Accesses to one array, as a log has them."""

    starts: Table
    """First element of each box, one row per access."""
    stops: Table
    """End of each box."""
    writes: npt.NDArray[np.bool_]
    """Whether each access wrote."""

    def __len__(self) -> int:
        return len(self.starts)


def classify(accesses: Accesses, shape: Sequence[int], notes: tuple[str, ...] = ()) -> AccessPattern:
    """The pattern of a log."""
    if not len(accesses):
        raise UsageError("the log has no accesses to this array")
    lengths = accesses.stops - accesses.starts
    kinds, members, counts = np.unique(
        np.column_stack([lengths, accesses.writes]), axis=0, return_inverse=True, return_counts=True
    )
    members = members.reshape(-1)
    for near in NEAR:
        groups = _groups(kinds, counts, near)
        if sum(int(counts[kind]) for group in groups for kind in group) >= ENOUGH * len(accesses):
            break
    classes, explained = [], 0
    for group in groups:
        chosen = np.flatnonzero(np.isin(members, group))
        explained += len(chosen)
        classes.append(_class(accesses, lengths, chosen))
    pattern = AccessPattern(tuple(classes), explained / len(accesses), len(accesses), notes)
    pattern.check(shape)
    return pattern


def _groups(kinds: Table, counts: Table, factor: float) -> list[list[int]]:
    """Numbers of the shapes in each class; the first of each is its heaviest."""
    order = np.argsort(-counts, kind="stable")
    heavy = [int(kind) for kind in order if counts[kind] >= HEAVY * counts.sum()][:MAX_CLASSES]
    groups = [[kind] for kind in heavy]
    for kind in map(int, order):
        if kind in heavy:
            continue
        near = [
            (distance, group)
            for group in groups
            if (distance := _distance(kinds[kind], kinds[group[0]], factor)) < np.inf
        ]
        if near:
            min(near, key=lambda pair: pair[0])[1].append(kind)
        elif len(groups) < MAX_CLASSES:
            groups.append([kind])
    return groups


def _distance(one: Table, two: Table, factor: float) -> float:
    """How different two shapes are; infinite if they are not near-equal. The last number tells writes from reads."""
    if one[-1] != two[-1]:
        return float("inf")
    ratios = np.abs(np.log(one[:-1] / two[:-1]))
    if (ratios > np.log(factor)).any():
        return float("inf")
    return float(ratios.sum())


def _class(accesses: Accesses, lengths: Table, chosen: npt.NDArray[np.intp]) -> AccessClass:
    boxes, counts = np.unique(np.column_stack([accesses.starts[chosen], lengths[chosen]]), axis=0, return_counts=True)
    ndim = lengths.shape[1]
    starts, sides = boxes[:, :ndim], boxes[:, ndim:]
    mean = np.maximum(np.rint(np.average(sides, axis=0, weights=counts)), 1).astype(np.int64)
    return AccessClass(
        tuple(map(int, mean)),
        float(len(chosen)),
        Alignment.POSITIONS,
        bool(accesses.writes[chosen[0]]),
        positions=Positions(starts, sides, counts.astype(np.int64)),
    )
