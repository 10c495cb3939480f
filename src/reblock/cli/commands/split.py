"""`reblock split`: cut an array into a folder of block files."""

from __future__ import annotations

from typing import Any

import click

from reblock.cli import completion, options
from reblock.cli.commands import run

#: Options of `run` that make no sense here: blocks are of one array, in the format that --block-format names.
_LEFT_OUT = (
    *("source", "target", "chunks", "shards", "chunk_order", "codec", "checksum", "to_format", "plan_file"),
    *("append_along", "into_region", "include", "exclude", "skip_unsupported"),
)


@click.command(
    short_help="Cut an array into a folder of block files.",
    epilog="""
    \b
    Examples:
      reblock split scan.h5::/data blocks/ --chunks 64,64,64
      reblock split scan.npy blocks/ --chunks 64,64,64 --block-format hdf5 --pattern "b_{0}_{1}_{2}.h5"
    """,
)
@click.argument("source", metavar="SRC", shell_complete=completion.files)
@click.argument("folder", metavar="DIR", shell_complete=completion.folders)
@click.option("--chunks", metavar="LENGTHS", required=True, help="Lengths of a block per axis, as for `reblock run`.")
@click.option(
    "--block-format",
    metavar="FORMAT",
    shell_complete=completion.words("npy", "raw", "hdf5", "nii", "tif"),
    default="npy",
    show_default=True,
    help="Format of the files: npy, raw, hdf5, or the name or ending of another format of single files.",
)
@click.option(
    "--pattern",
    metavar="NAME",
    help='Names of the files, such as "b_{0}_{1}_{2}.npy" or "z{0:04}.npy": {0} is the number along axis 0.',
)
@options.like(run.command, without=_LEFT_OUT)
@click.pass_context
def command(
    context: click.Context,
    /,
    source: str,
    folder: str,
    block_format: str,
    pattern: str | None,
    **rest: Any,
) -> None:
    """Cut the array SRC into block files in the folder DIR, which also gets a manifest, reblock.json.

    It is `reblock run` with a block folder as its target: planned, resumable, and DIR appears when it is complete.
    """
    from reblock import api

    context.invoke(run.command, source=source, target=folder, to_format=api.split_format(block_format, pattern), **rest)
