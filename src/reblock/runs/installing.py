"""Installing: complete a committed change by moving its objects into the array.

::

    journal: complete      the commit: from here on the change is completed, whatever happens to the source
      1  the stored digest is removed from the array, and from the joint index of the groups above
      2  objects of the patch are renamed to their places in the array
      3  metadata with the new lengths and the record of the change, then the joint index
    journal: installed     only the staging folder remains to be removed

Every step may be repeated, so a redo that was interrupted begins again with the first one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from reblock.errors import ChangedError, FormatError, ReblockError, UnfinishedError, UsageError, command
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
    """The text for a record: the job that made an array's last change, with the digest of the patch."""
    return job if digest is None else f"{job}{_BETWEEN}{digest}"


def last_job(record: Record) -> tuple[str, str | None]:
    """The job of the last change of an array, and the digest of its patch."""
    job, _, digest = (record.job or "").partition(_BETWEEN)
    return job, digest or None


def changes_of(journal: Journal) -> dict[str, tuple[Change, str]]:
    """The change and the format of each array that a run changes, by its name; empty if it makes new arrays."""
    try:
        return {
            str(one["name"]): (Change.from_json(one), str(one["format"])) for one in journal.header.get("changes", ())
        }
    except (LookupError, TypeError, ValueError):
        raise FormatError(
            f"{journal.log.key}: the changes of the run cannot be read: {command('clean')} removes it"
        ) from None


def change_header(patches: Mapping[str, Patch]) -> dict[str, Any]:
    """The changes, for the header of a journal; nothing if there are none."""
    found = [{"name": name, "format": one.name, **one.change.to_json()} for name, one in patches.items()]
    return {"changes": found} if found else {}


def check_bases(target: str, patches: Mapping[str, Patch]) -> None:
    """Raise ChangedError if arrays have changed since the run was planned, UsageError if a change is impossible."""
    for name, patch in patches.items():
        _check_base(target, name, patch)


def _check_base(target: str, name: str, patch: Patch) -> None:
    if patch.refusal:
        raise UsageError(patch.refusal)
    place = _place(target, name)
    if name and Staging(place).is_there:
        raise UnfinishedError(f"an unfinished run changes {place}: {command('status', place)} shows it")
    now = _open(place, patch.name)
    before, after = (
        (one.dtype, one.chunks, one.shards, one.order, one.codec) for one in (patch.base.schema, now.schema)
    )
    if before != after or now.layout.shape != patch.change.before:
        raise ChangedError(f"{place} was changed by another program since the run was planned: nothing was changed")
    check_movable(now, target, place)


def _place(target: str, name: str) -> str:
    return os.path.join(target, name) if name else target


def check_movable(base: Patchable, target: str, place: str) -> None:
    """Raise if objects of a patch, made beside the target, could not be moved into an array at a place in it."""
    medium = base.medium
    if not isinstance(medium, Mover):
        raise no_mover(base.location, medium)
    parent = absolute(target.rstrip("/") or "/").rpartition("/")[0] or "/"
    medium.check_moves(parent, place)


def install(staging: Staging, journal: Journal) -> None:
    """Complete changes that were committed. The lock must be held."""
    changes, complete = changes_of(journal), journal.complete()
    if not changes or complete is None:
        raise UsageError(f"{staging.target}: there is no committed change")
    try:
        _install(staging, changes, str(complete.get("job")), journal.done())
    except ReblockError as error:
        staging.rename_in(error)
        error.add(f"the change is committed: the same command, or {command('resume', staging.target)}, completes it")
        raise
    journal.append({"installed": True})


def _install(
    staging: Staging, changes: Mapping[str, tuple[Change, str]], job: str, digests: Mapping[str, str | None]
) -> None:
    target = absolute(staging.target)
    bases = {name: _base(_place(target, name), *one) for name, one in changes.items()}
    records = {name: Record(job=job_text(job, digests.get(name))) for name in changes}
    for name, base in bases.items():
        if base.schema.record not in (NO_RECORD, records[name]):
            base.describe(base.layout.shape, NO_RECORD)
            announce(Location(_place(target, name)), registry.get(base.format))
    for name, base in bases.items():
        Patch(base, changes[name][0]).move_objects(_place(staging.workspace.array, name))
    for name, base in bases.items():
        base.describe(changes[name][0].after, records[name])
    for name, base in bases.items():
        announce(Location(_place(target, name)), registry.get(base.format))


def _base(place: str, change: Change, format: str) -> Patchable:
    base = _open(place, format)
    if base.layout.shape not in (change.before, change.after):
        raise ChangedError(
            f"{place} has shape {list(base.layout.shape)}, the change was made for {list(change.before)}"
        )
    return base


def _open(target: str, name: str) -> Patchable:
    found = registry.open(target, name)
    if not isinstance(found, Patchable):
        raise UsageError(f"{target}: an array of {found.format} cannot be changed in place")
    return found
