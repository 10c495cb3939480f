"""`reblock verify`: compare two arrays."""

from __future__ import annotations

from typing import Any

import click

from reblock.cli import options
from reblock.cli.completion import files, words
from reblock.cli.failure import exits_with
from reblock.cli.output import emit


@click.command(
    short_help="Compare the elements of two arrays.",
    epilog="""
    \b
    Examples:
      reblock verify scan.h5::/data scan.zarr
      reblock verify scan.h5::/data scan.zarr --reader library
      reblock verify scan.zarr part.npy --region 0:100,:,: --transpose 2,1,0
      reblock verify ocean.h5 ocean.zarr --exclude '*_bounds'
      reblock verify may.nc::t2m t2m.zarr --append-along time
    """,
)
@click.argument("source", metavar="SRC", shell_complete=files)
@click.argument("target", metavar="DST", shell_complete=files)
@options.joined
@click.option(
    "--append-along",
    metavar="AXIS",
    help="Compare SRC with the end of DST along this axis (number or name), where `run` has appended it.",
)
@click.option(
    "--into-region",
    metavar="RANGES",
    help="Compare SRC with this region of DST, such as 0:64,:,: or time=0:24.",
)
@options.transpose
@options.region
@options.from_format
@options.allow_external
@options.disks
@options.to_format
@options.choosing
@options.memory_of("256MiB")
@click.option(
    "--reader",
    shell_complete=words("reblock", "library"),
    metavar="reblock|library",
    help="library: h5py, zarr-python or numpy read both arrays instead of reblock's own code. The library opens the "
    "files in this process, without protection: do not use it on files that you do not trust.  [default: reblock]",
)
@click.option("--dtype", metavar="DTYPE", help="Convert SRC's elements as `run --dtype` does before they are compared.")
@click.option(
    "--unsafe-cast", is_flag=True, help="With --dtype, as numpy does; otherwise a value that does not fit differs."
)
@options.storage
@options.as_json
def command(source: str, target: str, as_json: bool, **wanted: Any) -> int:
    """Compare two arrays element by element, whatever their layouts.

    If both are datasets, arrays of the same name are compared. Exit 0 if they are equal, 1 if names, shape, type or
    elements differ, 2 if one of them could not be read. --region, --transpose, --dtype, --append-along and
    --into-region are those of the run that made or changed DST from SRC.
    """
    from reblock import api
    from reblock.render import text

    with exits_with(2):
        verdict = api.verify(source, target, **options.given(wanted))
    found = verdict.to_json()
    emit(found if as_json else text.verdict(source, target, found))
    return 0 if verdict.equal else 1
