"""Simulated time: the same as task by task and event by event, and within the bounds of any schedule."""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reblock.cost import PRESETS
from reblock.geometry import Grid
from reblock.model import Layout, Problem, Traffic
from reblock.model.shares import MAX_SHARES, share_size
from reblock.planner import choose
from reblock.simulation import Scenario, Stragglers, simulate
from reblock.simulation.events import carry_out
from reblock.simulation.host import speeds
from reblock.simulation.shares import Lot, Stretch, stretches_of
from reblock.simulation.tasks import TaskCounts
from reblock.simulation.worker import Worker
from reblock.testing.problems import plans, problems
from simulation.test_tasks import added, cropped

#: No limits of a store.
FREE = Scenario(gets_per_second=0.0, puts_per_second=0.0, record_seconds=0.0)


def lots(seconds: list[float], gets: int = 0, puts: int = 0) -> Stretch:
    """Shares of one task each."""
    some = [Lot(1, one, gets, puts, 10.0 * gets, 10.0 * puts, (0, 1), (0, 1)) for one in seconds]
    return Stretch(some, len(some), 1, max(seconds, default=0.0), ("source", "target"))


def scheduled(seconds: list[float], workers: int) -> float:
    """When the last share ends if each goes to the worker that is free first."""
    ends = [0.0] * workers
    for one in seconds:
        heapq.heappush(ends, heapq.heappop(ends) + one)
    return max(ends)


@given(st.data())
def test_classes_give_the_same_as_every_task_by_itself(data: st.DataObject) -> None:
    """The oracle lists the tasks, counts each one alone, and carries out one event after the other."""
    problem = data.draw(problems(max_ndim=3))
    plan = data.draw(plans(problem))
    workers = data.draw(st.integers(1, 5))
    found = simulate(plan, problem, replace(FREE, workers=workers))
    sides = plan.sides(problem.source, problem.target)
    devices = plan.along(*problem.devices)
    end, gets, puts = 0.0, 0, 0
    for group in [range(len(sides))] if plan.interleaved else [range(k, k + 1) for k in range(len(sides))]:
        legs: list[tuple[Worker, list[TaskCounts]]] = []
        for k in group:
            sweep, source, target = sides[k]
            part = Problem(source, target, problem.memory_bytes, problem.device)
            each = [cropped(sweep, part, sweep.tasks.box(index)) for index in sweep.tasks.indices()]
            legs.append((Worker.of(sweep, source, target, plan, (devices[k], devices[k + 1])), each))
        count = len(legs[0][1])
        whole = sum(worker.seconds(added(each)) for worker, each in legs)
        size = share_size(count, workers, whole, 1 if plan.interleaved else len(sides))
        times = []
        for start in range(0, count, size):
            some = [(worker, added(each[start : start + size])) for worker, each in legs]
            times.append(sum(worker.seconds(load) for worker, load in some))
            gets += sum(load.reads.seeks for _, load in some)
            puts += sum(load.writes.seeks for _, load in some)
        end += scheduled(times, workers)
    assert found.makespan_seconds == pytest.approx(end, rel=1e-6)
    assert (found.requests["gets"], found.requests["puts"]) == (gets, puts)


@given(st.data())
def test_bounds_of_any_schedule(data: st.DataObject) -> None:
    problem = data.draw(problems(max_ndim=3))
    plan = data.draw(plans(problem))
    workers = data.draw(st.integers(1, 40))
    scenario = replace(FREE, workers=workers)
    found = simulate(plan, problem, scenario)
    for leg, stretch in zip(found.legs, stretches_of(plan, problem, scenario), strict=True):
        total = sum(one.seconds for one in stretch.lots)
        assert leg.seconds >= total / workers * (1 - 1e-9)
        assert leg.seconds >= max(one.seconds for one in stretch.lots) * (1 - 1e-9)
        if leg.longest_task_seconds is not None:
            assert leg.seconds >= leg.longest_task_seconds * (1 - 1e-9)
        if workers == 1:
            assert leg.seconds == pytest.approx(total)
        assert leg.busy_seconds == pytest.approx(total)


