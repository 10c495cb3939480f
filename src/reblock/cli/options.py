"""Options that several commands share; they are named after the arguments of `reblock.api`.

All values are text here. `reblock.api` parses and checks them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from reblock.cli import completion
from reblock.errors import UsageError

#: Options that are spelled differently from their argument.
_SPELLED = {
    "from_format": "--from",
    "format": "--from",
    "to_format": "--to",
    "as_json": "--json",
    "everything": "--all",
    "plan_file": "--plan",
    "storage_options": "--storage-option",
    "result": "--as",
    "regions": "--region",
    "spheres": "--sphere",
    "sphere_files": "--spheres",
    "masks": "--mask",
}
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _together(decorators: Sequence[Decorator]) -> Decorator:
    """Several options as one decorator, in the listed order."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def like(command: click.Command, *, without: Sequence[str]) -> Decorator:
    """The options of another command, except some."""
    kept = [one for one in command.params if isinstance(one, click.Option) and one.name not in without]

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        # As the decorators of click do; the last one that is applied comes first.
        known: list[click.Parameter] = function.__dict__.setdefault("__click_params__", [])
        known.extend(reversed(kept))
        return function

    return decorate


as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
quiet = click.option("--quiet", is_flag=True, help="Show no progress and no report, only errors; --json still prints.")
overwrite = click.option(
    "--overwrite", is_flag=True, help="Replace DST if it exists; it stays until the new one is complete."
)
on_missing = click.option(
    "--on-missing",
    shell_complete=completion.words("fill", "error"),
    metavar="fill|error",
    help="What to do about chunks that SRC does not store: use its fill value, or fail.  [default: fill]",
)
from_format = click.option(
    "--from",
    "from_format",
    shell_complete=completion.formats,
    metavar="FORMAT",
    help="Format of SRC, if it cannot be detected.",
)
allow_external = click.option(
    "--allow-external",
    shell_complete=completion.folders,
    metavar="DIR",
    multiple=True,
    help="Folder to which links and file names in SRC may lead; can be repeated.",
)


