"""Reporting: the report of an attempt, and the meter that counts its progress."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from time import perf_counter

from reblock.api.dataset_job import AnyJob
from reblock.api.job import Job
from reblock.api.machine import engine_name
from reblock.api.preparing import jobs_of
from reblock.api.uploads import upload_notes
from reblock.engine import Report, measured_cost, total_times
from reblock.engine.dataset_report import DatasetReport, total_cost
from reblock.model.workspace import UploadingWorkspace
from reblock.runs.attempt import Attempt
from reblock.runs.meter import Meter, Progress
from reblock.runs.work import Work

#: The report of a run on an array, or on a dataset.
AnyReport = Report | DatasetReport


def meter_of(job: AnyJob, progress: Progress) -> Meter:
    """The meter of a job."""
    passes = [
        (prod(one.decision.problem.shape), sweep.source, sweep.target)
        for one in jobs_of(job).values()
        for sweep in one.decision.sweeps
    ]
    return Meter(passes, progress)


def report_of(job: AnyJob, attempt: Attempt, began: float) -> AnyReport:
    """The report of an attempt that began at a time of `perf_counter`."""
    seconds, workspace = perf_counter() - began, attempt.staging.workspace
    uploaded = workspace.uploaded if isinstance(workspace, UploadingWorkspace) else None
    notes = (*job.notes, *attempt.notes, *upload_notes(uploaded, done=True))
    if isinstance(job, Job):
        (work,) = attempt.works
        return replace(_array_report(job, work, seconds, (*notes, *work.notes)), uploaded=uploaded)
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
        notes,
        engine_name(),
        uploaded=uploaded,
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
