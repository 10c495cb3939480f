"""Running: execute a job, or check that it could be executed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from math import prod
from time import perf_counter
from typing import Any, overload

from reblock.api.array import ArraySource
from reblock.api.dataset_job import AnyJob, DatasetJob
from reblock.api.ends import AnySource
from reblock.api.job import Job
from reblock.api.machine import Load, engine_name
from reblock.api.parts import choose_whole
from reblock.api.planning import plan, plan_array, with_plan
from reblock.engine import Crew, Report, measured_cost, total_times
from reblock.engine.dataset_report import DatasetReport, total_cost
from reblock.errors import ChangedError, StorageError, UnevenError, UsageError, option
from reblock.model.store import is_single_file
from reblock.planner import check as check_plan
from reblock.runs.adding import is_addition
from reblock.runs.adopt import require_met
from reblock.runs.apart import check_apart
from reblock.runs.attempt import Attempt
from reblock.runs.disks import new_folders
from reblock.runs.installing import check_bases
from reblock.runs.member_attempt import MemberAttempt
from reblock.runs.members import ArrayMember
from reblock.runs.meter import Meter, Progress
from reblock.runs.scratch import kept_folder
from reblock.runs.source import Files, first_change
from reblock.runs.space import foresee
from reblock.runs.staging import Staging
from reblock.runs.unfinished import remove_unfinished
from reblock.runs.work import DatasetWork, TableWork, Work
from reblock.storage import registry
from reblock.storage.location import Location, Where, absolute
from reblock.storage.media.registry import medium_of
from reblock.storage.media.small import exists
from reblock.storage.patches import patches_of

#: The report of a run on an array, or on a dataset.
AnyReport = Report | DatasetReport


@dataclass(frozen=True)
class RunOptions:
    """Options of a run that do not change its plan."""

    overwrite: bool = False
    """Whether an existing target is replaced."""
    exist_ok: bool = False
    """Whether a target that the same job has already made is accepted."""
    scratch: Where | None = None
    """Folder for intermediate arrays; None = beside the target."""
    digest: bool = True
    """Whether digest sums are computed."""
    crew: Crew | None = None
    """Other processes that carry out the plan; None = this one does."""
    member: ArrayMember | None = None
    """The member of a job array that this process is; None = it does the whole job."""


@overload
def run(
    job: Job,
    *,
    overwrite: bool = ...,
    scratch: Where | None = ...,
    exist_ok: bool = ...,
    digest: bool = ...,
    progress: Progress | None = ...,
    cancelled: Callable[[], bool] = ...,
    executor: Any = ...,
    workers: int | None = ...,
    cluster: str | None = ...,
    array_task: str | None = ...,
) -> Report: ...
@overload
def run(
    job: DatasetJob,
    *,
    overwrite: bool = ...,
    scratch: Where | None = ...,
    exist_ok: bool = ...,
    digest: bool = ...,
    progress: Progress | None = ...,
    cancelled: Callable[[], bool] = ...,
    executor: Any = ...,
    workers: int | None = ...,
    cluster: str | None = ...,
    array_task: str | None = ...,
) -> DatasetReport: ...
def run(
    job: AnyJob,
    *,
    overwrite: bool = False,
    scratch: Where | None = None,
    exist_ok: bool = False,
    digest: bool = True,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    executor: Any = None,
    workers: int | None = None,
    cluster: str | None = None,
    array_task: str | None = None,
) -> AnyReport:
    """Execute a job: read the source, write the target, report the cost.

    An existing target is an error, unless `overwrite` replaces it, or `exist_ok` is given and the same job has already
    made it from a source that has not changed since: then there is nothing to do, and the report's notes say so.

    A run that stops for any reason leaves its finished boxes beside the target. The same job continues from there, with
    the plan that the unfinished run began with. `progress` is called with the bytes read and written so far by all
    passes, and their total, from any thread. `cancelled` is called now and then from any thread; once it returns true,
    the run finishes the boxes that are being encoded or written and raises KeyboardInterrupt, unless all are done.

    `workers` processes of this machine, a Dask `cluster` (`tcp://HOST:PORT`, or `local:N`) or an `executor` (a Dask
    Client, or any `concurrent.futures.Executor`) carry out the tasks of the plan, each within the memory budget. They
    must see source and target under the same names.

    With `array_task="i/n"`, this process is member i of a job array of n processes that make the target together. It
    does its share of the tasks and returns; the last one publishes. The report's `array_task` says what is left.
    """
    if array_task is not None:
        if executor or workers or cluster:
            raise UsageError(f"{option('array_task')} is one process of many: leave out workers and clusters")
        members = import_module("reblock.api.array_tasks")
        how = RunOptions(overwrite, exist_ok, scratch, digest, member=ArrayMember.parse(array_task))
        done: AnyReport = members.run_member(job, how, progress, cancelled)
        return done
    if not (executor or workers or cluster):
        return _run(job, RunOptions(overwrite, exist_ok, scratch, digest), progress, cancelled)
    # Processes and clusters take long to load.
    crews = import_module("reblock.api.crews")
    with crews.open_crew(executor, workers, cluster) as crew:
        if crew is not None:
            shared = {name: crews.shared_job(one, crew) for name, one in jobs_of(job).items()}
            crews.check_crew(crew, list(shared.values()))
            job = job.with_jobs(shared) if isinstance(job, DatasetJob) else shared[""]
        return _run(job, RunOptions(overwrite, exist_ok, scratch, digest, crew), progress, cancelled)


def _run(job: AnyJob, how: RunOptions, progress: Progress | None, cancelled: Callable[[], bool]) -> AnyReport:
    began = perf_counter()
    uneven: UnevenError | None = None
    job, attempt = prepare(job, how, cancelled)
    if progress is not None:
        attempt.meter = meter_of(job, progress)
    if attempt.is_done:
        return report_of(job, attempt, began)
    load = Load.now()
    with attempt.staging:
        try:
            attempt.run()
        except UnevenError as error:
            uneven = error
    if uneven is None:
        for work, one in zip(attempt.works, jobs_of(job).values(), strict=True):
            if one.devices is not None and not work.resumed:
                one.devices.leave(one.decision, work.measured, load)
        return report_of(job, attempt, began)
    name = "" if attempt.current is None else attempt.current.name
    uneven_job = jobs_of(job)[name]
    whole = choose_whole(uneven_job.source, uneven_job.decision)
    if whole is None:
        uneven.add("with more memory, chunks are read whole")
        raise uneven
    # The finished boxes of another plan cannot be used.
    remove_unfinished(attempt.staging)
    other = replace(uneven_job, decision=whole)
    again = _run(job.with_jobs({name: other}) if isinstance(job, DatasetJob) else other, how, progress, cancelled)
    return replace(again, notes=(*again.notes, f"chunks were read whole: {uneven}"))


def jobs_of(job: AnyJob) -> Mapping[str, Job]:
    """The jobs of all arrays by name; that of one array alone has no name."""
    return job.jobs if isinstance(job, DatasetJob) else {"": job}


@overload
def adopt(job: Job, *, scratch: Where | None = ..., exist_ok: bool = ..., overwrite: bool = ...) -> Job: ...
@overload
def adopt(
    job: DatasetJob, *, scratch: Where | None = ..., exist_ok: bool = ..., overwrite: bool = ...
) -> DatasetJob: ...
def adopt(job: AnyJob, *, scratch: Where | None = None, exist_ok: bool = False, overwrite: bool = False) -> AnyJob:
    """The job as `run` will execute it: with the plan of an unfinished run in its place, if there is one."""
    return prepare(job, RunOptions(overwrite, exist_ok, scratch))[0]


def check(
    job: AnyJob,
    *,
    overwrite: bool = False,
    exist_ok: bool = False,
    scratch: Where | None = None,
    digest: bool = True,
) -> list[str]:
    """Raise what `run` would raise before it writes anything; return notes otherwise. Nothing is written.

    The arguments are those of `run`. The check covers the target and anything in its place, an unfinished run and its
    lock, the permission to write, the free space, and the plan itself.
    """
    return prepare(job, RunOptions(overwrite, exist_ok, scratch, digest))[1].look()


def repartition(
    source: AnySource,
    target: Where,
    *,
    overwrite: bool = False,
    scratch: Where | None = None,
    exist_ok: bool = False,
    digest: bool = True,
    progress: Progress | None = None,
    **options: Any,
) -> AnyReport:
    """Plan and run in one call; takes the arguments of `plan` and `run`."""
    job = plan(source, target, **options)
    return _run(job, RunOptions(overwrite, exist_ok, scratch, digest), progress, lambda: False)


def repartition_array(
    source: ArraySource,
    target: Where,
    *,
    overwrite: bool = False,
    scratch: Where | None = None,
    exist_ok: bool = False,
    digest: bool = True,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """`repartition` for a source that is one array."""
    job = plan_array(source, target, **options)
    return run(job, overwrite=overwrite, scratch=scratch, exist_ok=exist_ok, digest=digest, progress=progress)


def prepare(job: AnyJob, how: RunOptions, cancelled: Callable[[], bool] = lambda: False) -> tuple[AnyJob, Attempt]:
    """A job and an attempt at it; raises if anything that is known without the lock prevents it.

    If there is an unfinished run of the same problem, both have its plans.
    """
    if job.source is None or job.target is None or job.format is None:
        raise UsageError("this plan was made without a source or a target: it can be read, not run")
    works = [_work(name, one) for name, one in jobs_of(job).items()]
    is_dataset = isinstance(job, DatasetJob)
    changes = bool(patches_of(job.format))
    if changes and how.overwrite:
        raise UsageError(
            f"{option('overwrite')} replaces an array, and this run only changes {job.target}: leave it out"
        )
    adds = not is_dataset and not changes and is_addition(job.target, job.format, works[0].schema)
    staging = Staging(
        job.target.path,
        overwrite=how.overwrite,
        allow=_allowed(job),
        dataset=is_dataset,
        changes=changes,
        adds=adds,
        single_file=is_single_file(job.format),
        scratch=None if how.scratch is None else os.fspath(how.scratch),
    )
    places = [("staging folder", staging.folder)]
    places += [("folder on a disk", folder) for folder in new_folders(job.format, job.target.path)]
    if how.scratch is not None:
        places.append(("scratch", kept_folder(staging.target, os.fspath(how.scratch))))
    for work in works:
        check_apart(work.source.store, job.target, places)
    dataset = None
    if isinstance(job, DatasetJob):
        _check_unchanged(job.files, job.source.location)
        check_apart(job.source, job.target, places)
    if isinstance(job, DatasetJob) and not changes:
        dataset = DatasetWork(job.source, job.tree, job.target.inner, copied(job.tables), job.memory_bytes)
    attempt = _attempt_of(
        how.member,
        works,
        job.target,
        job.format,
        staging,
        scratch=None if how.scratch is None else os.fspath(how.scratch),
        digest=how.digest,
        cancelled=cancelled,
        crew=how.crew,
        dataset=dataset,
        exist_ok=how.exist_ok,
        request=_request(job, how),
    )
    stored = attempt.find_plans()
    if stored is not None:
        for plan in stored:
            require_met(plan, job.demands, job.target.path)
        pairs = zip(jobs_of(job).items(), stored, strict=True)
        followed = {name: with_plan(one, plan) for (name, one), plan in pairs}
        job = job.with_jobs(followed) if isinstance(job, DatasetJob) else followed[""]
        attempt.follow(stored)
    if not staging.is_there and not attempt.is_made():
        staging.check()
        if job.format is not None:
            check_bases(staging.target, patches_of(job.format))
    if job.target is not None and job.target.inner and not adds and stored is None and not attempt.is_done:
        _alone(job.target)
    return job, attempt


def _attempt_of(member: ArrayMember | None, *arguments: Any, **more: Any) -> Attempt:
    if member is None:
        return Attempt(*arguments, **more)
    attempt = MemberAttempt(*arguments, **more)
    attempt.join(member)
    return attempt


def _allowed(job: AnyJob) -> list[str]:
    """Folders in which parts of an array that is replaced may be."""
    asked = job.request or {}
    return [*asked.get("allow_external", ()), *asked.get("disks", ())]


def _work(name: str, job: Job) -> Work:
    """The work of one array, after checks."""
    if job.source is None or job.target is None or job.format is None:
        raise UsageError("this plan was made without a source or a target: it can be read, not run")
    problem, location = job.decision.problem, job.source.store.location
    check_plan(job.plan, problem)
    _check_unchanged(job.files, location)
    if job.source.as_planned(job.plan).layout.units != problem.source.units:
        raise ChangedError(f"the parts of the chunks of {location} changed since it was opened: open it and plan again")
    foresee(job.format, job.target, job.schema)
    return Work(name, job.target.inner, job.source, job.schema, job.plan, problem)


def _check_unchanged(files: Files, location: str) -> None:
    if changed := first_change(files):
        raise ChangedError(f"{changed} changed since {location} was opened: open it and plan again")


def copied(tables: Sequence[TableWork]) -> list[TableWork]:
    """Tables to copy, without results."""
    return [TableWork(one.name, one.ranges) for one in tables]


def meter_of(job: AnyJob, progress: Progress) -> Meter:
    """The meter of a job."""
    passes = [
        (prod(one.decision.problem.shape), sweep.source, sweep.target)
        for one in jobs_of(job).values()
        for sweep in one.decision.sweeps
    ]
    return Meter(passes, progress)


def _request(job: AnyJob, how: RunOptions) -> dict[str, Any]:
    """The options of the plan and of the run."""
    made = dict(job.request or {})
    if how.scratch is not None:
        made["scratch"] = absolute(os.fspath(how.scratch))
    return {**made, **({} if how.digest else {"digest": False}), **({"overwrite": True} if how.overwrite else {})}


def report_of(job: AnyJob, attempt: Attempt, began: float) -> AnyReport:
    """The report of an attempt that began at a time of `perf_counter`."""
    seconds = perf_counter() - began
    if isinstance(job, Job):
        (work,) = attempt.works
        return _array_report(job, work, seconds, (*job.notes, *attempt.notes, *work.notes))
    arrays = {
        work.name: _array_report(one, work, sum(part.seconds for part in work.measured), tuple(work.notes))
        for work, one in zip(attempt.works, job.jobs.values(), strict=True)
    }
    problems = {name: one.decision.problem for name, one in job.jobs.items()}
    measured = [
        (one.measured, problems[name].source.nbytes, problems[name].target.nbytes) for name, one in arrays.items()
    ]
    tables = attempt.dataset.tables if attempt.dataset is not None else ()
    return DatasetReport(
        arrays,
        job.cost,
        total_cost(measured),
        seconds,
        str(job.target),
        attempt.sums,
        {one.name: one.sums for one in tables},
        (*job.notes, *attempt.notes),
        engine_name(),
    )


def _array_report(job: Job, work: Work, seconds: float, notes: tuple[str, ...]) -> Report:
    measured, problem = work.measured, job.decision.problem
    return Report(
        job.plan,
        job.decision.cost,
        measured_cost(measured, problem.source.nbytes, problem.target, job.decision.cost.scratch_bytes),
        seconds,
        sum(one.tasks for one in measured),
        sum(one.write_boxes for one in measured),
        sum(one.missing_chunks for one in measured),
        str(job.target),
        resumed_boxes=work.resumed,
        digest=work.sums,
        notes=notes,
        engine=engine_name(),
        times=total_times(measured),
        passes=tuple(measured),
    )


def _alone(target: Location) -> None:
    """Check that a file holds nothing but the array that is replaced, because it is replaced as a whole."""
    if exists(medium_of(target.path), target.path):
        try:
            inside = Location.parse(registry.open(target.path).location).inner
        except StorageError:
            inside = None
        if inside != target.inner:
            raise UsageError(
                f"{target.path} exists and holds more than {target.inner}: choose a name that is new in it, to add an "
                "array, or a new file"
            )
