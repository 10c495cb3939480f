"""Jobs: a plan with all that is needed to carry it out, and carrying it out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from time import perf_counter
from typing import Any

from reblock.api.array import DEFAULT_MEMORY, Array, open_array
from reblock.api.machine import cores, engine_name, engine_notes, memory_notes, parse_memory
from reblock.api.parts import choose_parts, choose_whole
from reblock.api.recall import remember
from reblock.api.request import (
    abstract_layouts,
    is_contiguous,
    is_strict,
    one_of,
    parse_codec,
    priced_device,
    target_schema,
    wanted_schema,
)
from reblock.engine import Report, View, measured_cost, total_times
from reblock.errors import ChangedError, StorageError, UnevenError, UsageError, option, options
from reblock.geometry.notation import Chunks, Order, Ranges, Shape, parse_order, parse_region, parse_shape
from reblock.model import Codec, Cost, Device, Format, Measurable, Plan, Problem, Schema
from reblock.planner import AUTO, Decision, choose
from reblock.planner import check as check_plan
from reblock.render import text
from reblock.runs.apart import check_apart
from reblock.runs.attempt import Attempt
from reblock.runs.meter import Meter, Progress
from reblock.runs.scratch import kept_folder
from reblock.runs.source import Files, first_change
from reblock.runs.space import foresee
from reblock.runs.staging import Staging
from reblock.runs.unfinished import remove_unfinished
from reblock.storage import registry
from reblock.storage.location import Location, Where
from reblock.units import format_seconds, format_size, parse_size


@dataclass(frozen=True)
class Job:
    """A plan with all that is needed to carry it out."""

    decision: Decision
    """The plan, its cost and the alternatives."""
    source: View | None
    """Where the elements come from, chunks whole; None for a plan made from shapes alone."""
    target: Location | None
    """Where they go; None for a plan without a target."""
    format: Format | None
    """The target's format."""
    schema: Schema
    """What the target will be."""
    request: Mapping[str, Any] | None = None
    """What was asked for; None for a plan that cannot be run."""
    files: Files = field(default_factory=list, repr=False, compare=False)
    """What the files that describe the source looked like when it was opened."""

    def __repr__(self) -> str:
        one = "shapes" if self.source is None else self.source.store.location
        two = "the same format" if self.target is None else str(self.target)
        cost = self.cost
        return (
            f"<reblock Job: {one} → {two}, {self.plan.strategy}, {cost.seeks:,} seeks, "
            f"{format_size(cost.peak_bytes)} of memory, {format_seconds(cost.seconds)}>"
        )

    @property
    def plan(self) -> Plan:
        return self.decision.plan

    @property
    def cost(self) -> Cost:
        """Predicted cost."""
        return self.decision.cost

    @property
    def notes(self) -> tuple[str, ...]:
        """What becomes otherwise than in the source, and what else is worth knowing."""
        advice = (f"memory: {self.decision.advice}",) if self.decision.advice else ()
        if self.source is None:
            return (*self.schema.notes, *advice)
        return (*self.schema.notes, *advice, *memory_notes(self.decision.problem.memory_bytes), *engine_notes())

    def explain(self, *, everything: bool = False, notes: Sequence[str] = ()) -> str:
        """The plan, its cost and the alternatives, for people; and notes, as `check` gives them."""
        return text.explain(self.decision, notes=(*self.notes, *notes), everything=everything)

    def to_json(self, *, every_strategy: bool = True) -> dict[str, Any]:
        """What `reblock plan --json` prints.

        Without `every_strategy` only the alternatives that were priced to choose the plan: the others take time.
        """
        made = self.decision.to_json(every_strategy=every_strategy)
        if self.source is not None:
            region = self.source.region
            made["problem"]["region"] = [list(pair) for pair in zip(region.start, region.stop, strict=True)]
            made["problem"]["transpose"] = list(self.source.axes)
        return {**made, "notes": list(self.notes)}


