"""Events: workers take shares, one after another, until none is left.

A share is work of some seconds for an undisturbed worker. Between two events (a share ends, or fails) all speeds are
constant, so the next event is the smallest quotient of work that is left and speed ::

    worker 1  ├──── share 0 ────┼── share 3 ──┤
    worker 2  ├── share 1 ──┼─ ✗ 4 ┼──────── share 4 again ──────┤
    worker 3  ├────── share 2 ──────┼── share 5 ──┤
              events            ↑

The process that began the run records finished shares in groups, while workers go on; it waits only for the last group.
There are at most 2,000 shares, so a petabyte takes as many events as a gigabyte.
"""

from __future__ import annotations

from math import expm1, inf, log1p

import numpy as np
import numpy.typing as npt

from reblock.model import Plan, Problem
from reblock.simulation.host import speeds
from reblock.simulation.limits import Floats, Limit
from reblock.simulation.outcome import Outcome, SimulatedPass
from reblock.simulation.scenario import Scenario
from reblock.simulation.shares import Lot, Stretch, stretches_of

#: The most failed attempts, of all shares together, before the simulation gives up.
MAX_FAILURES = 100_000
#: Less than this part of a share is a rounding error.
_ROUNDING = 1e-9


def simulate(plan: Plan, problem: Problem, scenario: Scenario) -> Outcome:
    """What a plan takes; `problem` has the devices. The tasks of the plan are those that workers carry out."""
    legs: list[SimulatedPass] = []
    for number, stretch in enumerate(stretches_of(plan, problem, scenario)):
        legs.append(carry_out(stretch, scenario, number))
        if not legs[-1].completes:
            break
    return Outcome(scenario, tuple(device.name for device in problem.devices), tuple(legs))


def carry_out(stretch: Stretch, scenario: Scenario, number: int = 0) -> SimulatedPass:
    """What the shares of one stretch of a plan take."""
    return _Race(stretch, scenario, number).run()