SECONDS = st.lists(st.floats(0.01, 100), max_size=60)


@given(SECONDS, st.integers(1, 8), st.integers(0, 3))
def test_more_workers_are_never_slower(seconds: list[float], workers: int, seed: int) -> None:
    for stragglers in (Stragglers(), Stragglers("pareto", (1.5,)), Stragglers("slow", (0.2, 10.0))):
        scenario = replace(FREE, workers=workers, stragglers=stragglers, seed=seed)
        few = carry_out(lots(seconds), scenario).seconds
        many = carry_out(lots(seconds), replace(scenario, workers=workers + 1)).seconds
        assert many <= few * (1 + 1e-6)
    assert carry_out(lots(seconds), replace(FREE, workers=workers)).seconds == pytest.approx(
        scheduled(seconds, workers), rel=1e-6
    )


@given(SECONDS, st.integers(1, 8), st.integers(1, 300), st.floats(1, 500))
def test_a_store_serves_no_more_than_its_limit(seconds: list[float], workers: int, gets: int, limit: float) -> None:
    scenario = replace(FREE, workers=workers, gets_per_second=limit)
    found = carry_out(lots(seconds, gets), scenario)
    assert found.peak_gets_per_second <= limit * (1 + 1e-6)
    assert found.prefix_gets_per_second <= limit * (1 + 1e-6)
    assert found.seconds * limit >= found.gets * (1 - 1e-6)
    assert bool(found.hot_spots) == (found.throttled_seconds > 0)
    if not found.hot_spots:
        assert found.seconds == pytest.approx(scheduled(seconds, workers), rel=1e-6)


def test_a_limit_is_used_in_full() -> None:
    found = carry_out(lots([1.0] * 400, puts=100), replace(FREE, workers=100, puts_per_second=500.0))
    assert found.seconds == pytest.approx(400 * 100 / 500)
    (spot,) = found.hot_spots
    assert (spot.array, spot.kind, spot.demand_per_second) == ("target", "put", pytest.approx(10_000))
    assert spot.seconds == pytest.approx(found.seconds)
    assert found.throttled_seconds == pytest.approx(found.seconds)


def test_bandwidth_is_shared() -> None:
    found = carry_out(lots([1.0] * 8, gets=100), replace(FREE, workers=8, bytes_per_second=2000.0))
    assert found.seconds == pytest.approx(8 * 1000 / 2000)


def spread(prefixes: list[tuple[int, int]], gets: int) -> Stretch:
    some = [Lot(1, 1.0, gets, 0, 0.0, 0.0, one, (0, 1)) for one in prefixes]
    return Stretch(some, len(some), 1, 1.0, ("source", "target"))


def test_prefixes_are_limited_one_by_one() -> None:
    """Two shares meet in one prefix, a third one is alone in two: each of those has half of its demand."""
    scenario = replace(FREE, workers=3, gets_per_second=100.0)
    found = carry_out(spread([(0, 1), (0, 1), (5, 7)], 100), scenario)
    assert found.seconds == pytest.approx(2.0)
    (spot,) = found.hot_spots
    assert (spot.first, spot.prefixes, spot.demand_per_second) == (0, 1, pytest.approx(200))
    apart = carry_out(spread([(0, 1), (1, 2), (5, 7)], 100), scenario)
    assert apart.seconds == pytest.approx(1.0)
    assert apart.hot_spots == ()
    later = carry_out(replace(spread([(0, 1), (1, 2), (5, 7)], 100), record_seconds=3.0), replace(scenario, workers=1))
    assert later.seconds == pytest.approx(6.0)
    huge = carry_out(spread([(0, 2**61), (2**61, 2**62), (0, 2**62)], 100), scenario)
    assert huge.seconds == pytest.approx(1.0)


