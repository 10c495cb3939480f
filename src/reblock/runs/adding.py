"""Adding: a new array goes into an existing file on a copy of it, which replaces the file at commit.

::

    old.h5 and old.h5::/new           what the file holds must not change meanwhile: its stamp is in the journal
    → .old.h5.reblock/array           a copy, to which the array is added as to a new file
    → old.h5                          one rename; until then the old file is whole

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
    """Whether an array is new in an existing file; UsageError if it has no place there, for a schema if given."""
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
    """The format of the file that an array may be added to; the given one if there is none."""
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
    """Raise ChangedError if a file is not what it was when the run that adds to it began."""
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