class _Race:
    """The shares of one stretch, and the workers that carry them out."""

    def __init__(self, stretch: Stretch, scenario: Scenario, number: int) -> None:
        self._stretch, self._scenario, self._number = stretch, scenario, number
        self._lots = stretch.lots
        ranges = [one.read_prefixes for one in self._lots], [one.write_prefixes for one in self._lots]
        self._limits = (
            Limit(stretch.arrays[0], "get", ranges[0], scenario.gets_per_second),
            Limit(stretch.arrays[1], "put", ranges[1], scenario.puts_per_second),
        )
        slots = min(scenario.workers, max(len(self._lots), 1))
        self._share: npt.NDArray[np.int64] = np.full(slots, -1, np.int64)
        # Seconds of work that are left, and per second of work: reading and writing requests, and bytes.
        self._left, self._whole = np.zeros(slots), np.zeros(slots)
        self._rates = np.zeros((3, slots))
        self._fails = np.zeros(slots, bool)
        self._coming = iter(range(len(self._lots)))
        self._again: list[int] = []
        self._attempts = [0] * len(self._lots)
        self._sums = np.zeros(3)
        self._read = self._written = 0.0
        self._peaks = np.zeros(3)
        self._clock = self._busy = self._throttled = 0.0
        self._failures, self._stopped, self._is_limited = 0, False, False
        self._hosts = -(-slots // scenario.per_host)
        self._host_speeds = [1.0]
        if scenario.per_host > 1:
            whole, working = (sum(getattr(one, name) for one in self._lots) for name in ("seconds", "working_seconds"))
            part = working / whole if whole else 0.0
            self._host_speeds = speeds(min(scenario.per_host, slots), stretch.requests, part, scenario.cores)

    def run(self) -> SimulatedPass:
        """Carry out all shares."""
        for slot in range(len(self._share)):
            self._take(slot)
        # All workers start at the same time.
        if self._lots and not self._number:
            self._clock += self._scenario.startup_seconds
        while not self._stopped and np.any(self._share >= 0):
            self._step()
        if self._lots and not self._stopped:
            self._clock += self._stretch.record_seconds
        ideal = sum(one.seconds for one in self._lots) / self._scenario.workers
        return SimulatedPass(
            self._stretch.tasks,
            self._stretch.classes,
            self._stretch.longest_task_seconds,
            len(self._lots),
            self._clock,
            ideal,
            self._busy,
            self._sums[0],
            self._sums[1],
            self._read,
            self._written,
            self._peaks[0],
            self._peaks[1],
            self._peaks[2],
            self._limits[0].most,
            self._limits[1].most,
            self._throttled,
            self._failures,
            not self._stopped,
            tuple(one for limit in self._limits for one in limit.hot_spots),
        )

    def _step(self) -> None:
        """Go on to the next event."""
        busy = np.flatnonzero(self._share >= 0)
        now = self._speeds(busy)
        seconds = float(np.min(self._left[busy] / now, initial=inf))
        for kind, limit in enumerate(self._limits):
            limit.pass_time(seconds, self._share[busy], self._rates[kind, busy] * now)
        self._clock += seconds
        self._busy += seconds * len(busy)
        if seconds > 0:
            sent = (self._rates[:2, busy] * now).sum(1)
            np.maximum(self._peaks, [sent[0], sent[1], sent.sum()], out=self._peaks)
            self._throttled += seconds if self._is_limited else 0.0
        self._left[busy] -= seconds * now
        for slot in busy[self._left[busy] <= _ROUNDING * self._whole[busy]].tolist():
            self._end(slot)
        if self._again:
            # Workers that had nothing to do take what others have failed at.
            for slot in np.flatnonzero(self._share < 0).tolist():
                self._take(slot)

    def _speeds(self, busy: npt.NDArray[np.int64]) -> Floats:
        """The speed of each busy worker: 1, or less where the store or a host cannot serve all of them."""
        shares = self._share[busy]
        found = np.minimum(*(limit.slow(shares, self._rates[k, busy]) for k, limit in enumerate(self._limits)))
        most, moved = self._scenario.bytes_per_second, float(self._rates[2, busy].sum())
        if most and moved > most:
            found = np.minimum(found, most / moved)
        self._is_limited = bool(np.any(found < 1 - _ROUNDING))
        return found * self._host_speeds[max(-(-len(busy) // self._hosts), 1) - 1]

    def _take(self, slot: int) -> None:
        """Give a worker the next share: one that failed, or a new one."""
        share = self._next()
        self._share[slot] = share
        if share < 0:
            return
        lot, scenario = self._lots[share], self._scenario
        attempt, self._attempts[share] = self._attempts[share], self._attempts[share] + 1
        seconds, done = lot.seconds, None
        if not scenario.is_certain:
            random = scenario.random(self._number, share, attempt)
            seconds *= scenario.stragglers.factor(random)
            done = _done_part(lot, scenario.failure_rate, float(random.random()))
        self._fails[slot] = done is not None
        part = 1.0 if done is None else done
        # A worker that failed, or its replacement, has to start up again.
        work = seconds * part + (scenario.startup_seconds if done is not None else 0.0)
        self._left[slot] = self._whole[slot] = work
        moved = lot.bytes_read + lot.bytes_written
        counts = np.array([lot.gets, lot.puts, moved], float) * part
        self._rates[:, slot] = counts / work if work > 0 else 0.0
        self._sums += counts
        self._read += lot.bytes_read * part
        self._written += lot.bytes_written * part

    def _end(self, slot: int) -> None:
        """A worker has finished a share, or failed."""
        share = int(self._share[slot])
        if self._fails[slot]:
            self._failures += 1
            self._again.append(share)
            if self._attempts[share] > self._scenario.retries or self._failures >= MAX_FAILURES:
                self._stopped = True
                return
        self._take(slot)

    def _next(self) -> int:
        """The next share; -1 if there is none."""
        return self._again.pop() if self._again else next(self._coming, -1)


def _done_part(lot: Lot, rate: float, chance: float) -> float | None:
    """The part of a share that is done when one of its tasks fails; None if none does.

    A task fails with a probability of `rate`, so the number of the first that fails has a geometric distribution.
    """
    if not rate or not lot.tasks:
        return None
    if rate >= 1:
        return 1.0 / lot.tasks
    survive = lot.tasks * log1p(-rate)
    if chance >= -expm1(survive):
        return None
    first = log1p(-chance) / log1p(-rate)
    return min((int(first) + 1) / lot.tasks, 1.0)
