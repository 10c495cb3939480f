"""Opener: opens the objects of a source, and checks that they look as they did when the run began."""

from __future__ import annotations

from reblock.engine.source_state import SourceState
from reblock.errors import ChangedError, StorageError
from reblock.model import Medium, ReadHandle, Store


class Opener:
    """Opens objects through the medium of their store, inside its roots."""

    def __init__(self, store: Store, state: SourceState | None = None) -> None:
        """Without `state` nothing is checked."""
        self._medium, self._roots, self._state = store.medium, store.roots, state

    def reader(self, key: str, *, direct: bool = False, number: int | None = None) -> ReadHandle:
        """Open an object for reading; FileNotFoundError where there is none. `direct` is a request.

        With the number of the object: a ChangedError if it looks different, or existed and is missing now.
        """
        state = self._state if number is not None else None
        try:
            handle = self._medium.reader(key, roots=self._roots, direct=direct)
        except FileNotFoundError:
            if state is not None and number is not None and not state.knows(number, None):
                raise changed(self._medium, key) from None
            raise
        if state is not None and number is not None and not state.knows(number, handle.status()):
            handle.close()
            raise changed(self._medium, key)
        return handle


def changed(medium: Medium, key: str) -> ChangedError:
    """An error for an object that has changed, or is missing, since the start of the run."""
    try:
        medium.status(key)
    except (FileNotFoundError, StorageError):
        return ChangedError(f"{key} was there when the run began and is missing now")
    return ChangedError(f"{key} has changed since the run began: another program writes to it, or has replaced it")
