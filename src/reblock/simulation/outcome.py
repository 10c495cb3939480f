"""The outcome of a simulation: time, requests, hot spots, bytes and price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reblock.simulation.limits import HotSpot
from reblock.simulation.scenario import Scenario

#: The most hot spots that are listed, hottest first.
MAX_HOT_SPOTS = 10


@dataclass(frozen=True)
class SimulatedPass:
    """One pass, or all passes of a plan that interleaves them."""

    tasks: int
    """Tasks."""
    classes: int
    """Classes of equal tasks."""
    longest_task_seconds: float | None
    """Time of the longest task by itself; None if there are too many classes."""
    shares: int
    """Shares of tasks that are submitted."""
    seconds: float
    """From the first share that is submitted to the last one that is finished."""
    ideal_seconds: float
    """Time of all shares divided by the workers."""
    busy_seconds: float
    """Time during which workers carried out shares, summed over all of them."""
    gets: float
    """Reading requests, including those of attempts that failed."""
    puts: float
    """Writing requests, likewise."""
    bytes_read: float
    """Stored bytes that were read."""
    bytes_written: float
    """Stored bytes that were written."""
    peak_gets_per_second: float
    """The most reading requests in a second."""
    peak_puts_per_second: float
    """The most writing requests in a second."""
    peak_requests_per_second: float
    """The most requests in a second."""
    prefix_gets_per_second: float
    """The most reading requests in a second that any prefix served."""
    prefix_puts_per_second: float
    """The most writing requests in a second that any prefix served."""
    throttled_seconds: float
    """Time during which a limit slowed workers down."""
    failures: int
    """Attempts that failed."""
    completes: bool
    """Whether all shares were finished."""
    hot_spots: tuple[HotSpot, ...] = ()
    """Prefixes that got more requests than they can serve."""

    def to_json(self) -> dict[str, Any]:
        names = [name for name in self.__dataclass_fields__ if name != "hot_spots"]
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Outcome:
    """The predicted time, requests and price of a plan on many workers."""

    scenario: Scenario
    """What was assumed."""
    devices: tuple[str, ...]
    """Devices of the source, the scratch and the target."""
    legs: tuple[SimulatedPass, ...]
    """The passes."""

    def _sum(self, name: str) -> Any:
        return sum(getattr(leg, name) for leg in self.legs)

    def _most(self, name: str) -> float:
        return max((float(getattr(leg, name)) for leg in self.legs), default=0.0)

    @property
    def makespan_seconds(self) -> float:
        """From the first share that is submitted to the last one that is finished."""
        return float(self._sum("seconds"))

    @property
    def completes(self) -> bool:
        """Whether the run finishes; False if a share failed more often than allowed."""
        return all(leg.completes for leg in self.legs)

    @property
    def efficiency(self) -> float:
        """The part of the workers' time that the tasks need if nothing delays them."""
        return min(self._sum("ideal_seconds") / self.makespan_seconds, 1.0) if self.makespan_seconds else 1.0

    @property
    def hot_spots(self) -> Sequence[HotSpot]:
        """Prefixes that got more requests than they can serve, hottest first."""
        found = [one for leg in self.legs for one in leg.hot_spots]
        return sorted(found, key=lambda one: -one.demand_per_second / one.limit_per_second)

    @property
    def price(self) -> dict[str, float]:
        """Dollars for requests and egress."""
        prices = self.scenario.prices
        parts = {
            "gets": self._sum("gets") / 1000 * prices.get_per_thousand,
            "puts": self._sum("puts") / 1000 * prices.put_per_thousand,
            "egress": self._sum("bytes_read") / 1e9 * prices.egress_per_gigabyte,
        }
        return {**parts, "total": sum(parts.values())}

    @property
    def requests(self) -> dict[str, float]:
        """Requests, and how many there are in a second."""
        seconds = self.makespan_seconds
        gets, puts = self._sum("gets"), self._sum("puts")
        return {
            "gets": gets,
            "puts": puts,
            "mean_per_second": (gets + puts) / seconds if seconds else 0.0,
            **{
                name: self._most(name)
                for name in (
                    "peak_requests_per_second",
                    "peak_gets_per_second",
                    "peak_puts_per_second",
                    "prefix_gets_per_second",
                    "prefix_puts_per_second",
                )
            },
        }

    def to_json(self) -> dict[str, Any]:
        """What `reblock simulate --json` prints."""
        return {
            "completes": self.completes,
            "makespan_seconds": self.makespan_seconds,
            "ideal_seconds": self._sum("ideal_seconds"),
            "efficiency": self.efficiency,
            "tasks": self._sum("tasks"),
            "task_classes": self._sum("classes"),
            "shares": self._sum("shares"),
            "failures": self._sum("failures"),
            "requests": self.requests,
            "throttled_seconds": self._sum("throttled_seconds"),
            "hot_spots": [one.to_json() for one in self.hot_spots[:MAX_HOT_SPOTS]],
            "egress_bytes": self._sum("bytes_read"),
            "bytes_written": self._sum("bytes_written"),
            "price": self.price,
            "passes": [leg.to_json() for leg in self.legs],
            "devices": dict(zip(("source", "scratch", "target"), self.devices, strict=True)),
            "scenario": self.scenario.to_json(),
        }
