"""Completion: what a shell offers for a word that is begun: files, formats, strategies and other values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click
from click.shell_completion import CompletionItem

#: Offers what a word may become.
Offer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

_CODECS = ("none", "zstd:3", "gzip:4", "lzf", "shuffle+gzip:4", "blosc:zstd:5", "blosc:lz4:5:shuffle", "crc32c")


def files(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Files and folders; the shell knows them."""
    return [CompletionItem(begun, type="file")]


def folders(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Folders."""
    return [CompletionItem(begun, type="dir")]


def words(*choice: str, more: Callable[[], Sequence[str]] | None = None) -> Offer:
    """Values by name, some of which are only found when they are asked for."""

    def offer(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
        every = (*choice, *(more() if more else ()))
        return [CompletionItem(word) for word in every if word.startswith(begun)]

    return offer


def devices(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Devices by name, or files that describe one: a shell takes either words or files."""
    from reblock.cost import PRESETS

    return words(*PRESETS)(context, parameter, begun) or files(context, parameter, begun)


def _formats() -> Sequence[str]:
    from reblock.storage import registry

    return registry.formats()


def _strategies() -> Sequence[str]:
    from reblock.strategies import strategies

    return tuple(strategies())


formats = words(more=_formats)
strategies = words("auto", "search", more=_strategies)
codecs = words(*_CODECS)
