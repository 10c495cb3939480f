"""`reblock merge`: join a folder of block files into one array."""

from __future__ import annotations

from typing import Any

import click

from reblock.cli import completion, options
from reblock.cli.commands import run

#: Options of `run` that make no sense here: a folder of blocks is one array, in the format that --block-format names.
_LEFT_OUT = (
    *("source", "target", "from_format", "plan_file"),
    *("concat", "stack", "include", "exclude", "skip_unsupported"),
)


@click.command(
    short_help="Join a folder of block files into one array.",
    epilog="""
    \b
    Examples:
      reblock merge blocks/ scan.h5::/data
      reblock merge tiles/ scan.zarr --pattern "tile_y{0}_x{1}.npy" --chunks 256,256
    """,
)
@click.argument("folder", metavar="DIR", shell_complete=completion.folders)
@click.argument("target", metavar="DST", shell_complete=completion.files)
@click.option(
    "--block-format",
    metavar="FORMAT",
    shell_complete=completion.words("npy", "hdf5", "nii", "tif"),
    help="Format of the files, if DIR has no manifest and holds files of several formats.",
)
@click.option(
    "--pattern",
    metavar="NAME",
    help='Where the numbers are in the names, such as "b_{0}_{1}.npy", if DIR has no manifest: they count blocks, or '
    "are positions of first elements.  [default: the last numbers]",
)
@options.like(run.command, without=_LEFT_OUT)
@click.pass_context
def command(
    context: click.Context, /, folder: str, target: str, block_format: str | None, pattern: str | None, **rest: Any
) -> None:
    """Join the block files in the folder DIR into the array DST.

    A folder of `reblock split` needs no options. In other folders, names or headers must tell where the blocks belong;
    messages name missing and overlapping blocks.
    """
    from reblock import api

    known = api.merge_format(folder, block_format, pattern)
    context.invoke(run.command, source=folder, target=target, from_format=known, **rest)
