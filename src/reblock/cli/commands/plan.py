"""`reblock plan`: show what a run would do and cost."""

from __future__ import annotations

import shlex
from typing import Any

import click

from reblock.cli import options
from reblock.cli.completion import files, words
from reblock.cli.failure import Failure
from reblock.cli.output import emit
from reblock.errors import DiskError, ReblockError


@click.command(
    short_help="Show what a run would do and cost, and the alternatives.",
    epilog="""
    \b
    Examples:
      reblock plan scan.h5::/data scan.zarr --chunks 256,256,256 --memory 2GiB
      reblock plan scan.zarr --chunks -1,32,32 --objective seeks --all
      reblock plan --shape 140,140,140 --dtype u2 --source-chunks 35,35,35 --chunks 35,70,35
    """,
)
@click.argument("source", metavar="[SRC", required=False, shell_complete=files)
@click.argument("target", metavar="[DST]]", required=False, shell_complete=files)
@options.joined
@options.changes
@options.target
@options.planning
@click.option(
    "--memory-model",
    shell_complete=words("allocated", "held"),
    metavar="allocated|held",
    help="Count all allocated memory, or only elements held, as the papers do.  [default: allocated]",
)
@click.option("--shape", metavar="LENGTHS", help="Plan without an array: its shape.")
@click.option("--source-chunks", metavar="LENGTHS", help="Its chunks.")
@click.option("--source-codec", metavar="CODEC", help="Its codec.  [default: none, any byte run can be read]")
@options.array_task
# A plan writes nothing, but accepts the options of `run`.
@click.option("--scratch", hidden=True)
@click.option("--overwrite", is_flag=True, hidden=True)
@click.option("--exist-ok", is_flag=True, hidden=True)
@click.option("--no-digest", is_flag=True, hidden=True)
@click.option("--quiet", is_flag=True, hidden=True, expose_value=False)
@click.option(
    "--save",
    shell_complete=files,
    metavar="P.json",
    help="Save the plan to a file, for `run --plan` and `simulate`; an older plan file is replaced.",
)
@click.option("--all", "everything", is_flag=True, help="Also show the passes of every alternative.")
@options.storage
@options.as_json
def command(
    source: str | None,
    target: str | None,
    scratch: str | None,
    overwrite: bool,
    exist_ok: bool,
    no_digest: bool,
    array_task: str | None,
    save: str | None,
    everything: bool,
    as_json: bool,
    **wanted: Any,
) -> None:
    """Show the plan that `run` would execute: its cost, and the alternatives with the reasons against them.

    SRC is an array, or is described by --shape, --dtype and --source-chunks. Nothing is written. The notes say whether
    `run` would refuse to write DST.
    """
    if source is None and wanted["shape"] is None:
        raise click.UsageError("Missing argument 'SRC', or --shape with --dtype and --source-chunks")
    from reblock import api
    from reblock.api.joining import joined_source
    from reblock.cli.reports import plan_of

    source = joined_source(source, wanted.pop("concat"), wanted.pop("stack"))
    job = api.plan(source, target, **options.given(wanted))
    if array_task is not None:
        job = api.divide(job, array_task)
    notes: list[str] = []
    if target is not None:
        try:
            notes = api.check(job, overwrite=overwrite, exist_ok=exist_ok, scratch=scratch, digest=not no_digest)
        except (ReblockError, OSError) as error:
            known = DiskError.wrap(error, doing="the system failed on") if isinstance(error, OSError) else error
            notes = [f"run would refuse: {Failure.of(known).message}"]
    if save is not None:
        api.save_plan(job, save)
        how = "simulate" if source is None else f"run {shlex.join([str(source), target or 'DST'])} --plan"
        notes.append(f"saved: reblock {how} {shlex.quote(save)}")
    emit(plan_of(job, notes, as_json=as_json, everything=everything))
