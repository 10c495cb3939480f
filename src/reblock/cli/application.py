"""The application: finds commands, and reports every outcome as one line or one document and an exit code.

Every module in `reblock.cli.commands` is a command, named after the module; there is no other list. Exit codes: 0
done, 1 failed, 2 a command line that cannot be parsed, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, NoReturn

import click

from reblock.cli import commands
from reblock.cli.failure import DEBUG, Failure
from reblock.cli.hints import for_command
from reblock.cli.interrupt import ignore
from reblock.cli.output import emit, say
from reblock.errors import DiskError, ReblockError, UsageError
from reblock.posix import require_posix
from reblock.render.columns import plain
from reblock.storage.media.postgres_url import clean_key, is_database


class Application(click.Group):
    """The group of all commands, each loaded on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(found.name.replace("_", "-") for found in iter_modules(commands.__path__))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = import_module(f"{commands.__name__}.{cmd_name.replace('-', '_')}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command by its name; an unknown name raises an error with a suggestion."""
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not name.startswith("-") and not ctx.resilient_parsing:
            meant = for_command(name, known)
            raise click.UsageError(f"No such command {name!r}" + (f": did you mean {meant}?" if meant else ""), ctx)
        if not ctx.resilient_parsing:
            require_posix()
        return super().resolve_command(ctx, args)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT002 - click's signature
        **extra: Any,
    ) -> Any:
        """Run a command line; raises SystemExit, or returns the exit code if `standalone_mode` is off."""
        # The login of a database must not appear in any message.
        words = [clean_key(word) if is_database(word) else word for word in (sys.argv[1:] if args is None else args)]
        try:
            code = super().main(words, prog_name or "reblock", complete_var, standalone_mode=False, **extra) or 0
        except Exception as error:  # noqa: BLE001 - a traceback is a bug
            code = _tell(error, as_json=_wants_json(words))
        if standalone_mode:
            sys.exit(code)
        return code

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            # Click would print an empty line.
            raise click.Abort(*error.args) from error
        except EOFError as error:
            # Click would treat it as Ctrl-D.
            raise RuntimeError(repr(error)) from error
        except OSError as error:
            raise DiskError.wrap(error, doing="the system failed on") from error


def _wants_json(words: Sequence[str]) -> bool:
    """Whether the output is to be a document, even if the command line cannot be parsed."""
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options


def _tell(error: Exception, *, as_json: bool) -> int:
    """Report an error; returns the exit code."""
    failure = Failure.of(error)
    if os.environ.get(DEBUG) == "1":
        say("".join(traceback.format_exception(error)).rstrip())
    if as_json:
        try:
            emit(failure.to_json())
        except ReblockError as trouble:
            say(f"reblock: error: {plain(str(trouble))}")
    else:
        say(f"reblock: error: {failure.message}")
    return failure.code


def _show_version(context: click.Context) -> NoReturn:
    """Print the version, and whether the engine is compiled."""
    from importlib.metadata import version

    try:
        from reblock.api.machine import engine_name, engine_notes

        about = engine_notes() or (f"engine: {engine_name()}",)
    except UsageError as error:
        about = (str(error),)
    emit("\n".join([f"reblock {version('reblock')}", *about]))
    context.exit()


@click.group(
    "reblock",
    cls=Application,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""
    \b
    Start here:
      reblock demo
      reblock info scan.h5::/data
      reblock plan scan.h5::/data scan.zarr --chunks 256,256,256 --memory 2GiB
      reblock run  scan.h5::/data scan.zarr --chunks 256,256,256 --memory 2GiB
    """,
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _option, value: _show_version(context) if value else None,
    help="Show the version, and whether the engine is compiled.",
)
@click.pass_context
def application(ctx: click.Context) -> None:
    """Repartition large N-D arrays under a hard memory budget.

    An array is PATH_OR_URL[::INNER], such as scan.npy, scan.h5::/data, s3://bucket/era5.zarr::t2m, or a folder of block
    files; `reblock formats` lists the formats.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def start() -> NoReturn:
    """Run the command line of this process."""
    if not sys.warnoptions:
        # Warnings of libraries address programmers, not users of the command.
        warnings.simplefilter("ignore")
    try:
        application.main()
    finally:
        # The output is complete; a late signal must not change the exit code.
        ignore()
    raise SystemExit(0)
