"""Completion: the words that a shell offers: files, formats, strategies and other values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click
from click.shell_completion import CompletionItem

#: Returns the completions of a word.
Offer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

_CODECS = (
    "none",
    "zstd:3",
    "gzip:4",
    "lzf",
    "lzw",
    "predictor+zlib:4",
    "shuffle+gzip:4",
    "blosc:zstd:5",
    "blosc:lz4:5:shuffle",
    "crc32c",
)


def files(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Files and folders; the shell lists them."""
    return [CompletionItem(begun, type="file")]


def folders(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Folders."""
    return [CompletionItem(begun, type="dir")]


def words(*choice: str, more: Callable[[], Sequence[str]] | None = None) -> Offer:
    """Fixed values, and those that `more` finds when completion runs."""

    def offer(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
        every = (*choice, *(more() if more else ()))
        return [CompletionItem(word) for word in every if word.startswith(begun)]

    return offer


def devices(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Devices by name, or files if no name matches: a shell accepts either words or files."""
    from reblock.cost import PRESETS

    return words("auto", *PRESETS)(context, parameter, begun) or files(context, parameter, begun)


def _formats() -> Sequence[str]:
    from reblock.storage import registry

    return registry.formats()


def _strategies() -> Sequence[str]:
    from reblock.strategies import strategies

    return tuple(strategies())


formats = words(more=_formats)
strategies = words("auto", "search", more=_strategies)
codecs = words(*_CODECS)
