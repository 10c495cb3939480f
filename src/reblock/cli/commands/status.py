"""`reblock status`: show the state of an unfinished run."""

from __future__ import annotations

import click

from reblock.cli import options
from reblock.cli.completion import files
from reblock.cli.output import emit


@click.command(
    short_help="Show the state of an unfinished run.",
    epilog="""
    \b
    Examples:
      reblock status scan.zarr
      reblock status scan.zarr --json
    """,
)
@click.argument("target", metavar="DST", shell_complete=files)
@options.storage
@options.as_json
def command(target: str, as_json: bool) -> None:
    """Show how far the run that makes DST is, its options, and whether it is active.

    Nothing is changed. `reblock resume DST` continues the run, `reblock clean DST` discards it.
    """
    from reblock import api
    from reblock.render import runs

    found = api.status(target)
    if as_json:
        emit({"unfinished": None if found is None else found.to_json()})
    else:
        emit(runs.unfinished(target, None if found is None else found.to_json()))
