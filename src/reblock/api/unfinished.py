"""Unfinished runs: how far they are, and how to be rid of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from reblock.api.array import Where
from reblock.api.scratch import is_kept_folder, remove_kept
from reblock.errors import FormatError, UsageError
from reblock.storage import registry
from reblock.storage.files import disk_errors
from reblock.storage.journal import Journal
from reblock.storage.lock import who_holds
from reblock.storage.numbers import Numbers
from reblock.storage.staging import Staging


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

    def to_json(self) -> dict[str, Any]:
        """What `reblock status --json` prints."""
        return asdict(self)


def status(target: Where) -> Unfinished | None:
    """How far the run is that makes a target, or why it is not there; None where no run has been left."""
    staging = _staging(target)
    with disk_errors("look at", staging.folder):
        holder = who_holds(staging.lock)
    with staging.looking() as journal:
        if journal is not None:
            return _describe(staging, journal, holder)
    if holder is None:
        return None
    raise UsageError(f"{staging.target}: a run has just begun ({holder}), ask again in a moment")


def _describe(staging: Staging, journal: Journal, holder: str | None) -> Unfinished:
    problem, complete = journal.header["problem"], journal.complete()
    published = complete is not None and staging.published(complete["inode"])
    finished, last = finished_part(journal)
    return Unfinished(
        target=problem["target"]["array"],
        source=problem["source"]["array"],
        state="running" if holder else "complete" if published else "stopped",
        running=holder,
        started=journal.header["started"],
        strategy=problem["plan"]["strategy"],
        memory_bytes=problem["plan"]["memory_bytes"],
        finished_boxes=finished,
        boxes=sum(journal.header["boxes"]),
        finished_bytes=last,
        bytes=journal.header["bytes"],
        staging=staging.folder,
        scratch=problem["scratch"],
    )


def clean(target: Where) -> list[str]:
    """Remove what an unfinished run has left, and say what that was; LockedError while it runs."""
    staging = _staging(target)
    if not staging.is_there:
        return []
    with staging:
        try:
            journal = staging.find_journal()
        except FormatError:
            journal = None
        scratch = journal.header["problem"]["scratch"] if journal else None
        removed = []
        # A journal is a file like any other: it does not get to name just anything to be removed.
        if isinstance(scratch, str) and is_kept_folder(scratch, staging.target) and remove_kept(scratch):
            removed.append(scratch)
        removed += staging.remove()
    if staging.left:
        raise UsageError(f"{', '.join(staging.left)} was not made by reblock, and is left where it is")
    return removed


def _staging(target: Where) -> Staging:
    return Staging(registry.locate(target).path)


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
