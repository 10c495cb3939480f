"""Replace: check that a path holds an array and nothing else, so that another may replace it."""

from __future__ import annotations

import os
import stat
from itertools import islice

from reblock.errors import ReblockError, TargetExistsError, option
from reblock.model.store import Replaceable
from reblock.storage import registry
from reblock.storage.media.files import disk_errors, kind_of

#: The most names that a message lists, and the most that are counted.
_SHOWN, _COUNTED = 5, 100_000


def check_replaceable(path: str) -> None:
    """Raise TargetExistsError if anything but an array would be lost; empty files and folders may be replaced."""
    with disk_errors("look at", path):
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return
        if stat.S_ISLNK(found.st_mode):
            raise _refusal(path, f"is a symbolic link to {os.readlink(path)}: name that, or remove the link")
        if not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
            raise _refusal(path, f"is {kind_of(found.st_mode)}")
        if _is_empty(path, found):
            return
    try:
        kind = registry.detect(path)
        if not isinstance(kind, Replaceable):
            raise _refusal(path, f"has the format {kind.name}, which cannot tell what belongs to an array")
        names = list(islice(kind.strangers(path), _COUNTED))
    except TargetExistsError:
        raise
    except ReblockError as error:
        raise _refusal(path, f"is not one array alone ({error})") from error
    if names:
        more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
        raise _refusal(path, f"holds more than one array: {', '.join(sorted(names[:_SHOWN]))}{more}")


def _is_empty(path: str, found: os.stat_result) -> bool:
    if stat.S_ISREG(found.st_mode):
        return not found.st_size
    with os.scandir(path) as entries:
        return next(entries, None) is None


def _refusal(path: str, why: str) -> TargetExistsError:
    return TargetExistsError(
        f"{path} {why}; {option('overwrite', True)} replaces an array and nothing else, so move it away "
        "or choose another name"
    )
