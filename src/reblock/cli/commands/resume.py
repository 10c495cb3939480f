"""`reblock resume`: continue an unfinished run."""

from __future__ import annotations

import click

from reblock.cli import options
from reblock.cli.interrupt import stoppable
from reblock.cli.output import emit
from reblock.cli.progress import moved_bytes, progress


@click.command(
    short_help="Continue an unfinished run with its original options.",
    epilog="""
    \b
    Examples:
      reblock resume scan.zarr
    """,
)
@click.argument("target", metavar="DST")
@options.quiet
@options.storage
@options.no_lock
@options.as_json
def command(target: str, quiet: bool, as_json: bool) -> None:
    """Continue the unfinished run that makes DST, with its original options.

    `reblock status DST` shows them. If DST is complete, there is nothing to do.
    """
    from reblock import api
    from reblock.cli.reports import both_of, text_of
    from reblock.render import runs

    found = api.find_job(target)
    if found is None:
        if as_json or not quiet:
            emit({"unfinished": None} if as_json else runs.unfinished(target, None))
        return
    job, running = found
    with stoppable(quiet=quiet) as cancelled:
        with progress(target, moved_bytes(job.cost), quiet=quiet) as tell:
            report = api.run(job, progress=tell, cancelled=cancelled, **running)
        if as_json:
            emit(both_of(report, job))
        elif not quiet:
            emit(text_of(report, job))
