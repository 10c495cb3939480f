"""Replace: check that a path holds an array or a dataset and nothing else, so that another may replace it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from reblock.errors import FormatError, ReblockError, TargetExistsError, option
from reblock.model.dataset import TreeFormat
from reblock.model.disks import Spreadable
from reblock.model.medium import FILE, FOLDER, LINK
from reblock.model.store import Format, Replaceable
from reblock.storage import registry
from reblock.storage.media.files import disk_errors
from reblock.storage.media.registry import medium_of
from reblock.storage.media.small import RUN_FOLDER
from reblock.storage.roots import FileRoots

#: The most names that a message lists, and the most that are counted.
_SHOWN, _COUNTED = 5, 100_000


def check_replaceable(path: str, allow: Sequence[str] = (), *, dataset: bool = False) -> list[str]:
    """Raise TargetExistsError if anything but an array would be lost; empty files and folders may be replaced.

    A dataset may also replace a dataset all of whose parts are recognised. Returns the folders on other disks that hold
    parts of the array; they must be inside the allowed folders.
    """
    medium, what = medium_of(path), "arrays with their groups" if dataset else "an array"
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
        names = list(islice(_strangers(kind, path, dataset=dataset, **registry.elsewhere(medium)), _COUNTED))
        if isinstance(kind, Spreadable):
            more = kind.disk_folders(path, allow, **registry.elsewhere(medium))
    except TargetExistsError:
        raise
    except ReblockError as error:
        raise _refusal(path, f"is not {'arrays' if dataset else 'one array'} alone ({error.message})", what) from error
    names = [name for name in names if name != RUN_FOLDER]
    if names:
        rest = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
        kind_of = "arrays" if dataset else "one array"
        raise _refusal(path, f"holds more than {kind_of}: {', '.join(sorted(names[:_SHOWN]))}{rest}", what)
    return more


def _strangers(kind: Format, path: str, *, dataset: bool, **elsewhere: Any) -> Iterable[str]:
    """What at a path does not belong to the array or the dataset there, in words."""
    trees = kind if isinstance(kind, TreeFormat) and dataset else None
    if not isinstance(kind, Replaceable):
        raise _refusal(path, f"has the format {kind.name}, which cannot tell what belongs to an array")
    if trees is None:
        return kind.strangers(path, **elsewhere)
    try:
        tree = trees.open_tree(path, "", **elsewhere).tree
    except FormatError:
        # An array at the top.
        return kind.strangers(path, **elsewhere)
    return trees.tree_strangers(path, tree, **elsewhere)


def _refusal(path: str, why: str, what: str = "an array") -> TargetExistsError:
    return TargetExistsError(
        f"{path} {why}; {option('overwrite', True)} replaces {what} and nothing else, so move it away "
        "or choose another name"
    )