def plan(
    source: Where | Array | None = None,
    target: Where | None = None,
    *,
    chunks: Chunks | None = None,
    memory: str | int = DEFAULT_MEMORY,
    shards: Chunks | None = None,
    transpose: Order | None = None,
    region: Ranges | None = None,
    codec: str | Codec | None = None,
    checksum: bool = False,
    dtype: Any = None,
    strategy: str = AUTO,
    objective: str = "time",
    device: str | Device = "nvme",
    target_device: str | Device | None = None,
    scratch_device: str | Device | None = None,
    scratch_limit: str | int | None = None,
    scratch_objects: int | None = None,
    memory_model: str = "allocated",
    from_format: str | None = None,
    allow_external: Sequence[Where] = (),
    to_format: str | None = None,
    on_missing: str = "fill",
    shape: Shape | None = None,
    source_chunks: Chunks | None = None,
    source_codec: str | Codec | None = None,
) -> Job:
    """Plan a repartition without touching the target: the plan, its exact cost, and the alternatives.

    The source is a stored array, or — for arithmetic alone — `shape`, `dtype` and `source_chunks`. `checksum` ends the
    target's codec in a checksum of each chunk, so that every reader notices damage.

    Examples
    --------
    >>> import reblock
    >>> job = reblock.plan(shape=(140, 140, 140), dtype="u2", source_chunks=(35, 35, 35), chunks=(35, 70, 35))
    >>> job.decision.problem.lower_bound_seeks
    96
    """
    memory_bytes = parse_memory(memory)
    scratch_bytes = None if scratch_limit is None else parse_size(scratch_limit)
    given = {
        "source": source,
        "target": target,
        "chunks": chunks,
        "shards": shards,
        "transpose": transpose,
        "region": region,
        "codec": codec,
        "checksum": checksum,
        "dtype": dtype,
        "memory": memory_bytes,
        "strategy": strategy,
        "objective": objective,
        "device": device,
        "target_device": target_device,
        "scratch_device": scratch_device,
        "scratch_limit": scratch_bytes,
        "scratch_objects": scratch_objects,
        "memory_model": memory_model,
        "from_format": from_format,
        "allow_external": tuple(allow_external),
        "to_format": to_format,
        "on_missing": on_missing,
    }
    asked = {
        name
        for name, value in (("chunks", chunks), ("shards", shards), ("codec", codec), ("dtype", dtype))
        if value is not None
    }
    wanted_codec = parse_codec(codec)
    if source is None:
        if shape is None or dtype is None or source_chunks is None or chunks is None:
            raise UsageError(f"a plan without a source needs {options('shape', 'dtype', 'source_chunks', 'chunks')}")
        if checksum:
            raise UsageError(
                f"{option('checksum')} is for a target of a known format; without a source, "
                f"name it in {option('codec')}"
            )
        view_layout, schema, layout = abstract_layouts(
            parse_shape(shape), dtype, source_chunks, parse_codec(source_codec), chunks, wanted_codec, transpose, region
        )
        view, kind, where, files, request = None, None, None, [], None
    else:
        if shape is not None or source_chunks is not None or source_codec is not None:
            raise UsageError(f"{options('shape', 'source_chunks', 'source_codec')} describe a source that is not given")
        array = open_array(source, from_format, allow_external)
        files = array.files
        store = array.store.measured() if isinstance(array.store, Measurable) else array.store
        view = View(
            store,
            parse_region(region, store.layout.shape, store.schema.axes),
            parse_order(transpose, store.layout.ndim, store.schema.axes),
            strict=is_strict(on_missing),
        )
        where = None if target is None else registry.locate(target)
        if where is not None and where.is_url:
            raise UsageError(f"{where.path}: only local files can be written in this version, not URLs")
        kind = registry.get(to_format or store.format) if where is None else registry.for_target(where.path, to_format)
        wanted = wanted_schema(view, chunks, shards, wanted_codec, dtype)
        schema = target_schema(kind, wanted, asked, checksum=checksum)
        view_layout, layout = view.layout, kind.layout(schema)
        request = None if where is None else remember(given, view, where, wanted)
        if strategy == AUTO and not is_contiguous(layout):
            # A chunk that is written at once is durable at once; only a strategy asked for by name cuts chunks.
            layout = replace(layout, partial_writes=False)
    problem = Problem(
        view_layout,
        layout,
        memory_bytes,
        priced_device(device),
        None if target_device is None else priced_device(target_device),
        None if scratch_device is None else priced_device(scratch_device),
        scratch_bytes,
        scratch_objects,
        cores=cores(),
        held=one_of("memory model", memory_model, ("allocated", "held")) == "held",
    )

    if strategy == AUTO:
        decision = choose_parts(view, problem, objective)
    else:
        decision = choose(problem, strategy=strategy, objective=objective)
    return Job(decision, view, where, kind, schema, request, files=files)