def _connect(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> None:
    """Use the options for every bucket."""
    if not given:
        return
    from reblock.storage.media.registry import connect_all

    found = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not (name and equals):
            raise UsageError("--storage-option is KEY=VALUE, such as aws_region=eu-central-1")
        found[name] = value
    connect_all(options=found)


def _unlock(_context: click.Context, _option: click.Parameter, given: bool) -> None:
    """Take no lock in any bucket."""
    if given:
        from reblock.storage.media.registry import connect_all

        connect_all(locks=False)


storage = click.option(
    "--storage-option",
    metavar="KEY=VALUE",
    multiple=True,
    expose_value=False,
    callback=_connect,
    help="Option of an object store, such as aws_endpoint_url=…, aws_region=… or skip_signature=true; can be repeated. "
    "Options are never stored.  [default: environment]",
)
no_lock = click.option(
    "--no-lock",
    is_flag=True,
    expose_value=False,
    callback=_unlock,
    help="Take no lock on an object store; for stores that ignore conditional writes.",
)
disks = click.option(
    "--disks",
    shell_complete=completion.folders,
    metavar="DIR,DIR,…",
    multiple=True,
    help="Folders on several disks, over which the blocks of a block folder are spread.",
)
to_format = click.option(
    "--to",
    "to_format",
    shell_complete=completion.formats,
    metavar="FORMAT",
    help="Format of DST, if its name does not determine it.",
)


def memory_of(default: str) -> Decorator:
    """The memory budget of a command."""
    words = "Memory budget: 512MiB, 4GB, a number of bytes, or 50% of the machine's memory."
    return click.option("--memory", metavar="SIZE", help=f"{words}  [default: {default}]")


memory = memory_of("1GiB")
transpose = click.option(
    "--transpose",
    metavar="AXES",
    help="Order of SRC's axes in DST, such as 2,0,1 or z,y,x; of a dataset by name, for each array with such axes.",
)


def region_of(part: str) -> Decorator:
    """The region of a command; `part` says of which array, and what happens to it."""
    words = "such as 10:200,:,5:90; omitted axes are taken whole; by name: time=0:10."
    return click.option("--region", metavar="RANGES", help=f"{part}, {words}")


region = region_of("Part of SRC to take")

joined = _together(
    [
        click.option(
            "--concat",
            metavar="AXIS",
            help="SRC is a pattern of many files, such as 'era5_*.nc::t2m': their arrays are joined along this "
            "axis, in the order of its coordinate or else of their names.",
        ),
        click.option(
            "--stack",
            metavar="NAME",
            help="SRC is a pattern of many files, such as 'slices/*.tif': their arrays are stacked along a new "
            "first axis of this name.",
        ),
    ]
)

changes = _together(
    [
        click.option(
            "--append-along",
            metavar="AXIS",
            help="Append SRC to the existing DST along this axis (number or name), in whole chunks, shards or blocks.",
        ),
        click.option(
            "--into-region",
            metavar="RANGES",
            help="Replace this region of the existing DST, such as 0:64,:,: or time=0:24; whole chunks, shards or "
            "blocks only.",
        ),
    ]
)

access = click.option(
    "--access",
    shell_complete=completion.files,
    metavar="FILE|PRESET",
    help="Reads that the array must serve, which choose its chunks: a file, or presets such as time-series=3,maps "
    "(time-series, maps, cubes, slices:AXIS).",
)

block_size = click.option(
    "--block-size",
    metavar="SIZE|MIN:MAX",
    help="Largest size of a chunk, or a range such as 64KiB:8MiB.  [default: 64KiB:8MiB]",
)

choosing = _together(
    [
        click.option(
            "--include",
            metavar="GLOB",
            multiple=True,
            help="In a dataset, take only arrays and groups whose names match; can be repeated.",
        ),
        click.option(
            "--exclude",
            metavar="GLOB",
            multiple=True,
            help="In a dataset, leave out arrays and groups whose names match; can be repeated.",
        ),
    ]
)

target = _together(
    [
        click.option(
            "--chunks",
            metavar="LENGTHS",
            help="Chunk of DST per axis, such as 64,64,-1: -1 or full = the whole axis, 3+3+4 = all lengths, auto = "
            "chosen for you; 64 = the same for every axis; by name: time=-1,lat=32.  [default: SRC's chunks]",
        ),
        click.option(
            "--shards",
            metavar="LENGTHS",
            help="Shard of DST per axis, or auto; --chunks are then the chunks inside.",
        ),
        click.option(
            "--chunk-order",
            shell_complete=completion.words("auto", "hilbert", "morton"),
            metavar="AXES|CURVE",
            help="Order of chunks inside shards: axes such as 0,2,1, outermost first; hilbert; morton; or auto, for "
            "--access.  [default: in the order of the axes]",
        ),
        access,
        transpose,
        region,
        click.option(
            "--codec",
            shell_complete=completion.codecs,
            metavar="CODEC",
            help="Codec of DST: none, zstd:3, shuffle+gzip:4, blosc:zstd:5 …  [default: SRC's]",
        ),
        click.option(
            "--checksum",
            is_flag=True,
            help="Append a checksum of each chunk to DST's codec: crc32c in zarr, fletcher32 in hdf5.",
        ),
        click.option(
            "--dtype",
            metavar="DTYPE",
            help="Element type of DST, such as f4 or >u2; the first value that does not fit stops the run. In a "
            "dataset, for all arrays of numbers except coordinates, or by name: t2m=f4,u10=f4.  [default: SRC's]",
        ),
        click.option("--unsafe-cast", is_flag=True, help="With --dtype, convert values that do not fit as numpy does."),
        click.option(
            "--fill-value",
            metavar="VALUE",
            help="Fill value of DST, or none; changes no element. In a dataset, for the same arrays as --dtype, or by "
            "name.  [default: SRC's]",
        ),
        from_format,
        allow_external,
        to_format,
        click.option(
            "--disks",
            shell_complete=completion.folders,
            metavar="DIR,DIR,…",
            multiple=True,
            help="Spread the blocks of DST, a block folder, over these folders on several disks; or read SRC from "
            "there.",
        ),
        click.option(
            "--placement",
            shell_complete=completion.words("round-robin", "range", "four-way", "random"),
            metavar="NAME",
            help="Which block goes to which of the --disks: round-robin, range, four-way or random; `reblock advise "
            "--media` compares them.  [default: round-robin]",
        ),
        on_missing,
        choosing,
        click.option(
            "--skip-unsupported",
            is_flag=True,
            help="Leave out arrays of a dataset that DST cannot hold, and name them in the report.",
        ),
    ]
)

planning = _together(
    [
        memory,
        click.option(
            "--strategy",
            shell_complete=completion.strategies,
            metavar="NAME",
            help="Use this strategy's plan.  [default: auto, the best of all]",
        ),
        click.option(
            "--objective",
            shell_complete=completion.words("time", "seeks", "bytes", "memory"),
            metavar="time|seeks|bytes|memory",
            help="What plans are ranked by.  [default: time]",
        ),
        click.option(
            "--device",
            shell_complete=completion.devices,
            metavar="NAME|FILE",
            help="Storage to plan for: auto, as earlier runs measured it; nvme, ssd, hdd, s3; or a file.  "
            "[default: auto]",
        ),
        click.option(
            "--target-device",
            shell_complete=completion.devices,
            metavar="NAME|FILE",
            help="Storage of DST.  [default: as --device]",
        ),
        click.option(
            "--scratch-device",
            shell_complete=completion.devices,
            metavar="NAME|FILE",
            help="Storage of scratch.  [default: as DST's]",
        ),
        click.option("--scratch-limit", metavar="SIZE", help="Largest size of scratch.  [default: no limit]"),
        click.option(
            "--scratch-objects",
            metavar="COUNT",
            callback=lambda _context, _option, value: (
                None if value is None else _whole_number("--scratch-objects", value)
            ),
            help="Largest number of chunks in scratch.  [default: no limit]",
        ),
    ]
)

array_task = click.option(
    "--array-task",
    metavar="i/n",
    help="Be member i, from 0, of a job array of n processes that make DST together: do a share of the tasks; the last "
    "member publishes. In a SLURM script: $SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT.",
)


def _whole_number(option: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal()):
        raise UsageError(f"{option} is a whole number of at least 0, not {value!r}")
    return int(value)


def spell(name: str) -> str:
    """The option for an argument of `reblock.api`."""
    return _SPELLED.get(name, "--" + name.replace("_", "-"))


def beside_plan(options: dict[str, Any]) -> dict[str, Any]:
    """The options that may stand beside `--plan`; UsageError where the plan decides one that was given."""
    from reblock.api.planfile import DECIDED

    decided = [spell(name) for name, value in options.items() if name in DECIDED and value not in (False, ())]
    if decided:
        raise UsageError(f"--plan decides {', '.join(decided)}: leave {'it' if len(decided) == 1 else 'them'} out")
    return {name: value for name, value in options.items() if name not in DECIDED}


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given; `reblock.api` has the defaults."""
    return {name: value for name, value in options.items() if value is not None}
