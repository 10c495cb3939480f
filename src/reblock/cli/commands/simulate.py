"""`reblock simulate`: time, requests and price of a plan on many workers."""

from __future__ import annotations

from typing import Any

import click

from reblock.cli import completion, options
from reblock.cli.completion import files
from reblock.cli.output import emit


@click.command(
    short_help="Predict time, requests and price of a plan on many workers.",
    epilog="""
    \b
    Examples:
      reblock plan --shape 500000,32768,32768 --dtype u2 --source-chunks 64,128,64 --source-codec zstd \\
        --chunks 128,64,128 --device s3 --save petabyte.json
      reblock simulate petabyte.json --workers 1000 --device s3
      reblock simulate petabyte.json --workers 1000 --stragglers slow:0.02:3 --failure-rate 1e-6
    """,
)
@click.argument("plan", metavar="PLAN", shell_complete=files)
@click.option("--workers", metavar="N", type=int, help="Number of workers.  [default: 1]")
@click.option(
    "--device",
    shell_complete=completion.devices,
    metavar="NAME|FILE",
    help="Storage as each worker sees it: s3, nvme, ssd, hdd, or a file of `reblock bench device`.  [default: s3]",
)
@click.option(
    "--target-device",
    shell_complete=completion.devices,
    metavar="NAME|FILE",
    help="Storage of the target.  [default: as --device]",
)
@click.option(
    "--compression",
    metavar="RATIO",
    type=float,
    help="Bytes of elements divided by stored bytes, for arrays with a codec.  [default: from the plan, or 1]",
)
@click.option(
    "--bandwidth", metavar="SIZE", help="Bytes per second of all workers together, such as 10GB.  [default: no limit]"
)
@click.option(
    "--per-host",
    metavar="N",
    type=int,
    help="Workers that share the cores of one machine, as many as the plan was made for.  [default: 1]",
)
@click.option(
    "--stragglers",
    shell_complete=completion.words("none", "lognormal:0.3", "pareto:3", "slow:0.05:4"),
    metavar="KIND",
    help="Make shares take longer at random: lognormal:SIGMA, pareto:ALPHA, or slow:PART:FACTOR.  [default: none]",
)
@click.option(
    "--failure-rate",
    metavar="P",
    type=float,
    help="Probability that a task kills its worker; its share is then done again.  [default: 0]",
)
@click.option(
    "--retries", metavar="N", type=int, help="How often a share may be repeated before the run stops.  [default: 20]"
)
@click.option(
    "--startup",
    metavar="SECONDS",
    type=float,
    help="Time until a worker is ready, at first and after a failure.  [default: 0]",
)
@click.option("--seed", metavar="N", type=int, help="Seed of stragglers and failures.  [default: 0]")
@click.option(
    "--gets-per-second", metavar="N", type=float, help="GETs that a prefix serves; 0 = any number.  [default: 5500]"
)
@click.option(
    "--puts-per-second", metavar="N", type=float, help="PUTs that a prefix serves; 0 = any number.  [default: 3500]"
)
@click.option(
    "--prefix-axes",
    metavar="0|1",
    type=int,
    help="0: all chunks of an array have one prefix; 1: those of the same first index.  [default: 0]",
)
@click.option(
    "--get-price", metavar="DOLLARS", type=float, help="Price of 1,000 GETs.  [default: 0.0004, S3 in us-east-1]"
)
@click.option(
    "--put-price", metavar="DOLLARS", type=float, help="Price of 1,000 PUTs.  [default: 0.005, S3 in us-east-1]"
)
@click.option(
    "--egress-price",
    metavar="DOLLARS",
    type=float,
    help="Price of a gigabyte read.  [default: 0, within the region; about 0.09 to the internet]",
)
@options.as_json
def command(plan: str, as_json: bool, **wanted: Any) -> None:
    """Predict makespan, requests per second, hot spots, egress and price of a plan on many workers.

    PLAN is a file from `reblock plan --save`, which may be made from --shape alone. No array is opened. The time runs
    from the first task to the last, without opening, listing and publishing.
    """
    from reblock import api
    from reblock.render import simulation

    found = api.simulate(plan, **options.given(wanted))
    emit(found.to_json() if as_json else simulation.outcome(found))