def test_first_indices_are_prefixes() -> None:
    """Tasks in C order meet few prefixes of the target at a time, and all of those of a transposed source."""
    shape = (40, 40)
    grid, device = Grid.of(shape, (4, 4)), PRESETS["s3"]
    source, target = Layout.raw("u1", grid, (1, 0)), Layout.raw("u1", grid)
    plan = choose(Problem(source, target, 64, device)).plan
    problem = Problem(source, target, 64, device)
    scenario = replace(FREE, workers=10, prefix_axes=1)
    (stretch,) = stretches_of(plan, problem, scenario)
    assert {one.write_prefixes for one in stretch.lots} <= {(k, k + 1) for k in range(10)} | {
        (k, k + 2) for k in range(9)
    }
    assert all(0 <= low < high <= 10 for one in stretch.lots for low, high in (one.read_prefixes, one.write_prefixes))


def test_shares_are_recorded_together() -> None:
    """Workers go on while what they have finished is recorded; only the last group is waited for."""
    some = replace(lots([1.0] * 40), record_seconds=0.5)
    for workers, seconds in ((1, 40.5), (2, 20.5), (20, 2.5)):
        found = carry_out(some, replace(FREE, workers=workers))
        assert found.seconds == pytest.approx(seconds)
        assert found.busy_seconds == pytest.approx(40)
    failing = carry_out(some, replace(FREE, workers=20, failure_rate=0.3, retries=100))
    assert failing.completes
    assert failing.seconds > 2.5


# ---------------------------------------------------------------- hosts
def shared(count: int, working: float, **scenario: Any) -> float:
    """Seconds of shares that need all cores of a host for a part of their time."""
    made = lots([1.0] * count)
    made = replace(made, lots=[replace(one, working_seconds=working) for one in made.lots], requests=4)
    return carry_out(made, replace(FREE, **scenario)).seconds


def test_workers_that_share_cores_wait_for_each_other() -> None:
    apart = shared(40, 0.3, workers=4)
    together = [shared(40, working, workers=4, per_host=4, cores=2) for working in (0.0, 0.1, 0.3, 1.0)]
    assert apart == together[0] == pytest.approx(10)
    assert together == sorted(together)
    # 40 shares of a second in which all cores are busy take that long, however many workers there are.
    assert together[-1] == pytest.approx(40, rel=0.02)
    # Neither the cores nor the waits can be beaten.
    assert 40 * 0.3 <= together[2] <= 40
    assert shared(40, 0.3, workers=4, per_host=2, cores=2) < together[2]
    assert shared(40, 0.3, workers=1, per_host=4, cores=2) == pytest.approx(40)


def test_queues_of_one_core_follow_the_theory() -> None:
    """Two customers of a station and a delay have, with demand d and delay z, X = 2 / (z + d (1 + d / (z + d)))."""
    alone, both, three = speeds(3, 1, 0.5, 1)
    assert alone == 1
    assert both == pytest.approx(2 / (0.5 + 0.5 * (1 + 0.5)) / 2)
    assert three < both
    assert speeds(4, 16, 0.0, 2) == [1.0] * 4
    for cores in (1, 2, 8):
        found = speeds(64, 4, 0.2, cores)
        assert found == sorted(found, reverse=True)
        # All cores are busy in the end.
        assert found[-1] * 64 * 0.2 == pytest.approx(1, rel=0.02)


# ---------------------------------------------------------------- failures and stragglers
def test_the_same_seed_gives_the_same_result() -> None:
    scenario = replace(FREE, workers=7, stragglers=Stragglers("lognormal", (0.5,)), failure_rate=0.05, seed=3)
    one, two = (carry_out(lots([1.0] * 200, 5, 5), scenario) for _ in range(2))
    assert one == two
    assert one != carry_out(lots([1.0] * 200, 5, 5), replace(scenario, seed=4))


