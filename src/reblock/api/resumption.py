"""Resumption: continue an unfinished run with its own plan and its original options."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from reblock.api.dataset_changes import dataset_ends
from reblock.api.dataset_job import AnyJob
from reblock.api.ends import Request, find_ends
from reblock.api.planning import planned_dataset, planned_job
from reblock.api.recall import recalled
from reblock.api.reporting import AnyReport
from reblock.api.running import run
from reblock.errors import UnfinishedError, UsageError, command
from reblock.model import Plan
from reblock.runs.adopt import Demands
from reblock.runs.identity import began_with_object
from reblock.runs.meter import Progress
from reblock.runs.unfinished import check_known, complete_change, place_of, staging_of
from reblock.storage import registry
from reblock.storage.location import Location, Where


def find_job(target: Where) -> tuple[AnyJob, dict[str, Any]] | None:
    """The job of the unfinished run that makes a target, with that run's plan, and its options.

    None if the target is complete and no run is left; UsageError if there is neither. A change that was committed is
    completed at once: that needs neither its source nor a plan.
    """
    staging = staging_of(target)
    complete_change(staging)
    with staging.looking() as journal:
        if journal is None:
            check_known(staging, target)
            return None
        asked, documents = journal.header.get("request"), journal.header.get("plans")
        is_object = began_with_object(journal.header)
        is_dataset = "" not in journal.header["problem"]["arrays"]
        names = [one["name"] for one in journal.header["arrays"]] if is_dataset else None
    if is_object:
        raise UnfinishedError(
            f"{staging.target}: the run read an object of a program, which cannot be opened again: "
            f"{command('clean', str(staging.target))} removes it"
        )
    if not asked or not documents:
        raise UnfinishedError(
            f"{staging.target}: the options of the run are not recorded: repeat the command that began it"
        )
    planning, running = recalled(asked)
    # The target's current name and place, because its folder may have been moved.
    given, began = place_of(target), Location.parse(planning["target"])
    path = given.path.rstrip("/") + ("/" if began.is_folder else "")
    request = Request(**{**planning, "target": str(replace(given, path=path, inner=began.inner))})
    try:
        job = _job(request, [Plan.from_json(one) for one in documents], names)
    except UsageError as error:
        error.add("the plan of the unfinished run no longer fits its source or its target")
        raise
    return replace(job, demands=Demands()), running


def _job(request: Request, plans: list[Plan], names: list[str] | None) -> AnyJob:
    """The job of a request and the plans that were made for it; `names` are those of the arrays of a dataset."""
    if names is None:
        return planned_job(plans[0], find_ends(request), request)
    allow = tuple(os.fspath(folder) for folder in request.allow_external)
    source = registry.open_tree(str(request.source), request.from_format, allow)
    ends = dataset_ends(request, source)
    if list(ends.parts) != names or len(plans) != len(names):
        raise UsageError(f"{source.location} has other arrays than when the run began")
    return planned_dataset(dict(zip(names, plans, strict=True)), ends, request)


def resume(
    target: Where, *, progress: Progress | None = None, cancelled: Callable[[], bool] = lambda: False
) -> AnyReport | None:
    """Continue the unfinished run that makes a target, with its own plan and its original options.

    Returns None if the target is complete and no run is left; raises UsageError if there is neither.

    Examples
    --------
    >>> import os, numpy, reblock, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> source, target = os.path.join(folder, "x.npy"), os.path.join(folder, "x.zarr")
    >>> numpy.save(source, numpy.arange(6))
    >>> report = reblock.repartition(source, target, chunks=4)
    >>> reblock.resume(target) is None
    True
    """
    found = find_job(target)
    return None if found is None else run(found[0], progress=progress, cancelled=cancelled, **found[1])
