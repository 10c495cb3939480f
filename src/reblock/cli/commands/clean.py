"""`reblock clean`: discard an unfinished run."""

from __future__ import annotations

import click

from reblock.cli import options
from reblock.cli.completion import files
from reblock.cli.output import emit


@click.command(
    short_help="Remove the files of an unfinished run.",
    epilog="""
    \b
    Examples:
      reblock clean scan.zarr
    """,
)
@click.argument("target", metavar="DST", shell_complete=files)
@options.storage
@options.as_json
def command(target: str, as_json: bool) -> None:
    """Remove the staging folder and the scratch of an unfinished run. DST itself is not touched.

    Refused while the run is active.
    """
    from reblock import api
    from reblock.render import runs

    removed = api.clean(target)
    emit({"removed": removed} if as_json else runs.removed(target, removed))
