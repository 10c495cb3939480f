"""`reblock formats`: what can be read and written here, and what each format keeps."""

from __future__ import annotations

import click

from reblock.cli import options
from reblock.cli.output import emit


@click.command(short_help="List the formats: what each can do and keeps, what to install.")
@options.as_json
def command(as_json: bool) -> None:
    """List all formats: endings, whether they can be written, and what they keep of an array.

    It also says whether a target continues after a kill, and which extra to install if a library is missing.
    """
    from reblock import api
    from reblock.render.formats import formats

    documents = [one.to_json() for one in api.formats()]
    emit({"formats": documents} if as_json else formats(documents))
