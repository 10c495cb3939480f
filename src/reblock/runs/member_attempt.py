"""The attempt of one member of a job array: its share of the tasks, and publishing if all members have ended.

`reblock.runs.members` describes the protocol.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

import numpy as np

from reblock.engine import Measured, Watch, execute_plan, native
from reblock.errors import (
    ChangedError,
    DiskError,
    Interrupted,
    LockedError,
    ReblockError,
    StorageError,
    UnfinishedError,
    UsageError,
    command,
    option,
)
from reblock.model import Store, TransferMode, TreeFormat
from reblock.model.workspace import Workspace
from reblock.runs.attempt import Attempt
from reblock.runs.cancelling import interruptions
from reblock.runs.disks import disks_of
from reblock.runs.group_commit import GroupCommit, destination_of
from reblock.runs.identity import job_of
from reblock.runs.journal import Group, Journal, JournalPart
from reblock.runs.members import CREATED, ENDED, ArrayMember, boxes_of, members_of, tasks_of, unfinished_members
from reblock.runs.resume import find_finished
from reblock.runs.scratch import KeptScratch
from reblock.runs.unrecorded import holds_part
from reblock.runs.work import Work
from reblock.storage.patches import Patch

#: How long a member waits for the run's lock, and for its own if the process that had it has just died.
PATIENCE_SECONDS = 120.0
_PAUSE_SECONDS = 0.1
#: A hundredth of the share may wait to be made durable, however small the memory budget is.
_PARTS = 100

_Result = TypeVar("_Result")


class BegunError(Exception):
    """Another member has begun the run with another plan; prepare the job again to adopt it."""


@dataclass(frozen=True)
class _SharePart(JournalPart):
    """The passes of one array in a member's segment, and what the run's journal has of the member's boxes."""

    absorbed: Mapping[int, list[Group]] = field(default_factory=dict)
    """Groups of the run's journal, by the number of their pass in the run."""

    def groups(self, number: int) -> Iterator[Group]:
        yield from self.absorbed.get(self.first + number, ())
        yield from super().groups(number)


