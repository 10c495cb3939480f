"""`reblock completion`: print a shell's completion script."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from reblock.cli.completion import words
from reblock.cli.output import emit

_SHELLS = ("bash", "zsh", "fish")


@click.command(
    short_help="Print the script that completes commands, files and values.",
    epilog="""
    \b
    Examples:
      reblock completion bash
      reblock completion fish
    """,
)
@click.argument("shell", metavar="bash|zsh|fish", type=click.Choice(_SHELLS), shell_complete=words(*_SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script that completes commands, options, files, formats, strategies, devices and codecs.

    In bash and zsh, put this into ~/.bashrc or ~/.zshrc: eval "$(reblock completion bash)", or zsh. In fish, write the
    script to ~/.config/fish/completions/reblock.fish.
    """
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"click knows no completion for {shell}")
    emit(found(context.find_root().command, {}, "reblock", "_REBLOCK_COMPLETE").source())
