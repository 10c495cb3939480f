"""Adding: put a new array into an existing file by way of a copy, which replaces the file at the end.

::

    old.h5 and old.h5::/new           what the file holds must not change meanwhile: its stamp is in the journal
    → .old.h5.reblock/array           a copy, to which the array is added as to a new file
    → old.h5                          one rename; until then the old file stays intact

A file is added to if the array's name is new in it; the format checks that, see `AddingFormat`.
"""

from __future__ import annotations

from reblock.errors import ChangedError, StorageError, UsageError, command
from reblock.model.medium import FILE, LINK, Status
from reblock.model.schema import Schema
from reblock.model.store import AddingFormat, Format
from reblock.storage import registry
from reblock.storage.location import Location
from reblock.storage.media.files import disk_errors
from reblock.storage.media.registry import medium_of
from reblock.storage.media.small import exists

#: Size, inode and time of the last write of a file that is added to.
Stamp = list[int]


def is_addition(where: Location, kind: Format, schema: Schema | None = None) -> bool:
    """Whether an array's name is new in an existing file; UsageError if an array (of `schema`) cannot be there."""
    if not where.inner or not isinstance(kind, AddingFormat) or not medium_of(where.path).is_local:
        return False
    found = _status(where.path)
    if found is None or found.kind not in (FILE, LINK) or not kind.probe(where.path):
        return False
    if not kind.can_add(where.path, where.inner, schema):
        return False
    if found.kind == LINK:
        raise UsageError(f"{where.path} is a symbolic link: name the file that it leads to, which is replaced")
    return True


def format_of_file(where: Location, kind: Format) -> Format:
    """The format of the existing file that an array is added to; the given format if there is no such file."""
    if not where.inner or not isinstance(kind, AddingFormat) or not exists(medium_of(where.path), where.path):
        return kind
    try:
        return registry.detect(where.path)
    except StorageError:
        return kind


def stamp_of(path: str) -> Stamp:
    """The stamp of a file that is added to."""
    found = _status(path)
    if found is None:
        raise ChangedError(f"{path}, to which an array is being added, is gone")
    return [found.size, found.identity, found.modified_ns]


def check_stamp(path: str, before: Stamp) -> None:
    """Raise ChangedError if a file has changed since the run that adds to it began."""
    if stamp_of(path) != before:
        raise ChangedError(
            f"{path} changed since the run that adds to it began: {command('clean', path)} discards the run"
        )


def _status(path: str) -> Status | None:
    with disk_errors("look at", path):
        try:
            return medium_of(path).status(path, follow=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