def test_failures_are_as_frequent_as_given() -> None:
    found = carry_out(lots([1.0] * 2000, gets=10), replace(FREE, workers=50, failure_rate=0.2, retries=100))
    # Each share fails 0.25 times on average before it succeeds.
    assert 400 < found.failures < 600
    assert found.completes
    assert found.gets == pytest.approx(10 * (2000 + found.failures))
    assert found.seconds == pytest.approx((2000 + found.failures) / 50, rel=0.1)


def test_a_failure_costs_what_its_share_had_done() -> None:
    some = Stretch([Lot(1000, 100.0, 1000, 0, 0.0, 0.0, (0, 1), (0, 1))] * 20, 20_000, 1, 0.1, ("source", "target"))
    scenario = replace(FREE, workers=4, failure_rate=1e-3, retries=1000)
    found = carry_out(some, scenario)
    # A share of a thousand tasks fails with a probability of 0.63, at 0.42 of it on average.
    assert 10 < found.failures < 90
    lost = found.busy_seconds - 2000
    assert 0.3 < lost / found.failures / 100 < 0.55
    later = carry_out(some, replace(scenario, startup_seconds=10.0))
    assert later.failures == found.failures
    assert later.busy_seconds == pytest.approx(found.busy_seconds + 10 * found.failures)


def test_a_share_that_always_fails_stops_the_run() -> None:
    found = carry_out(lots([1.0] * 10), replace(FREE, workers=2, failure_rate=1.0, retries=3))
    assert not found.completes
    # Both workers repeat their first share until the first of them has failed four times.
    assert found.failures in (7, 8)
    assert found.seconds == pytest.approx(4.0)


def test_stragglers_have_their_distribution() -> None:
    def mean(text: str) -> float:
        found = carry_out(lots([1.0] * 1000), replace(FREE, stragglers=Stragglers.parse(text)))
        return found.seconds / 1000

    assert mean("slow:0.1:5") == pytest.approx(1.4, rel=0.1)
    assert mean("pareto:4") == pytest.approx(4 / 3, rel=0.1)
    assert mean("lognormal:0.5") == pytest.approx(1.133, rel=0.1)
    assert mean("none") == pytest.approx(1.0)


def test_startup_delays_the_first_share_only() -> None:
    assert carry_out(lots([1.0] * 4), replace(FREE, workers=2, startup_seconds=5.0)).seconds == pytest.approx(7.0)


def test_nothing_to_do() -> None:
    found = carry_out(lots([]), FREE)
    assert (found.seconds, found.shares, found.completes) == (0.0, 0, True)


# ---------------------------------------------------------------- shares
@given(st.integers(1, 10**12), st.integers(1, 10**5), st.floats(0, 1e12), st.integers(1, 5))
def test_shares_are_limited(tasks: int, workers: int, seconds: float, passes: int) -> None:
    size = share_size(tasks, workers, seconds, passes)
    assert -(-tasks // size) <= MAX_SHARES // passes
    # Short passes are cut into two shares for each worker, longer ones into four or more.
    each = 4 if seconds >= 2 * workers else 2
    assert size == 1 or -(-tasks // size) * 2 >= min(each * workers, MAX_SHARES // passes)


def test_a_worker_has_as_many_requests_under_way_as_the_plan_says() -> None:
    grid = Grid.of((4096,), (16,))
    layout, device = Layout.raw("u1", grid), replace(PRESETS["s3"], depth=8)
    worker = Worker(layout, layout, (device, device), 8, 4, 0, 0.0)
    load = TaskCounts(1, 1, Traffic(81, 81, 81, 0), Traffic(80, 80, 80, 0), 80)
    # 11 rounds of reads, 20 of writes, which do not wait for each other.
    assert worker.seconds(load) == pytest.approx(max(11 * 0.03, 20 * (0.03 + 0.05)), rel=0.01)
    disk = replace(device, duplex=False)
    alone = replace(worker, devices=(disk, disk))
    assert alone.seconds(load) == pytest.approx(11 * 0.03 + 20 * 0.08, rel=0.01)
