"""Scenario: the workers, the store's limits, the failures and the prices that a simulation assumes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from math import isfinite
from typing import Any

import numpy as np

from reblock.errors import UsageError, option

#: The most workers that can be simulated: every event visits each of them.
MAX_WORKERS = 100_000
#: The most workers on one machine.
MAX_SHARED = 256
#: The options of numbers that have other names here.
_OPTIONS = {
    "startup_seconds": "startup",
    "bytes_per_second": "bandwidth",
    "get_per_thousand": "get_price",
    "put_per_thousand": "put_price",
    "egress_per_gigabyte": "egress_price",
}
_KINDS = "none, lognormal:SIGMA, pareto:ALPHA or slow:PART:FACTOR"


@dataclass(frozen=True)
class Stragglers:
    """How much longer than predicted a share takes, at random."""

    kind: str = "none"
    """`none`, `lognormal`, `pareto` or `slow`."""
    numbers: tuple[float, ...] = ()
    """The parameters of the distribution."""

    @classmethod
    def parse(cls, text: str) -> Stragglers:
        """From text such as `lognormal:0.3`, `pareto:3` or `slow:0.05:4`."""
        kind, *rest = str(text).strip().split(":")
        try:
            numbers = tuple(float(one) for one in rest)
        except ValueError:
            raise _wrong_stragglers(text) from None
        if len(numbers) != {"none": 0, "lognormal": 1, "pareto": 1, "slow": 2}.get(kind) or not all(
            isfinite(one) and one >= 0 for one in numbers
        ):
            raise _wrong_stragglers(text)
        if kind == "lognormal" and numbers[0] > 3:
            raise UsageError(f"{option('stragglers', text)}: SIGMA is at most 3")
        if kind == "pareto" and not 1 < numbers[0] <= 1000:
            raise UsageError(f"{option('stragglers', text)}: ALPHA is above 1, or the mean has no limit")
        if kind == "slow" and not (numbers[0] <= 1 <= numbers[1]):
            raise UsageError(f"{option('stragglers', text)}: PART is at most 1, FACTOR is at least 1")
        return cls(kind, numbers)

    def factor(self, random: np.random.Generator) -> float:
        """How many times longer one share takes."""
        if self.kind == "lognormal":
            return float(random.lognormal(0.0, self.numbers[0]))
        if self.kind == "pareto":
            return 1.0 + float(random.pareto(self.numbers[0]))
        if self.kind == "slow":
            return self.numbers[1] if random.random() < self.numbers[0] else 1.0
        return 1.0

    def __str__(self) -> str:
        return ":".join([self.kind, *(f"{one:g}" for one in self.numbers)])


def _wrong_stragglers(text: object) -> UsageError:
    return UsageError(f"{option('stragglers', text)}: use {_KINDS}")


@dataclass(frozen=True)
class RequestPrices:
    """What a store charges, in dollars. The defaults are those of S3 Standard in us-east-1, within the region."""

    get_per_thousand: float = 0.0004
    """A thousand reading requests."""
    put_per_thousand: float = 0.005
    """A thousand writing requests."""
    egress_per_gigabyte: float = 0.0
    """A gigabyte (10⁹ bytes) that leaves the store; nothing within its region, about 0.09 to the internet."""


@dataclass(frozen=True)
class Scenario:
    """What a simulation assumes."""

    workers: int = 1
    """Workers, each with the device to itself and the memory of the plan."""
    seed: int = 0
    """Seed of stragglers and failures."""
    stragglers: Stragglers = field(default_factory=Stragglers)
    """How much longer shares take."""
    failure_rate: float = 0.0
    """Probability that a task kills its worker, whose whole share is then done again."""
    retries: int = 20
    """How often a share may fail before the run stops."""
    record_seconds: float | None = None
    """Time to record the last shares in the process that began the run; None = computed from the devices."""
    per_host: int = 1
    """Workers that share the cores of one machine."""
    cores: int = 1
    """Cores of each of these machines."""
    startup_seconds: float = 0.0
    """Time until a worker is ready, at first and after a failure."""
    gets_per_second: float = 5500.0
    """Reading requests that a prefix of the store serves in a second; 0 = no limit."""
    puts_per_second: float = 3500.0
    """Writing requests that a prefix of the store serves in a second; 0 = no limit."""
    prefix_axes: int = 0
    """0 = all chunks of an array are one prefix; 1 = chunks with the same first index are."""
    bytes_per_second: float = 0.0
    """Bytes that all workers together can move in a second; 0 = no limit."""
    prices: RequestPrices = field(default_factory=RequestPrices)
    """What the store charges."""

    def __post_init__(self) -> None:
        if isinstance(self.workers, bool) or not isinstance(self.workers, int):
            raise UsageError(f"{option('workers', self.workers)}: use a whole number")
        if not 1 <= self.workers <= MAX_WORKERS:
            raise UsageError(f"{option('workers', self.workers)}: use 1 to {MAX_WORKERS:,} workers")
        whole = ("seed", 0, 2**63), ("retries", 0, 10**6), ("prefix_axes", 0, 1), ("per_host", 1, MAX_SHARED)
        for name, least, most in whole:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise UsageError(f"{option(name, value)}: use a whole number from {least} to {most:,}")
        if not 0 <= self.failure_rate <= 1:
            raise UsageError(f"{option('failure_rate', self.failure_rate)}: use a probability from 0 to 1")
        names = [one.name for one in fields(self) if one.name.endswith(("_second", "onds"))]
        numbers = {
            name: getattr(self, name) for name in names if (name, getattr(self, name)) != ("record_seconds", None)
        }
        for name, value in {**numbers, **asdict(self.prices)}.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e30:
                given = _OPTIONS.get(name, name)
                raise UsageError(f"{option(given, value)}: use a number of at least 0")

    @property
    def is_certain(self) -> bool:
        """Whether nothing is random."""
        return self.stragglers.kind == "none" and not self.failure_rate

    def random(self, *place: int) -> np.random.Generator:
        """Random numbers of one attempt, whatever else is simulated."""
        return np.random.default_rng((self.seed, *place))

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "stragglers": str(self.stragglers)}
