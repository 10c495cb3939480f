"""Roots: the folders and files that an array's bytes may come from."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Roots(Protocol):
    """Says whether a file lies where the bytes of an array may come from. Thread-safe, and cheap to ask per chunk.

    Whoever opens a file of an array asks `allows` first and opens without following a link (O_NOFOLLOW); where
    the answer is no, or the file turns out to be a link (ELOOP), `resolve` gives the real path to open instead, or
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
        """Whether a path lies inside, links in its folders resolved; the last name is taken as it is.

        The answer is kept per folder, so this costs a look at the disk for the first file of a folder only.
        """

    def resolve(self, path: str) -> str:
        """The real path, all links resolved; ExternalError where that lies outside."""
