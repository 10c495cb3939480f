"""Plans, and reports of runs, on arrays and on datasets, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reblock.engine.report import Report
from reblock.render import datasets, runs, text

if TYPE_CHECKING:
    from reblock.api.dataset_job import AnyJob
    from reblock.api.reporting import AnyReport


def plan_of(job: AnyJob, notes: Sequence[str], *, as_json: bool, everything: bool = False) -> str | dict[str, Any]:
    """The plan with more notes, for people or as a document."""
    if not as_json:
        return job.explain(everything=everything, notes=notes)
    document = job.to_json()
    document["notes"] += notes
    return document


def text_of(report: AnyReport, job: AnyJob) -> str:
    """The report for people."""
    from reblock.api.job import Job

    if report.array_task is not None:
        return runs.share(report)
    if isinstance(report, Report) and isinstance(job, Job):
        return text.report(report, job.decision)
    if isinstance(report, Report) or isinstance(job, Job):
        raise TypeError("the report of an array belongs to the job of an array")
    return datasets.report(report, job.memory_bytes)


def both_of(report: AnyReport, job: AnyJob) -> dict[str, Any]:
    """The plan and the report as one document; those of each array of a dataset are joined, too."""
    plan, done = job.to_json(every_strategy=False), report.to_json()
    if "arrays" in done:
        done["arrays"] = {name: {**plan["arrays"][name], **one} for name, one in done["arrays"].items()}
    return {**plan, **done}
