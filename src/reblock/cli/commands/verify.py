"""`reblock verify`: whether two arrays are the same."""

from __future__ import annotations

from typing import Any

import click

from reblock.cli import options
from reblock.cli.output import emit


@click.command(
    short_help="Whether two arrays hold the same elements.",
    epilog="""
    \b
    Examples:
      reblock verify scan.h5::/data scan.zarr
      reblock verify scan.zarr part.npy --region 0:100,:,: --transpose 2,1,0
    """,
)
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@options.transpose
@options.region
@options.from_format
@options.allow_external
@options.to_format
@click.option("--memory", metavar="SIZE", help="Memory budget, such as 512MiB, 4GB or bytes.  [default: 256MiB]")
@options.as_json
def command(source: str, target: str, as_json: bool, **wanted: Any) -> int:
    """Compare two arrays element by element, whatever their layouts: exit 0 when equal, 1 when not.

    --region and --transpose are those of the run that made DST from SRC.
    """
    from reblock import api
    from reblock.render import text

    verdict = api.verify(source, target, **options.given(wanted))
    shown = text.verdict(source, target, equal=verdict.equal, differences=verdict.differences)
    emit(verdict.to_json() if as_json else shown)
    return 0 if verdict.equal else 1
