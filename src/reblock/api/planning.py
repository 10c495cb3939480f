"""Planning: from a caller's request to a job with the best plan, or with an existing plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from reblock.api.array import ArraySource
from reblock.api.devices import AUTO_DEVICE, Devices
from reblock.api.ends import Ends, Request, find_ends
from reblock.api.job import Job
from reblock.api.parts import choose_parts
from reblock.api.recall import remember
from reblock.api.request import AccessGiven
from reblock.api.spreading import DisksGiven
from reblock.geometry.notation import Chunks, Order, Ranges, Shape
from reblock.model import Codec, Device, Plan, Problem
from reblock.planner import AUTO, Decision, choose, price
from reblock.storage.location import Where


def plan(
    source: ArraySource | None = None,
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
) -> Job:
    """Plan a repartition without touching the target: the plan, its exact cost, and the alternatives.

    The source is a stored array, or, for arithmetic alone, `shape`, `dtype` and `source_chunks`. `checksum` appends a
    checksum of each chunk to the target's codec, so that every reader detects damage. The memory budget is 1 GiB by
    default. `access` names the reads that the target is to serve, for chunks, shards and a chunk order that are `auto`.
    `disks` are folders over which the files of a block folder are spread, as `placement` says: `round-robin`, `range`,
    `four-way` or `random`.

    Examples
    --------
    >>> import reblock
    >>> job = reblock.plan(shape=(140, 140, 140), dtype="u2", source_chunks=(35, 35, 35), chunks=(35, 70, 35))
    >>> job.decision.problem.lower_bound_seeks
    96
    """
    request = Request(**locals())
    ends = find_ends(request)
    devices = ends.devices(request)
    problem = ends.problem(request, devices)
    if strategy == AUTO:
        decision = choose_parts(ends.view, problem, objective)
    else:
        decision = choose(problem, strategy=strategy, objective=objective)
    return _job(decision, ends, request, devices)


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
        asked = remember(request, ends.view, ends.location, ends.wanted)
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
    )
