"""Planning: from a caller's request to a job with the best plan, or with an existing plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from reblock.api.array import ArraySource
from reblock.api.dataset import Dataset
from reblock.api.dataset_changes import dataset_ends
from reblock.api.dataset_ends import DatasetEnds, find_tree
from reblock.api.dataset_job import AnyJob, DatasetJob
from reblock.api.dataset_types import by_name
from reblock.api.devices import AUTO_DEVICE, Devices, Tried
from reblock.api.ends import AnySource, Ends, Request, find_ends
from reblock.api.job import Job
from reblock.api.joining import joined_source
from reblock.api.parts import choose_parts
from reblock.api.recall import remember, remember_dataset
from reblock.api.request import AccessGiven
from reblock.api.spreading import DisksGiven
from reblock.errors import FormatError, InfeasibleError, UsageError, options
from reblock.geometry.notation import Chunks, Order, Ranges, Shape
from reblock.model import Codec, Device, Plan, Problem, TreeStore
from reblock.planner import AUTO, Decision, choose, price
from reblock.storage.location import Where
from reblock.storage.patches import Patch


def plan(
    source: AnySource | Sequence[Where] | None = None,
    target: Where | None = None,
    *,
    chunks: Chunks | None = None,
    memory: str | int | None = None,
    shards: Chunks | None = None,
    chunk_order: Order | None = None,
    access: AccessGiven | None = None,
    transpose: Order | None = None,
    region: Ranges | None = None,
    codec: str | Codec | None = None,
    checksum: bool = False,
    dtype: Any = None,
    unsafe_cast: bool = False,
    fill_value: Any = None,
    strategy: str = AUTO,
    objective: str = "time",
    device: str | Device = AUTO_DEVICE,
    target_device: str | Device | None = None,
    scratch_device: str | Device | None = None,
    scratch_limit: str | int | None = None,
    scratch_objects: int | None = None,
    memory_model: str = "allocated",
    from_format: str | None = None,
    allow_external: Sequence[Where] = (),
    to_format: str | None = None,
    disks: DisksGiven | None = None,
    placement: str | None = None,
    on_missing: str = "fill",
    shape: Shape | None = None,
    source_chunks: Chunks | None = None,
    source_codec: str | Codec | None = None,
    include: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    skip_unsupported: bool = False,
    concat: str | int | None = None,
    stack: str | None = None,
    append_along: str | int | None = None,
    into_region: Ranges | None = None,
    workers: int | None = None,
) -> AnyJob:
    """Plan a repartition without touching the target: the plan, its exact cost, and the alternatives.

    The source is a stored array, or, for arithmetic alone, `shape`, `dtype` and `source_chunks`. If it is a file or a
    group with several arrays, the result is a `DatasetJob` with a plan for each; then axes are given by name, and apply
    to each array that has one. `include` and `exclude` choose arrays by patterns of their names; `skip_unsupported`
    leaves out those that the target's format cannot hold.

    With `dtype`, elements are converted (of a dataset, those of all arrays of numbers that are not coordinates, or by
    name: `t2m=f4,u10=f4`), and the first whose value does not survive stops the run before the target
    appears: out of range, a lost fraction, NaN to integers, an imaginary part; floats may be rounded, but not become
    infinite. `unsafe_cast` converts all of them as numpy does. `fill_value` is that of the target, for elements that
    are never written; `"none"` = without one.

    `checksum` appends a checksum of each chunk to the target's codec, so that every reader detects damage. The memory
    budget is 1 GiB by default; under a limit of SLURM or of a control group it is at most half of that limit, divided
    by the `workers` of this machine that will run the plan. `access` names the reads that the target is to serve, for
    chunks, shards and a chunk order that are `auto`. `disks` are folders over which the files of a block folder are
    spread, as `placement` says: `round-robin`, `range`, `four-way` or `random`.

    With `append_along`, the target is an existing array, and the source is appended to it along that axis; with
    `into_region`, the source replaces that region of it. Both change whole chunks, shards or blocks only, and
    everything else about the target stays as it is.

    With `concat` or `stack`, the source is a pattern or a list of many arrays, as for `reblock.open`.

    Examples
    --------
    >>> import reblock
    >>> job = reblock.plan(shape=(140, 140, 140), dtype="u2", source_chunks=(35, 35, 35), chunks=(35, 70, 35))
    >>> job.decision.problem.lower_bound_seeks
    96
    """
    given = {name: value for name, value in locals().items() if name not in ("concat", "stack")}
    request = Request(**{**given, "source": joined_source(source, concat, stack)})
    return _plan(request)


def _plan(request: Request) -> AnyJob:
    """Plan one array, or all arrays of a dataset."""
    where = request.source, request.from_format, request.allow_external
    if request.include or request.exclude or by_name(request.dtype) or by_name(request.fill_value):
        found = find_tree(*where, require=True)
    elif isinstance(request.source, TreeStore | Dataset):
        found = find_tree(*where)
    else:
        # A file or a group with one array is that array.
        try:
            return _plan_array(request)
        except FormatError:
            found = find_tree(*where)
            if found is None or not (found.tree.arrays or found.tree.tables):
                raise
    if found is None:
        return _plan_array(request)
    return plan_dataset(dataset_ends(request, found), request)


def plan_array(source: ArraySource | None = None, target: Where | None = None, **options: Any) -> Job:
    """`plan` for a source that is one array; takes the same arguments."""
    return _plan_array(Request(source, target, **options))


def _plan_array(request: Request) -> Job:
    ends = find_ends(request)
    if request.include or request.exclude:
        raise UsageError(f"{options('include', 'exclude')} are for datasets, and the source is one array")
    devices = ends.devices(request)
    return _job(_decide(ends, ends.problem(request, devices), request), ends, request, devices)


def _decide(ends: Ends, problem: Problem, request: Request) -> Decision:
    if request.strategy == AUTO:
        return choose_parts(ends.view, problem, request.objective)
    return choose(problem, strategy=request.strategy, objective=request.objective)


def plan_dataset(ends: DatasetEnds, request: Request) -> DatasetJob:
    """Plan each array with the whole budget, because they are written one after the other."""
    tried: Tried = {}
    # Codecs are tried on the largest arrays.
    names = sorted(ends.parts, key=lambda one: -ends.parts[one].target.nbytes)
    devices = {name: ends.parts[name].devices(ends.requests[name], tried) for name in names}
    problems = {name: ends.parts[name].problem(ends.requests[name], devices[name]) for name in names}
    # Many variables of a dataset are the same problem, but for the stored sizes of their chunks.
    alike: dict[Problem, list[Problem]] = {}
    for problem in problems.values():
        alike.setdefault(_unmeasured(problem), []).append(problem)
    known: dict[Problem, Decision] = {}
    jobs: dict[str, Job] = {}
    for name in names:
        part, key = ends.parts[name], _unmeasured(problems[name])
        decision = known.get(key)
        if decision is None:
            with named(name):
                decision = _decide(part, _with_largest(alike[key]), ends.requests[name])
            if not decision.plan.divided:
                known[key] = decision
        jobs[name] = _array_job(decision, part, request, devices[name])
    return _dataset_job({name: jobs[name] for name in ends.parts}, ends, request)


def _unmeasured(problem: Problem) -> Problem:
    """The problem without what is known of stored sizes."""
    return replace(problem, source=replace(problem.source, stored_bytes=()))


def _with_largest(problems: Sequence[Problem]) -> Problem:
    """One of several problems that are alike, with the largest stored sizes of any: its plan fits all of them."""
    known = [problem.source.stored_bytes for problem in problems]
    if not all(known):
        return _unmeasured(problems[0])
    largest = tuple(map(max, zip_longest(*known, fillvalue=0)))
    return replace(problems[0], source=replace(problems[0].source, stored_bytes=largest))


def planned_dataset(plans: Mapping[str, Plan], ends: DatasetEnds, request: Request) -> DatasetJob:
    """The job that executes existing plans."""
    jobs, tried = {}, Tried()
    for name, part in ends.parts.items():
        asked = ends.requests[name]
        devices = part.devices(asked, tried)
        problem = problem_for(plans[name], part, part.problem(asked, devices))
        jobs[name] = _array_job(price(plans[name], problem, objective=request.objective), part, request, devices)
    return _dataset_job(jobs, ends, request)


@contextmanager
def named(name: str) -> Iterator[None]:
    """Name the array of a dataset in errors."""
    try:
        yield
    except (InfeasibleError, UsageError) as error:
        error.args = (f"{name}: {error.message}", *error.args[1:])
        raise


def _array_job(decision: Decision, ends: Ends, request: Request, devices: Devices) -> Job:
    """The job of one array of a dataset; what was asked is kept with the dataset."""
    return Job(
        decision,
        ends.view,
        ends.location,
        ends.format,
        ends.schema,
        demands=request.demands,
        files=ends.files,
        devices=devices,
        workers=request.workers,
    )


def _dataset_job(jobs: Mapping[str, Job], ends: DatasetEnds, request: Request) -> DatasetJob:
    return DatasetJob(
        jobs,
        ends.source,
        ends.tree,
        ends.tables,
        ends.location,
        ends.format,
        request.memory_bytes,
        remember_dataset(request, ends.source, ends.location),
        demands=request.demands,
        files=ends.files,
    )


def planned_job(plan: Plan, ends: Ends, request: Request) -> Job:
    """The job that executes an existing plan."""
    devices = ends.devices(request)
    problem = problem_for(plan, ends, ends.problem(request, devices))
    return _job(price(plan, problem, objective=request.objective), ends, request, devices)


def problem_for(plan: Plan, ends: Ends, problem: Problem) -> Problem:
    """The problem that a given plan solves: chunks whole or in parts, and any writes that the target allows."""
    source = ends.source if ends.view is None else ends.view.as_planned(plan).layout
    return replace(problem, source=source.stored_like(problem.source), target=ends.target.stored_like(problem.target))


def with_plan(job: Job, plan: Plan) -> Job:
    """The same job with another plan."""
    if job.plan == plan or job.source is None or job.format is None:
        return job
    before = job.decision.problem
    problem = replace(
        before,
        source=job.source.as_planned(plan).layout.stored_like(before.source),
        target=job.format.layout(job.schema).stored_like(before.target),
        memory_bytes=max(before.memory_bytes, plan.memory_bytes),
    )
    return replace(job, decision=price(plan, problem, objective=job.decision.objective))


def _job(decision: Decision, ends: Ends, request: Request, devices: Devices) -> Job:
    asked: Mapping[str, Any] | None = None
    if ends.view is not None:
        change = ends.format.change if isinstance(ends.format, Patch) else None
        asked = remember(request, ends.view, ends.location, ends.wanted, change)
    return Job(
        decision,
        ends.view,
        ends.location,
        ends.format,
        ends.schema,
        asked,
        demands=request.demands,
        files=ends.files,
        devices=devices,
        workers=request.workers,
    )
