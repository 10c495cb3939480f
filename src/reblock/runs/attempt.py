"""Attempt: one run on one target, under a lock, with a journal, continuing where an earlier one stopped.

::

    lock → journal exists?  no: begin one                     same problem: trust what is finished
                            another problem: refuse           already published: only clean up
         → enough free space? → create or reopen → execute → commit → line "complete" → publish → remove staging
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from math import prod
from time import perf_counter
from typing import Any

from reblock.engine import Measured, View, Watch, digest, execute_plan, native
from reblock.errors import (
    ChangedError,
    DiskError,
    Interrupted,
    ReblockError,
    StorageError,
    TargetExistsError,
    UnevenError,
    UnfinishedError,
    command,
    option,
)
from reblock.model import NO_RECORD, Format, Plan, Problem, Record, Schema, Store
from reblock.runs.adopt import stored_plan
from reblock.runs.group_commit import GroupCommit, destination_of
from reblock.runs.identity import began_with_object, differences, identify, job_of, source_changed
from reblock.runs.journal import Journal
from reblock.runs.meter import Meter
from reblock.runs.resume import find_finished, trust_scratch
from reblock.runs.scratch import KeptScratch, kept_folder, remove_kept
from reblock.runs.source import Source
from reblock.runs.space import check_space, foresee, need_of, needs_of_scratch
from reblock.runs.staging import Staging
from reblock.runs.unfinished import finished_part, remove_listed_scratch
from reblock.storage import registry
from reblock.storage.location import Location, absolute
from reblock.storage.media.registry import target_medium

#: A hundredth of an array may wait to be made durable, however small the memory budget is.
_PARTS = 100


@dataclass
class Attempt:
    """The inputs of one run, and its results."""

    source: View
    """The source, with whole chunks as units."""
    target: Location
    """The target."""
    format: Format
    """The target's format."""
    schema: Schema
    """The target's schema."""
    plan: Plan
    """The plan; that of an earlier attempt, if there is one."""
    problem: Problem
    """The problem that the plan solves."""
    staging: Staging
    """The locked folder in which the target is built."""
    scratch: str | None
    """Folder for intermediate arrays; None = in the staging folder."""
    digest: bool
    """Whether to compute digest sums."""
    cancelled: Callable[[], bool]
    """Whether to stop."""
    meter: Meter | None = None
    """Counts progress."""
    exist_ok: bool = False
    """Whether a target that the same job has already made is accepted."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """The caller's request, so that `resume` needs no options."""
    measured: list[Measured] = field(default_factory=list)
    """The measurements of each pass."""
    resumed: int = 0
    """Write boxes that were already finished."""
    is_done: bool = False
    """Whether an earlier run had done everything."""
    sums: str | None = None
    """Digest of the whole array."""
    notes: list[str] = field(default_factory=list)
    """Notes for the report."""

    def __post_init__(self) -> None:
        self._failed = 0
        self._found = False
        self._between: KeptScratch | None = None
        self._kept_scratch = None if self.scratch is None else kept_folder(self.staging.target, self.scratch)

    @property
    def _scratch(self) -> str:
        """The path by which intermediate arrays must be opened while the lock is held."""
        return self._kept_scratch or self.staging.workspace.scratch

    @property
    def _elsewhere(self) -> dict[str, Any]:
        """The argument of a format that names a medium other than local files."""
        return registry.elsewhere(self.staging.medium)

    @cached_property
    def _source(self) -> Source:
        """Created on first use, because it checks all files."""
        return Source(self.source, self.cancelled)

    @cached_property
    def _problem(self) -> dict[str, Any]:
        return identify(self.source, self._source, self.target.inner, self.format, self.schema)

    @cached_property
    def _job(self) -> str:
        return job_of(self._problem)

    def find_plan(self) -> Plan | None:
        """The plan of an unfinished run of the same problem, found without its lock, or None."""
        if not self.staging.is_there:
            return None
        with self.staging.looking() as journal:
            if journal is None or not self._is_left(journal):
                return None
            return self._stored_plan(journal)

    def _stored_plan(self, journal: Journal) -> Plan:
        document = journal.header["plan"]
        divided = isinstance(document, dict) and document.get("divided") is True
        parts = self.source.in_parts() if divided else None
        layout = (parts or self.source).layout
        problem = replace(self.problem, source=layout, target=self.format.layout(self.schema))
        return stored_plan(document, problem, self.target.path)

    def look(self) -> list[str]:
        """Notes on how `run` would begin; raises what it would raise, and touches nothing."""
        self.staging.workspace.look()
        boxes = done = 0
        if self.is_made():
            return self.notes
        with self.staging.looking() as journal:
            if journal is not None and self._is_left(journal):
                if self.staging.is_published(journal):
                    return [f"{self.target} is already complete: a run would only remove leftovers of the last one"]
                boxes, done = finished_part(journal)
        self._check_place()
        notes = self._check_room(done, resumed=boxes > 0)
        if boxes:
            whole = sum(sweep.writes.count for sweep in self.plan.passes)
            notes.append(f"a run would resume: {boxes:,} of {whole:,} write boxes are finished")
        return notes

    def run(self) -> None:
        """Make the target, or continue making it."""
        journal = self._find()
        if journal is not None:
            self._follow(journal)
        if journal is not None and self.staging.is_published(journal):
            self._take_over((journal.complete() or {}).get("digest"), "an earlier run only had to clean up")
        else:
            self.staging.workspace.restore()
            if not self.is_made():
                self._check_place()
                self._work(self._begin() if journal is None else journal)
        self._remove_scratch()
        self.staging.remove(finished=True)
        if self.staging.left:
            self.notes.append(f"{', '.join(self.staging.left)} was not made by reblock, and was not removed")

    # ---------------------------------------------------------------- what is there
    def is_made(self) -> bool:
        """Whether the same job has already made the target, if that is accepted; otherwise nothing is replaced."""
        if self.is_done or not self.exist_ok or not self.staging.workspace.has_target:
            return self.is_done
        try:
            record = self.format.open(self.target.path, self.target.inner, **self._elsewhere).schema.record
        except StorageError as error:
            record, why = NO_RECORD, f"it cannot be read as {self.format.name}: {error}"
        else:
            room = "a .npy file has no place for that" if self.format.name == "npy" else "reblock did not make it"
            why = f"it does not say which job made it: {room}" if record.job is None else "another job made it"
        if self._source.is_object:
            why = f"whether it holds what {self._source.location} holds is not recorded"
        if record.job == self._job:
            self._take_over(record.digest, "the same job had made it")
            return True
        if self.staging.overwrite:
            return False
        raise TargetExistsError(
            f"{self.target} exists, and {why}; choose another name, or replace it with {option('overwrite')}"
        )

    def _take_over(self, sums: str | None, why: str) -> None:
        """Report that everything is done."""
        self.is_done = True
        self.measured = [Measured() for _ in self.plan.passes]
        self.resumed, self.sums = sum(sweep.writes.count for sweep in self.plan.passes), sums
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
        if began_with_object(journal.header):
            remove_listed_scratch(journal.header)
            self.notes.append("an unfinished run that read an object was removed: it could not be resumed")
        self.staging.workspace.clear()
        return None

    def _follow(self, journal: Journal) -> None:
        """Continue as the journal's run began: with its plan, its scratch folder and its digests."""
        if self._stored_plan(journal) != self.plan:
            raise UnfinishedError(f"another run on {self.target.path} has begun meanwhile: repeat the command")
        began = journal.header["scratch"]
        if self.plan.scratch and self.scratch is not None and began != self._kept_scratch:
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

    def _is_left(self, journal: Journal) -> bool:
        """The same without the lock: nothing may be removed."""
        if self.staging.workspace.has_log:
            return self._is_ours(journal)
        # A finished run left it.
        return journal.header["problem"] == self._problem and self.staging.is_published(journal)

    def _is_ours(self, journal: Journal) -> bool:
        """Whether a journal belongs to this problem; False if it is useless, an error if it may still be needed."""
        before = journal.header["problem"]
        if before == self._problem:
            return True
        if self.staging.is_published(journal) or began_with_object(journal.header):
            return False
        advice = f"{command('clean', self.target.path)} removes it"
        began = journal.header["request"].get("source")
        if self._source.is_object:
            raise UnfinishedError(
                f"an unfinished run that reads {began} is in the place of {self.target.path}, and a run that reads an "
                f"object cannot resume it: {advice}, the command that began it resumes it"
            )
        if source_changed(before, self._problem) and began != self.request.get("source"):
            raise UnfinishedError(
                f"an unfinished run in the place of {self.target.path} reads {began}, which does not hold what "
                f"{self._source.location} holds: {advice}, the command that began it resumes it"
            )
        if source_changed(before, self._problem):
            what = self._source.describe_change(journal.header)
            since = f"since the unfinished run on {self.target.path} began"
            raise ChangedError(f"{self._source.location} changed {since} ({what}): {advice}")
        raise UnfinishedError(
            f"an unfinished run of another problem is in the place of {self.target.path} "
            f"({'; '.join(differences(before, self._problem))}): {advice}, the command that began it resumes it"
        )

    # ---------------------------------------------------------------- what must be there
    def _check_place(self) -> None:
        """Raise if the target or the scratch folder cannot be made."""
        self.staging.check()
        if self.plan.scratch and self._kept_scratch is not None:
            folder = os.path.dirname(self._kept_scratch)
            target_medium(folder).check_folder(folder, "the scratch folder")

    def _check_room(self, done: int, *, resumed: bool) -> list[str]:
        """Check the free space for what is still to be written; `done` bytes of the target are finished."""
        foreseen = foresee(self.format, self.target, self.schema)
        layout = self.format.layout(self.schema)
        needs = [need_of(layout, foreseen, self.staging.parent, begun=self.staging.workspace.reach, done=done)]
        if self.plan.scratch and not resumed:
            folder = os.path.dirname(self._kept_scratch) if self._kept_scratch else self.staging.parent
            needs += needs_of_scratch(self.plan, folder, self.staging.parent)
        return check_space(needs)

    # ---------------------------------------------------------------- the work
    def _begin(self) -> Journal:
        self._remove_scratch()
        if self.staging.workspace.has_target and not self.staging.workspace.swaps:
            where = self.staging.medium.name
            self.notes.append(f"the old array is removed before the new one is written: {where} cannot swap arrays")
        header = {
            "problem": self._problem,
            "plan": self.plan.to_json(),
            "digest": self.digest,
            "scratch": self._kept_scratch if self.plan.scratch else None,
            "boxes": [sweep.writes.count for sweep in self.plan.passes],
            "bytes": self.format.layout(self.schema).nbytes,
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "source": self._source.times,
            "request": dict(self.request),
        }
        return self.staging.begin_journal(header)

    def _remove_scratch(self) -> None:
        """Remove the intermediate arrays outside the staging folder; the others are removed with it."""
        if self._kept_scratch is not None and self.plan.scratch:
            remove_kept(self._kept_scratch)

    def _work(self, journal: Journal) -> None:
        self._found = any(True for _ in journal.groups())
        part = self.format.layout(self.schema).nbytes // _PARTS
        ledger = GroupCommit(
            journal,
            most_bytes=max(self.problem.memory_bytes, self.plan.memory_bytes, part),
            digest=self.digest,
            unchanged=self._check,
            settle=native.settle if native.library() else None,
        )
        with self._kept(ledger), self._disk_errors():
            with (
                ledger,
                KeptScratch(self.plan, self._scratch, ledger, target_folder=self.staging.workspace.scratch) as scratch,
            ):
                self._between = scratch
                store = self._open(journal, ledger)
                try:
                    self._execute(journal, ledger, store, scratch)
                except BaseException:
                    # Keep what is finished; if that fails too, the first error is reported.
                    with suppress(ReblockError):
                        ledger.flush()
                    with suppress(ReblockError):
                        store.abort()
                    raise
                ledger.note(complete={"inode": self.staging.workspace.identity(), "digest": self.sums})
            self.staging.check_replaced()
            self.staging.publish()

    def _check(self) -> None:
        """Raise if the source has changed, or if the folders that we write in were moved."""
        self._source.check()
        self.staging.workspace.check_place()
        if self._between is not None:
            self._between.check_place()

    def _open(self, journal: Journal, ledger: GroupCommit) -> Store:
        """The array that is being built: reopened or new."""
        last, path = len(self.plan.passes) - 1, self.staging.workspace.array
        sweep = self.plan.passes[last]
        store: Store | None = None
        if any(group.number == last for group in journal.groups()):
            try:
                store = self.format.reopen(path, self.target.inner, self.schema, **self._elsewhere)
            except StorageError as error:
                self.notes.append(f"the finished part could not be opened and was made again: {error}")
                ledger.note(forget=[last])
        if store is None:
            self.staging.workspace.clear_array()
            store = self.format.create(path, self.target.inner, self.schema, **self._elsewhere)
        side = destination_of(store, sweep, self.staging.workspace.reach)
        ledger.watch(last, side)
        finished, sums, failed = find_finished(journal, last, sweep, side, self.plan.memory_bytes, self.cancelled)
        ledger.trust(last, finished, sums)
        self._failed += failed
        return store

    def _execute(self, journal: Journal, ledger: GroupCommit, store: Store, scratch: KeptScratch) -> None:
        self._failed += trust_scratch(self.plan, journal, scratch, ledger, self.cancelled)
        if self._failed:
            self.notes.append(f"{self._failed} write boxes had changed since they were finished, and were done again")
        last = len(self.plan.passes) - 1
        self.resumed = sum(len(ledger.finished(number)) for number in range(last + 1))
        whole, count = store.layout.nbytes, self.plan.passes[last].writes.count
        done = whole * len(ledger.finished(last)) // max(count, 1)
        self.notes += self._check_room(done, resumed=self.resumed > 0)
        if self.meter is not None:
            self.meter.begin(self._parts(ledger))
        watch = Watch(self.meter, self.cancelled, ledger, digest=self.digest, source=self._source.state)
        self.measured = execute_plan(self.plan, self.source.as_planned(self.plan), store, scratch, watch=watch)
        began = perf_counter()
        with ThreadPoolExecutor(1, "reblock-last-look") as aside:
            # All reads are done. The last writes become durable meanwhile.
            now = aside.submit(self._source.look_again, journal)
            ledger.flush()
        # A pass ends when its output is durable.
        self.measured[-1].seconds += perf_counter() - began
        read = (self.plan.passes[last], last, store.layout, self.plan.memory_bytes)
        self.notes += self._source.settle(now.result(), journal, *read, self.cancelled)
        if self.digest:
            self.sums = digest.text(ledger.total(last), store.layout.dtype, store.layout.shape)
        store.commit(Record(digest=self.sums, job=self._job))

    def _parts(self, ledger: GroupCommit) -> list[float]:
        """The finished share of each pass; interleaved passes are as far as the last one."""
        size = max(prod(self.plan.shape), 1)
        done = []
        for number, sweep in enumerate(self.plan.passes):
            ranges = ledger.finished(number).ranges()
            done.append(sum(sweep.writes.size_before(b) - sweep.writes.size_before(a) for a, b in ranges) / size)
        return [done[-1]] * len(done) if self.plan.interleaved else done

    # ---------------------------------------------------------------- what goes wrong
    @contextmanager
    def _kept(self, ledger: GroupCommit) -> Iterator[None]:
        """On any error, keep what is finished and say how to continue; if nothing is finished, keep nothing."""
        try:
            yield
        except BaseException as error:
            if isinstance(error, ReblockError):
                self.staging.rename_in(error)
            if self._source.is_object and isinstance(error, ReblockError):
                error.add("a run that reads an object cannot be resumed, so nothing of it was kept")
            if self._source.is_object or (not ledger.commits and not self._found):
                with suppress(ReblockError):
                    self.staging.workspace.forget_log()
                with suppress(ReblockError):
                    self._remove_scratch()
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

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DiskError.wrap(error, doing="writing", path=str(self.target)) from error
