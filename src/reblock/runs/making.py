"""Making a target under its journal: array by array, then tables, then everything around them, then publish.

::

    journal names finished boxes?   no: create the array, or the tree with all its arrays     yes: reopen
    each array                      trust what is finished → execute the rest → commit → line "done" (`settling`)
    each table                      copy rows → line "done"
    the whole                       is every source still the same? → commit the tree → line "complete" → publish

One array is the case of one array: it has no tables and no tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from reblock.engine import Crew, Measured, Watch, digest, execute_plan, native
from reblock.engine.casting import misfit_in_source
from reblock.errors import (
    ChangedError,
    DiskError,
    FormatError,
    Interrupted,
    MisfitError,
    ReblockError,
    StorageError,
    UnevenError,
    UsageError,
    command,
    option,
)
from reblock.model import Format, Record, Store, TreeFormat
from reblock.model.store import AddingFormat, is_single_file
from reblock.runs.abroad import Abroad
from reblock.runs.adding import check_stamp
from reblock.runs.cancelling import interruptions
from reblock.runs.disks import DiskWorkspaces, listed_folders, settle_disks
from reblock.runs.group_commit import GroupCommit, destination_of
from reblock.runs.identity import job_of, job_of_array
from reblock.runs.installing import check_bases
from reblock.runs.journal import Journal, JournalPart
from reblock.runs.meter import Meter
from reblock.runs.resume import find_finished, trust_scratch
from reblock.runs.scratch import KeptScratch
from reblock.runs.settling import Settling
from reblock.runs.sources import Sources
from reblock.runs.staging import Staging
from reblock.runs.tables import copy_table
from reblock.runs.work import DatasetWork, Work
from reblock.storage import registry
from reblock.storage.location import Location
from reblock.storage.media.copying import copy_file
from reblock.storage.patches import patches_of

#: A hundredth of all arrays may wait to be made durable, however small the memory budget is.
_PARTS = 100


@dataclass
class Making:
    """One attempt at making a target, with the lock held."""

    works: list[Work]
    """The arrays."""
    dataset: DatasetWork | None
    """What is around them; None = there is one array alone."""
    target: Location
    """The target."""
    format: Format
    """The target's format."""
    staging: Staging
    """The locked folder in which the target is built."""
    scratch: str
    """The path by which intermediate arrays must be opened."""
    digest: bool
    """Whether to compute digest sums."""
    cancelled: Callable[[], bool]
    """Whether to stop."""
    meter: Meter | None
    """Counts progress."""
    sources: Sources
    """What is read."""
    problem: Mapping[str, Any]
    """The problem of the run."""
    crew: Crew | None
    """Other processes that carry out the plans; None = this one does."""
    check_room: Callable[[list[int], bool], list[str]]
    """Checks the space for what is missing: finished bytes of each array, and whether any box is finished."""
    remove_scratch: Callable[[], None]
    """Removes the intermediate arrays outside the staging folder."""
    settled: bool = False
    """Whether members of a job array have finished all boxes just now, so that none has to be read back."""
    sums: str | None = None
    """Digest of the whole."""
    notes: list[str] = field(default_factory=list)
    """Notes for the report."""
    current: Work | None = None
    """The array that is being written."""

    def __post_init__(self) -> None:
        self._found = False
        self._failed = 0
        self._disks = DiskWorkspaces(self.target.path, (), begun=False)
        self._between: KeptScratch | None = None
        self._opened: tuple[Work, Store] | None = None
        self._elsewhere = registry.elsewhere(self.staging.building)

    def run(self, journal: Journal) -> None:
        """Make the target, or continue making it."""
        self._found = bool(journal.begun() or journal.done())
        whole = sum(self.format.layout(work.schema).nbytes for work in self.works)
        memory = max(max(work.problem.memory_bytes, work.plan.memory_bytes) for work in self.works) if self.works else 1
        ledger = GroupCommit(
            journal,
            most_bytes=max(memory, whole // _PARTS),
            digest=self.digest,
            unchanged=self._check,
            settle=native.settle if native.library() else None,
        )
        self._disks = DiskWorkspaces(self.target.path, listed_folders(journal.header), begun=bool(journal.begun()))
        with self._kept(ledger), interruptions(self.cancelled), self._disk_errors():
            with self._disks, ledger:
                self.format = self._disks.format(self.format)
                try:
                    self._make(journal, ledger)
                except BaseException:
                    # Keep what is finished; if that fails too, the first error is reported.
                    with suppress(ReblockError):
                        ledger.flush()
                    self._close()
                    raise
                more: dict[str, Any] = {"replaced": replaced} if (replaced := self.staging.check_replaced()) else {}
                if patches := patches_of(self.format):
                    check_bases(self.staging.target, patches)
                    more["job"] = job_of(self.problem)
                ledger.note(complete={"inode": self.staging.workspace.identity(), "digest": self.sums, **more})
            self.staging.check_replaced()
            if self.staging.adds:
                check_stamp(self.staging.target, journal.header["added to"])
            self.staging.publish()

    def _make(self, journal: Journal, ledger: GroupCommit) -> None:
        self._prepare(journal, ledger)
        done = journal.done()
        for work in self.works:
            part = ledger.part(work.first)
            if work.name in done and len(part.finished(work.last)) == work.plan.passes[work.last].writes.count:
                work.take_over(done[work.name])
                self._tell(work, [1.0] * len(work.plan.passes))
        with Settling(ledger, self._record, self.cancelled, digest=self.digest) as settling:
            for work in self.works:
                if not work.measured:
                    self.current = work
                    with self._scratch_of(work, ledger) as scratch:
                        self._execute(work, journal, ledger, scratch, settling)
            settling.wait()
        self._close()
        if self._failed:
            self.notes.append(f"{self._failed} write boxes had changed since they were finished, and were done again")
        if self.dataset is None and self.works[0].name:
            self.sums = digest.dataset_digest({work.name: work.sums for work in self.works}) if self.digest else None
        elif self.dataset is None:
            self.sums = self.works[0].sums
        else:
            self._finish(self.dataset, journal, ledger)

    def _check(self) -> None:
        """Raise if the source has changed, or if the folders that we write in were moved."""
        self.sources.check()
        self.staging.workspace.check_place()
        self._disks.check_place()
        if self._between is not None:
            self._between.check_place()

    def _tell(self, work: Work, parts: list[float]) -> None:
        if self.meter is not None:
            self.meter.begin(work.first, parts)

    # ---------------------------------------------------------------- what is there
    def _prepare(self, journal: Journal, ledger: GroupCommit) -> None:
        """Make the target without its elements, or trust what is finished of it; then check the space for the rest."""
        lasts = [work.first + work.last for work in self.works]
        begun = not journal.begun().isdisjoint(lasts) or bool(journal.done())
        if begun and not self._trust(journal, ledger):
            self.staging.workspace.remove_segments()
            ledger.note(forget=lasts, remade=True)
            begun = False
        if not begun:
            self.staging.workspace.clear_array()
            self._disks.clear_array()
            self._create(self.staging.workspace.array)
        done = []
        for work in self.works:
            finished, count = len(ledger.finished(work.first + work.last)), work.plan.passes[work.last].writes.count
            done.append(self.format.layout(work.schema).nbytes * finished // max(count, 1))
        self.notes += self.check_room(done, self._found)

    def _create(self, path: str) -> None:
        if self.dataset is None:
            if self.staging.adds and isinstance(self.format, AddingFormat):
                (work,) = self.works
                self.check_room([0], self._found)
                copy_file(self.staging.target, path, cancelled=self.cancelled)
                self._opened = work, self.format.add(path, work.inner, work.schema)
                return
            for work in self.works:
                self._opened = work, self.format.create(path, work.inner, work.schema, **self._elsewhere)
        else:
            self._trees.create_tree(path, self.dataset.inner, self.dataset.tree, **self._elsewhere)

    def _trust(self, journal: Journal, ledger: GroupCommit) -> bool:
        """Find the finished boxes of all arrays; False if one of the arrays cannot be continued."""
        if self.staging.workspace.lost:
            self.notes.append(self.staging.workspace.lost)
            return False
        for work in self.works:
            try:
                store = self._open(work)
            except StorageError as error:
                self._close()
                self.notes.append(f"the finished part could not be opened and was made again: {error}")
                return False
            sweep, part = work.plan.passes[work.last], journal.part(work.first, work.last + 1)
            side = destination_of(store, sweep, self.staging.workspace.reach, self._disks.roots)
            finished, sums, failed = find_finished(
                part, work.last, sweep, side, work.plan.memory_bytes, self.cancelled, settled=self.settled
            )
            ledger.trust(work.first + work.last, finished, sums)
            self._failed += failed
        return True

    def _open(self, work: Work) -> Store:
        """The array as it was left, open for writing; one is open at a time."""
        if self._opened is None or self._opened[0] is not work:
            self._close()
            path = self.staging.workspace.array
            self._opened = work, self.format.reopen(path, work.inner, work.schema, **self._elsewhere)
        return self._opened[1]

    def _close(self) -> None:
        if self._opened is not None:
            with suppress(ReblockError):
                self._opened[1].abort()
        self._opened = None

    # ---------------------------------------------------------------- arrays
    @contextmanager
    def _scratch_of(self, work: Work, ledger: GroupCommit) -> Iterator[KeptScratch]:
        """The intermediate arrays of one array."""
        folder = self.staging.workspace.scratch
        with KeptScratch(work.plan, self.scratch, ledger.part(work.first), target_folder=folder) as scratch:
            self._between = scratch
            try:
                yield scratch
            except BaseException:
                # While the folder can still be reached.
                with suppress(ReblockError):
                    ledger.flush()
                raise
            finally:
                self._between = None

    def _is_apart(self, work: Work) -> bool:
        """Whether other arrays can be written while this one settles: it shares no file with them, and no scratch."""
        return self.dataset is not None and not is_single_file(self.format) and not self.crew and not work.plan.scratch

    def _execute(
        self, work: Work, journal: Journal, ledger: GroupCommit, scratch: KeptScratch, settling: Settling
    ) -> None:
        mine, part = journal.part(work.first, work.last + 1), ledger.part(work.first)
        source, store, sweep = self.sources.each[work.name], self._open(work), work.plan.passes[work.last]
        part.watch(work.last, destination_of(store, sweep, self.staging.workspace.reach, self._disks.roots))
        self._failed += trust_scratch(work.plan, mine, scratch, part, self.cancelled)
        work.resumed = sum(len(part.finished(number)) for number in range(work.last + 1))
        self._tell(work, work.finished_parts(part))
        progress = None if self.meter is None else self.meter.of_array(work.first)
        watch = Watch(progress, self.cancelled, part, digest=self.digest, source=source.state, spare=settling.spare)
        try:
            with settling.budget:
                work.measured = self._carry_out(work, store, scratch, watch, mine, ledger)
        except MisfitError as error:
            raise misfit_in_source(error, work.source) from None
        self._opened = None
        settle = settling.begin if self._is_apart(work) else settling.settle
        settle(work, store, source, mine)

    def _carry_out(
        self,
        work: Work,
        store: Store,
        scratch: KeptScratch,
        watch: Watch,
        journal: JournalPart,
        ledger: GroupCommit,
    ) -> list[Measured]:
        view = work.source.as_planned(work.plan)
        if self.crew is None or self._is_alone(self.crew, work, store):
            return execute_plan(work.plan, view, store, scratch, watch=watch)
        there = Abroad(work, self.format, self.staging.workspace, scratch, self._elsewhere)
        measured = there.execute(self.crew, view, watch, ledger.part(work.first))
        self._check_twice(self.crew, work, journal, store, ledger)
        return measured

    def _is_alone(self, crew: Crew, work: Work, store: Store) -> bool:
        """Whether this process writes an array of a dataset without the crew; UsageError for a single array."""
        if self._disks.folders:
            raise UsageError(f"{option('disks')} and {option('workers')} do not go together: leave one of them out")
        if crew.can_write(store):
            return False
        if self.dataset is None:
            raise crew.refuse(store)
        work.notes.append("written without workers, because only one process can write this codec")
        return True

    def _check_twice(self, crew: Crew, work: Work, journal: JournalPart, store: Store, ledger: GroupCommit) -> None:
        """Raise StorageError if tasks were carried out twice, and a file does not match the journal.

        Both workers write the same bytes, but one that is killed after the other has ended may leave a file too long.
        """
        sweep = work.plan.passes[work.last]
        side = destination_of(store, sweep, self.staging.workspace.reach)
        if not side.alone or not crew.may_repeat():
            return
        ledger.flush()
        memory = work.plan.memory_bytes
        _, _, failed = find_finished(journal, work.last, sweep, side, memory, self.cancelled)
        if failed:
            raise StorageError(f"a lost worker has damaged {failed} write boxes, which must be written again")

    def _record(self, work: Work) -> Record:
        return Record(digest=work.sums, job=job_of_array(self.problem["arrays"][work.name]))

    # ---------------------------------------------------------------- what is around arrays
    @property
    def _trees(self) -> TreeFormat:
        if not isinstance(self.format, TreeFormat):
            raise FormatError(f"{self.format.name} holds one array")
        return self.format

    def _finish(self, work: DatasetWork, journal: Journal, ledger: GroupCommit) -> None:
        done = journal.done()
        for table in work.tables:
            if table.name in done:
                table.sums = done[table.name]
            else:
                where = self.staging.workspace.array, self._elsewhere
                copy_table(table, work, self._trees, *where, digested=self.digest, cancelled=self.cancelled)
                self._check()
                ledger.note(done=table.name, digest=table.sums)
        self._look_at_all(journal)
        sums = {one.name: one.sums for one in self.works} | {one.name: one.sums for one in work.tables}
        self.sums = digest.dataset_digest(sums) if self.digest else None
        records = {one.name: self._record(one) for one in self.works}
        records |= {one.name: Record(digest=one.sums) for one in work.tables}
        whole = Record(digest=self.sums, job=job_of(self.problem))
        path = self.staging.workspace.array
        self._trees.commit_tree(path, work.inner, work.tree, records, whole, **self._elsewhere)

    def _look_at_all(self, journal: Journal) -> None:
        """Raise ChangedError if an array has changed while others were written: the result would mix two datasets."""
        for work in self.works[:-1] if self.works and self.works[-1] is self.current else self.works:
            source, began = self.sources.each[work.name], journal.header["sources"][work.name]
            mine, sweep = journal.part(work.first, work.last + 1), work.plan.passes[work.last]
            layout, memory = self.format.layout(work.schema), work.plan.memory_bytes
            now = source.look_again(began)
            found = source.settle(now, began, mine, sweep, work.last, layout, memory, self.cancelled)
            work.notes += [note for note in found if note not in work.notes]

    # ---------------------------------------------------------------- what goes wrong
    @contextmanager
    def _kept(self, ledger: GroupCommit) -> Iterator[None]:
        """On any error, keep what is finished and say how to continue; if nothing is finished, keep nothing."""
        try:
            yield
        except BaseException as error:
            if isinstance(error, ReblockError):
                self.staging.rename_in(error)
            is_object = self.sources.is_object
            if is_object and isinstance(error, ReblockError):
                error.add("a run that reads an object cannot be resumed, so nothing of it was kept")
            # The same command would find the same element again.
            is_useless = is_object or isinstance(error, MisfitError)
            if (is_useless or (not ledger.commits and not self._found)) and (self._forget() or is_useless):
                raise
            again = "once the source is what it was, " if isinstance(error, ChangedError) else ""
            advice = f"{again}the same command resumes, {command('clean', self.target.path)} discards the run"
            if isinstance(error, UnevenError):
                # Resuming would end here again.
                raise
            if isinstance(error, ReblockError):
                error.add(advice)
            elif isinstance(error, KeyboardInterrupt):
                raise Interrupted(advice) from error
            raise

    def _forget(self) -> bool:
        """Keep nothing of the run; False if that fails, as on a store that has gone."""
        is_forgotten = False
        with suppress(ReblockError):
            settle_disks(self._disks.folders, (), published=False)
            self.staging.workspace.forget_log()
            is_forgotten = True
        with suppress(ReblockError):
            self.remove_scratch()
        return is_forgotten

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DiskError.wrap(error, doing="writing", path=str(self.target)) from error
