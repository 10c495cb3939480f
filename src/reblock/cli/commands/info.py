"""`reblock info`: show the layout and metadata of an array, or the tree of a dataset."""

from __future__ import annotations

import click

from reblock.cli import options
from reblock.cli.completion import files
from reblock.cli.output import emit


@click.command(
    short_help="Show the layout and the metadata of an array or a dataset.",
    epilog="""
    \b
    Examples:
      reblock info scan.h5::/data
      reblock info era5.zarr
      reblock info era5.zarr::t2m --json
    """,
)
@click.argument("source", metavar="SRC", shell_complete=files)
@options.joined
@options.from_format
@options.allow_external
@options.disks
@options.memory
@options.storage
@options.as_json
def command(
    source: str,
    from_format: str | None,
    allow_external: tuple[str, ...],
    disks: tuple[str, ...],
    memory: str | None,
    concat: str | None,
    stack: str | None,
    as_json: bool,
) -> None:
    """Show the layout and the metadata of an array, or the tree of a file or group with several arrays."""
    from reblock import api
    from reblock.api.joining import joined_source
    from reblock.render import text
    from reblock.render.tree import tree_text

    source = joined_source(source, concat, stack)
    described = api.info(source, format=from_format, allow_external=allow_external, disks=disks, memory=memory)
    shown = tree_text if "arrays" in described else text.info
    emit(described if as_json else shown(described, source))
