"""Replace: check that a path holds an array and nothing else, so that another may replace it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from reblock.errors import ReblockError, TargetExistsError, option
from reblock.model.disks import Spreadable
from reblock.model.medium import FILE, FOLDER, LINK
from reblock.model.store import Replaceable
from reblock.storage import registry
from reblock.storage.media.files import disk_errors
from reblock.storage.media.registry import medium_of
from reblock.storage.media.small import RUN_FOLDER
from reblock.storage.roots import FileRoots

#: The most names that a message lists, and the most that are counted.
_SHOWN, _COUNTED = 5, 100_000


def check_replaceable(path: str, allow: Sequence[str] = ()) -> list[str]:
    """Raise TargetExistsError if anything but an array would be lost; empty files and folders may be replaced.

    Returns the folders on other disks that hold parts of the array; they must be inside the allowed folders.
    """
    medium = medium_of(path)
    with disk_errors("look at", path):
        try:
            found = medium.status(path, follow=False)
        except FileNotFoundError:
            return []
        if found.kind == LINK:
            roots = medium.roots(path)
            where = f" to {roots.real}" if isinstance(roots, FileRoots) else ""
            raise _refusal(path, f"is a symbolic link{where}: name that, or remove the link")
        if found.kind not in (FILE, FOLDER):
            raise _refusal(path, f"is {found.kind}")
        if not (found.size if found.kind == FILE else medium.entries(path)):
            return []
    more: list[str] = []
    try:
        kind = registry.detect(path)
        if not isinstance(kind, Replaceable):
            raise _refusal(path, f"has the format {kind.name}, which cannot tell what belongs to an array")
        names = list(islice(kind.strangers(path, **registry.elsewhere(medium)), _COUNTED))
        if isinstance(kind, Spreadable):
            more = kind.disk_folders(path, allow, **registry.elsewhere(medium))
    except TargetExistsError:
        raise
    except ReblockError as error:
        raise _refusal(path, f"is not one array alone ({error})") from error
    names = [name for name in names if name != RUN_FOLDER]
    if names:
        rest = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
        raise _refusal(path, f"holds more than one array: {', '.join(sorted(names[:_SHOWN]))}{rest}")
    return more


def _refusal(path: str, why: str) -> TargetExistsError:
    return TargetExistsError(
        f"{path} {why}; {option('overwrite', True)} replaces an array and nothing else, so move it away "
        "or choose another name"
    )
