"""Roots: the folders and files from which an array's bytes may come."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Roots(Protocol):
    """Tells whether a file may be read as part of an array. Thread-safe, and cheap enough for every chunk.

    Code that opens a file of an array calls `allows` first and opens without following a link (O_NOFOLLOW). If that
    returns False, or the file turns out to be a link (ELOOP), `resolve` returns the real path to open instead, or
    raises. ::

        if roots.allows(path):
            try:
                return os.open(path, flags | os.O_NOFOLLOW)
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
        return os.open(roots.resolve(path), flags)
    """

    def allows(self, path: str) -> bool:
        """Whether a path is inside, with links in its folders resolved but not in its last name.

        The result is cached per folder, so only the first file of a folder costs disk access.
        """

    def resolve(self, path: str) -> str:
        """The real path; ExternalError if it is outside."""
