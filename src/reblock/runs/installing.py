"""Installing: the redo of a change, from its commit until the array is what it is to be.

::

    journal: complete      the commit: from here on the change is completed, whatever happens to the source
      1  the stored digest is removed from the array, and from the joint index of the groups above
      2  objects of the patch are renamed to their places in the array
      3  metadata with the new lengths and the record of the change, then the joint index
    journal: installed     only the staging folder remains to be removed

Every step may be repeated, so a redo that was interrupted begins again with the first one.
"""

from __future__ import annotations

from typing import Any

from reblock.errors import ChangedError, FormatError, ReblockError, UsageError, command
from reblock.model import NO_RECORD, Record
from reblock.model.change import Change, Mover, Patchable
from reblock.runs.inside import announce
from reblock.runs.journal import Journal
from reblock.runs.staging import Staging
from reblock.storage import registry
from reblock.storage.location import Location, absolute
from reblock.storage.patches import Patch, no_mover

#: Between the job and the digest of a patch in a record.
_BETWEEN = "/"


def job_text(job: str, digest: str | None) -> str:
    """The job of an array whose last change was made by a job, with the digest of the patch."""
    return job if digest is None else f"{job}{_BETWEEN}{digest}"


def last_job(record: Record) -> tuple[str, str | None]:
    """The job of the last change of an array, and the digest of its patch."""
    job, _, digest = (record.job or "").partition(_BETWEEN)
    return job, digest or None


def change_of(journal: Journal) -> Change | None:
    """The change that a run makes; None if it makes a new array."""
    found = journal.header.get("change")
    if found is None:
        return None
    try:
        return Change.from_json(found)
    except ValueError:
        raise FormatError(
            f"{journal.log.key}: the change of the run is not readable: {command('clean')} removes it"
        ) from None


def check_base(target: str, patch: Patch) -> None:
    """Raise ChangedError if an array is no longer what a change was planned for, UsageError if that is impossible."""
    if patch.refusal:
        raise UsageError(patch.refusal)
    now = _open(target, patch.name)
    before, after = (
        (one.dtype, one.chunks, one.shards, one.order, one.codec) for one in (patch.base.schema, now.schema)
    )
    if before != after or now.layout.shape != patch.change.before:
        raise ChangedError(f"{target} was changed by another program since the run was planned: nothing was changed")
    check_movable(now, target)


def check_movable(base: Patchable, target: str) -> None:
    """Raise if objects of a patch could not be moved into an array."""
    medium = base.medium
    if not isinstance(medium, Mover):
        raise no_mover(base.location, medium)
    medium.check_moves(medium_parent(target), target)


def medium_parent(target: str) -> str:
    """The folder in which the staging folder of a target is."""
    return absolute(target.rstrip("/") or "/").rpartition("/")[0] or "/"


def install(staging: Staging, journal: Journal) -> None:
    """Complete a change that was committed. The lock must be held."""
    change, complete = change_of(journal), journal.complete()
    if change is None or complete is None:
        raise UsageError(f"{staging.target}: there is no committed change")
    target = absolute(staging.target)
    try:
        base = _open(target, str(journal.header.get("format")))
        if base.layout.shape not in (change.before, change.after):
            raise ChangedError(
                f"{staging.target} has shape {list(base.layout.shape)}, the change was made for {list(change.before)}"
            )
        _install(staging, base, change, complete)
    except ReblockError as error:
        staging.rename_in(error)
        error.add(f"the change is committed: the same command, or {command('resume', staging.target)}, completes it")
        raise
    journal.append({"installed": True})


def _install(staging: Staging, base: Patchable, change: Change, complete: dict[str, Any]) -> None:
    target, record = absolute(staging.target), Record(job=complete.get("job"))
    where, kind = Location(target), registry.get(base.format)
    if base.schema.record not in (NO_RECORD, record):
        base.describe(base.layout.shape, NO_RECORD)
        announce(where, kind)
    Patch(base, change).move_objects(staging.workspace.array)
    base.describe(change.after, record)
    announce(where, kind)


def _open(target: str, name: str) -> Patchable:
    found = registry.open(target, name)
    if not isinstance(found, Patchable):
        raise UsageError(f"{target}: an array of {found.format} cannot be changed in place")
    return found
