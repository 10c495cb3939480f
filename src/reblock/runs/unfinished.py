"""Unfinished runs: how far they are, and how to be rid of them."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Any

import numpy as np

from reblock.errors import FormatError, StorageError, UsageError
from reblock.runs.journal import Journal
from reblock.runs.lock import who_holds
from reblock.runs.numbers import Numbers
from reblock.runs.scratch import is_kept_folder, remove_kept
from reblock.runs.staging import Staging, target_name
from reblock.storage import registry
from reblock.storage.location import Location, Where
from reblock.storage.media.files import disk_errors

#: Names that a message lists, and that are looked at to find them.
_SHOWN, _MOST_NAMES = 3, 10_000
#: Parts of a request that are no options.
_ENDS = ("source", "target")


@dataclass(frozen=True)
class Unfinished:
    """What is known of a run that has not ended, or not tidied up."""

    target: str
    """What it makes."""
    source: str
    """Of what."""
    state: str
    """`running`, `stopped`, or `complete` where only leftovers are to be removed."""
    running: str | None
    """Who works on it, in words; None where nobody does."""
    started: str
    """When its first attempt began, in UTC."""
    strategy: str
    """How it does it."""
    memory_bytes: int
    """Its budget."""
    finished_boxes: int
    """Write boxes that are done, all passes."""
    boxes: int
    """All write boxes, all passes."""
    finished_bytes: int
    """Logical bytes of the target that are done."""
    bytes: int
    """Logical bytes of the target."""
    staging: str
    """Where it is built."""
    scratch: str | None
    """Where its intermediate arrays are, if it has any."""
    options: dict[str, Any]
    """What was asked for, by the names of arguments; what is not there was not given."""

    def to_json(self) -> dict[str, Any]:
        """What `reblock status --json` prints."""
        return asdict(self)


def status(target: Where) -> Unfinished | None:
    """How far the run is that makes a target, and with which options; None where it is complete and no run was left.

    UsageError where there is neither a run nor an array.
    """
    staging = staging_of(target)
    with disk_errors("look at", staging.folder):
        holder = who_holds(staging.lock)
    with staging.looking() as journal:
        if journal is not None:
            return _describe(staging, journal, holder)
    if holder is None:
        check_known(staging, target)
        return None
    raise UsageError(f"{staging.target}: a run has just begun ({holder}), ask again in a moment")


def _describe(staging: Staging, journal: Journal, holder: str | None) -> Unfinished:
    header, complete = journal.header, journal.complete()
    published = complete is not None and staging.published(complete["inode"])
    finished, last = finished_part(journal)
    return Unfinished(
        target=str(Location(os.path.abspath(staging.target), header["problem"]["target"]["inner"])),
        source=header["request"].get("source", ""),
        state="running" if holder else "complete" if published else "stopped",
        running=holder,
        started=header["started"],
        strategy=header["plan"]["strategy"],
        memory_bytes=header["plan"]["memory_bytes"],
        finished_boxes=finished,
        boxes=sum(journal.header["boxes"]),
        finished_bytes=last,
        bytes=journal.header["bytes"],
        staging=staging.folder,
        scratch=header["scratch"] or (os.path.join(staging.folder, "scratch") if header["plan"]["scratch"] else None),
        options={key: value for key, value in journal.header.get("request", {}).items() if key not in _ENDS},
    )


def clean(target: Where) -> list[str]:
    """Remove what an unfinished run has left, and say what that was; LockedError while it runs.

    UsageError where there is neither a run nor an array.
    """
    staging = staging_of(target)
    if not staging.is_there:
        check_known(staging, target)
        return []
    return remove_unfinished(staging)


def remove_unfinished(staging: Staging) -> list[str]:
    """Remove what a run has left; says what that was."""
    if not staging.is_there:
        return []
    with staging:
        try:
            journal = staging.find_journal()
        except FormatError:
            journal = None
        scratch = journal.header["scratch"] if journal else None
        removed = []
        # A journal is a file like any other: it does not get to name just anything to be removed.
        if isinstance(scratch, str) and is_kept_folder(scratch) and remove_kept(scratch):
            removed.append(scratch)
        removed += staging.remove()
    if staging.left:
        raise UsageError(f"{', '.join(staging.left)} was not made by reblock, and is left where it is")
    return removed


def staging_of(target: Where) -> Staging:
    """Where the run works that makes a target."""
    return Staging(registry.locate(target).path)


def check_known(staging: Staging, target: Where) -> None:
    """UsageError where there is no array at a target that no run makes: its name is mistyped."""
    if os.path.lexists(staging.target):
        try:
            registry.open(target)
        except StorageError as error:
            raise UsageError(
                f"{os.fspath(target)}: no unfinished run makes it, and it is no array ({error})"
            ) from error
        return
    near = get_close_matches(os.path.basename(staging.target), _names(staging.parent), _SHOWN)
    hint = f"; near it: {', '.join(os.path.join(os.path.dirname(staging.target), name) for name in near)}"
    raise UsageError(
        f"{os.fspath(target)}: there is no such array, and no unfinished run makes it{hint if near else ''}"
    )


def _names(folder: str) -> list[str]:
    """Names in a folder, and those that unfinished runs there are going to make."""
    try:
        with os.scandir(folder) as entries:
            found = [entry.name for entry in islice(entries, _MOST_NAMES)]
    except OSError:
        return []
    return [name for name in found if not name.startswith(".")] + list(filter(None, map(target_name, found)))


def finished_part(journal: Journal) -> tuple[int, int]:
    """Write boxes that are done, and logical bytes of the last pass."""
    counts = journal.header["boxes"]
    found: list[list[Any]] = [[] for _ in counts]
    for group in journal.groups():
        found[group.number].append(group.boxes)
    done = [len(Numbers.of(np.concatenate(some))) if some else 0 for some in found]
    for number in journal.dropped():
        done[number] = counts[number]
    return sum(done), journal.header["bytes"] * done[-1] // max(counts[-1], 1)
