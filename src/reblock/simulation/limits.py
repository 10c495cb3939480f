"""Limits of a store: the requests per second that each prefix serves, and how fast shares can go under them.

A share spreads its requests evenly over some neighbouring prefixes. Between the prefixes where any share begins or
ends, all have the same demand, so only these intervals are looked at ::

    share 1   ├─────────────┤
    share 2           ├─────────────┤        demand  1 │ 1 + 2 │ 2
    intervals │       │     │       │

Where the demand exceeds the limit, all requests there are slowed down by the same factor, and a share is as slow as its
slowest request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class HotSpot:
    """A prefix that got more requests than it can serve."""

    array: str
    """`source`, `scratch` or `target`."""
    kind: str
    """`get` or `put`."""
    first: int
    """The first index of its chunks; 0 if the whole array is one prefix."""
    prefixes: int
    """Number of such prefixes."""
    demand_per_second: float
    """The most requests that workers would have sent to each of them in a second."""
    limit_per_second: float
    """Requests that each of them serves."""
    seconds: float
    """How long the demand exceeded that."""

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


class Limit:
    """The limit on one kind of requests to one array, during a pass."""

    def __init__(self, array: str, kind: str, ranges: Sequence[tuple[int, int]], per_second: float) -> None:
        """`ranges` are the prefixes of each share; `per_second` is 0 without a limit."""
        self._array, self._kind, self._limit = array, kind, per_second
        self._edges = np.array(sorted({edge for pair in ranges for edge in pair} or {0, 1}), object)
        places = {edge: place for place, edge in enumerate(self._edges.tolist())}
        self._low = np.array([places[low] for low, _ in ranges], np.int64)
        self._high = np.array([places[high] for _, high in ranges], np.int64)
        self._widths = np.array([float(high - low) for low, high in ranges])
        count = len(self._edges) - 1
        self._demand, self._most, self._over = np.zeros(count), np.zeros(count), np.zeros(count)
        self.most = 0.0
        """The most requests in a second that any prefix served."""

    def slow(self, shares: npt.NDArray[np.int64], rates: Floats) -> Floats:
        """The speed of each of some shares that would send requests at these rates: 1, or less."""
        self._demand = self._spread(shares, rates)
        if not self._limit:
            return np.ones(len(shares))
        if len(self._demand) == 1:
            return np.full(len(shares), self._limit / max(float(self._demand[0]), self._limit))
        factors = np.append(self._limit / np.maximum(self._demand, self._limit), 1.0)
        return np.minimum.reduceat(factors, np.stack([self._low[shares], self._high[shares]], 1).ravel())[::2]

    def pass_time(self, seconds: float, shares: npt.NDArray[np.int64], rates: Floats) -> None:
        """Note that the demand of the last call lasted some seconds, in which shares sent requests at these rates."""
        if seconds > 0:
            np.maximum(self._most, self._demand, out=self._most)
            self.most = max(self.most, float(np.max(self._spread(shares, rates), initial=0.0)))
            if self._limit:
                self._over += seconds * (self._demand > self._limit * (1 + 1e-9))

    def _spread(self, shares: npt.NDArray[np.int64], rates: Floats) -> Floats:
        """Requests in a second to each prefix of every interval."""
        if len(self._edges) == 2:
            return np.array([rates.sum() / self._widths[0]])
        each, change = rates / self._widths[shares], np.zeros(len(self._edges))
        np.add.at(change, self._low[shares], each)
        np.subtract.at(change, self._high[shares], each)
        return np.asarray(np.cumsum(change)[:-1])

    @property
    def hot_spots(self) -> list[HotSpot]:
        """The prefixes whose demand exceeded the limit."""
        return [
            HotSpot(
                self._array,
                self._kind,
                int(self._edges[at]),
                int(self._edges[at + 1] - self._edges[at]),
                float(self._most[at]),
                self._limit,
                float(self._over[at]),
            )
            for at in np.flatnonzero(self._over).tolist()
        ]
