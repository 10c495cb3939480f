"""`reblock clean`: give up an unfinished run."""

from __future__ import annotations

import click

from reblock.cli import options
from reblock.cli.completion import files
from reblock.cli.output import emit


@click.command(
    short_help="Remove what an unfinished run has left.",
    epilog="""
    \b
    Examples:
      reblock clean scan.zarr
    """,
)
@click.argument("target", metavar="DST", shell_complete=files)
@options.as_json
def command(target: str, as_json: bool) -> None:
    """Remove what an unfinished run has left of DST: its staging folder and its scratch. DST itself is not touched.

    Refused while the run goes on.
    """
    from reblock import api
    from reblock.render import text

    removed = api.clean(target)
    emit({"removed": removed} if as_json else text.removed(target, removed))
