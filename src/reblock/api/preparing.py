"""Preparing: check a job, adopt the plan of an unfinished run, and make the attempt that will execute it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reblock.api.dataset_job import AnyJob, DatasetJob
from reblock.api.job import Job
from reblock.api.planning import with_plan
from reblock.engine import Crew
from reblock.errors import ChangedError, StorageError, UsageError, option
from reblock.model import Format, Plan
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
from reblock.runs.scratch import kept_folder
from reblock.runs.source import Files, first_change
from reblock.runs.space import foresee
from reblock.runs.staging import Staging
from reblock.runs.work import DatasetWork, TableWork, Work
from reblock.storage import registry
from reblock.storage.location import Location, Where, absolute
from reblock.storage.media.registry import medium_of
from reblock.storage.media.small import exists
from reblock.storage.patches import patches_of

_NOT_RUN = "this plan was made without a source or a target: it can be read, not run"


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

    @property
    def scratch_folder(self) -> str | None:
        """The folder for intermediate arrays, as text."""
        return None if self.scratch is None else os.fspath(self.scratch)


def jobs_of(job: AnyJob) -> Mapping[str, Job]:
    """The jobs of all arrays by name; that of one array alone has no name."""
    return job.jobs if isinstance(job, DatasetJob) else {"": job}


def prepare(
    job: AnyJob, how: RunOptions, cancelled: Callable[[], bool] = lambda: False, *, check: bool = True
) -> tuple[AnyJob, Attempt]:
    """A job and an attempt at it; raises if anything that is known without the lock prevents it.

    Without `check`, an existing target is not looked at. If there is an unfinished run of the same problem, both have
    its plans.
    """
    target, kind = _ends_of(job)
    works = [_work(name, one) for name, one in jobs_of(job).items()]
    staging = _staging_of(job, how, works, target, kind)
    _check_places(job, how, works, staging)
    attempt = _attempt_of(job, how, works, staging, cancelled)
    stored = attempt.find_plans()
    if stored is not None:
        job = _follow(job, stored)
        attempt.follow(stored)
    if not check:
        return job, attempt
    if not staging.is_there and not attempt.is_made():
        staging.check()
        check_bases(staging.target, patches_of(kind))
    if target.inner and not staging.adds and stored is None and not attempt.is_done:
        _check_alone(target)
    return job, attempt


def _ends_of(job: AnyJob) -> tuple[Location, Format]:
    """The target of a job and its format."""
    if job.source is None or job.target is None or job.format is None:
        raise UsageError(_NOT_RUN)
    return job.target, job.format


def _staging_of(job: AnyJob, how: RunOptions, works: Sequence[Work], target: Location, kind: Format) -> Staging:
    """The folder in which the target is built."""
    is_dataset, changes = isinstance(job, DatasetJob), bool(patches_of(kind))
    if changes and how.overwrite:
        raise UsageError(f"{option('overwrite')} replaces an array, and this run only changes {target}: leave it out")
    return Staging(
        target.path,
        overwrite=how.overwrite,
        allow=_allowed(job),
        dataset=is_dataset,
        changes=changes,
        adds=not is_dataset and not changes and is_addition(target, kind, works[0].schema),
        single_file=is_single_file(kind),
        scratch=how.scratch_folder,
    )


def _allowed(job: AnyJob) -> list[str]:
    """Folders in which parts of an array that is replaced may be."""
    asked = job.request or {}
    return [*asked.get("allow_external", ()), *asked.get("disks", ())]


def _check_places(job: AnyJob, how: RunOptions, works: Sequence[Work], staging: Staging) -> None:
    """Raise if the target, or a folder that the run needs, overlaps with a source, or a source has changed."""
    target, kind = _ends_of(job)
    places = [("staging folder", staging.folder)]
    places += [("folder on a disk", folder) for folder in new_folders(kind, target.path)]
    if how.scratch_folder is not None:
        places.append(("scratch", kept_folder(staging.target, how.scratch_folder)))
    for work in works:
        check_apart(work.source.store, target, places)
    if isinstance(job, DatasetJob):
        _check_unchanged(job.files, job.source.location)
        check_apart(job.source, target, places)


def _attempt_of(
    job: AnyJob, how: RunOptions, works: list[Work], staging: Staging, cancelled: Callable[[], bool]
) -> Attempt:
    """The attempt at a job, or at a member's share of it."""
    target, kind = _ends_of(job)
    dataset = None
    if isinstance(job, DatasetJob) and not patches_of(kind):
        dataset = DatasetWork(job.source, job.tree, target.inner, _copied(job.tables), job.memory_bytes)
    attempt = (Attempt if how.member is None else MemberAttempt)(
        works,
        target,
        kind,
        staging,
        scratch=how.scratch_folder,
        digest=how.digest,
        cancelled=cancelled,
        crew=how.crew,
        dataset=dataset,
        exist_ok=how.exist_ok,
        request=_request(job, how),
    )
    if how.member is not None and isinstance(attempt, MemberAttempt):
        attempt.join(how.member)
    return attempt


def _follow(job: AnyJob, plans: Sequence[Plan]) -> AnyJob:
    """The job with the plans of an unfinished run, which must meet what was asked for."""
    target, _ = _ends_of(job)
    for plan in plans:
        require_met(plan, job.demands, target.path)
    pairs = zip(jobs_of(job).items(), plans, strict=True)
    followed = {name: with_plan(one, plan) for (name, one), plan in pairs}
    return job.with_jobs(followed) if isinstance(job, DatasetJob) else followed[""]


def _work(name: str, job: Job) -> Work:
    """The work of one array, after checks."""
    if job.source is None or job.target is None or job.format is None:
        raise UsageError(_NOT_RUN)
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


def _copied(tables: Sequence[TableWork]) -> list[TableWork]:
    """Tables to copy, without results."""
    return [TableWork(one.name, one.ranges) for one in tables]


def _request(job: AnyJob, how: RunOptions) -> dict[str, Any]:
    """The options of the plan and of the run."""
    made = dict(job.request or {})
    if how.scratch is not None:
        made["scratch"] = absolute(os.fspath(how.scratch))
    return {**made, **({} if how.digest else {"digest": False}), **({"overwrite": True} if how.overwrite else {})}


def _check_alone(target: Location) -> None:
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
