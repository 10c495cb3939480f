"""Unfinished runs: show their state, and remove them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Any

import numpy as np

from reblock.errors import DiskError, ExternalError, FormatError, StorageError, UsageError, command
from reblock.model import Plan
from reblock.model.medium import Medium
from reblock.model.workspace import Workspace
from reblock.runs.disks import listed_folders, settle_disks
from reblock.runs.identity import began_with_object
from reblock.runs.inside import place_inside
from reblock.runs.installing import install
from reblock.runs.journal import Journal
from reblock.runs.members import ENDED, ArrayMember, MemberProgress, members_of, require_idle, segments
from reblock.runs.numbers import Numbers
from reblock.runs.scratch import is_kept_folder, remove_kept
from reblock.runs.staging import Staging, target_name
from reblock.storage import registry
from reblock.storage.location import Location, Where, absolute, shown

#: The most names that a message lists, and the most that are searched for them.
_SHOWN, _MOST_NAMES = 3, 10_000
#: Parts of a request that are not options.
_ENDS = ("source", "target")


@dataclass(frozen=True)
class ArrayProgress:
    """How far one array of a run is."""

    name: str
    """Its name in the dataset; "" if it is not in one."""
    finished_boxes: int
    """Write boxes that are done, all passes."""
    boxes: int
    """All write boxes, all passes."""
    finished_bytes: int
    """Logical bytes of the target that are done."""
    bytes: int
    """Logical bytes of the target."""


@dataclass(frozen=True)
class Unfinished:
    """The state of a run that has not finished, or not cleaned up."""

    target: str
    """Its target."""
    source: str
    """Its source."""
    state: str
    """`running`, `stopped`, `committed` if a change remains to be completed, or `complete` if only leftovers remain to
    be removed."""
    running: str | None
    """The process that works on it, in words, or None."""
    started: str
    """When its first attempt began, in UTC."""
    strategy: str
    """The strategy of its plan."""
    memory_bytes: int
    """The memory of its plan."""
    finished_boxes: int
    """Write boxes that are done, all passes."""
    boxes: int
    """All write boxes, all passes."""
    finished_bytes: int
    """Logical bytes of the target that are done."""
    bytes: int
    """Logical bytes of the target."""
    staging: str
    """The folder in which the target is built."""
    scratch: str | None
    """The folder of its intermediate arrays, if it has any."""
    disks: list[str]
    """The folders of its blocks on several disks, once it is complete."""
    options: dict[str, Any]
    """The options that were given, by the names of arguments."""
    arrays: dict[str, ArrayProgress]
    """How far each array of a dataset is, by name; empty if the target is one array."""
    members: list[MemberProgress]
    """How far each member of a job array is; empty if the run is not one."""

    def to_json(self) -> dict[str, Any]:
        """The document of `reblock status --json`."""
        return asdict(self)


def status(target: Where) -> Unfinished | None:
    """The state and options of the run that makes a target; None if the target is complete and no run is left.

    UsageError if there is neither a run nor an array.

    Examples
    --------
    >>> import numpy, reblock
    >>> report = reblock.repartition(numpy.arange(6), "memory://status/x.zarr", chunks=4)
    >>> reblock.status("memory://status/x.zarr") is None
    True
    """
    staging = staging_of(target)
    holder = staging.workspace.holder()
    with staging.looking() as journal:
        if journal is not None:
            return _describe(staging, journal, holder)
    if holder is None:
        check_known(staging, target)
        return None
    raise UsageError(f"{staging.target}: a run has just begun ({holder}), try again in a moment")


def _describe(staging: Staging, journal: Journal, holder: str | None) -> Unfinished:
    header, plans = journal.header, journal.header["plans"]
    has_scratch = any(plan["scratch"] for plan in plans)
    arrays, members = finished_parts(journal, staging.workspace), _members(staging.workspace, journal)
    holder = holder or next((one.running for one in members if one.running), None)
    return Unfinished(
        target=str(Location(absolute(staging.target), header["target"])),
        source=header["request"].get("source", "an object of another program" if began_with_object(header) else ""),
        state=_state(staging, journal, holder),
        running=holder,
        started=header["started"],
        strategy=", ".join(dict.fromkeys(plan["strategy"] for plan in plans)),
        memory_bytes=max((plan["memory_bytes"] for plan in plans), default=0),
        finished_boxes=sum(one.finished_boxes for one in arrays),
        boxes=sum(one.boxes for one in arrays),
        finished_bytes=sum(one.finished_bytes for one in arrays),
        bytes=sum(one.bytes for one in arrays),
        staging=staging.folder,
        scratch=header["scratch"] or (staging.workspace.scratch if has_scratch else None),
        disks=list(header.get("disks") or []),
        options={key: value for key, value in journal.header.get("request", {}).items() if key not in _ENDS},
        arrays={} if "" in header["problem"]["arrays"] else {one.name: one for one in arrays},
        members=members,
    )


def _state(staging: Staging, journal: Journal, holder: str | None) -> str:
    if holder:
        return "running"
    if staging.is_committed(journal):
        return "committed"
    return "complete" if staging.is_published(journal) else "stopped"


def _members(workspace: Workspace, journal: Journal) -> list[MemberProgress]:
    """How far each member of a job array is."""
    if not (count := members_of(journal)):
        return []
    begun: dict[int, tuple[str | None, bool, int]] = {}
    for number, segment in segments(workspace):
        holder = segment.holder()
        with segment.looking() as log:
            own = Journal.open(log)
            boxes = 0 if own is None else sum(len(group.boxes) for group in own.groups())
            begun[number] = holder, own is not None and own.has(ENDED), boxes
    plans = [Plan.from_json(one) for one in journal.header["plans"]]
    found = []
    for number in range(count):
        holder, ended, boxes = begun.get(number, (None, False, 0))
        state = "running" if holder else "done" if ended else "stopped" if number in begun else "waiting"
        tasks = sum(map(len, ArrayMember(number, count).shares(plans)))
        found.append(MemberProgress(number, state, holder, tasks, boxes))
    return found


def clean(target: Where) -> list[str]:
    """Remove the files of an unfinished run; returns their paths. LockedError while it runs.

    UsageError if there is neither a run nor an array.

    Examples
    --------
    >>> import numpy, reblock
    >>> report = reblock.repartition(numpy.arange(6), "memory://clean/x.zarr", chunks=4)
    >>> reblock.clean("memory://clean/x.zarr")
    []
    """
    staging = staging_of(target)
    if not staging.is_there:
        check_known(staging, target)
        return []
    return remove_unfinished(staging)


def remove_unfinished(staging: Staging) -> list[str]:
    """Remove the files of a run; returns their paths."""
    if not staging.is_there:
        return []
    with staging:
        require_idle(staging.workspace, str(staging.target))
        try:
            journal = staging.find_journal()
        except FormatError:
            journal = None
        published = journal is not None and staging.is_published(journal)
        if journal is not None and staging.is_committed(journal):
            raise UsageError(
                f"{staging.target}: a change of it is committed, and new chunks may be in place: it can only be "
                f"completed, with {command('resume', staging.target)}"
            )
        removed = remove_listed_scratch(journal.header) if journal else []
        removed += settle_journal(journal, published=published) if journal else []
        removed += staging.remove(finished=published)
    if staging.left:
        raise UsageError(f"{', '.join(staging.left)} was not made by reblock, and is not removed")
    return removed


def complete_change(staging: Staging) -> bool:
    """Complete the change that a killed run had committed, and remove its files; False if there is none."""
    with staging.looking() as journal:
        if journal is None or not staging.is_committed(journal):
            return False
    with staging:
        journal = staging.find_journal()
        if journal is None or not staging.is_committed(journal):
            return False
        install(staging, journal)
        remove_listed_scratch(journal.header)
        staging.remove(finished=True)
    return True


def remove_listed_scratch(header: Mapping[str, Any]) -> list[str]:
    """Remove the scratch folder that a journal names, and return its path if there was one."""
    scratch = header["scratch"]
    # A journal is an ordinary file: it must not be able to name any folder for removal.
    return [scratch] if isinstance(scratch, str) and is_kept_folder(scratch) and remove_kept(scratch) else []


def settle_journal(journal: Journal, *, published: bool) -> list[str]:
    """End a run on the disks that its journal names; returns the folders that were removed."""
    replaced = (journal.complete() or {}).get("replaced", [])
    return settle_disks(listed_folders(journal.header), replaced, published=published)


def staging_of(target: Where) -> Staging:
    """The staging folder of the run that makes a target."""
    return Staging(place_of(target).path)


def place_of(target: Where) -> Location:
    """Where the array of a location is built; one inside an existing group is a target of its own."""
    where = registry.locate(target)
    try:
        return place_inside(where, registry.detect(where.path))[0] if where.inner else where
    except StorageError:
        return where  # it does not exist yet


def check_known(staging: Staging, target: Where) -> None:
    """Raise UsageError if a target without a run is not an array either: its name is mistyped."""
    if staging.workspace.has_target:
        try:
            _open_any(target)
        except ExternalError:
            return  # an array whose parts are elsewhere, which nobody needs to read here
        except StorageError as error:
            why = error.message
            raise UsageError(f"{shown(target)}: no unfinished run makes it, and it is not an array ({why})") from error
        return
    folder, name = os.path.split(staging.target)
    if not staging.medium.is_local:
        folder, name = "", staging.target.removeprefix(_parent(staging)).lstrip("/:")
    near = get_close_matches(name, _names(staging.medium, _parent(staging)), _SHOWN)
    hint = f"; similar names: {', '.join(os.path.join(folder, one) for one in near)}"
    raise UsageError(f"{shown(target)}: there is no such array, and no unfinished run makes it{hint if near else ''}")


def _parent(staging: Staging) -> str:
    """The folder of the target, wherever it is built."""
    # A file for an object store is built in a local folder, not where the others are.
    return staging.medium.workspace(staging.target).parent


def _open_any(target: Where) -> None:
    """Open an array or a dataset; StorageError if there is neither."""
    try:
        registry.open(target)
    except StorageError as error:
        try:
            registry.open_tree(target)
        except (StorageError, UsageError):
            raise error from None


def _names(medium: Medium, folder: str) -> list[str]:
    """Names in a folder, and the targets of unfinished runs there."""
    try:
        found = [name for name, _ in islice(medium.entries(folder), _MOST_NAMES)]
    except (OSError, DiskError):
        return []
    return [name for name in found if not name.startswith(".")] + list(filter(None, map(target_name, found)))


def finished_parts(journal: Journal, workspace: Workspace | None = None) -> list[ArrayProgress]:
    """How far each array is; with a workspace, members of a job array count too."""
    counts = journal.header["boxes"]
    found: list[list[Any]] = [[] for _ in counts]
    for group in journal.groups():
        found[group.number].append(group.boxes)
    for _, segment in segments(workspace) if workspace is not None and members_of(journal) else ():
        with segment.looking() as log:
            own = Journal.open(log)
            for group in own.groups() if own is not None else ():
                if group.number < len(found):
                    found[group.number].append(group.boxes)
    done = [len(Numbers.of(np.concatenate(some))) if some else 0 for some in found]
    for number in journal.dropped():
        done[number] = counts[number]
    parts, first = [], 0
    for one in journal.header["arrays"]:
        stop = first + one["passes"]
        last = one["bytes"] * done[stop - 1] // max(counts[stop - 1], 1)
        parts.append(ArrayProgress(one["name"], sum(done[first:stop]), sum(counts[first:stop]), last, one["bytes"]))
        first = stop
    return parts
