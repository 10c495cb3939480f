"""Progress messages of benchmarks: a callable that takes one line of text."""

from __future__ import annotations

from collections.abc import Callable

#: Receives one progress message.
Notify = Callable[[str], None]


def silent(_: str) -> None:
    """Ignore a message."""
