"""Find the medium of a key."""

from __future__ import annotations

from reblock.errors import UsageError
from reblock.model.medium import Medium
from reblock.storage.media.local import LOCAL
from reblock.storage.media.memory import MEMORY, SCHEME


def medium_of(key: str) -> Medium:
    """The medium of a path or URL; UsageError for an unsupported URL."""
    if key.startswith(SCHEME):
        return MEMORY
    if "://" in key:
        raise UsageError(f"{key}: only local files and {SCHEME} can be opened in this version, not other URLs")
    return LOCAL
