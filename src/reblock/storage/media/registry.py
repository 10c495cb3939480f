"""Find the medium of a key."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from reblock.errors import UsageError
from reblock.model.medium import Medium
from reblock.model.workspace import TargetMedium
from reblock.storage.media.local import LOCAL
from reblock.storage.media.memory import MEMORY, SCHEME
from reblock.storage.media.postgres_url import is_database


def medium_of(key: str) -> Medium:
    """The medium of a path or URL; UsageError for an unsupported URL."""
    if key.startswith(SCHEME):
        return MEMORY
    if is_database(key):
        return _postgres()
    if "://" in key:
        raise UsageError(
            f"{key}: only local files, postgresql:// and {SCHEME} are possible in this version, not other URLs"
        )
    return LOCAL


def _postgres() -> Medium:
    """The medium of databases, whose library is an extra."""
    if find_spec("psycopg") is None:
        raise UsageError("arrays in PostgreSQL need the module psycopg: pip install 'reblock[postgres]'")
    try:
        found: Medium = import_module("reblock.storage.media.postgres").POSTGRES
    except ImportError as error:
        raise UsageError(
            f"arrays in PostgreSQL need psycopg 3, which cannot be loaded ({error}): pip install 'reblock[postgres]'"
        ) from error
    return found


def target_medium(key: str) -> TargetMedium:
    """The medium of a path or URL that is to be written; UsageError if it can only be read."""
    medium = medium_of(key)
    if not isinstance(medium, TargetMedium):
        raise UsageError(f"{key}: {medium.name} can only be read")
    return medium
