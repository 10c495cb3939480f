"""Resumption: an unfinished run goes on with the options that it was begun with."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from reblock.api.job import Job, plan, run
from reblock.api.recall import recalled
from reblock.engine import Report
from reblock.errors import UnfinishedError
from reblock.runs.meter import Progress
from reblock.runs.unfinished import check_known, staging_of
from reblock.storage import registry
from reblock.storage.location import Location, Where


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
    given, began = registry.locate(target), Location.parse(planning["target"])
    if os.path.abspath(given.path) == os.path.abspath(began.path):
        # As it was named now: the same place, in fewer words.
        path = given.path.rstrip("/") + ("/" if began.is_folder else "")
        planning["target"] = str(replace(given, path=path, inner=began.inner))
    return plan(**planning), running


def resume(
    target: Where, *, progress: Progress | None = None, cancelled: Callable[[], bool] = lambda: False
) -> Report | None:
    """Go on with the unfinished run that makes a target, with the options that it was begun with.

    None where the target is complete and no run was left; UsageError where there is neither.
    """
    found = find_job(target)
    return None if found is None else run(found[0], progress=progress, cancelled=cancelled, **found[1])
