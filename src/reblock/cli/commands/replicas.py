"""`reblock replicas`: several copies of an array, each read of which goes to the cheapest one."""

from __future__ import annotations

from typing import Any

import click

from reblock.cli import completion, options
from reblock.cli.completion import files
from reblock.cli.interrupt import stoppable
from reblock.cli.output import emit, say


@click.group(
    name="replicas",
    short_help="Keep copies with other chunks, and read from the cheapest one.",
    invoke_without_command=True,
)
@click.pass_context
def command(context: click.Context) -> None:
    """Keep several copies of an array with different chunks, and read from the cheapest one.

    In Python, reblock.open("replicas:DIR") reads them like any array.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@command.command(
    short_help="Make copies of an array, each with chunks for some accesses.",
    epilog="""
    \b
    Examples:
      reblock replicas create era5.zarr::t2m copies/ --access time-series=3,maps --copies 2
      reblock replicas create scan.h5::/data copies/ --log access.jsonl --budget-bytes 100GiB
    """,
)
@click.argument("source", metavar="SRC", shell_complete=files)
@click.argument("folder", metavar="DIR", shell_complete=files)
@options.access
@click.option(
    "--log", shell_complete=files, metavar="LOG", help="Log of real reads, instead of --access: see `reblock advise`."
)
@click.option("--copies", metavar="R", type=int, help="Number of copies.  [default: 2]")
@click.option("--budget-bytes", metavar="SIZE", help="Make only as many copies as fit, before encoding.")
@click.option("--codec", metavar="CODEC", help="Codec of the copies; a checksum is added.  [default: SRC's]")
@options.block_size
@click.option(
    "--device",
    shell_complete=completion.devices,
    metavar="NAME|FILE",
    help="Storage of the copies: auto, nvme, ssd, hdd, s3, or a file.  [default: auto]",
)
@options.memory
@options.storage
@options.as_json
def create(source: str, folder: str, as_json: bool, **wanted: Any) -> None:
    """Make copies of SRC in DIR, each with chunks for some of the accesses.

    Each copy is an ordinary run, from SRC or from an earlier copy. The same command continues after an interruption.
    """
    from reblock.api.replicas.making import create_replicas
    from reblock.render import replicas as rendering

    def begins(number: int, job: Any) -> None:
        if not as_json:
            origin = "SRC" if job.source is None else job.source.store.location
            say(f"copy {number}: chunks {','.join(map(str, job.schema.chunks))} from {origin}")

    with stoppable() as cancelled:
        record = create_replicas(source, folder, **options.given(wanted), begins=begins, cancelled=cancelled)
    emit(record.to_json() if as_json else rendering.replica_set(record.to_json()))


@command.command(
    short_help="Read a region from the cheapest copy.",
    epilog="""
    \b
    Examples:
      reblock replicas read copies/ --region 0:100,5,: --output part.npy
      reblock replicas read copies/ --region 0,0:4,0:4
    """,
)
@click.argument("folder", metavar="DIR", shell_complete=files)
@options.region_of("Part to read")
@click.option("--output", shell_complete=files, metavar="FILE.npy", help="Write the elements to this new file.")
@options.memory
@options.as_json
def read(folder: str, region: str | None, output: str | None, memory: str | None, as_json: bool) -> None:
    """Read a region from the copy that gives it at the least cost; without --output a small one is printed.

    A damaged chunk is read from another copy.
    """
    from reblock.api.replicas.reading import read_region
    from reblock.render import replicas as rendering

    found = read_region(folder, region, output=output, memory=memory)
    emit(found.to_json() if as_json else rendering.read_region(found.to_json()))


@command.command(
    short_help="Show what a read costs on each copy.",
    epilog="""
    \b
    Examples:
      reblock replicas explain copies/ --region 0:100,5,:
    """,
)
@click.argument("folder", metavar="DIR", shell_complete=files)
@options.region_of("Part that would be read")
@options.as_json
def explain(folder: str, region: str | None, as_json: bool) -> None:
    """Show what a read costs on each copy, and which one it goes to. Nothing is read."""
    from reblock.api.replicas.reading import explain_region
    from reblock.render import replicas as rendering

    found = explain_region(folder, region)
    emit(found.to_json() if as_json else rendering.explanation(found.to_json()))


@command.command(
    short_help="Copy a region of an array into all copies.",
    epilog="""
    \b
    Examples:
      reblock replicas update copies/ new.zarr --region 100:110,:,:
    """,
)
@click.argument("folder", metavar="DIR", shell_complete=files)
@click.argument("source", metavar="SRC", shell_complete=files)
@options.region_of("Part of SRC that has changed")
@options.memory
@options.storage
@options.as_json
def update(folder: str, source: str, region: str | None, memory: str | None, as_json: bool) -> None:
    """Copy a region of SRC into all copies at once.

    SRC has the shape and type of the copies. Touched chunks are written to a new generation, others are linked to it.
    Readers keep the generation that they opened; it is removed when nobody reads it any more.
    """
    if region is None:
        raise click.UsageError("Missing option '--region': which part of SRC has changed?")
    from reblock.api.replicas.changing import update_replicas
    from reblock.render import replicas as rendering

    found = update_replicas(folder, source, region=region, memory=memory)
    emit(found.to_json() if as_json else rendering.update(found.to_json()))


@command.command(
    short_help="Find damaged chunks, and make them again from other copies.",
    epilog="""
    \b
    Examples:
      reblock replicas repair copies/
    """,
)
@click.argument("folder", metavar="DIR", shell_complete=files)
@options.memory
@options.as_json
def repair(folder: str, memory: str | None, as_json: bool) -> int:
    """Read every chunk of every copy, and make damaged and missing ones again from the other copies.

    Exit 1 if a chunk is damaged in all copies.
    """
    from reblock.api.replicas.changing import repair_replicas
    from reblock.render import replicas as rendering

    found = repair_replicas(folder, memory=memory)
    emit(found.to_json() if as_json else rendering.repair(found.to_json()))
    return 1 if found.lost else 0
