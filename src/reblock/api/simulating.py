"""Simulating: predict time, requests and price of a plan, or of a plan file, on many workers."""

from __future__ import annotations

from dataclasses import replace

from reblock.api.dataset_job import AnyJob, DatasetJob
from reblock.api.devices import find_device
from reblock.api.job import Job
from reblock.api.planfile import load_problem
from reblock.cost.codecs import codec_rate
from reblock.errors import UsageError, option
from reblock.model import Device, Plan, Problem
from reblock.planner import share
from reblock.simulation import Outcome, RequestPrices, Scenario, Stragglers
from reblock.simulation import simulate as simulate_plan
from reblock.storage.location import Where
from reblock.units import parse_size

#: The largest compression ratio that can be assumed.
MAX_RATIO = 1e6


def simulate(
    plan: AnyJob | Where,
    *,
    workers: int = 1,
    device: str | Device = "s3",
    target_device: str | Device | None = None,
    compression: float | None = None,
    stragglers: str = "none",
    failure_rate: float = 0.0,
    retries: int = 20,
    startup: float = 0.0,
    seed: int = 0,
    gets_per_second: float = 5500.0,
    puts_per_second: float = 3500.0,
    prefix_axes: int = 0,
    bandwidth: str | int | None = None,
    per_host: int = 1,
    get_price: float = 0.0004,
    put_price: float = 0.005,
    egress_price: float = 0.0,
) -> Outcome:
    """Predict makespan, requests per second, hot spots, egress and price of a plan on many workers.

    `plan` is a job from `reblock.plan`, or a file from `reblock.save_plan`. Nothing is read or written but that file.
    Tasks are cut for the workers and submitted in shares as `reblock.run` does it. Each worker has the `device` to
    itself; `bandwidth` is the most bytes in a second that all of them move together. `per_host` of them share the cores
    of one machine, as many as the plan was made for. `compression` is the size of the elements divided by the size of
    what is stored, if the plan does not know it.

    `stragglers` makes shares take longer at random: `lognormal:SIGMA`, `pareto:ALPHA` or `slow:PART:FACTOR`. A task
    kills its worker with a probability of `failure_rate`; its share is then done again, up to `retries` times. The same
    `seed` gives the same result.

    A prefix of the store serves `gets_per_second` and `puts_per_second`, 0 = any number. With `prefix_axes=0` all
    chunks of an array have one prefix, with 1 those of the same first index. Prices are in dollars: of a thousand
    requests, and of a gigabyte (10⁹ bytes) that is read.

    Examples
    --------
    >>> import reblock
    >>> sides = {"source_chunks": (500, 2000), "chunks": (1000, 1000)}
    >>> job = reblock.plan(shape=(10**6, 10**6), dtype="f4", device="s3", **sides)
    >>> one, many = (reblock.simulate(job, workers=workers, prefix_axes=1) for workers in (1, 100))
    >>> one.makespan_seconds > 50 * many.makespan_seconds
    True
    """
    devices = find_device(device), find_device(device if target_device is None else target_device)
    scenario = Scenario(
        workers=workers,
        seed=seed,
        stragglers=Stragglers.parse(stragglers),
        failure_rate=failure_rate,
        retries=retries,
        startup_seconds=startup,
        gets_per_second=gets_per_second,
        puts_per_second=puts_per_second,
        prefix_axes=prefix_axes,
        bytes_per_second=0.0 if bandwidth is None else float(parse_size(bandwidth)),
        per_host=per_host,
        prices=RequestPrices(get_price, put_price, egress_price),
    )
    made, problem = _problem(plan, devices)
    scenario = replace(scenario, cores=problem.cores)
    # As `run` gives threads to the workers of one machine.
    problem = replace(problem, cores=max(problem.cores // per_host, 1))
    problem = _stored(problem, compression)
    _check_codecs(problem)
    return simulate_plan(share(made, problem, workers), problem, scenario)


def _problem(plan: AnyJob | Where, devices: tuple[Device, Device]) -> tuple[Plan, Problem]:
    if isinstance(plan, DatasetJob):
        raise UsageError("only the plan of one array can be simulated: name an array of the dataset after '::'")
    if not isinstance(plan, Job):
        return load_problem(plan, devices)
    first, last = devices
    return plan.plan, replace(plan.decision.problem, device=first, target_device=last, scratch_device=None)


def _stored(problem: Problem, compression: float | None) -> Problem:
    """The problem with an assumed size of what is stored."""
    if compression is None:
        return problem
    if not 1 / MAX_RATIO <= compression <= MAX_RATIO:
        raise UsageError(f"{option('compression', compression)}: use a ratio above 0, such as 2.5")
    source, target = (
        replace(layout, stored_part=1 / compression) if layout.encoded else layout
        for layout in (problem.source, problem.target)
    )
    return replace(problem, source=source, target=target)


def _check_codecs(problem: Problem) -> None:
    """UsageError if a plan file names a codec that cannot be priced."""
    for layout in (problem.source, problem.target):
        try:
            codec_rate({}, layout.codec, encoding=True)
        except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
            raise UsageError(f"{layout.codec[:60]!r} is not a codec: {error}") from None
