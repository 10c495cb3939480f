"""Find the medium of a key."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from reblock.errors import UsageError
from reblock.model.medium import Medium
from reblock.model.workspace import TargetMedium
from reblock.storage.media.local import LOCAL
from reblock.storage.media.memory import MEMORY, SCHEME
from reblock.storage.media.object_url import READABLE, check_url, clean_url, is_object, split_object
from reblock.storage.media.postgres_url import is_database


def medium_of(key: str) -> Medium:
    """The medium of a path or URL; UsageError for an unsupported URL."""
    if key.startswith(SCHEME):
        return MEMORY
    if is_database(key):
        return _postgres()
    if is_object(key):
        found: Medium = _object_stores().find_medium(key)
        return found
    if "://" in key:
        raise UsageError(
            f"{clean_url(key)}: use a local path, s3://, gs://, az://, http(s)://, postgresql:// or {SCHEME}, not "
            "another URL"
        )
    return LOCAL


def connect(url: str, options: Mapping[str, str], *, locks: bool = True) -> None:
    """Use storage options for the bucket of a URL from now on."""
    if not is_object(url):
        raise UsageError(f"{clean_url(url)}: only s3://, gs://, az:// and http(s):// URLs have storage options")
    check_url(url)
    _object_stores().connect(split_object(url)[0], options, locks)


def connect_all(*, options: Mapping[str, str] | None = None, locks: bool | None = None) -> None:
    """Use storage options for all buckets from now on; None = as before."""
    _object_stores().set_defaults(options, locks)


def _object_stores() -> Any:
    """The module of object stores, whose library is an extra."""
    for module in ("obstore", "urllib3"):
        if find_spec(module) is None:
            raise UsageError(f"object stores need the module {module}: pip install 'reblock[s3]'")
    return import_module("reblock.storage.media.object")


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
    if not isinstance(medium, TargetMedium) or key.startswith(READABLE):
        raise UsageError(f"{key}: {medium.name} can only be read")
    return medium
