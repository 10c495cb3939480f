"""`reblock run`: rewrite an array."""

from __future__ import annotations

import os
from typing import Any

import click

from reblock.cli import options
from reblock.cli.completion import files, folders
from reblock.cli.interrupt import stoppable
from reblock.cli.output import emit
from reblock.cli.progress import moved_bytes, progress

_NOTHING = "a dry run: nothing was written"


@click.command(
    short_help="Rewrite an array: other chunks, format, axes, region, codec or dtype.",
    epilog="""
    \b
    Examples:
      reblock run scan.h5::/data scan.zarr --chunks 256,256,256 --memory 2GiB
      reblock run scan.zarr slices/ --chunks 1,-1,-1
      reblock run 'era5_*.nc::t2m' t2m.zarr --concat time --chunks time=-1,latitude=32,longitude=32
      reblock run 'slices/*.tif' scan.zarr --stack z
      reblock run scan.zarr part.npy --region 0:100,:,: --transpose 2,1,0
      reblock run era5.nc era5.zarr --chunks time=-1,latitude=32,longitude=32
      reblock run may.nc::t2m t2m.zarr --append-along time
      reblock run repaired.npy scan.zarr --into-region 0:64,:,:
    """,
)
@click.argument("source", metavar="SRC", shell_complete=files)
@click.argument("target", metavar="DST", shell_complete=files)
@options.joined
@options.changes
@options.target
@options.planning
@click.option(
    "--plan",
    "plan_file",
    shell_complete=files,
    metavar="P.json",
    help="Execute a plan that `plan --save` has made for such arrays; it decides chunks, memory and all of planning.",
)
@click.option(
    "--scratch",
    shell_complete=folders,
    metavar="DIR",
    help="Folder for intermediate arrays of plans with several passes.  [default: beside DST]",
)
@options.overwrite
@click.option(
    "--exist-ok",
    is_flag=True,
    help="Succeed if the same job has already made DST; not for .npy, which keeps no record.",
)
@click.option(
    "--no-digest", is_flag=True, help="Compute no digest of the elements; a resumed run then trusts its journal."
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    metavar="N",
    help="Let N processes of this machine do the work, each within the memory budget.  [default: threads of one "
    "process]",
)
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Let the workers of a Dask cluster do the work: tcp://HOST:PORT, tls://HOST:PORT, or local:N.",
)
@options.array_task
@click.option("--dry-run", is_flag=True, help="Make every check of a run, show the plan, and write nothing.")
@options.quiet
@options.storage
@options.no_lock
@options.as_json
def command(
    source: str,
    target: str,
    plan_file: str | None,
    scratch: str | None,
    overwrite: bool,
    exist_ok: bool,
    no_digest: bool,
    workers: int | None,
    cluster: str | None,
    array_task: str | None,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    **wanted: Any,
) -> None:
    """Rewrite the array SRC as DST: other chunks, format, axis order, region, codec or dtype.

    SRC may also be a dataset, a file or group with many arrays: each named axis of --chunks, --shards and --region
    applies wherever it occurs, and all arrays share one budget, one journal and one report.

    With --append-along or --into-region, DST is an existing zarr array or block folder, and a part of it is written. It
    stays as it is until that part is complete.

    DST appears only when it is complete. SRC is never written. The same command again, or `reblock resume DST`, resumes
    a run that was interrupted, killed or failed.
    """
    from reblock import api
    from reblock.api.joining import joined_source
    from reblock.api.machine import local_workers
    from reblock.cli.reports import both_of, plan_of, text_of

    if cluster is not None and "://" not in source:
        # Workers may have begun in other folders.
        source = os.path.join(os.getcwd(), source)
    source = joined_source(source, wanted.pop("concat"), wanted.pop("stack"))
    given = options.given(wanted)
    if plan_file is None:
        job = api.plan(source, target, **given, workers=local_workers(workers, cluster))
    else:
        job = api.load_plan(plan_file, source, target, **options.beside_plan(given))
    if array_task is not None:
        job = api.divide(job, array_task, replan=plan_file is None)
    how: dict[str, Any] = {"overwrite": overwrite, "exist_ok": exist_ok, "scratch": scratch, "digest": not no_digest}
    if dry_run:
        notes = [*api.check(job, **how, workers=workers, cluster=cluster, array_task=array_task), _NOTHING]
        if as_json or not quiet:
            emit(plan_of(job, notes, as_json=as_json))
        return
    job = api.adopt(job, scratch=scratch, exist_ok=exist_ok, overwrite=overwrite, array_task=array_task)
    with stoppable(quiet=quiet) as cancelled:
        with progress(target, moved_bytes(job.cost), quiet=quiet) as tell:
            how |= {"workers": workers, "cluster": cluster, "array_task": array_task}
            report = api.run(job, **how, progress=tell, cancelled=cancelled)
        # Still inside `stoppable`: the run is done, so it is reported and the exit code is 0.
        if as_json or not quiet:
            emit(both_of(report, job) if as_json else text_of(report, job))
