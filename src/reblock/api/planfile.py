"""Plan files: a plan saved as JSON, to be run later, elsewhere, or again.

::

    {"reblock_plan": 1,
     "request": {"chunks": "64,64,64", "memory": 1073741824, ...},     the options of the plan, without paths
     "source": {...}, "target": {...},                                 the layouts that it fits
     "problem": {...},                                                 all that planning knew of them, for `simulate`
     "plan": {...}}

A plan from shapes alone has no request, and cannot be run. A plan file is untrusted input: its size, depth and numbers
are limited, and the plan must fit the source and the target, write each element once, and stay within its memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

from reblock.api.array import ArraySource
from reblock.api.dataset_job import AnyJob, DatasetJob
from reblock.api.ends import Ends, Request, find_ends
from reblock.api.job import Job
from reblock.api.planning import planned_job
from reblock.api.recall import recalled
from reblock.api.spreading import DisksGiven
from reblock.errors import DiskError, FormatError, InfeasibleError, UsageError
from reblock.geometry.values import integer, members
from reblock.model import Device, Layout, Plan, Problem
from reblock.model.documents import layout_document, read_layout
from reblock.model.execution import MAX_THREADS
from reblock.planner import check
from reblock.storage.checks import parse_json
from reblock.storage.location import Where
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import read_whole

#: Version of plan files.
VERSION = 1
#: The largest plan file in bytes; only irregular grids make a plan long.
MAX_BYTES = 16 << 20
#: Options that are not in a plan file: where the arrays are, and how they are opened.
_PLACES = ("source", "target", "from_format", "to_format", "allow_external", "disks", "placement")
#: Options for datasets, of which no plan is saved.
_DATASETS = ("include", "exclude", "skip_unsupported")
#: Types of the options in a file that are not text.
_KINDS = {"memory": int, "scratch_limit": int, "scratch_objects": int, "checksum": bool, "unsafe_cast": bool}
#: Options that a plan decides, and that are refused beside one.
DECIDED = tuple(
    one.name
    for one in fields(Request)
    if one.name not in (*_PLACES, "shape", "source_chunks", "source_codec", "workers")
)


def save_plan(job: AnyJob, path: Where) -> None:
    """Save the plan of a job, for `load_plan` and `reblock run --plan`; only an older plan file is replaced.

    Examples
    --------
    >>> import os, reblock, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "plan.json")
    >>> job = reblock.plan(shape=(600, 600), dtype="f4", source_chunks=(1, 600), chunks=(600, 1), device="s3")
    >>> reblock.save_plan(job, path)
    >>> reblock.simulate(path, workers=4).makespan_seconds > 1
    True
    """
    if isinstance(job, DatasetJob):
        raise UsageError("a plan file holds the plan of one array: name an array of the dataset after '::'")
    problem = job.decision.problem
    if problem.held:
        raise UsageError("only a plan that counts all allocated memory can be saved")
    source, target = problem.source, problem.target
    if job.source is not None and job.format is not None:
        source, target = job.source.as_planned(job.plan).layout, job.format.layout(job.schema)
    asked = job.request
    document = {
        "reblock_plan": VERSION,
        "request": None if asked is None else {name: one for name, one in asked.items() if name not in _PLACES},
        "source": source.to_json(),
        "target": target.to_json(),
        "problem": {
            "source": layout_document(source.stored_like(problem.source)),
            "target": layout_document(target.stored_like(problem.target)),
            "memory_bytes": problem.memory_bytes,
            "cores": problem.cores,
        },
        "plan": job.plan.to_json(),
    }
    where = os.fspath(path)
    if os.path.lexists(where):
        try:
            known = "reblock_plan" in parse_json(read_whole(LOCAL, where, limit_bytes=MAX_BYTES), where=where)
        except FormatError:
            known = False
        if not known:
            raise UsageError(f"{where} exists and is not a plan file: choose another name")
    LOCAL.replace(where, (json.dumps(document, indent=1) + "\n").encode())


def load_plan(
    path: Where,
    source: ArraySource,
    target: Where,
    *,
    from_format: str | None = None,
    allow_external: tuple[Where, ...] = (),
    to_format: str | None = None,
    disks: DisksGiven | None = None,
    placement: str | None = None,
) -> Job:
    """The job that executes a saved plan on a source and a target; UsageError if it does not fit them.

    Examples
    --------
    >>> import numpy, os, reblock, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "plan.json")
    >>> job = reblock.plan(numpy.arange(6), "memory://load_plan/x.zarr", chunks=4)
    >>> reblock.save_plan(job, path)
    >>> again = reblock.load_plan(path, numpy.arange(6, 12), "memory://load_plan/y.zarr")
    >>> again.plan == job.plan
    True
    """
    with _reading(path) as found:
        plan = Plan.from_json(found["plan"])
        if found["request"] is None:
            raise UsageError("it was made from shapes alone, so it can be simulated, not run")
        request = replace(
            _request(found["request"]),
            source=source,
            target=target,
            from_format=from_format,
            allow_external=allow_external,
            to_format=to_format,
            disks=disks,
            placement=placement,
        )
        ends = find_ends(request)
        _require_fit(plan, ends, found)
        return planned_job(plan, ends, request)


def load_problem(path: Where, devices: tuple[Device, Device]) -> tuple[Plan, Problem]:
    """A saved plan and the problem that it solves, on devices of the source and the target; no array is opened."""
    with _reading(path) as found:
        if found.get("problem") is None:
            raise UsageError("it says too little about its arrays: save it again with this version of reblock")
        known = members(found["problem"], "problem", ("source", "target", "memory_bytes", "cores"))
        problem = Problem(
            read_layout(known["source"], "problem.source"),
            read_layout(known["target"], "problem.target"),
            integer(known["memory_bytes"], "problem.memory_bytes", least=1),
            *devices,
            cores=integer(known["cores"], "problem.cores", least=1, most=MAX_THREADS),
        )
        plan = Plan.from_json(found["plan"])
        check(plan, problem)
        return plan, problem


@contextmanager
def _reading(path: Where) -> Iterator[dict[str, Any]]:
    """The content of a plan file; UsageError that names the file if anything in it is wrong."""
    where = os.fspath(path)
    try:
        data = parse_json(read_whole(LOCAL, where, limit_bytes=MAX_BYTES), where=where)
        data.setdefault("problem", None)
        found = members(data, "a plan file", ("reblock_plan", "request", "source", "target", "problem", "plan"))
        integer(found["reblock_plan"], "reblock_plan", least=VERSION, most=VERSION)
        yield found
    except DiskError:
        raise
    except FormatError as error:
        raise UsageError(f"{where} is not a plan file: {str(error).removeprefix(f'{where}: ')}") from error
    except (UsageError, InfeasibleError) as error:
        raise UsageError(f"the plan in {where} cannot be used: {error.message}") from error


def _request(value: Any) -> Request:
    """The options of a plan, each checked to have the right type."""
    if not isinstance(value, dict):
        raise UsageError("request must be an object")
    strange = [name for name in value if name not in DECIDED or name in _DATASETS]
    if strange:
        raise UsageError(f"request has no {', '.join(map(repr, strange[:3]))}")
    for name, one in value.items():
        kind = _KINDS.get(name, str)
        if type(one) is not kind and not (name.endswith("device") and isinstance(one, dict)):
            raise UsageError(f"request.{name} must be {kind.__name__}, not {str(one)[:60]!r}")
    wanted, _ = recalled(value)
    return Request(**wanted)


def _require_fit(plan: Plan, ends: Ends, found: dict[str, Any]) -> None:
    """Raise UsageError if the plan was made for another source or target."""
    source = ends.source if ends.view is None else ends.view.as_planned(plan).layout
    for name, layout in (("source", source), ("target", ends.target)):
        if differing := list(_differences(layout, found[name])):
            raise UsageError(f"the plan is for another {name}: {'; '.join(differing[:3])}")


def _differences(layout: Layout, before: Any) -> Iterator[str]:
    now = json.loads(json.dumps(layout.to_json()))
    for key in dict.fromkeys([*now, *(before if isinstance(before, dict) else ())]):
        was = before.get(key) if isinstance(before, dict) else None
        if now.get(key) != was:
            yield f"{key} is {json.dumps(now.get(key))[:80]}, the plan has {json.dumps(was)[:80]}"