@dataclass
class MemberAttempt(Attempt):
    """The inputs of one member's share of a run, and its results."""

    member: ArrayMember = field(default_factory=lambda: ArrayMember(0, 1))
    """The member."""
    published: bool = False
    """Whether the target is complete."""
    unfinished: list[int] = field(default_factory=list)
    """Members that had not ended when this one had."""

    def __post_init__(self) -> None:
        super().__post_init__()
        # State of the sources when the run began.
        self._began: Mapping[str, Any] = {}

    def is_made(self) -> bool:
        """Also a target that does not say which job made it, such as `.npy`, if it holds this member's part."""
        if not self.is_done and self._holds_part():
            self._take_over(None, {}, f"it holds what {self._sources.location} holds, in the part of this member")
        return self.is_done or super().is_made()

    def _holds_part(self) -> bool:
        if self.dataset is not None or isinstance(self.format, Patch) or not self.staging.workspace.has_target:
            return False
        try:
            store = self.format.open(self.target.path, self.target.inner, **self._elsewhere)
        except StorageError:
            return False
        if store.schema.record.job is not None or self._sources.is_object:
            return False
        # Members that replace a target must agree on whether it is to be replaced.
        part = (0, 1) if self.staging.overwrite else (self.member.number, self.member.count)
        return holds_part(self.works[0], store, part, self.cancelled)

    def join(self, member: ArrayMember) -> None:
        """Be this member."""
        self.member, self.members = member, member.count

    @property
    def shares(self) -> list[range]:
        """The tasks of this member, for each array."""
        return self.member.shares(self.plans)

    def run(self) -> None:
        """Do the share, and publish if it was the last; takes its locks itself."""
        with self._advised():
            begun = self._patiently(self._begin_share)
            if begun is not None:
                segment, absorbed = begun
                try:
                    self._do_share(segment, absorbed)
                finally:
                    segment.__exit__(None, None, None)
        # The report is about what this member has done, not about what it finds when it publishes.
        results = [(work.measured or [Measured() for _ in work.plan.passes], work.resumed) for work in self.works]
        for work in self.works:
            work.measured = []
        self._conclude()
        for work, (measured, resumed) in zip(self.works, results, strict=True):
            work.measured, work.resumed = measured, resumed

    def _patiently(self, action: Callable[[], _Result]) -> _Result:
        """The result of an action that needs a lock; repeated for a while, because members hold it only briefly."""
        deadline, pause = time.monotonic() + PATIENCE_SECONDS, _PAUSE_SECONDS
        while True:
            try:
                return action()
            except LockedError:
                if time.monotonic() > deadline:
                    raise
            if self.cancelled():
                raise KeyboardInterrupt
            time.sleep(pause)
            pause = min(1.5 * pause, 2.0)

    @contextmanager
    def _advised(self) -> Iterator[None]:
        """Say in errors how to continue."""
        advice = f"the same command continues this share, {command('clean', self.target.path)} discards the whole run"
        try:
            with interruptions(self.cancelled):
                yield
        except KeyboardInterrupt as error:
            raise Interrupted(advice) from error
        except StorageError as error:
            self.staging.rename_in(error)
            again = "once the source is what it was, " if isinstance(error, ChangedError) else ""
            error.add(f"{again}{advice}")
            raise
        except OSError as error:
            raise DiskError.wrap(error, doing="writing", path=str(self.target)) from error

    # ---------------------------------------------------------------- the beginning
    def _begin_share(self) -> tuple[Workspace, dict[int, list[Group]]] | None:
        """The member's segment, with its lock held, and what the run's journal has of its boxes.

        None if the target is already made.
        """
        with self.staging:
            journal = self._open_run()
            if journal is None:
                return None
            segment = self.staging.workspace.segment(self.member.number)
            segment.__enter__()
            try:
                return segment, self._absorbed(journal)
            except BaseException:
                segment.__exit__(None, None, None)
                raise

    def _open_run(self) -> Journal | None:
        """The journal of the run, which is begun if there is none; None if the target is already made."""
        journal = self._find()
        if journal is not None and self.staging.is_published(journal):
            return None
        if journal is None:
            self.staging.workspace.restore()
            if self.is_made():
                return None
            self._check_place()
            self._refuse()
            journal = self._begin()
        else:
            self._follow(journal)
        self._began = journal.header["sources"]
        if not journal.has(CREATED):
            try:
                self._create()
                journal.append({CREATED: True})
            except BaseException:
                # No member has begun yet, so the next one starts again from the beginning.
                with suppress(ReblockError):
                    self.staging.workspace.forget_log()
                raise
        return journal

    def _follow(self, journal: Journal) -> None:
        """Continue as the run began; another number of members would share the tasks differently."""
        place, count = self.target.path, members_of(journal)
        if count != self.member.count:
            kind = f"a job array of {count:,} members, not of {self.member.count:,}" if count else "not a job array"
            raise UnfinishedError(
                f"the unfinished run on {place} is {kind}: {command('resume', place)} continues it without others, "
                f"{command('clean', place)} discards it"
            )
        if self._stored_plans(journal) != self.plans:
            raise BegunError
        super()._follow(journal)

    def _refuse(self) -> None:
        """Raise UsageError if several processes cannot do the job."""
        self.staging.workspace.segment(self.member.number)
        if self._sources.is_object:
            raise UsageError(f"{option('array_task')}: the other members cannot open an object of this process")
        if isinstance(self.format, Patch):
            raise UsageError(f"{option('array_task')}: one process changes an existing array; leave it out")
        if disks_of(self.format) is not None:
            raise UsageError(f"{option('disks')} and {option('array_task')} do not go together: leave one of them out")
        if self._kept_scratch is not None and self._has_scratch:
            raise UsageError(f"members of a job array keep scratch beside the target: leave out {option('scratch')}")

    def _create(self) -> None:
        """Make the target without its elements; UsageError if only one process can write it."""
        self.notes += self._check_room([0] * len(self.works), False)
        self.staging.workspace.clear_array()
        path = self.staging.workspace.array
        if self.dataset is None:
            (work,) = self.works
            self._require_shared(self.format.create(path, work.inner, work.schema, **self._elsewhere))
            return
        if not isinstance(self.format, TreeFormat):
            raise UsageError(f"{self.format.name} holds one array")
        self.format.create_tree(path, self.dataset.inner, self.dataset.tree, **self._elsewhere)
        for work in self.works:
            self._require_shared(self._reopen(work))

    def _require_shared(self, store: Store) -> None:
        """Close an array; UsageError if only one process can write it."""
        with suppress(ReblockError):
            store.abort()
        if store.writes is not TransferMode.EXTENT:
            raise UsageError(
                f"only one process can write {store.format} with this codec: leave out {option('array_task')}, or "
                f"write zarr, or {option('codec', 'none')}"
            )

    def _reopen(self, work: Work) -> Store:
        return self.format.reopen(self.staging.workspace.array, work.inner, work.schema, **self._elsewhere)

    def _absorbed(self, journal: Journal) -> dict[int, list[Group]]:
        """What the run's journal has of this member's boxes, after an attempt to finish the run without members."""
        found: dict[int, list[Group]] = {}
        begun = journal.begun()
        for work, numbers in zip(self.works, self.shares, strict=True):
            number = work.first + work.last
            if number in begun:
                mine = boxes_of(work.plan, numbers)
                groups = (group.without(np.setdiff1d(group.boxes, mine)) for group in journal.groups([number]))
                found[number] = [group for group in groups if len(group.boxes)]
        return found

    # ---------------------------------------------------------------- the share
    def _do_share(self, segment: Workspace, absorbed: dict[int, list[Group]]) -> None:
        own = self._segment_journal(segment)
        if own.has(ENDED):
            for work in self.works:
                work.take_over(None)
                work.resumed = sum(len(group.boxes) for group in own.groups([work.first + work.last]))
            return
        whole = sum(self.format.layout(work.schema).nbytes for work in self.works) // self.member.count
        memory = max((work.plan.memory_bytes for work in self.works), default=1)

        def check() -> None:
            self._sources.check()
            segment.check_place()

        ledger = GroupCommit(
            own,
            most_bytes=max(memory, whole // _PARTS),
            digest=self.digest,
            unchanged=check,
            settle=native.settle if native.library() else None,
        )
        with ledger:
            try:
                for work, numbers in zip(self.works, self.shares, strict=True):
                    if numbers:
                        part = _SharePart(own, work.first, work.last + 1, absorbed)
                        self._execute(work, numbers, part, ledger, segment)
                    else:
                        work.measured = [Measured() for _ in work.plan.passes]
            except BaseException:
                with suppress(ReblockError):
                    ledger.flush()
                raise
            ledger.note(**{ENDED: True})

    def _segment_journal(self, segment: Workspace) -> Journal:
        """The journal of an earlier attempt at this share, or a new one."""
        job = job_of(self._problem)
        own = Journal.open(segment.find_log())
        if own is not None and (own.header.get("job"), own.header.get("members")) == (job, self.members):
            return own
        header = {"member": self.member.number, "members": self.members, "job": job}
        header["started"] = datetime.now(UTC).isoformat(timespec="seconds")
        if own is not None:
            segment.forget_log()
        return Journal.create(segment.begin_log, header)

    def _execute(
        self, work: Work, numbers: range, journal: JournalPart, ledger: GroupCommit, segment: Workspace
    ) -> None:
        store, sweep, part = self._reopen(work), work.plan.passes[work.last], ledger.part(work.first)
        source, began, memory = self._sources.each[work.name], self._began[work.name], work.plan.memory_bytes
        side = destination_of(store, sweep, self.staging.workspace.reach)
        try:
            finished, sums, failed = find_finished(journal, work.last, sweep, side, memory, self.cancelled)
            if failed:
                self.notes.append(f"{failed} write boxes had changed since they were finished, and were done again")
            part.trust(work.last, finished, sums)
            part.watch(work.last, side)
            work.resumed = len(finished)
            tasks, progress = sweep.tasks, None
            if self.meter is not None:
                mine = tasks.size_before(numbers.stop) - tasks.size_before(numbers.start)
                others = 1 - mine / max(tasks.size_before(tasks.count), 1)
                self.meter.begin(work.first, [others + one for one in work.finished_parts(part)])
                progress = self.meter.of_array(work.first)
            watch = Watch(progress, self.cancelled, part, digest=self.digest, source=source.state)
            view = work.source.as_planned(work.plan)
            with KeptScratch(work.plan, segment.scratch, part) as scratch:
                work.measured = execute_plan(
                    work.plan, view, store, scratch, watch=watch, tasks=tasks_of(work.plan, numbers)
                )
            now = source.look_again(began)
            ledger.flush()
            layout = store.layout
            work.notes += source.settle(now, began, journal, sweep, work.last, layout, memory, self.cancelled)
        finally:
            with suppress(ReblockError):
                store.abort()
        for number in range(work.last + 1):
            ledger.release(work.first + number)

    # ---------------------------------------------------------------- the end
    def _conclude(self) -> None:
        """Publish if all members have ended."""
        if self.is_done:
            self.published = True
            return
        try:
            self._patiently(self._publish_if_last)
        except LockedError as error:
            # All have ended, so the process that holds the lock publishes, or the next one that is started.
            self.notes.append(f"the share is done; {error}")

    def _publish_if_last(self) -> None:
        with self.staging.looking() as journal:
            if not self._is_last(journal):
                return
        with self.staging:
            journal = self.staging.find_journal() or self.staging.find_done()
            if self._is_last(journal):
                self.settled = True
                super().run()
                self.published = True

    def _is_last(self, journal: Journal | None) -> bool:
        """Whether the run is still to be published, and every member has ended."""
        if journal is None:
            self._find_made()
            return False
        if self.staging.is_published(journal):
            return True
        self.unfinished = unfinished_members(self.staging.workspace, self.member.count)
        return not self.unfinished

    def _find_made(self) -> None:
        """Take the result of the member that has published in the meantime."""
        if not self.staging.workspace.has_target:
            raise UnfinishedError(f"the run on {self.target.path} was discarded in the meantime: begin again")
        self.published = True
        with suppress(ReblockError):
            record, each = self._records()
            self.sums = record.digest
            for work in self.works:
                work.sums = each[work.name].digest if work.name in each else None
