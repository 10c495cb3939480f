"""Running: execute a job, or check that it could be executed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from time import perf_counter
from typing import Any, overload

from reblock.api.array import ArraySource
from reblock.api.dataset_job import AnyJob, DatasetJob
from reblock.api.ends import AnySource
from reblock.api.job import Job
from reblock.api.machine import Load
from reblock.api.parts import choose_whole
from reblock.api.planning import plan, plan_array
from reblock.api.preparing import RunOptions, jobs_of, prepare
from reblock.api.reporting import AnyReport, meter_of, report_of
from reblock.engine import Report
from reblock.engine.dataset_report import DatasetReport
from reblock.errors import UnevenError, UsageError, option
from reblock.model.store import is_single_file
from reblock.runs.cancelling import cancellable
from reblock.runs.members import ArrayMember
from reblock.runs.meter import Progress
from reblock.runs.unfinished import remove_unfinished
from reblock.storage.location import Where


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

    Examples
    --------
    >>> import numpy, reblock
    >>> job = reblock.plan(numpy.arange(6), "memory://run/x.zarr", chunks=4)
    >>> report = reblock.run(job)
    >>> report.write_boxes, report.measured.seeks == report.predicted.seeks
    (2, True)
    """
    if array_task is not None:
        if not (executor is None and workers is None and cluster is None):
            raise UsageError(f"{option('array_task')} is one process of many: leave out workers and clusters")
        members = import_module("reblock.api.array_tasks")
        how = RunOptions(overwrite, exist_ok, scratch, digest, member=ArrayMember.parse(array_task))
        done: AnyReport = members.run_member(job, how, progress, cancelled)
        return done
    if executor is None and workers is None and cluster is None:
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
    with cancellable(cancelled):
        return _run_all(job, how, progress, cancelled)


def _run_all(job: AnyJob, how: RunOptions, progress: Progress | None, cancelled: Callable[[], bool]) -> AnyReport:
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


@overload
def adopt(
    job: Job, *, scratch: Where | None = ..., exist_ok: bool = ..., overwrite: bool = ..., array_task: str | None = ...
) -> Job: ...
@overload
def adopt(
    job: DatasetJob,
    *,
    scratch: Where | None = ...,
    exist_ok: bool = ...,
    overwrite: bool = ...,
    array_task: str | None = ...,
) -> DatasetJob: ...
def adopt(
    job: AnyJob,
    *,
    scratch: Where | None = None,
    exist_ok: bool = False,
    overwrite: bool = False,
    array_task: str | None = None,
) -> AnyJob:
    """The job as `run` will execute it: with the plan of an unfinished run in its place, if there is one."""
    if array_task is None:
        return prepare(job, RunOptions(overwrite, exist_ok, scratch))[0]
    # What a member finds in the target's place may take as long to read as its share: that is for `run`.
    how = RunOptions(overwrite, exist_ok=True, scratch=scratch, member=ArrayMember.parse(array_task))
    return prepare(job, how, check=False)[0]


def check(
    job: AnyJob,
    *,
    overwrite: bool = False,
    exist_ok: bool = False,
    scratch: Where | None = None,
    digest: bool = True,
    workers: int | None = None,
    cluster: str | None = None,
    array_task: str | None = None,
) -> list[str]:
    """Raise what `run` would raise before it writes anything; return notes otherwise. Nothing is written.

    The arguments are those of `run`. The check covers the target and anything in its place, an unfinished run and its
    lock, the permission to write, the free space, and the plan itself. No worker and no cluster is used.

    Examples
    --------
    >>> import numpy, reblock
    >>> job = reblock.plan(numpy.arange(6), "memory://check/x.zarr", chunks=4)
    >>> notes = reblock.check(job)
    >>> report = reblock.run(job)
    >>> reblock.check(job)
    Traceback (most recent call last):
        ...
    reblock.errors.TargetExistsError: memory://check/x.zarr exists: choose another name, ...
    """
    several = {"workers": workers, "cluster": cluster, "array_task": array_task}
    _check_shared(job, [name for name, one in several.items() if one is not None])
    return prepare(job, RunOptions(overwrite, exist_ok, scratch, digest))[1].look()


def _check_shared(job: AnyJob, given: list[str]) -> None:
    """UsageError if the options by which processes share a run contradict each other, or the target."""
    if len(given) > 1:
        raise UsageError(f"{' and '.join(map(option, given))}: give one of them")
    if given and isinstance(job, Job) and job.format is not None and is_single_file(job.format):
        layout = job.format.layout(job.schema)
        # Encoded pieces of a file have no fixed places.
        if layout.encoded and not layout.partial_writes:
            raise UsageError(
                f"only one process can write {job.format.name} with this codec: leave out {option(given[0])}, or write "
                f"zarr, or {option('codec', 'none')}"
            )


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
    """Plan and run in one call; takes the arguments of `plan`, and those of `run` but for other processes.

    Examples
    --------
    >>> import numpy, reblock
    >>> report = reblock.repartition(numpy.arange(6), "memory://repartition/x.zarr", chunks=4, codec="gzip:4")
    >>> reblock.open("memory://repartition/x.zarr")[2:5]
    array([2, 3, 4])
    """
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
