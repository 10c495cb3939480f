"""`reblock advise`: which chunks serve the reads of an array."""

from __future__ import annotations

from typing import Any

import click

from reblock.cli import completion, options
from reblock.cli.completion import files, words
from reblock.cli.output import emit


@click.command(
    short_help="Choose chunks for the reads of an array, and tell whether converting pays off.",
    epilog="""
    \b
    Examples:
      reblock advise era5.zarr::t2m --access time-series=3,maps
      reblock advise scan.h5::/data --log access.jsonl --memory 4GiB
      reblock advise --shape 100,2000,8000 --dtype u1 --access reads.txt --block-size 8000 --objective blocks
    """,
)
@click.argument("source", metavar="[SRC]", required=False, shell_complete=files)
@options.access
@click.option(
    "--log",
    shell_complete=files,
    metavar="LOG",
    help="Log of real reads, from reblock.open(url, log=LOG) or reblock.record(array, log=LOG).",
)
@click.option(
    "--model",
    shell_complete=words("aligned", "anywhere"),
    metavar="aligned|anywhere",
    help="Where reads start: at the start of a chunk, or at any element.  [default: as the pattern or the log says]",
)
@options.block_size
@click.option(
    "--objective",
    shell_complete=words("time", "blocks", "bytes", "requests"),
    metavar="time|blocks|bytes|requests",
    help="What layouts are ranked by.  [default: time]",
)
@click.option(
    "--shards",
    shell_complete=words("auto", "none"),
    metavar="auto|none",
    help="Choose shards around the chunks, or none.  [default: as SRC]",
)
@click.option("--copies", metavar="R", type=int, help="Number of copies to compare with one.  [default: 2]")
@click.option("--media", metavar="N", type=int, help="Also place chunks on N disks, buckets, tapes or platters.")
@click.option(
    "--goal",
    shell_complete=words("few", "many"),
    metavar="few|many",
    help="With --media: whether a read is to touch few of them, or many.  [default: few]",
)
@click.option(
    "--device",
    shell_complete=completion.devices,
    metavar="NAME|FILE",
    help="Storage of the array: auto, nvme, ssd, hdd, s3, jukebox, tape, or a file.  [default: auto]",
)
@options.memory
@options.from_format
@options.allow_external
@click.option(
    "--to",
    "to_format",
    shell_complete=completion.formats,
    metavar="FORMAT",
    help="Format to convert to.  [default: as SRC]",
)
@click.option("--shape", metavar="LENGTHS", help="Advise without an array: its shape.")
@click.option("--dtype", metavar="DTYPE", help="Its element type.")
@click.option("--source-chunks", metavar="LENGTHS", help="Its chunks today.  [default: not known]")
@click.option("--source-codec", metavar="CODEC", help="Its codec.  [default: none]")
@options.storage
@options.as_json
def command(source: str | None, as_json: bool, **wanted: Any) -> None:
    """Choose chunks for the reads of an array, compare them with today's, and tell when converting pays off.

    Reads are named by --access, or come from a --log of real reads. Without them, the default chunks are shown. The
    last line is the command that converts the array. Nothing is written.
    """
    if source is None and wanted["shape"] is None:
        raise click.UsageError("Missing argument 'SRC', or --shape with --dtype")
    from reblock import api
    from reblock.render import advice as rendering

    found = api.advise(source, **options.given(wanted))
    emit(found.to_json() if as_json else rendering.advice(found))
