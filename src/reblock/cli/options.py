"""Options that several commands share; their names are those of the arguments of `reblock.api`.

All values are text here: what they mean, and whether that is possible, is decided by `reblock.api`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from reblock.cli import completion
from reblock.errors import UsageError

#: Options that are not spelled like the argument that they give.
_SPELLED = {
    "from_format": "--from",
    "format": "--from",
    "to_format": "--to",
    "as_json": "--json",
    "everything": "--all",
}
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _together(decorators: Sequence[Decorator]) -> Decorator:
    """Several options as one decorator, shown in the order they are listed."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
from_format = click.option(
    "--from",
    "from_format",
    shell_complete=completion.formats,
    metavar="FORMAT",
    help="Format of SRC, if its content does not tell.",
)
allow_external = click.option(
    "--allow-external",
    shell_complete=completion.folders,
    metavar="DIR",
    multiple=True,
    help="Folder that links in SRC, and names of other files in it, may lead to; may be given several times.",
)
to_format = click.option(
    "--to",
    "to_format",
    shell_complete=completion.formats,
    metavar="FORMAT",
    help="Format of DST, if its name does not tell.",
)


def memory_of(default: str) -> Decorator:
    """The memory budget of a command."""
    words = "Memory budget, such as 512MiB, 4GB, bytes, or 50% of the machine's."
    return click.option("--memory", metavar="SIZE", help=f"{words}  [default: {default}]")


memory = memory_of("1GiB")
transpose = click.option("--transpose", metavar="AXES", help="Order of SRC's axes in DST, such as 2,0,1 or z,y,x.")
region = click.option(
    "--region",
    metavar="RANGES",
    help="Part of SRC to take, such as 10:200,:,5:90; the axes left out are whole; by name: time=0:10.",
)

target = _together(
    [
        click.option(
            "--chunks",
            metavar="LENGTHS",
            help="Chunk of DST per axis, such as 64,64,-1: -1 or full = the whole axis, 3+3+4 = every length, auto = "
            "chosen; 64 = the same for all; by name: time=-1,lat=32.  [default: SRC's chunks]",
        ),
        click.option("--shards", metavar="LENGTHS", help="Shard of DST per axis; --chunks are then the chunks inside."),
        transpose,
        region,
        click.option(
            "--codec",
            shell_complete=completion.codecs,
            metavar="CODEC",
            help="none, zstd:3, shuffle+gzip:4, blosc:zstd:5 …  [default: SRC's]",
        ),
        click.option(
            "--checksum",
            is_flag=True,
            help="End DST's codec in a checksum of each chunk: crc32c in zarr, fletcher32 in hdf5.",
        ),
        click.option("--dtype", metavar="DTYPE", help="Type of an element, such as f4 or >u2.  [default: SRC's]"),
        from_format,
        allow_external,
        to_format,
        click.option(
            "--on-missing",
            shell_complete=completion.words("fill", "error"),
            metavar="fill|error",
            help="Chunks that SRC does not store: take its fill value, or fail.  [default: fill]",
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
            help="Take this strategy's plan.  [default: auto, the best of all]",
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
            help="Storage to plan for: nvme, ssd, hdd, s3 or a file.  [default: nvme]",
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
        click.option("--scratch-limit", metavar="SIZE", help="Most bytes of scratch.  [default: no limit]"),
        click.option(
            "--scratch-objects",
            metavar="COUNT",
            callback=lambda _context, _option, value: (
                None if value is None else _whole_number("--scratch-objects", value)
            ),
            help="Most chunks of scratch.  [default: no limit]",
        ),
    ]
)


def _whole_number(option: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal()):
        raise UsageError(f"{option} is a whole number of at least 0, not {value!r}")
    return int(value)


def spell(name: str) -> str:
    """How the option is typed that gives an argument of `reblock.api`."""
    return _SPELLED.get(name, "--" + name.replace("_", "-"))


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Options that were given; defaults are the api's business."""
    return {name: value for name, value in options.items() if value is not None}
