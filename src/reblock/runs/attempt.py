"""Attempt: one run on one target, under a lock, with a journal, continuing where an earlier one stopped.

::

    lock → journal exists?  no: begin one                     same problem: trust what is finished
                            another problem: refuse           already published: only clean up
         → make the target (`making`) → publish → remove staging
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from reblock.engine import Crew, digest
from reblock.errors import (
    ChangedError,
    FormatError,
    StorageError,
    TargetExistsError,
    UnfinishedError,
    command,
    option,
)
from reblock.model import NO_RECORD, Format, Plan, Record, TreeFormat
from reblock.runs.adding import check_stamp, stamp_of
from reblock.runs.adopt import stored_plan
from reblock.runs.conflict import conflict
from reblock.runs.disks import disks_of, listed_folders, needs_on_disks, new_folders
from reblock.runs.identity import began_with_object, job_of
from reblock.runs.inside import announce
from reblock.runs.installing import change_header, changes_of, check_bases, install, last_job
from reblock.runs.journal import Journal
from reblock.runs.making import Making
from reblock.runs.members import absorb, members_of, require_idle
from reblock.runs.meter import Meter
from reblock.runs.scratch import kept_folder, remove_kept
from reblock.runs.sources import Sources
from reblock.runs.space import Need, check_space, foresee, need_of, needs_of_scratch
from reblock.runs.staging import Staging
from reblock.runs.unfinished import finished_parts, remove_listed_scratch, settle_journal
from reblock.runs.work import DatasetWork, Work, number_passes
from reblock.storage import registry
from reblock.storage.location import Location, absolute
from reblock.storage.media.registry import target_medium
from reblock.storage.media.small import exists
from reblock.storage.patches import Patch, patches_of


@dataclass
class Attempt:
    """The inputs of one run, and its results."""

    works: list[Work]
    """The arrays to make."""
    target: Location
    """The target."""
    format: Format
    """The target's format."""
    staging: Staging
    """The locked folder in which the target is built."""
    scratch: str | None
    """Folder for intermediate arrays; None = in the staging folder."""
    digest: bool
    """Whether to compute digest sums."""
    cancelled: Callable[[], bool]
    """Whether to stop."""
    dataset: DatasetWork | None = None
    """What is around the arrays; None = there is one array alone."""
    meter: Meter | None = None
    """Counts progress."""
    crew: Crew | None = None
    """Other processes that carry out the plans; None = this one does."""
    exist_ok: bool = False
    """Whether a target that the same job has already made is accepted."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """The caller's request, so that `resume` needs no options."""
    members: int | None = None
    """Number of members of a job array that make the target together; None = this process makes it."""
    settled: bool = False
    """Whether those have finished all boxes just now."""
    is_done: bool = False
    """Whether an earlier run had done everything."""
    sums: str | None = None
    """Digest of the whole target."""
    notes: list[str] = field(default_factory=list)
    """Notes for the report."""
    current: Work | None = None
    """The array that was being written when the run ended."""

    def __post_init__(self) -> None:
        self._kept_scratch = None if self.scratch is None else kept_folder(self.staging.target, self.scratch)
        self._folders: list[str] = []
        number_passes(self.works)

    @property
    def plans(self) -> list[Plan]:
        """The plan of each array."""
        return [work.plan for work in self.works]

    @property
    def resumed(self) -> int:
        """Write boxes that were already finished."""
        return sum(work.resumed for work in self.works)

    @property
    def _has_scratch(self) -> bool:
        return any(work.plan.scratch for work in self.works)

    @property
    def _elsewhere(self) -> dict[str, Any]:
        """The argument of a format that names a medium other than local files."""
        return registry.elsewhere(self.staging.medium)

    @cached_property
    def _sources(self) -> Sources:
        """Created on first use, because it checks all files."""
        return Sources(self.works, self.dataset, self.cancelled)

    @cached_property
    def _problem(self) -> dict[str, Any]:
        return self._sources.problem(self.format)

    def find_plans(self) -> list[Plan] | None:
        """The plans of an unfinished run of the same problem, found without its lock, or None."""
        if not self.staging.is_there:
            return None
        with self.staging.looking() as journal:
            if journal is None or not self._is_left(journal):
                return None
            return self._stored_plans(journal)

    def follow(self, plans: Sequence[Plan]) -> None:
        """Take other plans."""
        for work, plan in zip(self.works, plans, strict=True):
            work.plan = plan
        number_passes(self.works)

    def _stored_plans(self, journal: Journal) -> list[Plan]:
        documents = journal.header["plans"]
        if not isinstance(documents, list) or len(documents) != len(self.works):
            raise FormatError(
                f"the journal of the unfinished run on {self.target.path} has not one plan for each array: "
                f"{command('clean', self.target.path)} removes it"
            )
        return [self._stored_plan(work, document) for work, document in zip(self.works, documents, strict=True)]

    def _stored_plan(self, work: Work, document: Any) -> Plan:
        divided = isinstance(document, dict) and document.get("divided") is True
        parts = work.source.in_parts() if divided else None
        layout = (parts or work.source).layout
        problem = replace(work.problem, source=layout, target=self.format.layout(work.schema))
        return stored_plan(document, problem, self.target.path)

    def look(self) -> list[str]:
        """Notes on how `run` would begin; raises what it would raise, and touches nothing."""
        self.staging.workspace.look()
        if self.members is None:
            require_idle(self.staging.workspace, self.target.path)
        boxes, done = 0, [0] * len(self.works)
        if self.is_made():
            return self.notes
        with self.staging.looking() as journal:
            if journal is not None and self._is_left(journal):
                if self.staging.is_committed(journal):
                    return [f"a change of {self.target} is committed: a run would complete it"]
                if self.staging.is_published(journal):
                    return [f"{self.target} is already complete: a run would only remove leftovers of the last one"]
                found = finished_parts(journal, self.staging.workspace)
                boxes, done = sum(one.finished_boxes for one in found), [one.finished_bytes for one in found]
        self._check_place()
        notes = self._check_room(done, boxes > 0)
        if boxes:
            whole = sum(work.boxes for work in self.works)
            notes.append(f"a run would resume: {boxes:,} of {whole:,} write boxes are finished")
        return notes

    def run(self) -> None:
        """Make the target, or continue making it."""
        require_idle(self.staging.workspace, self.target.path)
        journal = self._find()
        if journal is not None:
            self._follow(journal)
            if members_of(journal):
                absorb(self.staging.workspace, journal)
        if journal is not None and (self.staging.is_published(journal) or self.staging.is_committed(journal)):
            sums = (journal.complete() or {}).get("digest")
            self._take_over(sums, journal.done(), "an earlier run only had to clean up")
        else:
            self.staging.workspace.restore()
            if not self.is_made():
                self._check_place()
                if journal is None:
                    # Before the source's files are looked at, because there may be very many.
                    self._check_room([0] * len(self.works), resumed=False)
                    journal = self._begin()
                self._make(journal)
        if journal is not None and self.staging.is_committed(journal):
            install(self.staging, journal)
        announce(self.target, self.format)
        self._remove_scratch()
        if journal is not None:
            settle_journal(journal, published=self.staging.is_published(journal))
        self.staging.remove(finished=True)
        if self.staging.left:
            self.notes.append(f"{', '.join(self.staging.left)} was not made by reblock, and was not removed")

    # ---------------------------------------------------------------- what is there
    def is_made(self) -> bool:
        """Whether the same job has already made the target, if that is accepted; otherwise nothing is replaced."""
        if patches := patches_of(self.format):
            return self.is_done or self._is_appended(patches)
        if self.is_done or not self.exist_ok or not self.staging.workspace.has_target or self.staging.adds:
            return self.is_done
        each: Mapping[str, Record] = {}
        try:
            record, each = self._records()
        except StorageError as error:
            record, why = NO_RECORD, f"it cannot be read as {self.format.name}: {error.message}"
        else:
            room = "a .npy file has no place for that" if self.format.name == "npy" else "reblock did not make it"
            why = f"it does not say which job made it: {room}" if record.job is None else "another job made it"
        if self._sources.is_object:
            why = f"whether it holds what {self._sources.location} holds is not recorded"
        if record.job == job_of(self._problem):
            self._take_over(record.digest, {name: one.digest for name, one in each.items()}, "the same job had made it")
            return True
        if self.staging.overwrite:
            return False
        raise TargetExistsError(
            f"{self.target} exists, and {why}; choose another name, or replace it with {option('overwrite')}"
        )

    def _is_appended(self, patches: Mapping[str, Patch]) -> bool:
        """Whether the last change of the arrays was this append: a killed process must not append twice."""
        records = {name: last_job(one.base.schema.record) for name, one in patches.items()}
        appends = all(one.change.along is not None for one in patches.values()) and not self._sources.is_object
        if not appends or {job for job, _ in records.values()} != {job_of(self._problem)}:
            return False
        each = {name: sums for name, (_, sums) in records.items()}
        whole = each[""] if "" in each else digest.dataset_digest(each)
        self._take_over(whole, each, "the same job has already appended these elements to it")
        return True

    def _records(self) -> tuple[Record, Mapping[str, Record]]:
        """The record of the target that is there, and those of its arrays."""
        where = self.target.path, self.target.inner
        if self.dataset is None:
            found = self.format.open(*where, **self._elsewhere).schema.record
            return found, {"": found}
        if not isinstance(self.format, TreeFormat):
            return NO_RECORD, {}
        store = self.format.open_tree(*where, **self._elsewhere)
        return store.record, {name: schema.record for name, schema in store.tree.arrays.items()}

    def _take_over(self, sums: str | None, each: Mapping[str, str | None], why: str) -> None:
        """Report that everything is done; `each` has the digests of the arrays."""
        self.is_done, self.sums = True, sums
        for work in self.works:
            work.take_over(each.get(work.name))
        self.notes.append(f"{self.target} is already complete: {why}")

    def _find(self) -> Journal | None:
        """The journal of an earlier attempt at the same problem."""
        journal = self.staging.find_journal()
        if journal is None:
            done = self.staging.find_done()
            if done is not None and done.header["problem"] == self._problem and self.staging.is_published(done):
                return done
            self.staging.workspace.clear()
            return None
        if self._is_ours(journal):
            return journal
        settle_journal(journal, published=self.staging.is_published(journal))
        if began_with_object(journal.header):
            remove_listed_scratch(journal.header)
            self.notes.append("an unfinished run that read an object was removed: it could not be resumed")
        self.staging.workspace.clear()
        return None

    def _follow(self, journal: Journal) -> None:
        """Continue as the journal's run began: with its plan, its scratch folder and its digests."""
        if (patches := patches_of(self.format)) and not self.staging.is_published(journal):
            self._check_change(journal, patches)
        if self.staging.adds:
            check_stamp(self.staging.target, journal.header.get("added to") or [])
        if self._stored_plans(journal) != self.plans:
            raise UnfinishedError(f"another run on {self.target.path} has begun in the meantime: repeat the command")
        began = journal.header["scratch"]
        if self._has_scratch and self.scratch is not None and began != self._kept_scratch:
            here = absolute(self.scratch)
            if began is None or os.path.dirname(began) != here:
                where = "beside the target" if began is None else f"in {os.path.dirname(began)}"
                raise UnfinishedError(
                    f"the unfinished run on {self.target.path} keeps its scratch {where}, not in {here}: "
                    f"{command('resume', self.target.path)} continues it, "
                    f"{command('clean', self.target.path)} discards it"
                )
        self._kept_scratch = began
        if self.digest != journal.header["digest"]:
            self.digest = bool(journal.header["digest"])
            how = "with" if self.digest else "without"
            self.notes.append(f"the run continues {how} a digest, as it began")

    def _check_change(self, journal: Journal, patches: Mapping[str, Patch]) -> None:
        """Raise ChangedError if an array has become longer or shorter since the run began."""
        began = {name: change for name, (change, _) in changes_of(journal).items()}
        if began != {name: one.change for name, one in patches.items()} and not self.staging.is_committed(journal):
            raise ChangedError(
                f"the shape of {self.target.path} has changed since the unfinished run began: "
                f"{command('clean', self.target.path)} removes it"
            )

    def _is_left(self, journal: Journal) -> bool:
        """The same without the lock: nothing may be removed."""
        if self.staging.workspace.has_log:
            return self._is_ours(journal)
        # A finished run left it.
        return journal.header["problem"] == self._problem and self.staging.is_published(journal)

    def _is_ours(self, journal: Journal) -> bool:
        """Whether a journal belongs to this problem; False if it is useless, an error if it may still be needed."""
        before = journal.header["problem"]
        if self.staging.is_committed(journal) and before != self._problem:
            raise UnfinishedError(
                f"a change of {self.target.path} is committed but not complete: "
                f"{command('resume', self.target.path)} completes it, then repeat the command"
            )
        if before == self._problem:
            return True
        if self.staging.is_published(journal) or began_with_object(journal.header):
            return False
        raise conflict(journal, self._problem, self.target.path, self._sources, self.request.get("source"))

    # ---------------------------------------------------------------- what must be there
    def _check_place(self) -> None:
        """Raise if the target or the scratch folder cannot be made."""
        self.staging.check()
        check_bases(self.staging.target, patches_of(self.format))
        if self._has_scratch and self._kept_scratch is not None:
            folder = os.path.dirname(self._kept_scratch)
            target_medium(folder).check_folder(folder, "the scratch folder")
        disks = disks_of(self.format)
        for disk in disks.folders if disks is not None else ():
            target_medium(disk).check_folder(disk, "the disk")

    def _check_room(self, done: Sequence[int], resumed: bool) -> list[str]:  # noqa: FBT001 - called by position
        """Check the free space for what is still to be written; `done` bytes of each array are finished."""
        needs = []
        for work, finished in zip(self.works, done, strict=True):
            where = Location(self.target.path, work.inner)
            begun = (
                os.path.join(self.staging.workspace.array, work.inner) if self.dataset else self.staging.workspace.reach
            )
            foreseen, layout = foresee(self.format, where, work.schema), self.format.layout(work.schema)
            if (disks := disks_of(self.format)) is not None:
                needs += needs_on_disks(layout, disks, self._folders if resumed else ())
            else:
                needs.append(need_of(layout, foreseen, self.staging.parent, begun=begun, done=finished))
        if self._has_scratch and not resumed:
            folder = os.path.dirname(self._kept_scratch) if self._kept_scratch else self.staging.parent
            # One array is made after the other, and its scratch is removed.
            some = [
                needs_of_scratch(work.plan, folder, self.staging.parent) for work in self.works if work.plan.scratch
            ]
            needs += max(some, key=lambda one: sum(need.bytes for need in one))
        if self.staging.adds and not exists(self.staging.medium, self.staging.workspace.array):
            copied = stamp_of(self.staging.target)[0]
            needs.append(Need(self.staging.parent, copied, 1, certain=True))
        return check_space(needs)

    # ---------------------------------------------------------------- the work
    def _begin(self) -> Journal:
        self._remove_scratch()
        if self.staging.workspace.has_target and not self.staging.workspace.swaps:
            where = self.staging.medium.name
            self.notes.append(f"the old array is removed before the new one is written: {where} cannot swap arrays")
        header: dict[str, Any] = {
            "problem": self._problem,
            "plans": [plan.to_json() for plan in self.plans],
            "target": self.target.inner,
            "arrays": [
                {"name": work.name, "passes": len(work.plan.passes), "bytes": self.format.layout(work.schema).nbytes}
                for work in self.works
            ],
            "tables": [] if self.dataset is None else [table.name for table in self.dataset.tables],
            "boxes": [sweep.writes.count for plan in self.plans for sweep in plan.passes],
            "digest": self.digest,
            "scratch": self._kept_scratch if self._has_scratch else None,
            "disks": new_folders(self.format, self.target.path),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "sources": self._sources.times,
            **({"added to": stamp_of(self.staging.target)} if self.staging.adds else {}),
            "request": dict(self.request),
        }
        header |= change_header(patches_of(self.format))
        if self.members is not None:
            header |= {"members": self.members}
        return self.staging.begin_journal(header)

    def _remove_scratch(self) -> None:
        """Remove the intermediate arrays outside the staging folder; the others are removed with it."""
        if self._kept_scratch is not None and self._has_scratch:
            remove_kept(self._kept_scratch)

    def _make(self, journal: Journal) -> None:
        self._folders = listed_folders(journal.header)
        making = Making(
            self.works,
            self.dataset,
            self.target,
            self.format,
            self.staging,
            # The path by which intermediate arrays must be opened while the lock is held.
            scratch=self._kept_scratch or self.staging.workspace.scratch,
            digest=self.digest,
            cancelled=self.cancelled,
            meter=self.meter,
            crew=self.crew,
            sources=self._sources,
            problem=self._problem,
            check_room=self._check_room,
            remove_scratch=self._remove_scratch,
            settled=self.settled,
            notes=self.notes,
        )
        try:
            making.run(journal)
        finally:
            self.current, self.sums = making.current, making.sums
