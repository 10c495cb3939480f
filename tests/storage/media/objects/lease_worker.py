"""What a worker process does under the lease of another one."""

from __future__ import annotations

import pickle

from reblock.errors import StorageError
from reblock.storage.media.object import ObjectMedium


def write_for_owner(medium: ObjectMedium, key: str) -> str:
    """Write an object, and tell what stopped it."""
    try:
        medium.write(key, [b"from a worker"])
    except StorageError as error:
        return str(error)
    return ""


def write_pickled(medium: bytes, key: str) -> str:
    """The same with a medium that was sent some time ago."""
    return write_for_owner(pickle.loads(medium), key)
