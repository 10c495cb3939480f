"""`reblock bench`: calibrate a device, reproduce the papers, race the peers."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import closing
from typing import TYPE_CHECKING

import click

from reblock.bench.notify import Notify, silent
from reblock.cli.interrupt import stoppable
from reblock.cli.options import as_json as json_option
from reblock.cli.options import storage as storage_option
from reblock.cli.output import emit, say
from reblock.errors import DiskError

if TYPE_CHECKING:
    from reblock.bench.peers.race import RaceResult
    from reblock.render.tables import Table


@click.group(short_help="Calibrate a device; race the peers; reproduce the papers.", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Measure this machine, reproduce the papers' tables, or race the peers."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def _notify() -> Notify:
    """Prints progress messages if stderr is a terminal."""
    return say if sys.stderr is not None and sys.stderr.isatty() else silent


@command.command(
    short_help="Measure the storage at a path, and memory and codecs here.",
    epilog="""
    \b
    Examples:
      reblock bench device /data --output data.json
      reblock bench device s3://bucket/prefix --size 64MiB --output bucket.json
      reblock plan scan.h5::/data --chunks 64,64,64 --device data.json
    """,
)
@click.argument("path", metavar="PATH")
@click.option("--size", metavar="SIZE", help="Bytes to write and read.  [default: 256MiB]")
@click.option("--name", metavar="NAME", help="Name of the device in reports.  [default: measured]")
@click.option("--output", metavar="FILE", help="Write the result to FILE, for --device FILE.")
@storage_option
@json_option
def device(path: str, size: str | None, name: str | None, output: str | None, as_json: bool) -> None:
    """Measure the storage that holds the folder or the URL PATH, and this machine's memory and codecs.

    Temporary files or objects are made in PATH and removed again. --device FILE makes plans use the result.
    Measurements of an object store are also kept for plans with --device auto.
    """
    from reblock.bench import device as bench_device
    from reblock.render import tables

    if output is not None:
        bench_device.check_output(output)
    measured = bench_device.measure_device(
        path, size=size or bench_device.DEFAULT_SIZE, name=name or "measured", notify=_notify()
    )
    bench_device.keep_for_auto(measured, path)
    if output is not None:
        bench_device.save_device(measured, output)
    hint = f"kept in {output}: use it with --device" if output else "--output FILE keeps it for --device FILE"
    emit(measured.to_json() if as_json else f"{tables.device(measured)}\n\n{hint}")


@command.command(
    short_help="Reproduce the papers' tables by arithmetic, or by running them.",
    epilog="""
    \b
    Examples:
      reblock bench papers
      reblock bench papers thesis --device hdd
      reblock bench papers sarawagi
      reblock bench papers dask-io --scale 25 --repeat 1
      reblock bench papers --run --dir /data --csv tables/
    """,
)
@click.argument("paper", metavar="[thesis|drafts|dra|sarawagi|dask-io]", required=False)
@click.option(
    "--memory", metavar="SIZE,SIZE,…", help="Memory budgets for arrays at full size.  [default: 4GB,8GB,256GB]"
)
@click.option(
    "--device", "device_name", metavar="NAME|FILE", help="Price plans on a preset, or on a file of `bench device`."
)
@click.option(
    "--run", is_flag=True, help="Also run the experiments on disk; `sarawagi` and `dask-io` by name always run."
)
@click.option("--scale", metavar="N", type=int, default=5, show_default=True, help="With --run: divide lengths by N.")
@click.option(
    "--dir", "folder", metavar="DIR", help="With --run: where files are made.  [default: the temporary folder]"
)
@click.option(
    "--repeat",
    metavar="N",
    type=int,
    default=3,
    show_default=True,
    help="With --run: runs of which to report the median.",
)
@click.option(
    "--cases",
    metavar="N",
    type=int,
    default=1000,
    show_default=True,
    help="With --run: random cases of the seek model.",
)
@click.option("--csv", "tables", metavar="DIR", help="Also write each table to DIR/NAME.csv.")
@json_option
def papers(
    paper: str | None,
    memory: str | None,
    device_name: str | None,
    run: bool,
    scale: int,
    folder: str | None,
    repeat: int,
    cases: int,
    tables: str | None,
    as_json: bool,
) -> int:
    """Reproduce the tables of the papers that reblock implements, their figures beside ours.

    With --run the experiments really run, on files that are made in DIR and removed again. Scales of the thesis are 1,
    5 and 25. The exit code is 1 if a figure that must agree does not, if a count differs from its prediction, or if a
    result is wrong.
    """
    from reblock.api.devices import find_device
    from reblock.bench.papers import report as bench_papers

    wanted = (paper,) if paper else ()
    budgets = memory or bench_papers.DEFAULT_BUDGETS
    found_device = find_device(device_name) if device_name else None
    bench_papers.check_run(wanted, scale, cases, repeat)
    if tables is not None:
        _make(tables)
    found = bench_papers.reproduce(wanted, memory=budgets, device=found_device, notify=_notify())
    if run or paper in bench_papers.ALWAYS_RUN:
        with stoppable() as cancelled:
            found += bench_papers.execute(
                wanted,
                memory=budgets,
                scale=scale,
                cases=cases,
                repeats=repeat,
                folder=folder or tempfile.gettempdir(),
                device=found_device,
                notify=say,
                cancelled=cancelled,
            )
    if tables is not None:
        _write(found, tables)
    failures = sum(table.failures for table in found)
    document = {"tables": [table.to_json() for table in found], "failures": failures}
    emit(document if as_json else "\n\n".join(table.to_text() for table in found))
    return 1 if failures else 0


@command.command(
    short_help="Race reblock against its peers on the same arrays.",
    epilog="""
    \b
    Examples:
      reblock bench peers --dir /data
      reblock bench peers W2 W3 --only cp,zarrs,tensorstore --dir /data --output race.json
      reblock bench peers --scale 8 --only cp,zarr-python,h5py
    """,
)
@click.argument("workloads", metavar="[WORKLOAD]...", nargs=-1)
@click.option("--only", metavar="NAMES", help="Peers to race, such as cp,zarrs.  [default: all]")
@click.option("--repeat", metavar="N", type=int, default=3, show_default=True, help="Timed rounds; one more warms up.")
@click.option(
    "--scale",
    metavar="N",
    type=int,
    default=1,
    show_default=True,
    help="Divide lengths by N, those of chunks by its root.",
)
@click.option("--dir", "folder", metavar="DIR", help="Where arrays are made.  [default: the temporary folder]")
@click.option("--peers-dir", metavar="DIR", help="Where peers are installed.  [default: the user's cache]")
@click.option("--keep", is_flag=True, help="Leave the sources in DIR, to be used again.")
@click.option("--output", metavar="FILE", help="Also write the JSON document to FILE, after every workload.")
@click.option("--check", is_flag=True, help="Exit 1 also if a bar is missed.")
@json_option
def peers(
    workloads: tuple[str, ...],
    only: str | None,
    repeat: int,
    scale: int,
    folder: str | None,
    peers_dir: str | None,
    keep: bool,
    output: str | None,
    check: bool,
    as_json: bool,
) -> int:
    """Race reblock against cp, zarr-python, zarrs, tensorstore, dask, rechunker, cubed, h5py, h5repack and others.

    Workloads are W1 to W6, W6-shards, nifti-split, nifti-merge, netcdf-zarr, netcdf-plain, netcdf-nccopy, tiff-zarr and
    tiff-blosc; without a name all of them run. Peers are installed when they are first needed. Every output is compared
    with its source; the exit code is 1 if one is wrong.
    """
    from reblock.bench.files import write_result
    from reblock.bench.peers import race as bench_peers

    if output is not None:
        bench_peers.check_output(output)
    where = folder or tempfile.gettempdir()
    found: list[RaceResult] = []
    document = bench_peers.document(found, where, scale=scale, repeat=repeat)
    race = bench_peers.race(
        workloads, only=only, repeat=repeat, scale=scale, folder=where, peers=peers_dir, keep=keep, notify=say
    )
    with closing(race):
        for result in race:
            found.append(result)
            document = bench_peers.document(found, where, scale=scale, repeat=repeat)
            if output is not None:
                write_result(document, output)
    emit(document if as_json else "\n\n".join(result.to_table().to_text() for result in found))
    return 1 if document["failures"] or (check and document["bars_missed"]) else 0


def _make(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise DiskError.wrap(error, doing="making the folder", path=folder) from error


def _write(tables: list[Table], folder: str) -> None:
    for table in tables:
        path = os.path.join(folder, f"{table.name}.csv")
        try:
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(table.to_csv())
        except OSError as error:
            raise DiskError.wrap(error, doing="writing", path=path) from error