def run(
    job: Job,
    *,
    overwrite: bool = False,
    scratch: Where | None = None,
    exist_ok: bool = False,
    digest: bool = True,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Report:
    """Carry out a plan: read the source, write the target, say what it took.

    A target that exists is an error, unless `overwrite` replaces it, or `exist_ok` is given and the same job has made
    it before, of a source that has not changed since: then there is nothing to do, and the report's notes say so.

    A run that stops half way, for whatever reason, leaves what it has finished beside the target; the same job goes on
    from there. `progress` is told the bytes read and written so far by all passes, and all that there will be, from any
    thread. `cancelled` is asked now and then from any thread; once it says yes, the run finishes the boxes that are
    being encoded or written and raises KeyboardInterrupt, unless all of them are done.
    """
    began = perf_counter()
    uneven: UnevenError | None = None
    attempt = _prepare(
        job,
        overwrite=overwrite,
        exist_ok=exist_ok,
        scratch=scratch,
        digest=digest,
        progress=progress,
        cancelled=cancelled,
    )
    if attempt.is_done:
        return _report(job, attempt, began)
    with attempt.staging:
        try:
            attempt.run()
        except UnevenError as error:
            uneven = error
    if uneven is not None:
        whole = choose_whole(job.source, job.decision)
        if whole is None:
            uneven.add("with more memory chunks are read whole")
            raise uneven
        # Nothing that another plan has finished is of use.
        remove_unfinished(attempt.staging)
        again = run(
            replace(job, decision=whole),
            overwrite=overwrite,
            exist_ok=exist_ok,
            scratch=scratch,
            digest=digest,
            progress=progress,
            cancelled=cancelled,
        )
        return replace(again, notes=(*again.notes, f"chunks were read whole: {uneven}"))
    return _report(job, attempt, began)


def _report(job: Job, attempt: Attempt, began: float) -> Report:
    measured, problem = attempt.measured, job.decision.problem
    return Report(
        job.plan,
        job.decision.cost,
        measured_cost(measured, problem.source.nbytes, problem.target, job.decision.cost.scratch_bytes),
        perf_counter() - began,
        sum(one.tasks for one in measured),
        sum(one.write_boxes for one in measured),
        sum(one.missing_chunks for one in measured),
        str(job.target),
        resumed_boxes=attempt.resumed,
        digest=attempt.sums,
        notes=(*job.notes, *attempt.notes),
        engine=engine_name(),
        times=total_times(measured),
    )


def check(
    job: Job,
    *,
    overwrite: bool = False,
    exist_ok: bool = False,
    scratch: Where | None = None,
    digest: bool = True,
) -> list[str]:
    """Raise what `run` would raise before it writes anything; else say what is worth knowing. Nothing is written.

    The arguments are those of `run`. Looked at are the target and what is in its place, an unfinished run and who
    holds it, the right to write, the free space, and the plan itself.
    """
    return _prepare(job, overwrite=overwrite, exist_ok=exist_ok, scratch=scratch, digest=digest).look()


def _prepare(
    job: Job,
    *,
    overwrite: bool,
    exist_ok: bool,
    scratch: Where | None,
    digest: bool,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Attempt:
    """An attempt at a job, if nothing that is known before its lock is taken speaks against it."""
    if job.source is None or job.target is None or job.format is None:
        raise UsageError("this plan was made without a source or a target: it can be read, not run")
    problem, location = job.decision.problem, job.source.store.location
    check_plan(job.plan, problem)
    if changed := first_change(job.files):
        raise ChangedError(f"{changed} changed since {location} was opened: open it and plan again")
    view = job.source.as_planned(job.plan)
    if view.layout.units != problem.source.units:
        raise ChangedError(f"the parts of the chunks of {location} changed since it was opened: open it and plan again")
    foresee(job.format, job.target, job.schema)
    staging = Staging(job.target.path, overwrite=overwrite)
    places = [("staging folder", staging.folder)]
    if scratch is not None:
        places.append(("scratch", kept_folder(staging.target, os.fspath(scratch))))
    check_apart(job.source.store, job.target, places)
    meter = None
    if progress is not None:
        traffic = [(sweep.source, sweep.target) for sweep in job.decision.sweeps]
        meter = Meter(traffic, prod(problem.shape), progress)
    attempt = Attempt(
        view,
        job.target,
        job.format,
        job.schema,
        job.plan,
        staging,
        scratch=None if scratch is None else os.fspath(scratch),
        digest=digest,
        meter=meter,
        cancelled=cancelled,
        exist_ok=exist_ok,
        request=_request(job, overwrite=overwrite, scratch=scratch, digest=digest),
        budget_bytes=problem.memory_bytes,
        scratch_bytes=job.cost.scratch_bytes,
    )
    if not staging.is_there and not attempt.is_made():
        staging.check()
    if job.target.inner:
        _alone(job.target)
    return attempt


def _request(job: Job, *, overwrite: bool, scratch: Where | None, digest: bool) -> dict[str, Any]:
    """What was asked of the plan and of the run."""
    made = dict(job.request or {})
    if scratch is not None:
        made["scratch"] = os.path.abspath(os.fspath(scratch))
    return {**made, **({} if digest else {"digest": False}), **({"overwrite": True} if overwrite else {})}


def repartition(
    source: Where | Array,
    target: Where,
    *,
    overwrite: bool = False,
    scratch: Where | None = None,
    exist_ok: bool = False,
    digest: bool = True,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Plan and run in one call; takes what `plan` and `run` take."""
    job = plan(source, target, **options)
    return run(job, overwrite=overwrite, scratch=scratch, exist_ok=exist_ok, digest=digest, progress=progress)


def _alone(target: Location) -> None:
    """A file is replaced as a whole, so it must hold nothing but the array that is replaced."""
    if os.path.lexists(target.path):
        try:
            inside = Location.parse(registry.open(target.path).location).inner
        except StorageError:
            inside = None
        if inside != target.inner:
            raise UsageError(
                f"{target.path} exists and holds more than {target.inner}: writing into an existing file is not "
                "possible yet, choose a new file"
            )
