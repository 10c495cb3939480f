"""`reblock extract`: regions of interest, read together."""

from __future__ import annotations

from typing import Any

import click

from reblock.cli import options
from reblock.cli.completion import codecs, files, words
from reblock.cli.interrupt import stoppable
from reblock.cli.output import emit


@click.command(
    short_help="Extract regions of interest: boxes, spheres, labels of a mask.",
    epilog="""
    \b
    Examples:
      reblock extract scan.h5::/data part.npy --region 10:200,:,5:90
      reblock extract scan.zarr balls.zarr --sphere 30,40,20,5 --sphere 90,40,20,5
      reblock extract scan.zarr table.csv --mask labels.npy=3,4 --as table
    """,
)
@click.argument("source", metavar="SRC", shell_complete=files)
@click.argument("target", metavar="DST", shell_complete=files)
@click.option(
    "--region", "regions", multiple=True, metavar="RANGES", help="A box, such as 10:200,:,5:90; can be repeated."
)
@click.option(
    "--sphere",
    "spheres",
    multiple=True,
    metavar="C0,C1,…,R",
    help="Centre in the axes of SRC, and radius, in elements; : for a coordinate takes the whole axis; can be "
    "repeated.",
)
@click.option(
    "--spheres",
    "sphere_files",
    multiple=True,
    shell_complete=files,
    metavar="FILE.csv",
    help="A file with a sphere in each row; an extra cell is its name; can be repeated.",
)
@click.option(
    "--mask",
    "masks",
    multiple=True,
    shell_complete=files,
    metavar="LABELS[=3,4]",
    help="An array of labels with the shape of SRC, or of its first or last axes: each label, or each listed one, "
    "is a region; can be repeated.",
)
@click.option(
    "--as",
    "result",
    shell_complete=words("array", "table", "values"),
    metavar="array|table|values",
    help="What DST holds: an array for each region; a table of statistics; or a table of values. Tables are .csv, .npz "
    "or .parquet files.  [default: array]",
)
@click.option(
    "--outside",
    shell_complete=words("keep", "fill"),
    metavar="keep|fill",
    help="Elements around a sphere or label inside its box: keep them, or use the fill value.  [default: keep]",
)
@click.option("--chunks", metavar="LENGTHS", help="Chunk of each array, as in `reblock run`.  [default: SRC's chunks]")
@click.option("--codec", shell_complete=codecs, metavar="CODEC", help="Codec of the arrays.  [default: SRC's]")
@options.memory
@options.from_format
@options.allow_external
@options.to_format
@options.on_missing
@options.overwrite
@click.option("--dry-run", is_flag=True, help="Make every check, say what would be read, and write nothing.")
@options.quiet
@options.storage
@options.as_json
def command(source: str, target: str, quiet: bool, as_json: bool, **wanted: Any) -> None:
    """Extract regions of interest from the array SRC into DST.

    One region becomes an array; several become a dataset with one array each, whose attribute origin is its position.
    All regions are read together: a chunk that several of them need is read once.
    """
    from reblock import api
    from reblock.render.extraction import extraction

    with stoppable(quiet=quiet) as cancelled:
        done = api.extract(source, target, cancelled=cancelled, **options.given(wanted))
        if as_json or not quiet:
            emit(done.to_json() if as_json else extraction(done.to_json()))
