"""Failure: an error as one line or one document, with an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from reblock.cli.hints import for_option
from reblock.cli.interrupt import INTERRUPTED
from reblock.cli.options import spell
from reblock.errors import DiskError, ReblockError, speak
from reblock.render.columns import plain
from reblock.storage.media.object_url import clean_text

#: Set to 1, this environment variable shows tracebacks.
DEBUG = "REBLOCK_DEBUG"
BROKEN = 1


class CommandLine:
    """Spells options and commands for the command line."""

    def option(self, name: str, value: Any) -> str:
        """An option as it is typed."""
        spelled = spell(name)
        if value is None or value is True:
            return spelled
        if value is False:
            return spelled.replace("--", "--no-", 1)
        return " ".join([spelled, *map(str, value if isinstance(value, list) else [value])])

    def command(self, name: str, arguments: list[str]) -> str:
        """A command as it is typed."""
        return f"`{' '.join(['reblock', name, *arguments])}`"


class Failed(Exception):  # noqa: N818 - a wrapper that is caught at once
    """An error with an exit code of its own."""

    def __init__(self, error: Exception, code: int) -> None:
        super().__init__(str(error))
        self.error, self.code = error, code


@contextmanager
def exits_with(code: int) -> Iterator[None]:
    """Give errors raised inside this exit code."""
    try:
        yield
    except OSError as error:
        raise Failed(DiskError.wrap(error, doing="the system failed on"), code) from error
    except (ReblockError, MemoryError) as error:
        raise Failed(error, code) from error


@dataclass(frozen=True)
class Failure:
    """An error as the command line reports it."""

    type: str
    """Class of the error."""
    message: str
    """One line."""
    code: int = BROKEN
    """Exit code."""
    needs_memory_bytes: int | None = None
    """Smallest memory budget that works, if the budget was too small."""

    @classmethod
    def of(cls, error: Exception, code: int = BROKEN) -> Failure:
        """Describe an exception."""
        kind = type(error).__name__
        if isinstance(error, Failed):
            return cls.of(error.error, error.code)
        if isinstance(error, ReblockError):
            return cls(kind, plain(error.told(CommandLine())), code, error.needs_memory_bytes)
        if isinstance(error, click.Abort):
            return cls(
                "Interrupted",
                "; ".join(["interrupted", *(speak(str(advice), CommandLine()) for advice in error.args)]),
                INTERRUPTED,
            )
        if isinstance(error, click.NoSuchOption) and error.ctx is not None:
            meant = for_option(error.option_name, error.ctx.command)
            hint = f": did you mean {meant}?" if meant else ""
            see = f" (see {error.ctx.command_path} --help)"
            return cls("CommandLineError", plain(f"No such option {error.option_name}{hint}{see}"), error.exit_code)
        if isinstance(error, click.UsageError):
            hint = f" (see {error.ctx.command_path if error.ctx else 'reblock'} --help)"
            words = clean_text(error.format_message().rstrip("."))
            return cls("CommandLineError", plain(words) + hint, error.exit_code)
        if isinstance(error, click.ClickException):
            return cls("CommandLineError", plain(clean_text(error.format_message())), error.exit_code)
        if isinstance(error, MemoryError):
            return cls(kind, "the machine is out of memory: give a smaller --memory", code)
        what = plain(f"{kind}: {error}" if str(error) else kind)
        return cls("InternalError", f"internal error: {what}; please report it ({DEBUG}=1 shows where)")

    def to_json(self) -> dict[str, Any]:
        error = {"type": self.type, "message": self.message, "needs_memory_bytes": self.needs_memory_bytes}
        return {"error": error}
