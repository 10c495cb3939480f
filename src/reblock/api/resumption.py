"""Resumption: an unfinished run goes on with the options that it was begun with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reblock.api.array import Where
from reblock.api.job import Job, plan, run
from reblock.api.meter import Progress
from reblock.api.recall import recalled
from reblock.api.unfinished import check_known, staging_of
from reblock.engine import Report
from reblock.errors import UnfinishedError


def find_job(target: Where) -> tuple[Job, dict[str, Any]] | None:
    """The job of the unfinished run that makes a target, planned again, and the options that it was run with.

    None where the target is complete and no run was left; UsageError where there is neither.
    """
    staging = staging_of(target)
    with staging.looking() as journal:
        if journal is None:
            check_known(staging, target)
            return None
        request = journal.header.get("request")
    if not request:
        raise UnfinishedError(
            f"{staging.target}: the run does not say how it was begun: repeat the command that began it"
        )
    planning, running = recalled(request)
    return plan(**planning), running


def resume(
    target: Where, *, progress: Progress | None = None, cancelled: Callable[[], bool] = lambda: False
) -> Report | None:
    """Go on with the unfinished run that makes a target, with the options that it was begun with.

    None where the target is complete and no run was left; UsageError where there is neither.
    """
    found = find_job(target)
    return None if found is None else run(found[0], progress=progress, cancelled=cancelled, **found[1])
